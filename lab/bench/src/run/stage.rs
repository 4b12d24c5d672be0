//! Runs a mix under a setting, and keeps what was seen.
//!
//! Unit: wall-clock seconds of each program, by the method of the experiment ([`Time`]), or the 99th percentile
//! of its latencies. A program that is ended at the time limit counts with the limit. When one program of a
//! run crashes or is wrong, the others had the machine to themselves for longer: nothing of that run counts.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

use super::calibration::{Alone, Calibrated, calibrate};
use super::daemon::PrivateDaemon;
use super::launch::Invocation;
use super::observe::{Observed, observed};
use super::processes::{Ending, Launch, Outcome, run_side_by_side};
use super::shares::{Share, fair_division, scaled};
use crate::build::dlb::Loaded;
use crate::build::real;
use crate::build::workloads::Workloads;
use crate::data::{Member, Method, Mix, Program, Runtime, Setting, Time, Unit};
use crate::machine::{DisturbanceMeter, LoadBefore};
use crate::result::{ProgramRun, Run, RunCost};
use mapper_report::interrupt::Interrupt;

/// Exit status of mapper-launch when it, and not the program, failed.
const LAUNCHER_FAILED: i32 = 125;

/// At least so long may a run take from which the work of a program is chosen: a busy machine can keep
/// one CPU from it for many seconds.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// What a workload program says about its run.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct WorkloadLine {
    program: String,
    seconds: f64,
    checksum: f64,
    ok: bool,
    /// 99th percentile of the latencies, of a program that answers requests.
    p99_ms: Option<f64>,
}

/// Whether a run can be believed.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Right(WorkloadLine),
    /// It did not end in time, so there is no result to judge.
    TimedOut,
    Wrong(String),
}

/// What is wrong with a run of the program called `name`, with the last of what it complained about.
fn wrong(name: &str, reason: &str, outcome: &Outcome) -> Verdict {
    let lines: Vec<&str> = outcome.stderr.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    let more = if last.is_empty() { "" } else { ": " };
    Verdict::Wrong(format!("{name} {reason}{more}{last}"))
}

/// Judges how a run ended; nothing if it succeeded.
fn judge_ending(name: &str, outcome: &Outcome) -> Option<Verdict> {
    let reason = match outcome.ending {
        Ending::TimedOut => return Some(Verdict::TimedOut),
        Ending::Exited(0) => return None,
        Ending::Signalled(signal) => format!("was ended by signal {signal}"),
        Ending::Exited(code) => format!("exited with status {code}"),
    };
    Some(wrong(name, &reason, outcome))
}

/// Judges the run of the program called `name`.
fn judge(name: &str, outcome: &Outcome) -> Verdict {
    if let Some(verdict) = judge_ending(name, outcome) {
        return verdict;
    }
    let wrong = |reason: String| wrong(name, &reason, outcome);
    let last = outcome.stdout.lines().last().unwrap_or_default();
    match serde_json::from_str::<WorkloadLine>(last) {
        Err(_) => wrong(format!("ended with \"{last}\" instead of its line of JSON")),
        Ok(line) if line.program != name => wrong(format!("calls itself \"{}\"", line.program)),
        Ok(line) if !line.ok => wrong("found its own result wrong".to_owned()),
        Ok(line) => Verdict::Right(line),
    }
}

type Built = (String, Runtime);

pub(crate) struct Stage {
    pub(crate) workloads: Workloads,
    pub(crate) method: Method,
    pub(crate) cpus: Vec<usize>,
    /// MiB of an array that is larger than the caches.
    pub(crate) beyond_caches_mib: u64,
    /// For managed settings, by their allocation policy; nothing names the default one.
    pub(crate) daemons: BTreeMap<Option<String>, PrivateDaemon>,
    pub(crate) dlb: Option<Loaded>,
    pub(crate) interrupt: Interrupt,
    pub(crate) work: BTreeMap<Built, Calibrated>,
    /// The checksum that each piece of work came to first.
    pub(crate) checksums: BTreeMap<(Built, u64), f64>,
    /// What real programs came to, run alone and plainly.
    pub(crate) results: BTreeMap<String, String>,
}

impl Stage {
    /// Runs the mix once under a setting.
    pub(crate) fn run(&mut self, mix: &Mix, setting: &Setting, moment: usize) -> Result<Run> {
        let shares = fair_division(&self.cpus, mix.members.len());
        let daemon = self.daemons.get(&setting.policy);
        let daemon = daemon.filter(|_| setting.is_managed());
        let mut launches = Vec::new();
        let mut most = self.limit(mix)?;
        let mut folders = Vec::new();
        for (member, share) in mix.members.iter().zip(&shares) {
            let steps = self.steps_of(mix, member)?;
            let built = (&member.program, mix.runtime);
            let mut launch = self.launch(built, steps, setting, share, daemon)?;
            launch.delay = Duration::from_secs_f64(self.method.work_s * member.starts_after);
            let folder = self.folder_for(&member.program)?;
            folder.iter().for_each(|of| launch.run_in(of.path()));
            folders.push(folder);
            launches.push(launch);
        }
        if self.method.time == Time::OwnWork {
            most += self.allowance(mix)?;
        }
        let before = LoadBefore::now()?;
        let meter = DisturbanceMeter::start()?;
        let run = || run_side_by_side(launches, most, &self.interrupt);
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
            timeline: seen.timeline,
            notes: seen.notes,
            ..Run::default()
        };
        let mut wrong = Vec::new();
        for ((member, outcome), folder) in mix.members.iter().zip(&outcomes).zip(&folders) {
            let cost = self.cost(mix, member, outcome, folder.as_ref());
            let seconds = outcome.elapsed.as_secs_f64();
            wrong.extend(cost.as_ref().err().cloned());
            let cost = cost.unwrap_or(RunCost::Invalid);
            run.programs.push(ProgramRun { seconds, cost });
        }
        wrong.into_iter().for_each(|reason| run.reject(reason));
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
    ) -> Result<Launch> {
        let (program, runtime) = built;
        let beyond_caches_mib = program.beyond_caches.then_some(self.beyond_caches_mib);
        let invocation = Invocation {
            program,
            words: &self.workloads.words(program, runtime)?,
            size: beyond_caches_mib.or(program.size),
            steps,
            cpus: self.cpus.len(),
            promise: self.method.promise,
            daemon,
            dlb: self.dlb.as_ref(),
        };
        invocation.under(setting, share)
    }

    fn calibrated(&self, program: &Program, runtime: Runtime) -> Result<&Calibrated> {
        let found = self.work.get(&(program.name.clone(), runtime));
        found.with_context(|| format!("{} was not calibrated", program.name))
    }

    fn steps_of(&self, mix: &Mix, member: &Member) -> Result<u64> {
        let steps = self.calibrated(&member.program, mix.runtime)?.steps;
        Ok(scaled(steps, member.work))
    }

    /// What a run may take beyond the programs' own work. Starting takes longer beside others that start.
    fn allowance(&self, mix: &Mix) -> Result<Duration> {
        let mut longest = Duration::ZERO;
        for Member { program, .. } in &mix.members {
            longest = longest.max(self.calibrated(program, mix.runtime)?.alone.around);
        }
        Ok(3 * longest + Duration::from_millis(100))
    }

    /// What a run cost a program, or what is wrong with it.
    fn cost(
        &mut self,
        mix: &Mix,
        member: &Member,
        outcome: &Outcome,
        folder: Option<&TempDir>,
    ) -> Result<RunCost, String> {
        let program = &member.program;
        let line = match self.judge(program, outcome, folder) {
            Verdict::TimedOut => {
                let limit = self.limit(mix).map_err(|error| error.to_string())?;
                let limit_s = limit.as_secs_f64();
                let is_latency = program.cost == Unit::P99;
                let in_its_unit = if is_latency { 1e3 } else { 1.0 };
                return Ok(RunCost::Limit(limit_s * in_its_unit));
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
        let cost = match (program.cost, self.method.time) {
            (Unit::Seconds, Time::WholeRun) => Some(outcome.elapsed.as_secs_f64()),
            (Unit::Seconds, Time::OwnWork) => Some(line.seconds),
            (Unit::P99, _) => p99_ms,
        };
        let cost = cost.ok_or_else(|| format!("{} reported no latency", program.name));
        cost.map(RunCost::Exact)
    }

    /// A folder for a run of a real program.
    fn folder_for(&self, program: &Program) -> Result<Option<TempDir>> {
        let make = || tempfile::tempdir_in(real::folder()?).context("make a folder for a run");
        program.recipe.is_some().then(make).transpose()
    }

    /// Judges a run of a program; the first of a real program, alone under Linux, is right if it succeeds.
    fn judge(&mut self, of: &Program, outcome: &Outcome, folder: Option<&TempDir>) -> Verdict {
        let Some((recipe, folder)) = of.recipe.as_ref().zip(folder) else {
            return judge(of.printed_name(), outcome);
        };
        if let Some(verdict) = judge_ending(&of.name, outcome) {
            return verdict;
        }
        let result = match real::result(&of.name, recipe, folder.path()) {
            Ok(result) => result,
            Err(error) => return Verdict::Wrong(format!("{}: {error:#}", of.name)),
        };
        let known = self.results.entry(of.name.clone());
        let plain = &*known.or_insert_with(|| result.clone());
        if result.trim().is_empty() || !recipe.is_right(&result, plain) {
            let [result, plain] = [&result, plain].map(|text| text.lines().last());
            return Verdict::Wrong(format!("{} came to {result:?}, plainly {plain:?}", of.name));
        }
        Verdict::Right(WorkloadLine {
            program: of.name.clone(),
            seconds: outcome.elapsed.as_secs_f64(),
            checksum: 0.0,
            ok: true,
            p99_ms: None,
        })
    }

    /// How long a run may take. Of real programs: a multiple of what they take one after the other on all CPUs.
    fn limit(&self, mix: &Mix) -> Result<Duration> {
        if mix.members.iter().all(|of| of.program.recipe.is_none()) {
            return Ok(limit(&self.method, self.cpus.len(), mix.members.len()));
        }
        let mut seconds = 0.0;
        for Member { program, .. } in &mix.members {
            seconds += self.calibrated(program, mix.runtime)?.alone.seconds;
        }
        let least = self.method.work_s;
        Ok(Duration::from_secs_f64(
            self.method.patience * seconds.max(least),
        ))
    }

    /// Chooses the steps of a program so that it takes the calibrated time alone on the fair share of one of two
    /// programs, and keeps the result that it comes to. A real program runs once, with all CPUs.
    pub(crate) fn calibrate(&mut self, program: &Program, runtime: Runtime) -> Result<Calibrated> {
        self.workloads.compile(program, runtime)?;
        let (first_steps, work_s) = (program.first_steps.get(), self.method.work_s);
        let found = match program.recipe {
            Some(_) => Calibrated {
                steps: first_steps,
                alone: self.alone(program, runtime, first_steps)?,
            },
            None => calibrate(&program.name, first_steps, work_s, |steps| {
                self.alone(program, runtime, steps)
            })?,
        };
        let built = (program.name.clone(), runtime);
        let work = (built.clone(), found.steps);
        self.checksums.insert(work, found.alone.checksum);
        self.work.insert(built, found);
        Ok(found)
    }

    fn alone(&mut self, program: &Program, runtime: Runtime, steps: u64) -> Result<Alone> {
        let folder = self.folder_for(program)?;
        let (programs, setting) = match folder {
            // Other work then falsifies its time least.
            Some(_) => (1, "passive"),
            None => (2, "static"),
        };
        let shares = fair_division(&self.cpus, programs);
        let share = shares.first().context("no share for a program")?;
        let setting = Setting::find(setting)?;
        let mut launch = self.launch((program, runtime), steps, &setting, share, None)?;
        folder.iter().for_each(|of| launch.run_in(of.path()));
        let limit = limit(&self.method, self.cpus.len(), 1) * 10;
        let limit = limit.max(LEAST_PATIENCE);
        let outcomes = run_side_by_side(vec![launch], limit, &self.interrupt)?;
        let outcome = outcomes.first().context("a run without an outcome")?;
        match self.judge(program, outcome, folder.as_ref()) {
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
fn check_launcher(outcome: &Outcome, daemon: Option<&PrivateDaemon>) -> Result<()> {
    if let Some(daemon) = daemon.filter(|_| outcome.ending == Ending::Exited(LAUNCHER_FAILED)) {
        let (reason, log) = (outcome.stderr.trim(), daemon.log());
        bail!("mapper-launch failed: {reason}\nthe daemon's log:\n{log}");
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
    use crate::run::processes::PRINTED;

    const LINE: &str = "{\"program\":\"server\",\"seconds\":0.1,\"checksum\":7.0,\"ok\":true,\
                        \"p99_ms\":2.5}";

    fn stage() -> Stage {
        Stage {
            workloads: Workloads::new(None, None).unwrap(),
            method: experiment("live").method,
            cpus: vec![0, 1],
            beyond_caches_mib: 64,
            daemons: BTreeMap::new(),
            dlb: None,
            interrupt: Interrupt::default(),
            work: BTreeMap::new(),
            checksums: BTreeMap::new(),
            results: BTreeMap::new(),
        }
    }

    fn outcome(ending: Ending, stdout: &str) -> Outcome {
        Outcome {
            elapsed: Duration::from_millis(100),
            ending,
            stdout: stdout.to_owned(),
            stderr: String::new(),
        }
    }

    fn server(ending: Ending, stdout: &str) -> Result<RunCost, String> {
        let mix = Mix::parse("server+md").unwrap();
        let mut stage = stage();
        let built = ("server".to_owned(), Runtime::Libgomp);
        let alone = Alone {
            seconds: 0.1,
            around: Duration::ZERO,
            checksum: 7.0,
        };
        let calibrated = Calibrated { steps: 3, alone };
        stage.work.insert(built.clone(), calibrated);
        stage.checksums.insert((built, 3), 7.0);
        let outcome = outcome(ending, stdout);
        stage.cost(&mix, &mix.members[0], &outcome, None)
    }

    #[test]
    fn a_real_program_is_held_to_its_first_result_and_to_its_time_alone() {
        let mut stage = stage();
        let mut mix = Mix::parse("zstd+xz").unwrap();
        for member in &mut mix.members {
            let recipe = member.program.recipe.as_mut().unwrap();
            recipe.result = "cat".to_owned();
            let alone = Alone {
                seconds: 2.0,
                around: Duration::ZERO,
                checksum: 0.0,
            };
            let built = (member.program.name.clone(), Runtime::Libgomp);
            stage.work.insert(built, Calibrated { steps: 1, alone });
        }
        let folder = tempfile::tempdir().unwrap();
        let mut cost = |ending, printed: &str| {
            std::fs::write(folder.path().join(PRINTED), printed).unwrap();
            let outcome = outcome(ending, "");
            stage.cost(&mix, &mix.members[0], &outcome, Some(&folder))
        };
        let ended = Ending::Exited(0);
        for printed in ["right", "right"] {
            assert_eq!(cost(ended, printed), Ok(RunCost::Exact(0.1)));
        }
        for (ending, printed, named) in [
            (ended, "other", "other"),
            (ended, "", "zstd"),
            (Ending::Exited(3), "right", "status 3"),
            (Ending::Signalled(11), "right", "signal 11"),
        ] {
            let error = cost(ending, printed).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        // Patience is 4, and both take 2 s.
        assert_eq!(cost(Ending::TimedOut, ""), Ok(RunCost::Limit(16.0)));
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
        let method = experiment("live").method;
        for cpus in [2, 4, 8, 64] {
            for programs in 2..=8_u32 {
                let fair_s = 0.7 * f64::from(programs) / 2.0;
                let found = limit(&method, cpus, programs as usize).as_secs_f64();
                let is_fair = (found - 4.0 * fair_s).abs() < 1e-6;
                assert!(is_fair, "{cpus} CPUs, {programs} programs: {found} s");
            }
        }
        assert_eq!(limit(&method, 1, 2), Duration::from_secs_f64(4.0 * 1.4));
        assert_eq!(limit(&method, 8, 1), Duration::from_secs_f64(4.0 * 0.7));
    }

    const MD_LINE: &str =
        "{\"program\":\"md\",\"seconds\":2.5,\"threads\":2,\"checksum\":7.5,\"ok\":true}\n";

    #[test]
    fn only_the_program_itself_can_say_that_it_is_right_and_one_without_end_is_not_wrong() {
        for (ending, stdout, wanted) in [
            (Ending::Exited(0), MD_LINE, "7.5"),
            (Ending::Exited(1), MD_LINE, "wrong"),
            (Ending::Signalled(11), MD_LINE, "wrong"),
            (Ending::Exited(0), "", "wrong"),
            (Ending::Exited(0), "{\"program\":\"md\"}", "wrong"),
            (
                Ending::Exited(0),
                &MD_LINE.replace("true", "false"),
                "wrong",
            ),
            (Ending::Exited(0), &MD_LINE.replace("md", "cg"), "wrong"),
            (Ending::TimedOut, "", "no end"),
        ] {
            let outcome = Outcome {
                elapsed: Duration::from_secs(1),
                ending,
                stdout: stdout.to_owned(),
                stderr: String::new(),
            };
            let found = match judge("md", &outcome) {
                Verdict::Right(line) => line.checksum.to_string(),
                Verdict::Wrong(_) => "wrong".to_owned(),
                Verdict::TimedOut => "no end".to_owned(),
            };
            assert_eq!(found, wanted, "{ending:?} {stdout:?}");
        }
    }
}
