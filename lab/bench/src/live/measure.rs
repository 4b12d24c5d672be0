//! Runs mixes under settings, and keeps what was seen.
//!
//! Unit: wall-clock seconds from a program's start (under mapper that of `mapper-launch`) to its end,
//! and the 99th percentile of the latencies, in milliseconds, for a program that answers requests. A
//! program that is ended at the time limit counts with the limit. When one program of a run crashes or
//! is wrong, the others had the machine to themselves for longer: nothing of that run counts.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::cost::RunCost;
use super::dlb::Loaded;
use super::mixes::Mix;
use super::programs::{Compiled, Program, Threads};
use super::settings::{Levers, Setting};
use crate::corun::LAUNCHER_FAILED;
use crate::corun::calibration::choose_steps;
use crate::corun::machine::{Disturbance, DisturbanceMeter, LoadBefore};
use crate::corun::processes::{Ending, Launch, Outcome, run_side_by_side};
use crate::corun::shares::{Share, fair_division, scaled};
use crate::corun::workload_line::{Verdict, WorkloadLine, checksums_agree, judge};
use crate::private_daemon::PrivateDaemon;
use mapper_report::interrupt::Interrupt;

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
    /// From its start to its end, whatever came of it.
    pub(super) seconds: f64,
    /// What counts.
    pub(super) cost: RunCost,
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

impl Run {
    /// Notes a wrong result: no figure of this run counts.
    pub(super) fn reject(&mut self, reason: String) {
        self.wrong.push(reason);
        for program in &mut self.programs {
            program.cost = RunCost::Invalid;
        }
    }
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
        let mut wrong = Vec::new();
        for (program, outcome) in mix.programs.iter().zip(&outcomes) {
            self.check_launcher(setting, outcome)?;
            let right = self.work.get(program.name).map(|work| work.checksum);
            let cost = judged(program, outcome, limit, right);
            run.programs.push(ProgramRun {
                seconds: outcome.elapsed.as_secs_f64(),
                cost: *cost.as_ref().unwrap_or(&RunCost::Invalid),
            });
            wrong.extend(cost.err());
        }
        for reason in wrong {
            run.reject(reason);
        }
        Ok(run)
    }

    /// How long a run of so many programs may take.
    fn limit(&self, programs: usize) -> Duration {
        limit(self.calibrated_s, self.cpus.len(), programs)
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
            suit_threads(&mut command, program, share.threads);
            cpus = Some(share.cpus.clone());
        } else if program.threads != Threads::OpenMp {
            // OpenMP's runtimes count the CPUs that they may use, these programs all that are online.
            suit_threads(&mut command, program, self.cpus.len());
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
        suit_threads(&mut command, program, share.threads);
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

/// How long a run may take of so many programs that each take `calibrated_s` alone on half of the CPUs:
/// under a fair division a program has the CPUs by `programs`, and takes longer by how much less than
/// the half that is.
fn limit(calibrated_s: f64, cpus: usize, programs: usize) -> Duration {
    let half = cpus.div_ceil(2);
    #[expect(
        clippy::cast_precision_loss,
        reason = "some CPUs and a handful of programs"
    )]
    let crowding = ((half * programs) as f64 / cpus.max(1) as f64).max(1.0);
    Duration::from_secs_f64(PATIENCE * calibrated_s * crowding)
}

/// What a run cost a program whose checksum alone is `right`; or what is wrong with it.
fn judged(
    program: &Program,
    outcome: &Outcome,
    limit: Duration,
    right: Option<f64>,
) -> Result<RunCost, String> {
    let line = match judge(program.name, outcome) {
        Verdict::TimedOut => return Ok(RunCost::Limit(limit.as_secs_f64())),
        Verdict::Wrong(reason) => return Err(reason),
        Verdict::Right(line) => line,
    };
    if let Some(right) = right.filter(|&right| !checksums_agree(right, line.checksum)) {
        return Err(format!(
            "{} came to the checksum {} and alone to {right}",
            program.name, line.checksum
        ));
    }
    if program.name != SERVER {
        return Ok(RunCost::Seconds(outcome.elapsed.as_secs_f64()));
    }
    let p99_ms = line.p99_ms.filter(|p99_ms| p99_ms.is_finite());
    let p99_ms = p99_ms.ok_or_else(|| format!("{} told no latency", program.name))?;
    Ok(RunCost::P99Ms(p99_ms))
}

/// The program whose figure is its latency.
pub(super) const SERVER: &str = "server";

/// Gives a program so many threads.
fn suit_threads(command: &mut Command, program: &Program, threads: usize) {
    let threads = threads.to_string();
    match program.threads {
        Threads::OpenMp => {
            command.env("OMP_NUM_THREADS", threads);
        }
        Threads::Own | Threads::OwnWithMapper => {
            command.args(["--threads", &threads]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::programs::PROGRAMS;

    fn server(ending: Ending, stdout: &str) -> Result<RunCost, String> {
        let program = PROGRAMS.iter().find(|program| program.name == SERVER);
        let outcome = Outcome {
            elapsed: Duration::from_millis(100),
            ending,
            stdout: stdout.to_owned(),
            stderr: String::new(),
        };
        judged(
            program.unwrap(),
            &outcome,
            Duration::from_secs(3),
            Some(7.0),
        )
    }

    const LINE: &str = "{\"program\":\"server\",\"seconds\":0.1,\"checksum\":7.0,\"ok\":true,\
                        \"p99_ms\":2.5}";

    #[test]
    fn only_a_right_result_has_a_cost() {
        let ended = Ending::Exited(0);
        assert_eq!(server(ended, LINE), Ok(RunCost::P99Ms(2.5)));
        assert_eq!(server(Ending::TimedOut, ""), Ok(RunCost::Limit(3.0)));
        for (ending, stdout) in [
            (Ending::Signalled(11), ""),
            (ended, &*LINE.replace("7.0", "8.0")),
            (ended, &*LINE.replace("true", "false")),
            (ended, &*LINE.replace(",\"p99_ms\":2.5", "")),
        ] {
            let cost = server(ending, stdout);
            assert!(cost.is_err(), "{ending:?} {stdout:?}: {cost:?}");
        }
    }

    #[test]
    fn the_limit_is_a_multiple_of_the_time_on_a_fair_share() {
        for cpus in [2, 4, 8, 64] {
            for programs in 2..=8_u32 {
                let fair_s = 0.7 * f64::from(programs) / 2.0;
                let found = limit(0.7, cpus, programs as usize).as_secs_f64();
                assert!(
                    (found - PATIENCE * fair_s).abs() < 1e-6,
                    "{cpus} CPUs, {programs} programs: {found} s"
                );
            }
        }
        assert_eq!(limit(0.7, 1, 2), Duration::from_secs_f64(PATIENCE * 1.4));
        assert_eq!(limit(0.7, 8, 1), Duration::from_secs_f64(PATIENCE * 0.7));
    }
}
