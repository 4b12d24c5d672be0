//! An adopted application leaves the management.

use crate::config::peer::Peer;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::departure::let_go;
use crate::registry::Registry;
use crate::registry::origin::{Adoption, Origin};
use crate::requests::explain::find_visible;
use crate::requests::permit::{Permit, invalid, is_privileged, not_permitted};
use crate::telemetry::Telemetry;
use mapper_control::schema::{AdoptTarget, ReleaseReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_host::enforce::Departure;
use mapper_model::AppName;

pub(crate) fn release(
    permit: &Permit<'_>,
    asked: &str,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) -> Result<Reply, ErrorReply> {
    let record = &find_visible(permit, asked, registry)?.record;
    let (id, name) = (record.id, record.spec.name.clone());
    let adoption = match &record.origin {
        Origin::Adopted(adoption) => adoption.clone(),
        // It may have been adopted, so that only root may release it.
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
    if !is_privileged(permit.peer) {
        may_release(permit.peer, &name, &adoption)?;
    }
    let why = Departure::ForGood;
    let trouble = let_go(id, why, registry, machine, decider, telemetry);
    Ok(Reply::Release(ReleaseReply {
        protocol: PROTOCOL,
        app: id,
        name,
        adopted: adoption.target,
        trouble,
    }))
}

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
    use crate::fake::assert_says;

    #[test]
    fn only_the_adopting_user_may_release() {
        let adoption = Adoption {
            target: AdoptTarget::Pid(7),
            by: 1000,
        };
        let name = AppName::new("job").unwrap();
        let release = |uid| may_release(&Peer::of(uid, &[1000]), &name, &adoption);
        assert!(release(1000).is_ok());
        // Neither another user nor a member of the same group.
        for uid in [1001, 65534] {
            assert_says(release(uid).unwrap_err(), &["adopted by user 1000"]);
        }
    }
}
