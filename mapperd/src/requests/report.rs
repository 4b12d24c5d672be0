//! The report of an application, to its own user.

use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::ended::OwnedReport;
use crate::requests::permit::may_see;
use mapper_control::{ErrorReply, Reply};
use mapper_model::AppId;

pub(crate) fn report(
    peer: &Peer,
    asked: AppId,
    settings: &Settings,
    registry: &mut Registry,
    machine: &Machine,
) -> Result<Reply, ErrorReply> {
    let now_ns = machine.clock.now_ns();
    let found = match registry.get_mut(asked) {
        Some(app) => {
            app.record.accounting.advance(now_ns, app.effective.len());
            Some(OwnedReport::of(app))
        }
        None => registry.ended.find(asked).cloned(),
    };
    match found {
        Some(found) if may_see(peer, settings, found.uid) => {
            Ok(Reply::Report(Box::new(found.report)))
        }
        // Whether there is such an application is not for other users to know either.
        _ => Err(ErrorReply::UnknownApplication {
            message: format!("no application {asked} of user {}", peer.uid),
            running: Vec::new(),
        }),
    }
}
