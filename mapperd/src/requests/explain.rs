//! Why an application has the CPUs that it has.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::requests::permit::Permit;
use crate::telemetry::status::{partition_status, reasons, runtime_status, stretched};
use mapper_control::schema::{CurveEntry, DecisionEntry, ExplainReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply};

pub(crate) fn explain(
    permit: &Permit<'_>,
    asked: &str,
    registry: &Registry,
    machine: &Machine,
    decider: &Decider,
) -> Result<Reply, ErrorReply> {
    let app = find_visible(permit, asked, registry)?;
    let record = &app.record;
    let Some(explained) = decider.controller.explain(record.id) else {
        return Err(unknown_application(permit, asked, registry));
    };
    let now_ns = machine.clock.now_ns();
    let curve = explained.curve.iter().map(|point| CurveEntry {
        cpus: point.cpus,
        performance: point.perf,
        deviation: point.variance.max(0.0).sqrt(),
        samples: point.samples,
    });
    let decisions = explained.decisions.into_iter();
    let decisions = decisions.map(|decision| DecisionEntry {
        tick: decision.tick,
        age_ns: now_ns.saturating_sub(decision.now_ns),
        before: decision.explanation.before,
        after: decision.explanation.after,
        cpus: decision.cpus,
        reasons: reasons(&decision.explanation.reasons),
        sentence: decision.sentence,
    });
    Ok(Reply::Explain(Box::new(ExplainReply {
        protocol: PROTOCOL,
        id: record.id,
        name: record.spec.name.clone(),
        cpus: app.effective.clone(),
        cpu_count: app.counted_cpus(),
        fair_cpus: explained.fair,
        performance: explained.performance.map(Into::into),
        floor: explained.floor,
        slack: explained.slack,
        spare_cpus: explained.spare,
        norm_eff: explained.norm_eff,
        phase: explained.region_phase,
        spun: explained.spun,
        teams: record.spec.teams,
        teams_by: record.provenance.teams_by.clone(),
        runtime: runtime_status(app),
        stretched: stretched(decider),
        partition: partition_status(app, machine),
        curve: curve.collect(),
        decisions: decisions.collect(),
    })))
}

/// The application of that name, or else of that number, among those that a user may see.
pub(crate) fn find_visible<'a>(
    permit: &Permit<'_>,
    asked: &str,
    registry: &'a Registry,
) -> Result<&'a App, ErrorReply> {
    let apps = || registry.apps.iter().filter(|app| permit.may_see_app(app));
    let by_name = apps().find(|app| app.record.spec.name.as_str() == asked);
    let by_number = || {
        let id = asked.parse::<u64>().ok()?;
        apps().find(|app| app.record.id.0 == id)
    };
    let found = by_name.or_else(by_number);
    found.ok_or_else(|| unknown_application(permit, asked, registry))
}

fn unknown_application(permit: &Permit<'_>, asked: &str, registry: &Registry) -> ErrorReply {
    let asked: String = asked.chars().take(80).collect();
    let apps = registry.apps.iter();
    let seen = apps.filter(|app| permit.may_see_app(app));
    ErrorReply::UnknownApplication {
        message: format!("no application {asked:?}"),
        running: seen.map(|app| app.record.spec.name.clone()).collect(),
    }
}
