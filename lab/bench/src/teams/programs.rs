//! The programs: what they do, how they are started, when two of their results are the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::corun::build::{Runtime, compile, source_folder};
use crate::corun::workload_line::checksums_agree;
use mapper_report::workspace;

/// A program of `benches/workloads`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Program {
    /// Implicit steps along one direction at a time: five barriers a step within one region.
    Sweep,
    /// The same on its preset, a larger cube.
    LargerSweep,
    /// Multigrid: eleven regions on each grid, most of them tiny.
    Mg,
    /// The same on its preset, larger grids.
    LargerMg,
    /// Molecular dynamics: four barriers a step within one region.
    Md,
    /// Conjugate gradient: seven regions an iteration.
    Cg,
    /// Trial division in many small dynamic loops.
    Primes,
    /// Uneven rows under `schedule(dynamic)`, a region a picture.
    Mandelbrot,
    /// A few long regions, nothing shared.
    MonteCarlo,
    /// scikit-learn's gradient boosting: thousands of regions, most of them tiny.
    Fit,
}

impl Program {
    /// Name of its source without the ending, and in what it prints.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sweep | Self::LargerSweep => "sweep",
            Self::Mg | Self::LargerMg => "mg",
            Self::Md => "md",
            Self::Cg => "cg",
            Self::Primes => "primes",
            Self::Mandelbrot => "mandelbrot",
            Self::MonteCarlo => "montecarlo",
            Self::Fit => "fit",
        }
    }

    /// Name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LargerSweep => "larger sweep",
            Self::LargerMg => "larger mg",
            _ => self.name(),
        }
    }

    pub(super) fn is_python(self) -> bool {
        self == Self::Fit
    }

    /// `--size`, where the preset of the program has longer regions than are to be shown. From barrier to
    /// barrier one thread takes 3 µs in sweep, 6 in md, 10 in mg and cg at these sizes; 26 µs in the larger
    /// sweep and 80 in the larger mg (AMD EPYC).
    fn size(self) -> Option<u64> {
        match self {
            Self::Sweep => Some(12),
            Self::Mg => Some(5),
            Self::Md => Some(64),
            Self::Cg => Some(20),
            Self::LargerSweep
            | Self::LargerMg
            | Self::Primes
            | Self::Mandelbrot
            | Self::MonteCarlo
            | Self::Fit => None,
        }
    }

    /// Steps with which calibration begins; far less than a second on any machine.
    pub(super) fn first_guess(self) -> u64 {
        match self {
            Self::Md => 1000,
            Self::Sweep => 50,
            Self::Cg | Self::Mg | Self::LargerSweep | Self::Mandelbrot => 8,
            Self::LargerMg | Self::MonteCarlo => 2,
            Self::Primes | Self::Fit => 1,
        }
    }

    /// Whether two checksums of the same work are the same result. A fit adds up in an order that
    /// does not depend on its threads, so its results are the same to the last bit; the others may
    /// round differently.
    pub(super) fn is_same_result(self, one: f64, other: f64) -> bool {
        if self == Self::Fit {
            one.to_bits() == other.to_bits()
        } else {
            checksums_agree(one, other)
        }
    }
}

/// Where the programs are, ready to be started.
pub(super) struct Programs {
    folder: PathBuf,
    /// The Python that scikit-learn is installed for, when it is wanted.
    python: Option<PathBuf>,
}

impl Programs {
    /// Compiles the C programs among `wanted`.
    pub(super) fn compile(
        wanted: impl IntoIterator<Item = Program>,
        python: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let folder = workspace::target_dir().join("workloads");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("make the folder {}", folder.display()))?;
        let programs = Self { folder, python };
        for program in wanted.into_iter().filter(|program| !program.is_python()) {
            let source = source_folder().join(format!("{}.c", program.name()));
            compile(&source, Runtime::Libgomp, &programs.binary(program))?;
        }
        Ok(programs)
    }

    fn binary(&self, program: Program) -> PathBuf {
        self.folder
            .join(format!("{}-{}", program.name(), Runtime::Libgomp.name()))
    }

    /// The words that start a program with this many steps.
    pub(super) fn words(&self, program: Program, steps: u64) -> anyhow::Result<Vec<PathBuf>> {
        let mut words = if program.is_python() {
            let python = self.python.clone();
            vec![
                python.context("scikit-learn was not installed")?,
                source_folder().join(format!("{}.py", program.name())),
            ]
        } else {
            vec![self.binary(program)]
        };
        let size = program.size().map(|size| ("--size", size));
        for (flag, value) in size.into_iter().chain([("--steps", steps)]) {
            words.extend([PathBuf::from(flag), PathBuf::from(value.to_string())]);
        }
        Ok(words)
    }
}

/// A command of these words.
pub(super) fn command(words: &[PathBuf]) -> anyhow::Result<Command> {
    let (first, rest) = words.split_first().context("a command without words")?;
    let mut command = Command::new::<&Path>(first);
    command.args(rest);
    Ok(command)
}
