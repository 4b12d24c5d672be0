//! The report of an application, to its own user.

use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::ended::Ended;
use crate::requests::permit::Permit;
use mapper_control::schema::ReportReply;
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_model::AppId;

pub(crate) fn report(
    permit: &Permit<'_>,
    asked: AppId,
    registry: &mut Registry,
    machine: &Machine,
) -> Result<Reply, ErrorReply> {
    let now_ns = machine.clock.now_ns();
    let found = match registry.get_mut(asked) {
        Some(app) => {
            app.record.accounting.advance(now_ns, app.held());
            Some(Ended::now(app, &machine.accounts, now_ns))
        }
        None => registry.ended.find(asked).cloned(),
    };
    match found {
        Some(found) if permit.may_see(found.uid, found.requested_by) => {
            Ok(Reply::Report(Box::new(ReportReply {
                protocol: PROTOCOL,
                app: found.app,
                name: found.name,
                qos: found.qos,
                account: found.account,
            })))
        }
        // Other users may not know either whether there is such an application.
        _ => Err(ErrorReply::UnknownApplication {
            message: format!("no application {asked} of user {}", permit.peer.uid),
            running: Vec::new(),
        }),
    }
}
