//! The applications that ended last, as far as a user may see them.

use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::ended::{Ended, SHOWN};
use crate::requests::permit::Permit;
use mapper_control::schema::{EndedApp, HistoryReply};
use mapper_control::{PROTOCOL, Reply};
use std::sync::Arc;

pub(crate) fn history(permit: &Permit<'_>, registry: &Registry, machine: &Machine) -> Reply {
    let now_ns = machine.clock.now_ns();
    let visible = |ended: &&Arc<Ended>| permit.may_see(ended.uid, ended.requested_by);
    let described = |ended: &Arc<Ended>| EndedApp {
        app: ended.app,
        name: ended.name.clone(),
        uid: ended.uid,
        command: ended.command.clone(),
        ended_ago_ns: now_ns.saturating_sub(ended.ended_ns),
        exit_status: ended.exit_status,
        qos: ended.qos,
        account: ended.account.clone(),
    };
    let latest = registry.ended.latest().filter(visible);
    Reply::History(HistoryReply {
        protocol: PROTOCOL,
        ended: latest.take(SHOWN).map(described).collect(),
    })
}
