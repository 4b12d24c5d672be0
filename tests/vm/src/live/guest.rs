//! What runs in the guest: the check of the machine, then each mix in each setting.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mapper_control::Client;
use mapper_control::schema::AppStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::plan::{Plan, PlannedRun, Program, Setting};
use super::record::{
    CHECK, Check, CurvePoint, Decision, ProgramRun, Promise, RUN_BEGINS, RUN_ENDS, Records, Run,
    Sample, Scaling,
};

const SOCKET: &str = "/run/mapper/mapper.sock";
const UNIT: &str = "mapperd.service";
const CONFIGURATION: &str = "/etc/mapper/mapper.toml";
/// What the daemon remembers, so that no run learns from the one before.
const STATE: &str = "/var/lib/mapper";
const PROGRESS: &str = "/dev/shm";
const PATIENCE: Duration = Duration::from_secs(5);
/// How long each step of the check is, after a beginning that does not count.
const CHECK_FOR: Duration = Duration::from_secs(4);
const CHECK_AFTER: Duration = Duration::from_millis(500);
/// Steps of a short iteration, of which hundreds fit into a second.
const SHORT: f64 = 1e6;
/// CPU time of the iteration by which the check judges how one program scales.
const LONG_MS: f64 = 220.0;
/// Classes of latency of `progress.h`.
const CLASSES: usize = 128;
/// By how much independent programs and one program with several threads may miss what is expected.
const MOST_UNEQUAL: f64 = 0.03;
const MOST_LOSS: f64 = 0.05;

/// Carries out the plan in one file and writes the records into another.
pub(super) fn run(plan: &Path, records: &Path) -> Result<()> {
    let text = fs::read_to_string(plan).with_context(|| format!("read {}", plan.display()))?;
    let plan: Plan = serde_json::from_str(&text).context("read the plan")?;
    let cpus = std::thread::available_parallelism()?.get();
    let cpus = u32::try_from(cpus).context("count CPUs")?;
    let bench = Bench { cpus };
    bench.systemctl(&["stop", UNIT])?;
    println!("{CHECK}");
    let check = bench.check()?;
    let mut all = Records {
        check: check.clone(),
        runs: Vec::new(),
    };
    let write = |all: &Records| -> Result<()> {
        let text = serde_json::to_string(all)?;
        fs::write(records, text).with_context(|| format!("write {}", records.display()))
    };
    write(&all)?;
    let (unequal, loss) = (100.0 * check.unequal(), 100.0 * check.loss());
    println!(
        "independent programs differ by {unequal:.1} % at most; one program is {loss:.1} % off its speed"
    );
    let passed = check.unequal() <= MOST_UNEQUAL && check.loss() <= MOST_LOSS;
    ensure!(
        passed || plan.unchecked,
        "the guest is not consistent: at most {:.0} % and {:.0} % are allowed; repeat it on a host that does nothing else",
        100.0 * MOST_UNEQUAL,
        100.0 * MOST_LOSS
    );
    for (number, planned) in plan.runs.iter().enumerate() {
        println!(
            "{RUN_BEGINS}{number} {}: {}",
            planned.mix.name, planned.setting
        );
        all.runs
            .push(bench.run(&plan, planned, check.steps_per_s())?);
        println!("{RUN_ENDS}{number}");
        write(&all)?;
    }
    Ok(())
}

struct Bench {
    cpus: u32,
}

/// A program that runs, and the file in which it counts.
struct Running {
    name: String,
    child: Child,
    progress: PathBuf,
}

impl Running {
    fn start(command: &mut Command, name: &str) -> Result<Self> {
        let progress = Path::new(PROGRESS).join(name);
        let _ = fs::remove_file(&progress);
        command
            .arg(&progress)
            .env("OMP_WAIT_POLICY", "passive")
            .env("GOMP_SPINCOUNT", "0");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            progress,
        })
    }

    /// What it has done; nothing before it has begun.
    fn sample(&mut self, begun: Instant) -> Result<Sample> {
        let ended = self.child.try_wait().with_context(|| self.name.clone())?;
        ensure!(ended.is_none(), "{} has ended: {ended:?}", self.name);
        let mut sample = Sample {
            at_s: begun.elapsed().as_secs_f64(),
            ..Sample::default()
        };
        let mut page = [0; 8 * (2 + CLASSES)];
        let read = fs::File::open(&self.progress).and_then(|file| file.read_exact_at(&mut page, 0));
        if read.is_err() {
            return Ok(sample);
        }
        let words = page
            .as_chunks()
            .0
            .iter()
            .map(|&word| u64::from_ne_bytes(word));
        let words: Vec<u64> = words.collect();
        (sample.done, sample.done_at_ns) = (words[0], words[1]);
        let last = words.iter().skip(2).rposition(|&count| count > 0);
        sample.latency = words[2..][..last.map_or(0, |last| last + 1)].to_vec();
        Ok(sample)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let _ = kill(pid, Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Bench {
    fn systemctl(&self, arguments: &[&str]) -> Result<()> {
        let status = Command::new("systemctl").args(arguments).status();
        ensure!(
            status.context("run systemctl")?.success(),
            "systemctl {arguments:?} failed"
        );
        Ok(())
    }

    /// A program without its file; `before` are words before it.
    fn command(&self, program: &Program, steps_per_s: f64, before: &[String]) -> Command {
        let path = Path::new("/payload/programs").join(&program.program);
        let words = before.iter().cloned().chain([path.display().to_string()]);
        let mut words = words.collect::<Vec<_>>().into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        let steps = steps_per_s * program.cpu_ms / 1e3;
        command.args(words).args(["--work", &format!("{steps:.0}")]);
        command.args(&program.options);
        command
    }

    fn check(&self) -> Result<Check> {
        let kernel = |steps: f64, before: &[String]| {
            let program = Program {
                program: "kernel".to_owned(),
                cpu_ms: 1e3,
                options: Vec::new(),
            };
            self.command(&program, steps, before)
        };
        let mut all = Vec::new();
        for cpu in 0..self.cpus {
            let pinned = ["taskset".to_owned(), "-c".to_owned(), cpu.to_string()];
            let mut command = kernel(SHORT, &pinned);
            command.env("OMP_NUM_THREADS", "1");
            all.push(Running::start(&mut command, &format!("check-{cpu}"))?);
        }
        let independent = speeds(&mut all)?
            .into_iter()
            .map(|speed| speed * SHORT)
            .collect();
        drop(all);
        let mut check = Check {
            independent,
            scaling: Vec::new(),
        };
        let mut alone = None;
        for threads in [1, self.cpus / 2, self.cpus] {
            let mut command = kernel(check.steps_per_s() * LONG_MS / 1e3, &[]);
            command
                .env("OMP_NUM_THREADS", threads.to_string())
                .env("OMP_PROC_BIND", "true");
            let speed = speeds(&mut [Running::start(&mut command, "check")?])?;
            let alone = *alone.get_or_insert(speed[0]);
            check.scaling.push(Scaling {
                threads,
                speedup: speed[0] / alone,
            });
        }
        Ok(check)
    }

    /// The CPUs of one of several programs that share them equally.
    fn share(&self, number: usize, programs: usize) -> [u32; 2] {
        let bound = |number: usize| {
            u32::try_from(number).unwrap_or(0) * self.cpus / u32::try_from(programs).unwrap_or(1)
        };
        let first = bound(number).min(self.cpus - 1);
        [first, bound(number + 1).max(first + 1) - 1]
    }

    fn prepare(&self, setting: &Setting) -> Result<()> {
        self.systemctl(&["stop", UNIT])?;
        if let Setting::Mapper { policy, .. } = setting {
            for entry in fs::read_dir(STATE).into_iter().flatten().flatten() {
                let _ = fs::remove_file(entry.path());
            }
            fs::write(CONFIGURATION, format!("allocation = \"{policy}\"\n"))
                .context("write the configuration")?;
            self.systemctl(&["start", UNIT])?;
        }
        Ok(())
    }

    fn run(&self, plan: &Plan, planned: &PlannedRun, steps_per_s: f64) -> Result<Run> {
        let PlannedRun { mix, setting } = planned;
        self.prepare(setting)?;
        let names = mix.named();
        let mut running: Vec<Option<Running>> = names.iter().map(|_| None).collect();
        let mut seen: Vec<_> = names
            .iter()
            .zip(&mix.programs)
            .map(|(name, member)| ProgramRun {
                name: name.clone(),
                member: member.clone(),
                samples: Vec::new(),
                promise: None,
            })
            .collect();
        let begun = Instant::now();
        for second in 0..plan.seconds {
            for (at, member) in mix.programs.iter().enumerate() {
                if member.from_s == second {
                    let program = &plan.programs[&member.program];
                    let mut before = Vec::new();
                    let mut threads = None;
                    match setting {
                        Setting::Plain => {}
                        Setting::Static => {
                            let [first, last] = self.share(at, names.len());
                            before.extend([
                                "taskset".to_owned(),
                                "-c".to_owned(),
                                format!("{first}-{last}"),
                            ]);
                            threads = Some(last - first + 1);
                        }
                        Setting::Mapper { teams, .. } => {
                            before
                                .extend(["mapper-launch", "--name", &names[at]].map(str::to_owned));
                            if teams != "default" {
                                before.extend(["--teams".to_owned(), teams.clone()]);
                            }
                            before.push("--".to_owned());
                        }
                    }
                    let mut command = self.command(program, steps_per_s, &before);
                    if let Some(threads) = threads {
                        command.env("OMP_NUM_THREADS", threads.to_string());
                    }
                    running[at] = Some(Running::start(&mut command, &names[at])?);
                }
                if member.until_s == Some(second) {
                    if setting.is_mapper() {
                        seen[at].promise = promise(&names[at]);
                    }
                    running[at] = None;
                }
            }
            let until = begun + Duration::from_secs(u64::from(second) + 1);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            let mut decisions = match setting {
                Setting::Mapper { .. } => said().unwrap_or_default(),
                _ => Vec::new(),
            };
            for (seen, running) in seen.iter_mut().zip(&mut running) {
                if let Some(running) = running {
                    let mut sample = running.sample(begun)?;
                    let at = decisions.iter().position(|said| said.name == seen.name);
                    sample.decision = at.map(|at| decisions.swap_remove(at).decision);
                    seen.samples.push(sample);
                }
            }
        }
        for (seen, running) in seen.iter_mut().zip(running) {
            if running.is_some() && setting.is_mapper() {
                seen.promise = promise(&seen.name);
            }
        }
        Ok(Run {
            mix: mix.name.clone(),
            setting: setting.clone(),
            programs: seen,
            uneven: None,
        })
    }
}

/// What each of them does in a second, over the same time.
fn speeds(all: &mut [Running]) -> Result<Vec<f64>> {
    let begun = Instant::now();
    std::thread::sleep(CHECK_AFTER);
    let mut sample = || {
        all.iter_mut()
            .map(|one| one.sample(begun))
            .collect::<Result<Vec<_>>>()
    };
    let first = sample()?;
    std::thread::sleep(CHECK_FOR);
    let speeds = first
        .iter()
        .zip(sample()?)
        .map(|(first, last)| first.speed_until(&last).unwrap_or(f64::NAN));
    Ok(speeds.collect())
}

/// What mapper says of one application.
struct Said {
    name: String,
    decision: Decision,
}

/// Of all of them, at this moment.
fn said() -> Result<Vec<Said>> {
    let mut client = Client::connect(Path::new(SOCKET), PATIENCE)?;
    let apps = client.status()?.apps;
    let of = |app: AppStatus| {
        let name = app.name.to_string();
        let explained = client.explain(&name)?;
        let curve = explained.curve.iter().map(|entry| CurvePoint {
            cpus: entry.cpus,
            level: entry.performance,
            samples: entry.samples,
        });
        let decision = Decision {
            cpus: app.cpu_count,
            state: app.state,
            sentence: app.sentence,
            performance: app.performance.map(|performance| performance.value),
            floor: app.floor,
            spare_cpus: explained.spare_cpus,
            curve: curve.collect(),
        };
        Ok(Said { name, decision })
    };
    apps.into_iter().map(of).collect()
}

/// How it has fared; nothing where the daemon does not say.
fn promise(name: &str) -> Option<Promise> {
    let mut client = Client::connect(Path::new(SOCKET), PATIENCE).ok()?;
    let apps = client.status().ok()?.apps;
    let app = apps.iter().find(|app| app.name.to_string() == name)?;
    let account = client.report(app.id).ok()?.account;
    Some(Promise {
        judged: account.judged_intervals,
        below: account.violations,
        achieved: account.achieved,
    })
}
