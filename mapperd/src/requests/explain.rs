//! Why an application has the CPUs that it has.

use crate::config::peer::Peer;
use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::requests::permit::may_see;
use crate::telemetry::status::{partition_status, runtime_status, stretched, told_reasons};
use mapper_control::schema::{CurveEntry, DecisionEntry, ExplainReply};
use mapper_control::{ErrorReply, PROTOCOL, Reply};

pub(crate) fn explain(
    peer: &Peer,
    asked: &str,
    settings: &Settings,
    registry: &Registry,
    machine: &Machine,
    decider: &Decider,
) -> Result<Reply, ErrorReply> {
    let app = find_visible(peer, asked, settings, registry)?;
    let record = &app.record;
    let Some(explained) = decider.controller.explain(record.id) else {
        return Err(unknown_application(peer, asked, settings, registry));
    };
    let now_ns = machine.clock.now_ns();
    Ok(Reply::Explain(Box::new(ExplainReply {
        protocol: PROTOCOL,
        id: record.id,
        name: record.spec.name.clone(),
        cpus: app.effective.clone(),
        cpu_count: app.effective.len(),
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
        curve: explained
            .curve
            .iter()
            .map(|point| CurveEntry {
                cpus: point.cpus,
                performance: point.perf,
                deviation: point.variance.max(0.0).sqrt(),
                samples: point.samples,
            })
            .collect(),
        decisions: explained
            .decisions
            .into_iter()
            .map(|decision| DecisionEntry {
                tick: decision.tick,
                age_ns: now_ns.saturating_sub(decision.now_ns),
                before: decision.explanation.before,
                after: decision.explanation.after,
                cpus: decision.cpus,
                reasons: told_reasons(&decision.explanation.reasons),
                sentence: decision.sentence,
            })
            .collect(),
    })))
}

/// The application of that name, or else of that number, among those that a user may see.
pub(crate) fn find_visible<'a>(
    peer: &Peer,
    asked: &str,
    settings: &Settings,
    registry: &'a Registry,
) -> Result<&'a App, ErrorReply> {
    let visible = |app: &&App| {
        let adoption = app.record.origin.adoption();
        // A user may name what that user adopted, whatever user its processes run as.
        may_see(peer, settings, app.record.uid)
            || adoption.is_some_and(|adoption| adoption.by == peer.uid)
    };
    let mut apps = registry.apps.iter().filter(visible);
    let by_name = apps.find(|app| app.record.spec.name.as_str() == asked);
    let by_number = || {
        let id = asked.parse::<u64>().ok()?;
        let mut apps = registry.apps.iter().filter(visible);
        apps.find(|app| app.record.id.0 == id)
    };
    by_name
        .or_else(by_number)
        .ok_or_else(|| unknown_application(peer, asked, settings, registry))
}

fn unknown_application(
    peer: &Peer,
    asked: &str,
    settings: &Settings,
    registry: &Registry,
) -> ErrorReply {
    let asked: String = asked.chars().take(80).collect();
    ErrorReply::UnknownApplication {
        message: format!("no application {asked:?}"),
        running: registry
            .apps
            .iter()
            .filter(|app| may_see(peer, settings, app.record.uid))
            .map(|app| app.record.spec.name.clone())
            .collect(),
    }
}
