//! What further CPUs would bring, and which programs go well together, by what the policy expects.
//!
//! Only programs that run or are in the history have a name, and only those that the caller may see are reported.

use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::requests::permit::Permit;
use mapper_control::schema::{AdviseReply, PairAdvice, ProgramAdvice};
use mapper_control::{PROTOCOL, Reply};
use mapper_model::ProgramKey;
use mapper_pipeline::{KnownProgram, one_more, together};
use std::collections::BTreeSet;

/// So many programs are reported, and so many pairs of them.
const PROGRAMS: usize = 20;
const PAIRS: usize = 20;

/// The least work of a pair that is worth reporting.
const WORTHWHILE: f64 = 1.01;

pub(crate) fn advise(
    permit: &Permit<'_>,
    registry: &Registry,
    machine: &Machine,
    decider: &Decider,
) -> Reply {
    let cpus = machine.usable.len();
    let expected = |program| decider.controller.expected(program, cpus);
    let running = registry.apps.iter().filter_map(|app| {
        let record = &app.record;
        let visible = permit.may_see_app(app);
        let speeds = visible.then(|| expected(KnownProgram::Running(record.id)))??;
        let own = app.has_own_cpus().then(|| app.counted_cpus());
        Some(ProgramAdvice {
            app: Some(record.id),
            name: record.spec.name.clone(),
            cpu_count: own,
            one_more: own
                .filter(|cpus| may_grow(app, *cpus))
                .and_then(|cpus| one_more(&speeds, cpus)),
            speeds,
        })
    });
    // By its build, in which the user counts: by a name alone it might be another user's.
    let specs = registry.apps.iter().map(|app| &app.record.spec);
    let mut reported: BTreeSet<_> = specs.filter_map(|spec| spec.build).collect();
    let ended = registry.ended.latest().filter_map(|ended| {
        let Some(ProgramKey::Build(build)) = ended.program else {
            return None;
        };
        let visible = permit.may_see(ended.uid, ended.requested_by) && reported.insert(build);
        Some(ProgramAdvice {
            app: None,
            name: ended.name.clone(),
            cpu_count: None,
            one_more: None,
            speeds: visible.then(|| expected(KnownProgram::Ended(build)))??,
        })
    });
    let programs: Vec<_> = running.chain(ended).take(PROGRAMS).collect();
    Reply::Advise(AdviseReply {
        protocol: PROTOCOL,
        policy: decider.controller.config().allocation.clone(),
        cpus,
        pairs: pairs(&programs),
        programs,
    })
}

/// Whether it may have more than these CPUs.
fn may_grow(app: &App, cpus: u32) -> bool {
    app.record.spec.cpus.max().is_none_or(|most| cpus < most)
}

fn pairs(programs: &[ProgramAdvice]) -> Vec<PairAdvice> {
    let mut pairs = Vec::new();
    for (place, one) in programs.iter().enumerate() {
        for other in &programs[place + 1..] {
            pairs.extend(together(&one.speeds, &other.speeds).map(|both| PairAdvice {
                names: [one, other].map(|program| program.name.clone()),
                cpus: both.cpus,
                speeds: both.speeds,
                work: both.work(),
            }));
        }
    }
    pairs.retain(|pair| pair.work >= WORTHWHILE);
    pairs.sort_by(|a, b| b.work.total_cmp(&a.work));
    pairs.truncate(PAIRS);
    pairs
}
