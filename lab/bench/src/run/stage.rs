//! Runs a mix under a setting, and keeps what was seen.
//!
//! Unit: wall-clock seconds of each program, by the method of the experiment ([`Time`]), or the 99th percentile
//! of its latencies. A program that is ended at the time limit counts with the limit. When one program of a
//! run crashes or is wrong, the others had the machine to themselves for longer: nothing of that run counts.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::calibration::{Alone, Calibrated, calibrate};
use super::daemon::PrivateDaemon;
use super::launch::{Invocation, Means, confinement};
use super::observe::{Observed, observed};
use super::outcome::{Verdict, judge};
use super::processes::{Ending, Launch, Outcome, run_side_by_side};
use super::shares::{Share, fair_division, scaled};
use crate::build::dlb::Loaded;
use crate::build::workloads::Workloads;
use crate::data::experiment::{Member, Method, Mix, Runtime, Time};
use crate::data::program::{Program, Unit};
use crate::data::setting::Setting;
use crate::machine::{DisturbanceMeter, LoadBefore};
use crate::result::run::{ProgramRun, Run, RunCost};
use mapper_report::interrupt::Interrupt;

/// Exit status of mapper-launch when it, and not the program, failed.
const LAUNCHER_FAILED: i32 = 125;

/// At least so long may a run take from which the work of a program is chosen: a busy machine can keep
/// one CPU from it for many seconds.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

type Built = (String, Runtime);

pub(crate) struct Stage {
    workloads: Workloads,
    method: Method,
    cpus: Vec<usize>,
    /// MiB of an array that is larger than the caches.
    beyond_caches_mib: u64,
    /// For managed settings, by their allocation policy; nothing names the default one.
    pub(crate) daemons: BTreeMap<Option<String>, PrivateDaemon>,
    pub(crate) dlb: Option<Loaded>,
    interrupt: Interrupt,
    work: BTreeMap<Built, Calibrated>,
    /// The checksum that each piece of work came to first.
    checksums: BTreeMap<(Built, u64), f64>,
}

impl Stage {
    pub(crate) fn new(
        workloads: Workloads,
        method: Method,
        cpus: Vec<usize>,
        beyond_caches_mib: u64,
        interrupt: Interrupt,
    ) -> Self {
        Self {
            workloads,
            method,
            cpus,
            beyond_caches_mib,
            daemons: BTreeMap::new(),
            dlb: None,
            interrupt,
            work: BTreeMap::new(),
            checksums: BTreeMap::new(),
        }
    }

    /// Runs the mix once under a setting.
    pub(crate) fn run(
        &mut self,
        mix: &Mix,
        setting: &Setting,
        moment: usize,
    ) -> anyhow::Result<Run> {
        let shares = fair_division(&self.cpus, mix.members.len());
        let daemon = self.daemons.get(&setting.policy);
        let daemon = daemon.filter(|_| setting.is_managed());
        let mut launches = Vec::new();
        let mut limit = self.limit(mix.members.len());
        for (member, share) in mix.members.iter().zip(&shares) {
            let steps = self.steps_of(mix, member)?;
            let built = (&member.program, mix.runtime);
            launches.push(Launch {
                delay: Duration::from_secs_f64(self.method.work_s * member.starts_after),
                ..self.launch(built, steps, setting, share, daemon)?
            });
        }
        if self.method.time == Time::OwnWork {
            limit += self.allowance(mix)?;
        }
        let before = LoadBefore::now()?;
        let meter = DisturbanceMeter::start()?;
        let run = || run_side_by_side(launches, limit, &self.interrupt);
        let is_asked = moment == 0 && (self.method.timelines || self.method.notes);
        let (outcomes, mut seen) = match daemon.filter(|_| is_asked) {
            Some(daemon) => {
                let members = mix.members.iter();
                let names: Vec<&str> = members.map(|of| of.program.printed_name()).collect();
                let (outcomes, seen) = observed(&daemon.socket(), &names, run)
                    .with_context(|| format!("the daemon's log:\n{}", daemon.log()))?;
                (outcomes?, seen)
            }
            None => (run()?, Observed::default()),
        };
        let during = meter.finish()?;
        for outcome in &outcomes {
            check_launcher(outcome, daemon)?;
        }
        if !self.method.timelines {
            seen.timeline.clear();
        }
        if !self.method.notes {
            seen.notes.clear();
        }
        let mut run = Run {
            moment,
            before,
            during,
            programs: Vec::new(),
            wrong: Vec::new(),
            timeline: seen.timeline,
            notes: seen.notes,
        };
        let mut wrong = Vec::new();
        for (member, outcome) in mix.members.iter().zip(&outcomes) {
            let cost = self.cost(mix, member, outcome);
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

    /// So much work of a program under a setting.
    fn launch(
        &self,
        built: (&Program, Runtime),
        steps: u64,
        setting: &Setting,
        share: &Share,
        daemon: Option<&PrivateDaemon>,
    ) -> anyhow::Result<Launch> {
        let (program, runtime) = built;
        let beyond_caches_mib = program.beyond_caches.then_some(self.beyond_caches_mib);
        let means = Means {
            cpus: self.cpus.len(),
            promise: self.method.promise,
            daemon,
            dlb: self.dlb.as_ref(),
        };
        let words = &self.workloads.words(program, runtime)?;
        let invocation = Invocation {
            program,
            words,
            size: beyond_caches_mib.or(program.size),
            steps,
        };
        Ok(Launch {
            command: invocation.under(setting, share, means)?,
            cpus: confinement(setting, share),
            delay: Duration::ZERO,
        })
    }

    fn calibrated(&self, program: &Program, runtime: Runtime) -> anyhow::Result<&Calibrated> {
        let found = self.work.get(&(program.name.clone(), runtime));
        found.with_context(|| format!("{} was not calibrated", program.name))
    }

    fn steps_of(&self, mix: &Mix, member: &Member) -> anyhow::Result<u64> {
        let steps = self.calibrated(&member.program, mix.runtime)?.steps;
        Ok(scaled(steps, member.work))
    }

    /// What a run may take beyond the programs' own work. Starting takes longer beside others that start.
    fn allowance(&self, mix: &Mix) -> anyhow::Result<Duration> {
        let mut longest = Duration::ZERO;
        for member in &mix.members {
            longest = longest.max(self.calibrated(&member.program, mix.runtime)?.alone.around);
        }
        Ok(3 * longest + Duration::from_millis(100))
    }

    fn limit(&self, programs: usize) -> Duration {
        limit(&self.method, self.cpus.len(), programs)
    }

    /// What a run cost a program, or what is wrong with it.
    fn cost(&mut self, mix: &Mix, member: &Member, outcome: &Outcome) -> Result<RunCost, String> {
        let program = &member.program;
        let line = match judge(program.printed_name(), outcome) {
            Verdict::TimedOut => {
                let limit_s = self.limit(mix.members.len()).as_secs_f64();
                return Ok(RunCost::Limit(match program.cost {
                    Unit::Seconds => limit_s,
                    Unit::P99 => 1e3 * limit_s,
                }));
            }
            Verdict::Wrong(reason) => return Err(reason),
            Verdict::Right(line) => line,
        };
        let steps = self.steps_of(mix, member);
        let steps = steps.map_err(|error| error.to_string())?;
        let key = ((program.name.clone(), mix.runtime), steps);
        let first = *self.checksums.entry(key).or_insert(line.checksum);
        if !program.is_same_result(first, line.checksum) {
            return Err(format!(
                "{} computed the checksum {}, and {first} for the same work before",
                program.name, line.checksum
            ));
        }
        let p99_ms = line.p99_ms.filter(|p99_ms| p99_ms.is_finite());
        Ok(RunCost::Exact(match (program.cost, self.method.time) {
            (Unit::Seconds, Time::WholeRun) => outcome.elapsed.as_secs_f64(),
            (Unit::Seconds, Time::OwnWork) => line.seconds,
            (Unit::P99, _) => {
                p99_ms.ok_or_else(|| format!("{} reported no latency", program.name))?
            }
        }))
    }

    /// Chooses the steps of a program so that it takes the calibrated time alone on the fair share of one of two
    /// programs, and keeps the result that it comes to.
    pub(crate) fn calibrate(&mut self, program: &Program, runtime: Runtime) -> anyhow::Result<u64> {
        self.workloads.compile(program, runtime)?;
        let found = calibrate(
            &program.name,
            program.first_steps.get(),
            self.method.work_s,
            |steps| self.alone(program, runtime, steps),
        )?;
        let built = (program.name.clone(), runtime);
        let work = (built.clone(), found.steps);
        self.checksums.insert(work, found.alone.checksum);
        self.work.insert(built, found);
        Ok(found.steps)
    }

    fn alone(&self, program: &Program, runtime: Runtime, steps: u64) -> anyhow::Result<Alone> {
        let shares = fair_division(&self.cpus, 2);
        let share = shares.first().context("no share for a program")?;
        let fair = Setting::find("static")?;
        let launch = self.launch((program, runtime), steps, &fair, share, None)?;
        let limit = (self.limit(1) * 10).max(LEAST_PATIENCE);
        let outcomes = run_side_by_side(vec![launch], limit, &self.interrupt)?;
        let outcome = outcomes.first().context("a run without an outcome")?;
        match judge(program.printed_name(), outcome) {
            Verdict::Right(line) => {
                let own = Duration::from_secs_f64(line.seconds);
                Ok(Alone {
                    seconds: line.seconds,
                    around: outcome.elapsed.saturating_sub(own),
                    checksum: line.checksum,
                })
            }
            Verdict::TimedOut => bail!(
                "{} with {steps} steps takes longer than {limit:?} alone; this machine is too slow \
                 or too busy",
                program.name
            ),
            Verdict::Wrong(reason) => bail!("{reason} when run alone"),
        }
    }
}

/// Stops the measuring when mapper itself failed: its times would mean nothing.
fn check_launcher(outcome: &Outcome, daemon: Option<&PrivateDaemon>) -> anyhow::Result<()> {
    if let Some(daemon) = daemon.filter(|_| outcome.ending == Ending::Exited(LAUNCHER_FAILED)) {
        bail!(
            "mapper-launch failed: {}\nthe daemon's log:\n{}",
            outcome.stderr.trim(),
            daemon.log()
        );
    }
    Ok(())
}

/// How long a run may take of so many programs that each take the calibrated time alone on half of the CPUs:
/// under a fair division a program has the CPUs by `programs`, and takes longer by how much less than
/// the half that is.
fn limit(method: &Method, cpus: usize, programs: usize) -> Duration {
    let half = cpus.div_ceil(2);
    let crowding = ((half * programs) as f64 / cpus.max(1) as f64).max(1.0);
    Duration::from_secs_f64(method.patience * method.work_s * crowding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::experiment::tests::experiment;

    const LINE: &str = "{\"program\":\"server\",\"seconds\":0.1,\"checksum\":7.0,\"ok\":true,\
                        \"p99_ms\":2.5}";

    fn server(ending: Ending, stdout: &str) -> Result<RunCost, String> {
        let mix = Mix::parse("server+md").unwrap();
        let method = experiment("live.toml").method;
        let workloads = Workloads::new(None, None).unwrap();
        let mut stage = Stage::new(workloads, method, vec![0, 1], 64, Interrupt::default());
        let built = ("server".to_owned(), Runtime::Libgomp);
        let alone = Alone {
            seconds: 0.1,
            around: Duration::ZERO,
            checksum: 7.0,
        };
        let calibrated = Calibrated { steps: 3, alone };
        stage.work.insert(built.clone(), calibrated);
        stage.checksums.insert((built, 3), 7.0);
        let outcome = Outcome {
            elapsed: Duration::from_millis(100),
            ending,
            stdout: stdout.to_owned(),
            stderr: String::new(),
        };
        stage.cost(&mix, &mix.members[0], &outcome)
    }

    #[test]
    fn only_a_right_result_has_a_cost() {
        let ended = Ending::Exited(0);
        assert_eq!(server(ended, LINE), Ok(RunCost::Exact(2.5)));
        let at_limit = server(Ending::TimedOut, "").unwrap();
        assert!(at_limit.is_limit() && (at_limit.value().unwrap() - 2800.0).abs() < 1e-6);
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
        let method = experiment("live.toml").method;
        for cpus in [2, 4, 8, 64] {
            for programs in 2..=8_u32 {
                let fair_s = 0.7 * f64::from(programs) / 2.0;
                let found = limit(&method, cpus, programs as usize).as_secs_f64();
                assert!(
                    (found - 4.0 * fair_s).abs() < 1e-6,
                    "{cpus} CPUs, {programs} programs: {found} s"
                );
            }
        }
        assert_eq!(limit(&method, 1, 2), Duration::from_secs_f64(4.0 * 1.4));
        assert_eq!(limit(&method, 8, 1), Duration::from_secs_f64(4.0 * 0.7));
    }
}
