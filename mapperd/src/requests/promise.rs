//! An application gets another promise while it runs: from itself, or from its user.

use crate::machine::Machine;
use crate::registry::Registry;
use crate::requests::explain::find_visible;
use crate::requests::launch::application_of;
use crate::requests::permit::{Permit, held_up, invalid};
use mapper_control::schema::{PromiseReply, PromiseRequest};
use mapper_control::{ErrorReply, PROTOCOL, Reply};

/// The next decision keeps it. None is taken here, so that a program which asks again and again costs no more.
pub(crate) fn promise(
    permit: &Permit<'_>,
    asked: &PromiseRequest,
    registry: &mut Registry,
    machine: &Machine,
) -> Result<Reply, ErrorReply> {
    let id = match &asked.name {
        Some(name) => find_visible(permit, name, registry)?.record.id,
        // On kernels before 6.8, reading the group of a process would wait, too.
        None if let Some(held) = machine.moves_held_up() => return Err(held_up(&held)),
        None => application_of(permit.peer.pid, registry, machine).ok_or_else(|| {
            invalid(format!(
                "process {} is part of no application; give the application's name",
                permit.peer.pid
            ))
        })?,
    };
    let app = registry.get_mut(id);
    let record = &mut app
        .ok_or_else(|| invalid("it has ended".to_owned()))?
        .record;
    permit.check_promise(asked.qos, record.requested_by())?;
    let before = std::mem::replace(&mut record.spec.qos, asked.qos);
    // The present interval is judged by the new promise, too.
    if let Some(planned) = &mut record.planned {
        let floor = &mut planned.share.floor;
        *floor = floor.map(|floor| floor * asked.qos.get() / before.get());
    }
    let name = record.spec.name.clone();
    tracing::debug!(app = id.0, %name, "promise {before} → {}", asked.qos);
    Ok(Reply::Promise(PromiseReply {
        protocol: PROTOCOL,
        app: id,
        name,
        qos: asked.qos,
        before,
    }))
}
