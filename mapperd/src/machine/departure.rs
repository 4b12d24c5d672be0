//! An application leaves: what it had before is restored.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
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
    let now_ns = machine.clock.now_ns();
    gone.record.accounting.advance(now_ns, gone.held());
    registry
        .ended
        .add(Ended::now(&gone, &machine.accounts, now_ns));
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
    let name = &gone.record.spec.name;
    if let Some(trouble) = &trouble {
        telemetry.tally.error(Trouble::Release);
        tracing::warn!(app = app.0, %name, "release: {trouble}");
    }
    for source in &mut machine.counters {
        source.forget(app);
    }
    if gone.page.is_some() {
        kept_pages::forget(app);
    }
    tracing::info!(app = app.0, %name, "ended");
    trouble
}
