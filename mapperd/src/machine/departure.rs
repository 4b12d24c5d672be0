//! An application leaves: what it had before is restored.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::registry::ended::Ended;
use crate::registry::origin::Origin;
use crate::registry::page;
use crate::store::kept_pages;
use crate::telemetry::Telemetry;
use crate::telemetry::tally::Trouble;
use mapper_host::chain;
use mapper_host::enforce::Departure;
use mapper_model::AppId;

/// Ends the management of an application, which may still run. Takes no decision. Returns what could not be
/// restored.
pub(crate) fn let_go(
    app: AppId,
    why: Departure,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) -> Option<String> {
    let mut gone = registry.remove(app)?;
    note_end(&mut gone, registry, machine);
    give_back(gone, why, registry, machine, decider, telemetry)
}

/// Adds what is managed no more to the history.
pub(crate) fn note_end(gone: &mut App, registry: &mut Registry, machine: &Machine) {
    let now_ns = machine.clock.now_ns();
    gone.record.accounting.advance(now_ns, gone.held());
    let ended = Ended::now(gone, &machine.accounts, now_ns);
    registry.ended.add(ended);
    let record = &gone.record;
    if gone.page.is_some() {
        kept_pages::forget(record.id);
    }
    tracing::info!(app = record.id.0, name = %record.spec.name, "ended");
}

/// Gives back what an application held that is managed no more, and what it had before. Returns what could not be restored.
pub(crate) fn give_back(
    mut gone: App,
    why: Departure,
    registry: &mut Registry,
    machine: &mut Machine,
    decider: &Decider,
    telemetry: &mut Telemetry,
) -> Option<String> {
    let app = gone.record.id;
    let own_mask = gone.record.own_mask.take();
    let cpus = own_mask.unwrap_or_else(|| machine.unmanaged_cpus(decider.topology()));
    if let Some(page) = &mut gone.page {
        // Its processes may run on.
        let all = cpus.len();
        let allocation = page::allocation(&cpus, all, &gone.record.spec, decider.topology(), all);
        page.writer.publish(&allocation);
    }
    let released = machine.enforcer.release(app, &cpus, why);
    let trouble = released.err().map(|error| chain(&error));
    if !matches!(gone.record.origin, Origin::Launched { .. }) {
        registry.note_left_over(app, machine.enforcer.as_ref());
    }
    if let Some(trouble) = &trouble {
        telemetry.tally.error(Trouble::Release);
        let name = &gone.record.spec.name;
        tracing::warn!(app = app.0, %name, "release: {trouble}");
    }
    for source in &mut machine.counters {
        source.forget(app);
    }
    trouble
}
