//! Runs mixes under settings, and keeps what was seen.
//!
//! Unit: wall-clock seconds from a program's start (under mapper that of `mapper-launch`) to its end,
//! and the 99th percentile of the latencies, in milliseconds, for a program that answers requests. A
//! program that is ended at the time limit counts with the limit.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::dlb::Loaded;
use super::mixes::Mix;
use super::programs::{Compiled, Program, Threads};
use super::settings::{Levers, Setting};
use crate::corun::LAUNCHER_FAILED;
use crate::corun::calibration::choose_steps;
use crate::corun::machine::{Disturbance, DisturbanceMeter, LoadBefore};
use crate::corun::processes::{Ending, Interrupt, Launch, Outcome, run_side_by_side};
use crate::corun::shares::{Share, fair_division, scaled};
use crate::corun::workload_line::{Verdict, WorkloadLine, checksums_agree, judge};
use crate::private_daemon::PrivateDaemon;

/// A run may take this many times as long as a fair division of the machine would take.
const PATIENCE: f64 = 4.0;

/// So long at least may a run take from which the work of a program is chosen: a busy machine can keep
/// one CPU from it for many seconds.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// Runs with the chosen steps from which they are corrected.
const CONFIRMING_RUNS: usize = 2;

/// What mapper-launch sets for OpenMP runtimes, which a program whose CPUs alone are managed does not
/// get to see.
const RUNTIME_VARIABLES: [&str; 4] = [
    "OMP_NUM_THREADS",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "KMP_AFFINITY",
];

/// What one program did in a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ProgramRun {
    pub(super) seconds: f64,
    /// Of a program that answers requests.
    pub(super) p99_ms: Option<f64>,
    /// Whether it was ended at the limit, which then stands for its figures.
    pub(super) is_over_limit: bool,
}

/// One run of a mix under one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Run {
    pub(super) before: LoadBefore,
    pub(super) during: Disturbance,
    /// In the order of the mix.
    pub(super) programs: Vec<ProgramRun>,
    /// What was wrong with the results.
    pub(super) wrong: Vec<String>,
}

/// What is known of a program after calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Work {
    pub(super) steps: u64,
    /// What it comes to, alone on its fair share.
    checksum: f64,
}

/// Everything needed to run a mix.
pub(super) struct Stage {
    pub(super) compiled: Compiled,
    pub(super) work: BTreeMap<&'static str, Work>,
    /// How long each program takes alone on half of the machine, seconds.
    pub(super) calibrated_s: f64,
    pub(super) cpus: Vec<usize>,
    /// A daemon for each allocation policy that is measured; nothing names the default one.
    pub(super) daemons: Vec<(Option<String>, PrivateDaemon)>,
    pub(super) dlb: Option<Loaded>,
    pub(super) qos: f64,
    pub(super) interrupt: Interrupt,
}

impl Stage {
    /// Runs the mix once under a setting.
    pub(super) fn run(&self, mix: &Mix, setting: &Setting) -> anyhow::Result<Run> {
        let shares = fair_division(&self.cpus, mix.programs.len());
        let launches = mix
            .programs
            .iter()
            .zip(&shares)
            .map(|(program, share)| self.launch(program, setting, share))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let limit = self.limit(mix.programs.len());
        let before = LoadBefore::now()?;
        let meter = DisturbanceMeter::start()?;
        let outcomes = run_side_by_side(launches, limit, &self.interrupt)?;
        let during = meter.finish()?;
        let mut run = Run {
            before,
            during,
            programs: Vec::new(),
            wrong: Vec::new(),
        };
        for (program, outcome) in mix.programs.iter().zip(&outcomes) {
            self.check_launcher(setting, outcome)?;
            run.programs.push(ProgramRun {
                seconds: outcome.elapsed.as_secs_f64(),
                p99_ms: None,
                is_over_limit: false,
            });
            let Some(seen) = run.programs.last_mut() else {
                continue;
            };
            match judge(program.name, outcome) {
                Verdict::TimedOut => {
                    seen.is_over_limit = true;
                    if program.name == SERVER {
                        seen.p99_ms = Some(1e3 * limit.as_secs_f64());
                    }
                }
                Verdict::Wrong(reason) => run.wrong.push(reason),
                Verdict::Right(line) => {
                    seen.p99_ms = line.p99_ms;
                    run.wrong.extend(self.disagreement(program, &line));
                }
            }
        }
        Ok(run)
    }

    /// What is wrong with a result that the program itself finds right.
    fn disagreement(&self, program: &Program, line: &WorkloadLine) -> Option<String> {
        let right = self.work.get(program.name)?.checksum;
        (!checksums_agree(right, line.checksum)).then(|| {
            format!(
                "{} came to the checksum {} and alone to {right}",
                program.name, line.checksum
            )
        })
    }

    /// How long a run of so many programs may take.
    pub(super) fn limit(&self, programs: usize) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a handful of programs")]
        let crowding = (programs as f64 / self.cpus.len().max(1) as f64).max(1.0);
        Duration::from_secs_f64(PATIENCE * self.calibrated_s * crowding)
    }

    /// The command that starts a program under a setting. All that distinguishes the settings is
    /// here.
    fn launch(
        &self,
        program: &Program,
        setting: &Setting,
        share: &Share,
    ) -> anyhow::Result<Launch> {
        let path = self.compiled.path(program);
        let mut cpus = None;
        let mut command = match setting {
            Setting::Plain | Setting::Static | Setting::Dlb => Command::new(path),
            Setting::Managed { levers, .. } => {
                let daemon = self.daemon(setting).context("no daemon is running")?;
                let qos = self.qos.to_string();
                let mut command = daemon.launch(&["--qos", &qos, "--name", program.name]);
                command.args(levers.arguments()).arg("--");
                if *levers == Levers::CpusOnly {
                    command.arg("env");
                    for name in RUNTIME_VARIABLES {
                        command.args(["-u", name]);
                    }
                }
                command.arg(path);
                command
            }
        };
        let work = self.work.get(program.name);
        let steps = work
            .with_context(|| format!("{} was not calibrated", program.name))?
            .steps;
        command.args(["--steps", &steps.to_string()]);
        if matches!(setting, Setting::Static | Setting::Dlb) {
            suit_threads(&mut command, program, share);
            cpus = Some(share.cpus.clone());
        }
        if let (Setting::Dlb, Some(dlb)) = (setting, &self.dlb) {
            dlb.preload(&mut command, program.threads);
        }
        Ok(Launch {
            command,
            cpus,
            delay: Duration::ZERO,
        })
    }

    fn daemon(&self, setting: &Setting) -> Option<&PrivateDaemon> {
        let found = self
            .daemons
            .iter()
            .find(|(policy, _)| policy.as_deref() == setting.policy());
        found.map(|(_, daemon)| daemon)
    }

    /// Stops the measuring when mapper itself failed: its times would mean nothing.
    fn check_launcher(&self, setting: &Setting, outcome: &Outcome) -> anyhow::Result<()> {
        if setting.is_managed() && outcome.ending == Ending::Exited(LAUNCHER_FAILED) {
            bail!(
                "mapper-launch failed: {}\nthe daemon's log:\n{}",
                outcome.stderr.trim(),
                self.daemon(setting)
                    .map(PrivateDaemon::log)
                    .unwrap_or_default()
            );
        }
        Ok(())
    }

    /// Chooses the steps of a program so that it takes the calibrated time alone on the fair share of
    /// one of two programs, and keeps the result that it comes to.
    pub(super) fn calibrate(&mut self, program: &'static Program) -> anyhow::Result<u64> {
        let first = choose_steps(
            program.name,
            program.first_guess,
            self.calibrated_s,
            |steps| Ok(self.alone(program, steps)?.seconds),
        )?;
        // Other work can only slow a run down, so the fastest of some is nearest to the truth.
        let mut fastest_s = f64::INFINITY;
        for _ in 0..CONFIRMING_RUNS {
            fastest_s = fastest_s.min(self.alone(program, first)?.seconds);
        }
        let steps = scaled(first, self.calibrated_s / fastest_s.max(1e-4));
        let checksum = self.alone(program, steps)?.checksum;
        self.work.insert(program.name, Work { steps, checksum });
        Ok(steps)
    }

    fn alone(&self, program: &Program, steps: u64) -> anyhow::Result<WorkloadLine> {
        let shares = fair_division(&self.cpus, 2);
        let share = shares.first().context("no share for a program")?;
        let mut command = Command::new(self.compiled.path(program));
        command.args(["--steps", &steps.to_string()]);
        suit_threads(&mut command, program, share);
        let launch = Launch {
            command,
            cpus: Some(share.cpus.clone()),
            delay: Duration::ZERO,
        };
        let limit = (self.limit(1) * 10).max(LEAST_PATIENCE);
        let outcomes = run_side_by_side(vec![launch], limit, &self.interrupt)?;
        let outcome = outcomes.first().context("a run without an outcome")?;
        match judge(program.name, outcome) {
            Verdict::Right(line) => Ok(line),
            Verdict::TimedOut => bail!(
                "{} with {steps} steps takes longer than {limit:?} alone; this machine is too slow \
                 or too busy",
                program.name
            ),
            Verdict::Wrong(reason) => bail!("{reason} when run alone"),
        }
    }
}

/// The program whose figure is its latency.
pub(super) const SERVER: &str = "server";

/// Gives a program as many threads as suit its share.
fn suit_threads(command: &mut Command, program: &Program, share: &Share) {
    let threads = share.threads.to_string();
    match program.threads {
        Threads::OpenMp => {
            command.env("OMP_NUM_THREADS", threads);
        }
        Threads::Own | Threads::OwnWithMapper => {
            command.args(["--threads", &threads]);
        }
    }
}
