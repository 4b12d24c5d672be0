//! The programs that may be in a mix, and how each is compiled.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::corun::build::{Client, Runtime, compile, compile_threads, source_folder};
use mapper_report::workspace;

/// What a program's threads are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Threads {
    /// Teams of OpenMP.
    OpenMp,
    /// POSIX threads, as many as the machine has CPUs, whatever the program is given.
    Own,
    /// The same in a program that speaks to mapper through `mapper.h`.
    OwnWithMapper,
}

/// A program of `benches/workloads`.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Program {
    /// Name on the command line and in what the program prints.
    pub(super) name: &'static str,
    /// Its source, without `.c`.
    source: &'static str,
    pub(super) threads: Threads,
    /// Steps with which calibration begins; well below a second on any machine.
    pub(super) first_guess: u64,
    /// What it does, for the report.
    pub(super) summary: &'static str,
}

const fn program(
    name: &'static str,
    threads: Threads,
    first_guess: u64,
    summary: &'static str,
) -> Program {
    Program {
        name,
        source: name,
        threads,
        first_guess,
        summary,
    }
}

/// All of them.
pub(super) static PROGRAMS: [Program; 15] = [
    program(
        "matmul",
        Threads::OpenMp,
        2,
        "matrix multiplication in tiles: one long region a product, little memory traffic",
    ),
    program(
        "kmeans",
        Threads::OpenMp,
        5,
        "k-means clustering: a region of some milliseconds and a short serial part a round",
    ),
    program(
        "md",
        Threads::OpenMp,
        200,
        "molecular dynamics, 216 atoms: four barriers in each step of some 0.4 ms",
    ),
    program(
        "cg",
        Threads::OpenMp,
        2,
        "conjugate gradient: four short regions and three reductions an iteration",
    ),
    program(
        "mg",
        Threads::OpenMp,
        2,
        "multigrid: eleven regions on each of six grids, most of them tiny",
    ),
    program(
        "sweep",
        Threads::OpenMp,
        2,
        "implicit sweeps: a barrier every 10 to 50 µs",
    ),
    program(
        "montecarlo",
        Threads::OpenMp,
        2,
        "Monte Carlo pricing: a few long regions, nothing shared",
    ),
    program(
        "triad",
        Threads::OpenMp,
        4,
        "memory bandwidth: copy, scale, add, triad over arrays larger than the caches",
    ),
    program(
        "mandelbrot",
        Threads::OpenMp,
        4,
        "Mandelbrot pictures: uneven rows under schedule(dynamic)",
    ),
    program(
        "primes",
        Threads::OpenMp,
        1,
        "counting primes: dynamic loops of some 100 µs",
    ),
    program(
        "jacobi",
        Threads::Own,
        500,
        "Jacobi sweeps by POSIX threads with a barrier after each; unmodified",
    ),
    program(
        "queens",
        Threads::Own,
        5,
        "the queens problem by POSIX threads that take pieces from a queue; unmodified",
    ),
    Program {
        name: "queens-elastic",
        source: "queens",
        threads: Threads::OwnWithMapper,
        first_guess: 5,
        summary: "the same, but as many threads work as mapper.h says there are CPUs",
    },
    program(
        "pipeline",
        Threads::OwnWithMapper,
        200,
        "two stages, each with as many POSIX threads as the machine has CPUs; tells mapper the \
         items done",
    ),
    program(
        "server",
        Threads::OwnWithMapper,
        150,
        "answers 1,500 requests a second that come at random times; tells mapper the latencies",
    ),
];

/// The program of a name.
pub(super) fn find(name: &str) -> anyhow::Result<&'static Program> {
    let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
        let valid: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        bail!(
            "there is no program {name:?} in benches/workloads; choose from {}",
            valid.join(", ")
        );
    };
    Ok(program)
}

/// The compiled programs.
#[derive(Debug)]
pub(super) struct Compiled {
    folder: PathBuf,
}

impl Compiled {
    /// Compiles these; `libmapper` is the folder of that library.
    pub(super) fn new(programs: &[&Program], libmapper: &Path) -> anyhow::Result<Self> {
        let compiled = Self {
            folder: workspace::target_dir().join("workloads"),
        };
        std::fs::create_dir_all(&compiled.folder)
            .with_context(|| format!("make the folder {}", compiled.folder.display()))?;
        for program in programs {
            let source = source_folder().join(format!("{}.c", program.source));
            let to = compiled.path(program);
            match program.threads {
                Threads::OpenMp => compile(&source, Runtime::Libgomp, &to)?,
                Threads::Own => compile_threads(&source, Client::None, &to)?,
                Threads::OwnWithMapper => {
                    compile_threads(&source, Client::Libmapper(libmapper), &to)?;
                }
            }
        }
        Ok(compiled)
    }

    /// Where a program is.
    pub(super) fn path(&self, program: &Program) -> PathBuf {
        let kind = match program.threads {
            Threads::OpenMp => Runtime::Libgomp.name(),
            Threads::Own | Threads::OwnWithMapper => "threads",
        };
        self.folder.join(format!("{}-{kind}", program.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_source_and_a_name_of_its_own() {
        for (at, program) in PROGRAMS.iter().enumerate() {
            let source = source_folder().join(format!("{}.c", program.source));
            assert!(source.exists(), "{}", source.display());
            let same = PROGRAMS.iter().position(|other| other.name == program.name);
            assert_eq!(same, Some(at), "{}", program.name);
        }
    }
}
