//! Runs pairs of programs under the settings, and keeps what was seen.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::artifacts::Workloads;
use super::pairs::{Entrant, Pair, Program, Setting};
use super::timeline::{Timeline, sampled};
use crate::corun::LAUNCHER_FAILED;
use crate::corun::build::Runtime;
use crate::corun::calibration::choose_steps;
use crate::corun::processes::{Ending, Launch, Outcome, run_side_by_side};
use crate::corun::shares::scaled;
use crate::corun::workload_line::{Verdict, checksums_agree, judge};
use crate::private_daemon::PrivateDaemon;
use mapper_report::interrupt::Interrupt;

/// The share of its fair-share performance that every program is promised under mapper.
pub(crate) const QOS: f64 = 0.85;

/// How big a program's problem is and how often it is worked on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Work {
    /// The program's own preset when not given.
    pub(crate) size: Option<u64>,
    pub(crate) steps: u64,
}

impl Work {
    fn arguments(self) -> Vec<String> {
        let mut arguments = vec!["--steps".to_owned(), self.steps.to_string()];
        if let Some(size) = self.size {
            arguments.extend(["--size".to_owned(), size.to_string()]);
        }
        arguments
    }

    /// This much of the work.
    pub(crate) fn times(self, share: f64) -> Self {
        Self {
            steps: scaled(self.steps, share),
            ..self
        }
    }
}

/// One run of a pair under one setting.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Wall time of each program from its own start, the time limit where it did not end.
    pub(crate) times_s: [f64; 2],
    pub(crate) timed_out: [bool; 2],
    /// What was wrong with the results.
    pub(crate) wrong: Vec<String>,
    pub(crate) timeline: Option<Timeline>,
}

/// Everything needed to run a pair.
pub(crate) struct Stage<'a> {
    pub(crate) workloads: &'a Workloads,
    pub(crate) work: BTreeMap<(Program, Runtime), Work>,
    /// How long the calibrated work takes alone on a fair share.
    pub(crate) calibrated: Duration,
    /// Runs longer than this are ended.
    pub(crate) limit: Duration,
    /// The CPUs of each program under [`Setting::Static`].
    pub(crate) shares: [Vec<usize>; 2],
    /// Runs while managed settings are measured.
    pub(crate) daemon: Option<PrivateDaemon>,
    pub(crate) interrupt: Interrupt,
    /// The checksum that each piece of work came to first.
    pub(crate) checksums: BTreeMap<(Program, Runtime, Work), f64>,
}

impl Stage<'_> {
    /// Runs the pair once; `with_timeline` asks for a timeline where mapper manages the run.
    pub(crate) fn run(
        &mut self,
        pair: &Pair,
        setting: Setting,
        with_timeline: bool,
    ) -> anyhow::Result<Run> {
        let launches = vec![
            self.launch(pair, &pair.entrants[0], setting, &self.shares[0])?,
            self.launch(pair, &pair.entrants[1], setting, &self.shares[1])?,
        ];
        let measured = || run_side_by_side(launches, self.limit, &self.interrupt);
        let (outcomes, timeline) = match &self.daemon {
            Some(daemon) if setting.is_managed() && with_timeline => {
                let names = pair.entrants.map(|entrant| entrant.program.name());
                let (outcomes, timeline) = sampled(&daemon.socket(), names, measured)
                    .with_context(|| format!("the daemon's log:\n{}", daemon.log()))?;
                (outcomes?, Some(timeline))
            }
            _ => (measured()?, None),
        };
        let outcomes: [Outcome; 2] = outcomes
            .try_into()
            .map_err(|outcomes: Vec<_>| anyhow::anyhow!("{} outcomes of a pair", outcomes.len()))?;
        if setting.is_managed() {
            self.check_launcher(&outcomes)?;
        }
        let mut run = Run {
            times_s: [0, 1].map(|which: usize| outcomes[which].elapsed.as_secs_f64()),
            timed_out: [false; 2],
            wrong: Vec::new(),
            timeline,
        };
        for (which, (entrant, outcome)) in pair.entrants.iter().zip(&outcomes).enumerate() {
            match judge(entrant.program.name(), outcome) {
                Verdict::TimedOut => run.timed_out[which] = true,
                Verdict::Wrong(reason) => run.wrong.push(reason),
                Verdict::Right(line) => {
                    let key = (entrant.program, pair.runtime, self.work_of(pair, entrant)?);
                    let first = *self.checksums.entry(key).or_insert(line.checksum);
                    if !checksums_agree(first, line.checksum) {
                        run.wrong.push(format!(
                            "{} came to the checksum {} and earlier to {first}",
                            entrant.program.name(),
                            line.checksum
                        ));
                    }
                }
            }
        }
        Ok(run)
    }

    /// How much work a program of a pair does.
    pub(crate) fn work_of(&self, pair: &Pair, entrant: &Entrant) -> anyhow::Result<Work> {
        self.work
            .get(&(entrant.program, pair.runtime))
            .map(|work| work.times(entrant.work))
            .with_context(|| format!("{} was not calibrated", entrant.program.name()))
    }

    /// The command that starts a program under a setting. All that distinguishes the settings is
    /// here.
    fn launch(
        &self,
        pair: &Pair,
        entrant: &Entrant,
        setting: Setting,
        share: &[usize],
    ) -> anyhow::Result<Launch> {
        let program = self.workloads.path(entrant.program, pair.runtime);
        let mut cpus = None;
        let mut command = match setting {
            Setting::Plain => Command::new(program),
            Setting::Passive => {
                let mut command = Command::new(program);
                command.env("OMP_WAIT_POLICY", "passive");
                command
            }
            Setting::Static => {
                let mut command = Command::new(program);
                command.env("OMP_NUM_THREADS", share.len().to_string());
                cpus = Some(share.to_vec());
                command
            }
            Setting::Fixed | Setting::Follow | Setting::Virtual => {
                let daemon = self.daemon.as_ref().context("no daemon is running")?;
                let qos = QOS.to_string();
                let teams = setting.key();
                let name = entrant.program.name();
                let mut command =
                    daemon.launch(&["--qos", &qos, "--teams", teams, "--name", name, "--"]);
                command.arg(program);
                command
            }
        };
        command.args(self.work_of(pair, entrant)?.arguments());
        Ok(Launch {
            command,
            cpus,
            delay: self.calibrated.mul_f64(entrant.arrives_after),
        })
    }

    /// Stops the measuring when mapper itself failed: its times would mean nothing.
    fn check_launcher(&self, outcomes: &[Outcome; 2]) -> anyhow::Result<()> {
        let log = || {
            self.daemon
                .as_ref()
                .map(PrivateDaemon::log)
                .unwrap_or_default()
        };
        for outcome in outcomes {
            if outcome.ending == Ending::Exited(LAUNCHER_FAILED) {
                bail!(
                    "mapper-launch failed: {}\nthe daemon's log:\n{}",
                    outcome.stderr.trim(),
                    log()
                );
            }
        }
        Ok(())
    }

    /// Times one program alone on a fair share; used to choose its work.
    fn time_alone(&self, program: Program, runtime: Runtime, work: Work) -> anyhow::Result<f64> {
        let share = &self.shares[0];
        let mut command = Command::new(self.workloads.path(program, runtime));
        command
            .args(work.arguments())
            .env("OMP_NUM_THREADS", share.len().to_string());
        let launch = Launch {
            command,
            cpus: Some(share.clone()),
            delay: Duration::ZERO,
        };
        let outcomes = run_side_by_side(vec![launch], self.limit, &self.interrupt)?;
        let outcome = outcomes.first().context("a run without an outcome")?;
        match judge(program.name(), outcome) {
            Verdict::Right(line) => Ok(line.seconds),
            Verdict::TimedOut => bail!(
                "{} with {} steps takes longer than {:?} alone; this machine is too slow or too busy",
                program.name(),
                work.steps,
                self.limit
            ),
            Verdict::Wrong(reason) => bail!("{reason} when run alone"),
        }
    }

    /// Chooses the steps of a program so that alone on a fair share it takes the calibrated time.
    pub(crate) fn calibrate(
        &mut self,
        program: Program,
        runtime: Runtime,
        size: Option<u64>,
    ) -> anyhow::Result<()> {
        let aim_s = self.calibrated.as_secs_f64();
        let steps = choose_steps(program.name(), program.first_guess(), aim_s, |steps| {
            self.time_alone(program, runtime, Work { size, steps })
        })?;
        self.work.insert((program, runtime), Work { size, steps });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_work_is_at_least_one_step() {
        assert_eq!(
            Work {
                size: None,
                steps: 2
            }
            .times(0.01)
            .steps,
            1
        );
        assert_eq!(
            Work {
                size: None,
                steps: 100
            }
            .times(1.2)
            .steps,
            120
        );
    }
}
