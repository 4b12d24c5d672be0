//! What is measured: programs side by side or alone, the settings each runs under, and the figures
//! that are wanted.

use clap::ValueEnum;

use super::programs::Program;

/// What a group of measurements shows.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Group {
    /// Barrier-bound programs side by side: virtual teams against the best tuning by hand
    Fine,
    /// Two scikit-learn fits side by side
    Fit,
    /// Programs of dynamic loops side by side, with more threads than CPUs
    Dynamic,
    /// Coarse programs side by side: what is lost against a static fair share
    Coarse,
    /// Each program alone on the machine: what is lost against plain Linux
    Alone,
}

/// How programs are started.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Way {
    /// Plain Linux.
    Plain,
    /// Plain Linux with `OMP_WAIT_POLICY=passive`.
    Passive,
    /// Tuned by hand: each program on CPUs of its own, a thread on each.
    Hand,
    /// mapper, `--teams fixed`.
    Fixed,
    /// mapper, `--teams follow`.
    Follow,
    /// mapper, `--teams virtual`.
    Virtual,
}

impl Way {
    /// The value of `--teams`, where mapper manages the run.
    pub(super) fn teams(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Passive | Self::Hand => None,
            Self::Fixed => Some("fixed"),
            Self::Follow => Some("follow"),
            Self::Virtual => Some("virtual"),
        }
    }
}

/// The threads that a program expects: `OMP_NUM_THREADS`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Threads {
    /// Nothing is set: the runtime, or mapper, decides.
    Unset,
    /// As many as the machine has CPUs.
    AsCpus,
    /// Four times as many as the machine has CPUs.
    FourTimesCpus,
}

/// A way with a number of threads.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Setting {
    pub(super) way: Way,
    pub(super) threads: Threads,
}

impl Setting {
    const fn of(way: Way, threads: Threads) -> Self {
        Self { way, threads }
    }

    /// The value of `OMP_NUM_THREADS` with this many CPUs, where it is set.
    pub(super) fn thread_count(self, cpus: usize) -> Option<usize> {
        match self.threads {
            Threads::Unset => None,
            Threads::AsCpus => Some(cpus),
            Threads::FourTimesCpus => Some(4 * cpus),
        }
    }

    /// Name for people.
    pub(super) fn title(self, cpus: usize) -> String {
        let way = match self.way {
            Way::Plain => "plain Linux",
            Way::Passive => "Linux, passive waiting",
            Way::Hand => "tuned by hand",
            Way::Fixed => "mapper, fixed",
            Way::Follow => "mapper, follow",
            Way::Virtual => "mapper, virtual",
        };
        match self.thread_count(cpus) {
            None => way.to_owned(),
            Some(count) => format!("{way}, n = {count}"),
        }
    }

    /// Whether it is so slow and so uneven where threads wait for one another that more runs of it
    /// would only take time.
    pub(super) fn is_slow(self) -> bool {
        matches!(self.way, Way::Plain | Way::Passive)
    }
}

/// A figure that is wanted: the speed under one setting over that under another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(super) of: Setting,
    pub(super) over: Setting,
    pub(super) at_least: f64,
}

/// Programs that run at the same time, under these settings.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(super) group: Group,
    pub(super) programs: Vec<Program>,
    pub(super) settings: Vec<Setting>,
    pub(super) wanted: Vec<Wanted>,
}

impl Experiment {
    pub(super) fn name(&self) -> String {
        let names: Vec<_> = self
            .programs
            .iter()
            .map(|program| program.title())
            .collect();
        names.join("+")
    }
}

const PLAIN: Setting = Setting::of(Way::Plain, Threads::AsCpus);
const PLAIN_MANY: Setting = Setting::of(Way::Plain, Threads::FourTimesCpus);
const PASSIVE: Setting = Setting::of(Way::Passive, Threads::AsCpus);
const HAND: Setting = Setting::of(Way::Hand, Threads::Unset);
const FIXED: Setting = Setting::of(Way::Fixed, Threads::Unset);
const FIXED_AS_CPUS: Setting = Setting::of(Way::Fixed, Threads::AsCpus);
const FIXED_MANY: Setting = Setting::of(Way::Fixed, Threads::FourTimesCpus);
const FOLLOW: Setting = Setting::of(Way::Follow, Threads::Unset);
const VIRTUAL: Setting = Setting::of(Way::Virtual, Threads::AsCpus);
const VIRTUAL_MANY: Setting = Setting::of(Way::Virtual, Threads::FourTimesCpus);

/// Within 5 % of the other's time.
const WITHIN_5_PERCENT: f64 = 1.0 / 1.05;
/// Within 2 % of the other's time.
const WITHIN_2_PERCENT: f64 = 1.0 / 1.02;

const fn wanted(of: Setting, over: Setting, at_least: f64) -> Wanted {
    Wanted { of, over, at_least }
}

/// All experiments of these groups; of all groups when none is named.
pub(super) fn experiments(groups: &[Group]) -> Vec<Experiment> {
    let groups = if groups.is_empty() {
        Group::value_variants()
    } else {
        groups
    };
    let mut groups = groups.to_vec();
    groups.sort_unstable();
    groups.dedup();
    groups.into_iter().flat_map(of_group).collect()
}

fn of_group(group: Group) -> Vec<Experiment> {
    let experiment = |programs: &[Program], settings: &[Setting], wanted: &[Wanted]| Experiment {
        group,
        programs: programs.to_vec(),
        settings: settings.to_vec(),
        wanted: wanted.to_vec(),
    };
    match group {
        Group::Fine | Group::Fit => {
            let settings = [PLAIN, PLAIN_MANY, PASSIVE, HAND, VIRTUAL, VIRTUAL_MANY];
            let wanted = [
                wanted(VIRTUAL, HAND, WITHIN_5_PERCENT),
                wanted(VIRTUAL_MANY, HAND, WITHIN_5_PERCENT),
                wanted(VIRTUAL, PLAIN, 2.5),
                wanted(VIRTUAL_MANY, PLAIN_MANY, 2.5),
            ];
            let pairs: &[[Program; 2]] = if group == Group::Fit {
                &[[Program::Fit, Program::Fit]]
            } else {
                &[
                    [Program::Sweep, Program::Mg],
                    [Program::LargerSweep, Program::LargerMg],
                    [Program::Md, Program::Cg],
                ]
            };
            pairs
                .iter()
                .map(|pair| experiment(pair, &settings, &wanted))
                .collect()
        }
        Group::Dynamic => vec![experiment(
            &[Program::Primes, Program::Primes],
            &[PLAIN, PLAIN_MANY, HAND, FIXED_AS_CPUS, FIXED_MANY],
            &[
                wanted(FIXED_AS_CPUS, PLAIN, 2.0),
                wanted(FIXED_MANY, PLAIN_MANY, 2.0),
            ],
        )],
        Group::Coarse => vec![experiment(
            &[Program::Mandelbrot, Program::MonteCarlo],
            &[PLAIN, HAND, FIXED, FOLLOW, VIRTUAL, VIRTUAL_MANY],
            &[FIXED, FOLLOW, VIRTUAL, VIRTUAL_MANY].map(|of| wanted(of, HAND, WITHIN_2_PERCENT)),
        )],
        Group::Alone => {
            let settings = [PLAIN, FIXED, FOLLOW, VIRTUAL];
            let wanted = [FIXED, FOLLOW, VIRTUAL].map(|of| wanted(of, PLAIN, 0.99));
            [
                Program::Sweep,
                Program::Mg,
                Program::Cg,
                Program::Primes,
                Program::Mandelbrot,
                Program::MonteCarlo,
                Program::Fit,
            ]
            .iter()
            .map(|&program| experiment(&[program], &settings, &wanted))
            .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wanted_figure_compares_settings_that_run() {
        for experiment in experiments(&[]) {
            for wanted in &experiment.wanted {
                for setting in [wanted.of, wanted.over] {
                    assert!(experiment.settings.contains(&setting), "{experiment:?}");
                }
                assert_ne!(wanted.of, wanted.over);
            }
        }
    }

    #[test]
    fn every_team_mode_is_held_against_plain_linux_by_a_program_alone() {
        for experiment in experiments(&[Group::Alone]) {
            let modes: Vec<_> = experiment.wanted.iter().map(|w| w.of.way.teams()).collect();
            assert_eq!(modes, [Some("fixed"), Some("follow"), Some("virtual")]);
            assert_eq!(experiment.programs.len(), 1);
        }
    }

    #[test]
    fn a_group_named_twice_is_measured_once() {
        let once = experiments(&[Group::Fit]).len();
        assert_eq!(experiments(&[Group::Fit, Group::Fit]).len(), once);
    }
}
