//! What is run: the programs, the pairs they form and the settings each pair runs under.

use anyhow::bail;

use crate::corun::build::Runtime;

/// A program of `benches/workloads`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Program {
    Md,
    Cg,
    Mg,
    MonteCarlo,
    Triad,
    Mandelbrot,
}

impl Program {
    /// Name of the program: of its source without `.c`, and in what it prints.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Cg => "cg",
            Self::Mg => "mg",
            Self::MonteCarlo => "montecarlo",
            Self::Triad => "triad",
            Self::Mandelbrot => "mandelbrot",
        }
    }

    /// What the program does, for the report.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            Self::Md => "molecular dynamics, 216 atoms: four barriers in each step of some 0.4 ms",
            Self::Cg => {
                "conjugate gradient, 64,000 unknowns: four short parallel regions and \
                         three reductions an iteration"
            }
            Self::Mg => {
                "multigrid, 250,000 unknowns: eleven parallel regions on each of six grids, most of \
                         them tiny"
            }
            Self::MonteCarlo => "Monte Carlo pricing: a few long parallel regions, nothing shared",
            Self::Triad => {
                "memory bandwidth: copy, scale, add, triad over arrays larger than \
                            the caches"
            }
            Self::Mandelbrot => "Mandelbrot pictures: uneven rows under schedule(dynamic)",
        }
    }

    /// Steps with which calibration begins; far less than a second on any machine.
    pub(crate) fn first_guess(self) -> u64 {
        match self {
            Self::Md => 400,
            Self::Cg | Self::Mg | Self::MonteCarlo => 2,
            Self::Triad => 4,
            Self::Mandelbrot => 8,
        }
    }
}

/// One of the two programs of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrant {
    pub(crate) program: Program,
    /// Share of the calibrated running time.
    pub(crate) work: f64,
    /// Share of the calibrated running time after which it is started.
    pub(crate) arrives_after: f64,
}

impl Entrant {
    const fn whole(program: Program) -> Self {
        Self {
            program,
            work: 1.0,
            arrives_after: 0.0,
        }
    }
}

/// Two programs that run side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    /// What to look at, one sentence.
    pub(crate) story: &'static str,
    pub(crate) runtime: Runtime,
    pub(crate) entrants: [Entrant; 2],
}

/// All pairs, in the order of the report.
pub(crate) const PAIRS: [Pair; 7] = [
    Pair {
        name: "md+montecarlo",
        story: "A program that meets at a barrier every hundred microseconds, beside one that \
                never waits.",
        runtime: Runtime::Libgomp,
        entrants: [
            Entrant::whole(Program::Md),
            Entrant::whole(Program::MonteCarlo),
        ],
    },
    Pair {
        name: "md+cg",
        story: "Two programs of short parallel regions, each waiting for threads that the other \
                keeps from running.",
        runtime: Runtime::Libgomp,
        entrants: [Entrant::whole(Program::Md), Entrant::whole(Program::Cg)],
    },
    Pair {
        name: "md+mg",
        story: "Molecular dynamics and multigrid: of the published OpenMP mixes the one that gains \
                most [MAPPER §4.5.2].",
        runtime: Runtime::Libgomp,
        entrants: [Entrant::whole(Program::Md), Entrant::whole(Program::Mg)],
    },
    Pair {
        name: "triad+mandelbrot",
        story: "Two coarse programs: one is bound by memory, the other hands out its own work \
                dynamically.",
        runtime: Runtime::Libgomp,
        entrants: [
            Entrant::whole(Program::Triad),
            Entrant::whole(Program::Mandelbrot),
        ],
    },
    Pair {
        name: "cg+late-mandelbrot",
        story: "The second program arrives when the first has run for a while with the whole \
                machine, which must then give way.",
        runtime: Runtime::Libgomp,
        entrants: [
            Entrant {
                program: Program::Cg,
                work: 1.2,
                arrives_after: 0.0,
            },
            Entrant {
                program: Program::Mandelbrot,
                work: 0.8,
                arrives_after: 0.3,
            },
        ],
    },
    Pair {
        name: "md+early-triad",
        story: "The second program leaves early; what it held is free for the first.",
        runtime: Runtime::Libgomp,
        entrants: [
            Entrant {
                program: Program::Md,
                work: 1.2,
                arrives_after: 0.0,
            },
            Entrant {
                program: Program::Triad,
                work: 0.35,
                arrives_after: 0.0,
            },
        ],
    },
    Pair {
        name: "cg+montecarlo-libomp",
        story: "Compiled by clang, with LLVM's OpenMP runtime; reported separately.",
        runtime: Runtime::Libomp,
        entrants: [
            Entrant::whole(Program::Cg),
            Entrant::whole(Program::MonteCarlo),
        ],
    },
];

/// The pairs with these names, all for no names.
pub(crate) fn select_pairs(names: &[String]) -> anyhow::Result<Vec<Pair>> {
    if names.is_empty() {
        return Ok(PAIRS.to_vec());
    }
    let mut chosen: Vec<Pair> = Vec::new();
    for name in names {
        let Some(pair) = PAIRS.iter().find(|pair| pair.name == name) else {
            let valid: Vec<_> = PAIRS.iter().map(|pair| pair.name).collect();
            bail!(
                "there is no pair \"{name}\"; choose from {}",
                valid.join(", ")
            );
        };
        if !chosen.iter().any(|earlier| earlier.name == pair.name) {
            chosen.push(*pair);
        }
    }
    Ok(chosen)
}

/// How two programs are made to share the machine.
#[derive(
    Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, clap::ValueEnum, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Setting {
    /// Plain Linux: every program as many threads as CPUs
    Plain,
    /// Plain Linux with OMP_WAIT_POLICY=passive
    Passive,
    /// Each program on its own half of the CPUs with as many threads
    Static,
    /// mapper, the number of threads fixed at launch
    Fixed,
    /// mapper, the number of threads follows the CPUs
    Follow,
    /// mapper, all the threads a program expects on the CPUs it has
    Virtual,
}

impl Setting {
    pub(crate) const ALL: [Self; 6] = [
        Self::Plain,
        Self::Passive,
        Self::Static,
        Self::Fixed,
        Self::Follow,
        Self::Virtual,
    ];

    /// Name in files and on the command line.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Passive => "passive",
            Self::Static => "static",
            Self::Fixed => "fixed",
            Self::Follow => "follow",
            Self::Virtual => "virtual",
        }
    }

    /// Name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Plain => "plain Linux",
            Self::Passive => "Linux, passive waiting",
            Self::Static => "static fair share",
            Self::Fixed => "mapper, fixed teams",
            Self::Follow => "mapper, following teams",
            Self::Virtual => "mapper, virtual teams",
        }
    }

    /// Whether the programs run under mapper.
    pub(crate) fn is_managed(self) -> bool {
        matches!(self, Self::Fixed | Self::Follow | Self::Virtual)
    }
}

/// The order in which repetition `repetition` of pair `pair` goes through the settings: each
/// starts one further, so that no setting always follows the same one.
pub(crate) fn rotated(settings: &[Setting], pair: usize, repetition: usize) -> Vec<Setting> {
    let mut order = settings.to_vec();
    if !order.is_empty() {
        let turn = (pair + repetition) % order.len();
        order.rotate_left(turn);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_unknown_pair_is_refused_with_the_valid_names() {
        let error = select_pairs(&["md+nothing".into()])
            .unwrap_err()
            .to_string();
        assert!(error.contains("md+nothing"), "{error}");
        for pair in PAIRS {
            assert!(error.contains(pair.name), "{error}");
        }
    }

    #[test]
    fn a_pair_named_twice_runs_once() {
        let chosen = select_pairs(&["md+cg".into(), "md+cg".into()]).unwrap();
        assert_eq!(chosen.len(), 1);
    }

    #[test]
    fn no_names_choose_every_pair() {
        assert_eq!(select_pairs(&[]).unwrap().len(), PAIRS.len());
    }

    #[test]
    fn pair_names_are_unique_and_their_programs_differ() {
        let names: BTreeSet<_> = PAIRS.iter().map(|pair| pair.name).collect();
        assert_eq!(names.len(), PAIRS.len());
        for pair in PAIRS {
            assert_ne!(
                pair.entrants[0].program, pair.entrants[1].program,
                "{}",
                pair.name
            );
        }
    }

    #[test]
    fn somebody_arrives_late_and_somebody_leaves_early() {
        let entrants = || PAIRS.iter().flat_map(|pair| pair.entrants);
        assert!(entrants().any(|entrant| entrant.arrives_after > 0.0));
        assert!(entrants().any(|entrant| entrant.work < 0.5));
    }

    #[test]
    fn every_repetition_runs_every_setting_in_another_order() {
        let count = Setting::ALL.len();
        let orders: BTreeSet<_> = (0..count)
            .map(|rep| rotated(&Setting::ALL, 0, rep))
            .collect();
        assert_eq!(orders.len(), count);
        for order in orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), count);
        }
    }
}
