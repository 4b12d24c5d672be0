//! Runs the experiments, interleaved, and keeps what was seen.
//!
//! Unit: seconds of a program's own work, from its first parallel work to its end, as it tells them
//! itself. What a launch costs is no matter here (`cargo xtask measure launch` says it), nor how long
//! Python takes to load scikit-learn. A run that was ended at the time limit counts with the limit,
//! which favours the slower side.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mapper_control::Client;

use super::experiments::{Experiment, Setting, Way};
use super::programs::{Program, Programs, command};
use crate::corun::LAUNCHER_FAILED;
use crate::corun::processes::{Ending, Launch, Outcome, run_side_by_side};
use crate::corun::shares::scaled;
use crate::corun::workload_line::{Verdict, WorkloadLine, judge};
use crate::private_daemon::PrivateDaemon;
use mapper_report::interrupt::Interrupt;

/// How often the daemon is asked what it knows of teams, in the runs where it is asked.
const SAMPLING: Duration = Duration::from_millis(100);

/// Runs in which the work of a program is chosen.
const MOST_ATTEMPTS: u32 = 7;

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The work of a program, chosen so that it takes the calibrated time alone on its fair share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibrated {
    pub(super) steps: u64,
    /// The result, of a run with one thread for each CPU of the share.
    checksum: f64,
    /// How long the program runs before and after the time that it tells.
    around: Duration,
}

/// One run of the programs of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Repetition and round: runs of the same moment are compared with each other.
    pub(super) moment: usize,
    /// Of each program.
    pub(super) times_s: Vec<f64>,
    /// Whether a program was ended at the limit.
    pub(super) is_over_limit: bool,
    /// What was wrong with the results.
    pub(super) wrong: Vec<String>,
    /// What the daemon noted of the programs' teams, where it was asked.
    pub(super) notes: BTreeSet<String>,
}

/// Whether the daemon is asked during a run what it knows of the teams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Asking {
    Asked,
    Unasked,
}

/// Everything needed to run an experiment.
pub(super) struct Stage {
    pub(super) programs: Programs,
    pub(super) work: BTreeMap<Program, Calibrated>,
    /// How long the calibrated work takes alone on a fair share.
    pub(super) calibrated: Duration,
    /// Programs that work longer than this are ended.
    pub(super) limit: Duration,
    /// All CPUs, and those of each of two programs.
    pub(super) cpus: Vec<usize>,
    pub(super) shares: [Vec<usize>; 2],
    pub(super) daemon: PrivateDaemon,
    pub(super) interrupt: Interrupt,
}

impl Stage {
    /// Runs the programs of an experiment once under a setting.
    pub(super) fn run(
        &self,
        experiment: &Experiment,
        setting: Setting,
        moment: usize,
        asking: Asking,
    ) -> anyhow::Result<Run> {
        let mut launches = Vec::new();
        let mut around = Duration::ZERO;
        for (&program, share) in experiment.programs.iter().zip(&self.shares) {
            let work = self.work_of(program)?;
            // Starting takes longer beside others that start.
            around = around.max(3 * work.around + Duration::from_millis(100));
            let words = self.programs.words(program, work.steps)?;
            launches.push(self.launch(program, command(&words)?, setting, share)?);
        }
        let run = || run_side_by_side(launches, self.limit + around, &self.interrupt);
        let (outcomes, notes) = if setting.way.teams().is_some() && asking == Asking::Asked {
            self.asked(run)?
        } else {
            (run()?, BTreeSet::new())
        };
        self.judged(experiment, &outcomes, moment, notes)
    }

    fn judged(
        &self,
        experiment: &Experiment,
        outcomes: &[Outcome],
        moment: usize,
        notes: BTreeSet<String>,
    ) -> anyhow::Result<Run> {
        let mut run = Run {
            moment,
            times_s: Vec::new(),
            is_over_limit: false,
            wrong: Vec::new(),
            notes,
        };
        let limit_s = self.limit.as_secs_f64();
        for (&program, outcome) in experiment.programs.iter().zip(outcomes) {
            if outcome.ending == Ending::Exited(LAUNCHER_FAILED) {
                bail!(
                    "mapper-launch failed: {}\nthe daemon's log:\n{}",
                    outcome.stderr.trim(),
                    self.daemon.log()
                );
            }
            match judge(program.name(), outcome) {
                Verdict::TimedOut => {
                    run.is_over_limit = true;
                    run.times_s.push(limit_s);
                }
                Verdict::Wrong(reason) => {
                    run.wrong.push(reason);
                    run.times_s.push(outcome.elapsed.as_secs_f64().min(limit_s));
                }
                Verdict::Right(line) => {
                    run.times_s.push(line.seconds);
                    let right = self.work_of(program)?.checksum;
                    if !program.is_same_result(right, line.checksum) {
                        run.wrong.push(format!(
                            "{} came to the checksum {} and alone to {right}",
                            program.title(),
                            line.checksum
                        ));
                    }
                }
            }
        }
        Ok(run)
    }

    fn work_of(&self, program: Program) -> anyhow::Result<Calibrated> {
        self.work
            .get(&program)
            .copied()
            .with_context(|| format!("{} was not calibrated", program.title()))
    }

    /// The command that starts a program under a setting. All that distinguishes the settings is
    /// here.
    fn launch(
        &self,
        program: Program,
        plain: Command,
        setting: Setting,
        share: &[usize],
    ) -> anyhow::Result<Launch> {
        let mut cpus = None;
        let mut command = match setting.way.teams() {
            None => plain,
            Some(teams) => {
                let name = program.name();
                let mut launched = self
                    .daemon
                    .launch(&["--teams", teams, "--name", name, "--"]);
                launched.arg(plain.get_program()).args(plain.get_args());
                launched
            }
        };
        if setting.way == Way::Passive {
            command.env("OMP_WAIT_POLICY", "passive");
        }
        if setting.way == Way::Hand {
            command.env("OMP_NUM_THREADS", share.len().to_string());
            cpus = Some(share.to_vec());
        }
        if let Some(count) = setting.thread_count(self.cpus.len()) {
            command.env("OMP_NUM_THREADS", count.to_string());
        }
        Ok(Launch {
            command,
            cpus,
            delay: Duration::ZERO,
        })
    }

    /// Does `run` while asking the daemon what it notes of teams.
    fn asked<T>(
        &self,
        run: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, BTreeSet<String>)> {
        let socket = self.daemon.socket();
        let mut client = Client::connect(&socket, PATIENCE)
            .with_context(|| format!("reach the daemon at {}", socket.display()))?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let asker = scope.spawn(|| {
                // What was said of each program last; it says all that was said before.
                let mut said = BTreeMap::new();
                while !done.load(Ordering::Relaxed) {
                    match client.status() {
                        Ok(status) => {
                            let apps = status.apps.into_iter();
                            said.extend(apps.map(|app| (Some(app.id), app.runtime.notes)));
                        }
                        // The times are worth having even so.
                        Err(error) => {
                            let note = format!("the daemon did not say more: {error}");
                            said.insert(None, vec![note]);
                            break;
                        }
                    }
                    std::thread::sleep(SAMPLING);
                }
                said.into_values().flatten().collect()
            });
            let result = run();
            done.store(true, Ordering::Relaxed);
            match asker.join() {
                Ok(notes) => Ok((result?, notes)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs a program alone on a fair share; gives what it tells and how long all of it took.
    fn alone(&self, program: Program, steps: u64) -> anyhow::Result<(WorkloadLine, Duration)> {
        let share = &self.shares[0];
        let mut command = command(&self.programs.words(program, steps)?)?;
        command.env("OMP_NUM_THREADS", share.len().to_string());
        let launch = Launch {
            command,
            cpus: Some(share.clone()),
            delay: Duration::ZERO,
        };
        let patience = 10 * self.limit;
        let outcomes = run_side_by_side(vec![launch], patience, &self.interrupt)?;
        let outcome = outcomes.first().context("a run without an outcome")?;
        match judge(program.name(), outcome) {
            Verdict::Right(line) => Ok((line, outcome.elapsed)),
            Verdict::TimedOut => bail!(
                "{} with {steps} steps takes longer than {patience:?} alone; this machine is too \
                 slow or too busy",
                program.title(),
            ),
            Verdict::Wrong(reason) => bail!("{reason} when run alone"),
        }
    }

    /// Chooses the steps of a program so that alone on a fair share it takes about the calibrated time,
    /// and keeps the result that it comes to.
    pub(super) fn calibrate(&mut self, program: Program) -> anyhow::Result<u64> {
        let aim_s = self.calibrated.as_secs_f64();
        let mut steps = program.first_guess();
        // A short run says little, since start-up counts for too much, and so does one that other
        // work slowed down: only a run that took about what it should is believed at once.
        for attempt in 0..MOST_ATTEMPTS {
            let (line, elapsed) = self.alone(program, steps)?;
            let took_s = line.seconds.max(1e-4);
            let is_near = (0.85..1.2).contains(&(took_s / aim_s));
            if is_near || (attempt + 1 == MOST_ATTEMPTS && took_s >= 0.3 * aim_s) {
                let calibrated = Calibrated {
                    steps,
                    checksum: line.checksum,
                    around: elapsed.saturating_sub(Duration::from_secs_f64(line.seconds)),
                };
                self.work.insert(program, calibrated);
                return Ok(steps);
            }
            steps = scaled(steps, (aim_s / took_s).min(50.0));
        }
        bail!(
            "the running time of {} does not grow with its steps",
            program.title()
        )
    }
}
