//! A daemon that runs for long under control groups and systemd does not grow, and leaves nothing behind.
//!
//! Programs come and go in all the ways there are: launched, launched in vain, left by a launcher that is
//! killed, adopted and released, adopted until they end, and a unit that is adopted through systemd. The
//! time ([`SECONDS`] unless `MAPPER_SOAK_SECONDS` says otherwise) is divided into rounds, at the end of each
//! of which everybody has left:
//!
//! - groups, descriptors that systemd keeps and shared pages in any process have to be as many as after the
//!   first round, the daemon's own descriptors and threads no more;
//! - in the rounds in which one daemon runs on, the level of its memory may not rise by more than
//!   [`MOST_GROWTH_KIB`];
//! - in the last rounds the daemon is killed or restarted, by turns, while programs run and one is adopted.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::adopting::{Service, WITH_CHILD, kill_daemon, mapperctl};
use crate::application::launch;
use crate::daemon::{UNIT, app_groups, main_pid, status, systemctl};
use crate::drop_in::DropIn;
use crate::kernel::{self, wait_for};
use crate::stress::{Held, held};
use crate::users::User;

/// How long, unless somebody wants more.
const SECONDS: u64 = 30;

/// Rounds with one daemon; the first is for what it takes once.
const STEADY_ROUNDS: u32 = 7;

/// Rounds in which it is ended.
const RESTARTED_ROUNDS: u32 = 4;

/// By how much the level of memory may rise from the first third of the rounds to the last.
const MOST_GROWTH_KIB: u64 = 256;

/// Programs at a time.
const AT_A_TIME: usize = 4;

/// The exit status of a launcher that found no daemon.
const LAUNCH_FAILED: i32 = 125;

/// What is there when nobody is.
#[derive(Debug)]
struct AtRest {
    held: Held,
    descriptors: usize,
    threads: usize,
}

impl AtRest {
    fn now() -> Result<Self> {
        let daemon = main_pid()?;
        let entries = |folder: &str| -> Result<usize> {
            let path = format!("/proc/{daemon}/{folder}");
            let entries = fs::read_dir(&path).with_context(|| format!("read {path}"))?;
            Ok(entries.count())
        };
        Ok(Self {
            held: held()?,
            descriptors: entries("fd")?,
            threads: entries("task")?,
        })
    }

    /// Threads that help out now and then end when they have had nothing to do for a while.
    fn is_no_more_than(&self, before: &Self) -> bool {
        self.held == before.held
            && self.descriptors <= before.descriptors
            && self.threads <= before.threads
    }

    /// Waits until nobody is managed, and there is no more than `before`.
    fn reached(before: Option<&Self>) -> Result<Self> {
        wait_for("everything to be given back", || {
            let apps = status()?["apps"].as_array().map_or(0, Vec::len);
            ensure!(apps == 0, "{apps} applications are known");
            let now = Self::now()?;
            ensure!(now.held.groups == 0, "{now:?}, {:?}", app_groups()?);
            if let Some(before) = before {
                ensure!(now.is_no_more_than(before), "{before:?} became {now:?}");
            }
            Ok(now)
        })
    }
}

/// Memory of the daemon's own, with the pages that it shares.
fn memory_kib() -> Result<u64> {
    let daemon = main_pid()?;
    let mut sum = 0;
    for field in ["RssAnon", "RssShmem"] {
        let text = kernel::status_field(Path::new(&format!("/proc/{daemon}/status")), field)?;
        let number = text.trim_end_matches("kB").trim();
        let kib: u64 = number
            .parse()
            .with_context(|| format!("{field} \"{text}\""))?;
        sum += kib;
    }
    Ok(sum)
}

/// Whether there is a daemon all the time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Steady,
    /// It is ended in each round, in this way.
    Ended(Ending),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Killed,
    Restarted,
}

/// What the daemon is kept busy with.
#[derive(Default)]
struct Load {
    /// Launchers and when they are killed, if they are.
    launchers: Vec<(Child, Option<Instant>)>,
    started: u32,
    launched: u32,
    adopted: u32,
}

impl Load {
    /// Starts something; what it is follows from its number, so that every run is the same mixture.
    fn start_next(&mut self, presence: Presence) -> Result<()> {
        let number = self.started;
        self.started += 1;
        let launcher = match number % 6 {
            0 => self.launcher(&[], &["true"])?,
            1 => self.launcher(&["--no-runtime"], &["sleep", "0.3"])?,
            2 => self.launcher(&["--qos", "0.5"], &["/no/such/program"])?,
            3 => self.launcher(&["--name", "orphan"], &["sleep", "0.5"])?,
            kind => {
                let adopted = Stranger::start()?.adopt(kind == 4);
                return match (adopted, presence) {
                    (Ok(()), _) => {
                        self.adopted += 1;
                        Ok(())
                    }
                    (Err(error), Presence::Steady) => Err(error),
                    // Perhaps there was no daemon at that moment.
                    (Err(_), Presence::Ended(_)) => Ok(()),
                };
            }
        };
        let killed = (number % 6 == 3).then(|| Instant::now() + Duration::from_millis(300));
        self.launchers.push((launcher, killed));
        Ok(())
    }

    fn launcher(&self, options: &[&str], program: &[&str]) -> Result<Child> {
        let user = match self.started % 2 {
            0 => User::Root,
            _ => User::Alice,
        };
        launch(user, options, program)?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start mapper-launch")
    }

    /// Looks after those that run.
    fn look(&mut self, presence: Presence) -> Result<()> {
        for place in (0..self.launchers.len()).rev() {
            let (launcher, killed) = &mut self.launchers[place];
            if killed.is_some_and(|due| due <= Instant::now()) {
                launcher.kill().context("kill mapper-launch")?;
            }
            let ended = launcher.try_wait().context("wait for mapper-launch")?;
            if let Some(status) = ended {
                let turned_away = status.code() == Some(LAUNCH_FAILED);
                // A daemon that turns everybody away does not grow, either.
                ensure!(
                    !turned_away || presence != Presence::Steady,
                    "mapper-launch returned {status}"
                );
                self.launched += u32::from(!turned_away);
                self.launchers.swap_remove(place);
            }
        }
        Ok(())
    }

    fn busy_until(&mut self, end: Instant, presence: Presence) -> Result<()> {
        while Instant::now() < end {
            if self.launchers.len() < AT_A_TIME {
                self.start_next(presence)?;
            }
            self.look(presence)?;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// One round, at the end of which everybody has left.
    fn round(&mut self, length: Duration, presence: Presence, unit: &Service) -> Result<()> {
        let start = Instant::now();
        self.busy_until(start + length / 2, presence)?;
        if let Presence::Ended(ending) = presence {
            let stranger = Stranger::start()?;
            let (number, name) = (stranger.number(), stranger.name());
            mapperctl(User::Root, &["adopt", "--pid", &number, "--name", &name])?;
            match ending {
                Ending::Killed => kill_daemon()?,
                Ending::Restarted => drop(systemctl(&["restart", UNIT])?),
            }
            mapperctl(User::Root, &["release", &name])?;
        }
        mapperctl(User::Root, &["adopt", "--unit", unit.0, "--name", "unit"])?;
        self.busy_until(start + length, presence)?;
        mapperctl(User::Root, &["release", "unit"])?;
        wait_for("the launchers to end", || {
            self.look(presence)?;
            ensure!(self.launchers.is_empty(), "{} run", self.launchers.len());
            Ok(())
        })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for (launcher, _) in &mut self.launchers {
            let _ = launcher.kill();
            let _ = launcher.wait();
        }
    }
}

/// A program that runs without mapper. It ends with this.
struct Stranger(Child);

impl Stranger {
    fn start() -> Result<Self> {
        let child = User::Alice.command("sleep")?.arg("1000").spawn();
        Ok(Self(child.context("start sleep")?))
    }

    fn number(&self) -> String {
        self.0.id().to_string()
    }

    fn name(&self) -> String {
        format!("stranger-{}", self.number())
    }

    /// Has it adopted, and released again or ended.
    fn adopt(self, is_released: bool) -> Result<()> {
        let (number, name) = (self.number(), self.name());
        let adopt = ["adopt", "--pid", &number, "--name", &name];
        mapperctl(User::Root, &adopt)?;
        if is_released {
            mapperctl(User::Root, &["release", &name])?;
        }
        Ok(())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        let _ = kill(pid, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn length() -> Result<Duration> {
    let seconds = match std::env::var("MAPPER_SOAK_SECONDS") {
        Ok(text) => text
            .parse()
            .with_context(|| format!("MAPPER_SOAK_SECONDS={text}"))?,
        Err(_) => SECONDS,
    };
    Ok(Duration::from_secs(seconds))
}

/// The level of some rounds: whatever adds up raises the least of them, too.
fn level(memory_kib: &[u64]) -> u64 {
    memory_kib.iter().copied().min().unwrap_or(0)
}

pub(crate) fn nothing_grows_while_programs_are_launched_adopted_and_the_daemon_restarted()
-> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let unit = Service::start("soaked.service", &[], WITH_CHILD)?;
    let length = length()? / (STEADY_ROUNDS + RESTARTED_ROUNDS);
    let mut load = Load::default();
    load.round(length, Presence::Steady, &unit)?;
    let before = AtRest::reached(None)?;
    let mut memory = Vec::new();
    for _ in 1..STEADY_ROUNDS {
        load.round(length, Presence::Steady, &unit)?;
        AtRest::reached(Some(&before))?;
        memory.push(memory_kib()?);
    }
    let third = memory.len() / 3;
    let (first, last) = (
        level(&memory[..third]),
        level(&memory[memory.len() - third..]),
    );
    ensure!(
        last <= first + MOST_GROWTH_KIB,
        "{first} KiB of memory became {last} KiB: {memory:?}"
    );
    for number in 0..RESTARTED_ROUNDS {
        let ending = match number % 2 {
            0 => Ending::Killed,
            _ => Ending::Restarted,
        };
        load.round(length, Presence::Ended(ending), &unit)?;
        AtRest::reached(Some(&before))?;
    }
    println!(
        "# {} launched, {} adopted; memory after each round {memory:?} KiB; at rest {before:?}",
        load.launched, load.adopted
    );
    ensure!(
        load.launched >= 10 && load.adopted >= 5,
        "only {} launched and {} adopted",
        load.launched,
        load.adopted
    );
    Ok(())
}
