//! What further CPUs would bring, and which programs go well together, by what the policy knows.
//!
//! Only programs that run or are in the history have a name, and only those that the caller may see are reported.

use crate::decider::Decider;
use crate::registry::Registry;
use crate::requests::permit::Permit;
use mapper_control::schema::{AdviseReply, PairAdvice, ProgramAdvice};
use mapper_control::{PROTOCOL, Reply};
use mapper_model::{AppId, AppName, ProgramKey};
use mapper_pipeline::{one_more, together};

/// So many programs are reported, and so many pairs of them.
const PROGRAMS: usize = 20;
const PAIRS: usize = 20;

pub(crate) fn advise(permit: &Permit<'_>, registry: &Registry, decider: &Decider) -> Reply {
    let known = decider.controller.known();
    let mut programs: Vec<ProgramAdvice> = Vec::new();
    let mut reported: Vec<ProgramKey> = Vec::new();
    for named in visible(permit, registry) {
        let found = known.iter().find(|known| known.program == named.program);
        let Some(found) = found.filter(|found| !reported.contains(&found.program)) else {
            continue;
        };
        reported.push(named.program);
        programs.push(ProgramAdvice {
            app: named.runs.map(|runs| runs.app),
            name: named.name,
            cpu_count: named.runs.map(|runs| runs.cpus),
            one_more: named
                .runs
                .and_then(|runs| one_more(&found.speeds, runs.cpus)),
            speeds: found.speeds.clone(),
        });
        if programs.len() == PROGRAMS {
            break;
        }
    }
    let all = programs.first().map_or(0, |first| first.speeds.len());
    Reply::Advise(AdviseReply {
        protocol: PROTOCOL,
        policy: decider.controller.config().allocation.clone(),
        cpus: u32::try_from(all).unwrap_or(u32::MAX),
        pairs: pairs(&programs),
        programs,
    })
}

/// A program that has a name.
struct Named {
    name: AppName,
    program: ProgramKey,
    runs: Option<Runs>,
}

#[derive(Clone, Copy)]
struct Runs {
    app: AppId,
    cpus: u32,
}

/// Those that run, then those that ended, the latest first.
fn visible<'a>(
    permit: &'a Permit<'_>,
    registry: &'a Registry,
) -> impl Iterator<Item = Named> + use<'a> {
    let may_see = |uid, requested_by| permit.may_see(uid) || requested_by == permit.peer.uid;
    let running = registry.apps.iter().filter_map(move |app| {
        let record = &app.record;
        may_see(record.uid, record.requested_by()).then(|| Named {
            name: record.spec.name.clone(),
            program: record.spec.program(),
            runs: Some(Runs {
                app: record.id,
                cpus: app.counted_cpus(),
            }),
        })
    });
    let ended = registry.ended.latest().filter_map(move |ended| {
        let program = ended.program.clone()?;
        may_see(ended.uid, ended.requested_by).then(|| Named {
            name: ended.name.clone(),
            program,
            runs: None,
        })
    });
    running.chain(ended)
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
    pairs.sort_by(|a, b| b.work.total_cmp(&a.work));
    pairs.truncate(PAIRS);
    pairs
}
