//! Goes through all mixes and settings, interleaved, so that a disturbance meets all settings alike.

use std::time::{Duration, Instant};

use crate::data::{Experiment, Member, Mix, Setting};
use crate::result::{MemberEntry, MixResult, ProgramRun, Run, SettingResult};
use mapper_report::interrupt::Interrupt;
use mapper_report::progress::Progress;

#[derive(Debug)]
pub(crate) enum Ended {
    Done,
    Stopped,
    /// A run could not be made; what was measured before still holds.
    Failed(anyhow::Error),
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) mixes: Vec<MixResult>,
    /// Repetitions that are complete.
    pub(crate) repetitions: usize,
    /// Runs that were wanted and not made.
    pub(crate) left_out: usize,
    pub(crate) ended: Ended,
}

/// Whether a setting runs at this moment of a mix: some run once in a repetition.
fn is_due(setting: &Setting, mix: &Mix, rounds: usize, moment: usize) -> bool {
    moment.is_multiple_of(rounds) || !setting.few_runs || mix.members.len() == 1
}

/// The runs of a repetition in their order: places of mixes, places of their settings, and moments.
fn due(experiment: &Experiment, repetition: usize) -> Vec<(usize, usize, usize)> {
    let rounds = experiment.method.rounds.get();
    let mut due = Vec::new();
    for (place, mix) in experiment.mixes.iter().enumerate() {
        for moment in (repetition - 1) * rounds..repetition * rounds {
            let settings = order(mix.settings.len(), place, moment);
            let settings = settings.filter(|&at| is_due(&mix.settings[at], mix, rounds, moment));
            due.extend(settings.map(|at| (place, at, moment)));
        }
    }
    due
}

/// The places of `count` settings in the order in which a mix goes through them at a moment: the rows of a
/// Williams square in turn. Over `count` moments (twice as many for an odd count, whose rows also run
/// backwards) every setting stands at every place, and follows every other one, equally often. Source:
/// Williams, *Experimental designs balanced for the estimation of residual effects of treatments*,
/// Australian Journal of Scientific Research A 2, 1949.
fn order(count: usize, mix: usize, moment: usize) -> impl Iterator<Item = usize> {
    let row = mix + moment;
    let (shift, is_backwards) = match count % 2 {
        0 => (row, false),
        _ => (row / 2, row % 2 == 1),
    };
    (0..count).map(move |place| {
        let place = match is_backwards {
            true => count - 1 - place,
            false => place,
        };
        // 0, 1, -1, 2, -2 and so on: all differences of neighbours are different.
        let zigzag = match place % 2 {
            0 => count - place / 2,
            _ => place.div_ceil(2),
        };
        (zigzag + shift) % count
    })
}

/// Runs everything by `run` until it is done, a run fails, the user wants to stop, or the budget of the
/// experiment, counted from `begun`, would not hold another repetition.
pub(crate) fn measure(
    experiment: &Experiment,
    begun: Instant,
    interrupt: &Interrupt,
    mut run: impl FnMut(&Mix, &Setting, usize) -> anyhow::Result<Run>,
) -> anyhow::Result<Measured> {
    let method = &experiment.method;
    let repetitions = method.repetitions.get();
    let budget = method.budget_s.map(Duration::from_secs_f64);
    let wanted = repetitions * due(experiment, 1).len();
    let mut measured = Measured {
        mixes: without_runs(experiment),
        repetitions: 0,
        left_out: wanted,
        ended: Ended::Done,
    };
    let progress = Progress::start("measuring", wanted)?;
    for repetition in 1..=repetitions {
        let repetition_begun = Instant::now();
        for (place, at, moment) in due(experiment, repetition) {
            let mix = &experiment.mixes[place];
            let setting = &mix.settings[at];
            let name = format!("{}, {}", mix.name, setting.key);
            progress.doing(name.clone());
            let run = match run(mix, setting, moment) {
                Ok(run) => run,
                Err(error) => {
                    measured.ended = if interrupt.is_raised() {
                        progress.note("stopped; these are the runs that were finished");
                        Ended::Stopped
                    } else {
                        progress.note(&format!("{name} failed; these are the runs before it"));
                        Ended::Failed(error.context(name))
                    };
                    progress.finish();
                    return Ok(measured);
                }
            };
            let times = times(&run);
            progress.done(&format!("repetition {repetition}, {name}: {times}"));
            for wrong in &run.wrong {
                progress.note(&format!("wrong result in {name}: {wrong}"));
            }
            measured.mixes[place].settings[at].runs.push(run);
            measured.left_out -= 1;
        }
        measured.repetitions = repetition;
        let next_ends = begun.elapsed() + repetition_begun.elapsed();
        if repetition < repetitions && budget.is_some_and(|budget| next_ends > budget) {
            let after = format!("{repetition} of {repetitions} repetitions");
            progress.note(&format!("stopping after {after}, to end in time"));
            measured.left_out = 0;
            break;
        }
    }
    progress.finish();
    Ok(measured)
}

pub(crate) fn without_runs(experiment: &Experiment) -> Vec<MixResult> {
    let member = |of: &Member| MemberEntry {
        name: of.program.name.clone(),
        unit: of.program.cost,
        starts_after_s: of.starts_after * experiment.method.work_s,
    };
    let setting = |of: &Setting| SettingResult {
        setting: of.key.clone(),
        ..SettingResult::default()
    };
    let mix = |of: &Mix| MixResult {
        name: of.name.clone(),
        group: of.group.clone(),
        story: of.story.clone(),
        programs: of.members.iter().map(member).collect(),
        settings: of.settings.iter().map(setting).collect(),
    };
    experiment.mixes.iter().map(mix).collect()
}

/// The times of a run, for the progress lines.
fn times(run: &Run) -> String {
    let time = |program: &ProgramRun| {
        let over = if program.cost.is_limit() { "over " } else { "" };
        format!("{over}{:.2} s", program.seconds)
    };
    let times: Vec<String> = run.programs.iter().map(time).collect();
    times.join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::data::experiment::tests::{experiment, live};
    use crate::result::RunCost;
    use std::collections::BTreeSet;
    use std::num::NonZero;

    /// A run with these costs: seconds, and 8 or more are the limit.
    pub(crate) fn run(moment: usize, costs: &[f64]) -> Run {
        let program = |&cost: &f64| ProgramRun {
            seconds: cost,
            cost: match cost {
                8.0.. => RunCost::Limit(cost),
                _ => RunCost::Exact(cost),
            },
        };
        let mut run = Run {
            moment,
            programs: costs.iter().map(program).collect(),
            ..Run::default()
        };
        run.before.load_average = 0.5;
        run.before.runnable = 1;
        run.during.other_processes_cpus = 0.01;
        run
    }

    /// One pair under two settings, three times.
    pub(crate) fn small() -> Experiment {
        let mut small = live(&["md+cg"], &["plain", "static"]);
        small.method.repetitions = NonZero::new(3).unwrap();
        small
    }

    /// Makes runs up, and does `then` in place of that after the first `finished`.
    pub(crate) fn made_up(
        experiment: &Experiment,
        interrupt: &Interrupt,
        finished: usize,
        then: impl Fn() -> anyhow::Result<Run>,
    ) -> Measured {
        let mut done = 0;
        let make_up = |mix: &Mix, _: &Setting, moment| {
            done += 1;
            match done > finished {
                true => then(),
                false => Ok(run(moment, &vec![1.0; mix.members.len()])),
            }
        };
        measure(experiment, Instant::now(), interrupt, make_up).unwrap()
    }

    fn count(measured: &Measured) -> usize {
        let runs = measured.mixes.iter().flat_map(|mix| &mix.settings);
        runs.map(|of| of.runs.len()).sum()
    }

    /// All runs made up.
    fn complete(experiment: &Experiment) -> Measured {
        let never = || anyhow::bail!("never");
        made_up(experiment, &Interrupt::default(), usize::MAX, never)
    }

    #[test]
    fn ctrl_c_and_a_failed_run_keep_what_is_finished() {
        let interrupt = Interrupt::default();
        let failed = made_up(&small(), &interrupt, 5, || anyhow::bail!("no daemon"));
        let ended = format!("{:?}", failed.ended);
        for named in ["Failed", "md+cg", "no daemon"] {
            assert!(ended.contains(named), "{ended}");
        }
        assert_eq!(count(&failed), 5);
        let stopped = made_up(&small(), &interrupt, 3, || {
            interrupt.raise();
            anyhow::bail!("interrupted")
        });
        assert!(matches!(stopped.ended, Ended::Stopped), "{stopped:?}");
        assert_eq!((stopped.repetitions, stopped.left_out), (1, 3));
        assert_eq!(count(&stopped), 3);
    }

    #[test]
    fn a_slow_setting_runs_once_in_a_repetition_beside_others_and_as_often_as_others_alone() {
        let mut teams = experiment("teams");
        teams.method.repetitions = NonZero::<usize>::MIN;
        let measured = complete(&teams);
        for (mix, setting, runs) in [
            ("sweep+mg", "plain-n", 1),
            ("sweep+mg", "hand", 2),
            ("montecarlo", "plain-n", 2),
        ] {
            let mut mixes = measured.mixes.iter();
            let found = mixes.find(|of| of.name == mix).unwrap().under(setting);
            assert_eq!(found.unwrap().runs.len(), runs, "{mix}, {setting}");
        }
        assert_eq!(count(&measured), due(&teams, 1).len());
        assert_eq!(measured.left_out, 0);
    }

    #[test]
    fn no_repetition_starts_that_would_end_after_the_budget() {
        let mut small = small();
        small.method.budget_s = Some(0.0);
        let measured = complete(&small);
        assert_eq!((measured.repetitions, measured.left_out), (1, 0));
        assert!(matches!(measured.ended, Ended::Done));
    }

    #[test]
    fn no_setting_follows_another_much_more_often_than_any_other_does() {
        for count in 2..=8_usize {
            let mut followed = vec![vec![0_u32; count]; count];
            let mut first = vec![0_u32; count];
            for (mix, moment) in (0..8).flat_map(|mix| (0..10).map(move |moment| (mix, moment))) {
                let order: Vec<usize> = order(count, mix, moment).collect();
                first[order[0]] += 1;
                for pair in order.windows(2) {
                    followed[pair[0]][pair[1]] += 1;
                }
            }
            let mut counts = Vec::new();
            for (one, followed) in followed.iter().enumerate() {
                let others = (0..count).filter(|&other| other != one);
                counts.extend(others.map(|other| followed[other]));
            }
            let spread =
                |counts: &[u32]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(spread(&counts) <= 2, "{count} settings: {followed:?}");
            assert!(spread(&first) <= 2, "{count} settings: {first:?}");
        }
    }

    #[test]
    fn every_moment_runs_every_setting_in_another_order() {
        let orders: BTreeSet<Vec<usize>> =
            (0..4).map(|moment| order(4, 1, moment).collect()).collect();
        assert_eq!(orders.len(), 4);
        for order in orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 4);
        }
    }
}
