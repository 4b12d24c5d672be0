//! An application leaves the management while it runs: one that was adopted, and for root any.

use crate::config::accounts::is_privileged;
use crate::config::peer::Peer;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::machine::departure::let_go;
use crate::registry::Registry;
use crate::registry::origin::Origin;
use crate::requests::explain::find_visible;
use crate::requests::permit::{Permit, invalid, not_permitted};
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
    may_release(permit.peer, &name, &record.origin)?;
    let target = match &record.origin {
        Origin::Adopted(adoption) => adoption.target.clone(),
        Origin::Launched { .. } | Origin::Recovered => AdoptTarget::Pid(record.first_process.pid),
    };
    if let Some(app) = registry
        .get_mut(id)
        .filter(|app| app.record.origin.adoption().is_none())
    {
        // It goes on without what is known of its launch.
        app.record.origin = Origin::Recovered;
    }
    // A user does not get round the operator's rules.
    if is_privileged(permit.peer.uid) {
        registry.leave_alone(id);
    }
    let why = Departure::ForGood;
    let trouble = let_go(id, why, registry, machine, decider, telemetry);
    Ok(Reply::Release(ReleaseReply {
        protocol: PROTOCOL,
        app: id,
        name,
        adopted: target,
        trouble,
    }))
}

fn may_release(peer: &Peer, name: &AppName, origin: &Origin) -> Result<(), ErrorReply> {
    match origin {
        _ if is_privileged(peer.uid) => Ok(()),
        Origin::Adopted(adoption) if adoption.by == peer.uid => Ok(()),
        Origin::Adopted(adoption) => Err(not_permitted(format!(
            "application {name} was adopted by user {}; only that user and root may release it",
            adoption.by
        ))),
        Origin::Launched { .. } => Err(invalid(format!(
            "application {name} was launched, not adopted: it is managed until it ends; only root may release it"
        ))),
        // It may have been adopted by anybody.
        Origin::Recovered => Err(not_permitted(format!(
            "application {name} was found without saved state; only root may release it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;
    use crate::registry::origin::Adoption;
    use crate::registry::process::Process;

    #[test]
    fn only_the_adopting_user_and_root_may_release_and_only_root_what_was_launched() {
        let adopted = Origin::Adopted(Adoption {
            target: AdoptTarget::Pid(7),
            by: 1000,
            rule: None,
            fits_rule: None,
        });
        let launched = Origin::Launched {
            launcher: Process::default(),
        };
        let name = AppName::new("job").unwrap();
        let release = |uid, origin| may_release(&Peer::of(uid, &[1000]), &name, origin);
        assert!(release(1000, &adopted).is_ok());
        // Neither another user nor a member of the same group.
        for uid in [1001, 65534] {
            assert_says(
                release(uid, &adopted).unwrap_err(),
                &["adopted by user 1000"],
            );
        }
        assert_says(
            release(1000, &launched).unwrap_err(),
            &["was launched, not adopted"],
        );
        assert_says(
            release(1000, &Origin::Recovered).unwrap_err(),
            &["only root"],
        );
        for origin in [&adopted, &launched, &Origin::Recovered] {
            assert!(release(0, origin).is_ok());
        }
    }
}
