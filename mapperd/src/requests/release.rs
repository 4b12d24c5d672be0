//! An adopted application is to be managed no longer.

use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::departure::let_go;
use crate::registry::Registry;
use crate::registry::origin::{Adoption, Origin};
use crate::requests::effect::{Effect, Handled};
use crate::requests::explain::find_visible;
use crate::requests::permit::{invalid, is_privileged, not_permitted};
use crate::telemetry::Telemetry;
use mapper_control::schema::{AdoptTarget, ReleaseReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_host::enforce::Departure;
use mapper_model::{AppId, AppName};

pub(crate) fn release(
    peer: &Peer,
    asked: &str,
    settings: &Settings,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) -> Handled {
    let Releasable { id, name, adoption } = match check(peer, asked, settings, registry) {
        Ok(releasable) => releasable,
        Err(error) => return Handled::from(Err(error)),
    };
    let trouble = let_go(
        id,
        Departure::ForGood,
        registry,
        machine,
        decider,
        telemetry,
    );
    let reply = Reply::Release(ReleaseReply {
        protocol: PROTOCOL,
        app: id,
        name,
        adopted: adoption.target,
        trouble,
    });
    Handled::reply(reply, Effect::Membership)
}

/// An application that may be released by the user who asks.
struct Releasable {
    id: AppId,
    name: AppName,
    adoption: Adoption,
}

fn check(
    peer: &Peer,
    asked: &str,
    settings: &Settings,
    registry: &Registry,
) -> Result<Releasable, ErrorReply> {
    let record = &find_visible(peer, asked, settings, registry)?.record;
    let name = record.spec.name.clone();
    let adoption = match &record.origin {
        Origin::Adopted(adoption) => adoption.clone(),
        // It may have been adopted: root decides.
        Origin::Recovered => Adoption {
            target: AdoptTarget::Pid(record.first_process.pid),
            by: 0,
        },
        Origin::Launched { .. } => {
            return Err(invalid(format!(
                "application {name} was launched, not adopted: it is managed until it ends"
            )));
        }
    };
    if !is_privileged(peer) {
        may_release(peer, &name, &adoption)?;
    }
    Ok(Releasable {
        id: record.id,
        name,
        adoption,
    })
}

/// Whether an ordinary user may release what was adopted.
fn may_release(peer: &Peer, name: &AppName, adoption: &Adoption) -> Result<(), ErrorReply> {
    if peer.uid == adoption.by {
        return Ok(());
    }
    Err(not_permitted(format!(
        "application {name} was adopted by user {}; only that user and root may release it",
        adoption.by
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_adopting_user_may_release() {
        let adoption = Adoption {
            target: AdoptTarget::Pid(7),
            by: 1000,
        };
        let name = AppName::new("job").unwrap();
        let peer = |uid| Peer {
            pid: 1,
            uid,
            groups: [1000].into(),
        };
        assert!(may_release(&peer(1000), &name, &adoption).is_ok());
        // Neither another user nor a member of the same group.
        for uid in [1001, 65534] {
            let refused = may_release(&peer(uid), &name, &adoption).unwrap_err();
            let refused = refused.to_string();
            assert!(refused.contains("adopted by user 1000"), "{refused}");
        }
    }
}
