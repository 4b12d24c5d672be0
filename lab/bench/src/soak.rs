//! `cargo xtask soak`: does a daemon that runs for long grow?
//!
//! A private daemon with the shortest interval is kept busy: programs of a few threads come and go, some under a
//! launcher that is killed, some that cannot be started, and clients connect that send nothing, or nonsense. The time
//! is divided into rounds. At the end of each everything has left, and the daemon's memory, descriptors and
//! threads are noted: whatever an application leaves behind adds up from round to round. The first rounds are not
//! counted, as an allocator takes what it will need.
//!
//! - Descriptors and threads have to be as many as in the first counted round, exactly.
//! - Memory of its own (`RssAnon`, and the pages that it shares with programs, `RssShmem`) may vary by what an
//!   allocator keeps, so what is judged is its level: the median of the last third of the rounds may not be
//!   above that of the first third by more than [`MOST_GROWTH_KIB`].
//!   With some thousand programs gone by in between, that is a few bytes for each.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::build::workloads::compile_probe;
use crate::build::{Profile, build_mapper};
use crate::probe::process;
use crate::run::daemon::PrivateDaemon;

/// Keeps a daemon busy and fails if it grows
///
/// Programs come and go under a daemon that decides every 20 ms; memory, descriptors and threads have to
/// stay the same.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// What the daemon counts: auto, hardware or software
    #[arg(long, value_name = "KIND", default_value = "auto")]
    counters: String,
}

/// Rounds that the time is divided into.
const ROUNDS: u32 = 20;

/// The first ones, in which the daemon takes what it will need.
const WARMING_UP: usize = 3;

/// By how much the level of memory may differ between the first and the last third of the rounds.
const MOST_GROWTH_KIB: u64 = 256;

/// Programs at a time.
const AT_A_TIME: usize = 6;

/// What the daemon holds when nobody is there.
#[derive(Clone, Copy, Debug)]
struct Holding {
    own_kib: u64,
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Holding {
    fn of(pid: u32) -> anyhow::Result<Self> {
        Ok(Self {
            own_kib: process::memory_kib(pid, "RssAnon")? + process::memory_kib(pid, "RssShmem")?,
            resident_kib: process::memory_kib(pid, "VmRSS")?,
            descriptors: process::open_descriptors(pid)?,
            threads: process::threads(pid)?,
        })
    }
}

/// Runs `cargo xtask soak`.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let bin = build_mapper(Profile::Release)?;
    let crowd = compile_probe("crowd")?;
    let daemon = PrivateDaemon::start(&bin, &["--interval", "20ms", "--counters", &args.counters])?;
    let round = Duration::from_secs(args.minutes * 60) / ROUNDS;
    let mut load = Load {
        daemon: &daemon,
        crowd: &crowd,
        running: Vec::new(),
        started: 0,
    };
    let mut holdings = Vec::new();
    for number in 1..=ROUNDS {
        load.busy_for(round)?;
        load.all_leave()?;
        let holding = Holding::of(daemon.pid())?;
        println!(
            "round {number} of {ROUNDS}: {} programs so far, memory {} KiB ({} KiB of its own), {} descriptors, {} threads",
            load.started,
            holding.resident_kib,
            holding.own_kib,
            holding.descriptors,
            holding.threads
        );
        holdings.push(holding);
    }
    judge(&holdings[WARMING_UP..])?;
    println!(
        "nothing has grown, with {} programs come and gone",
        load.started
    );
    Ok(())
}

/// Whether the rounds show no growth.
fn judge(holdings: &[Holding]) -> anyhow::Result<()> {
    let (Some(first), Some(last)) = (holdings.first(), holdings.last()) else {
        bail!("no round was measured");
    };
    ensure!(
        last.descriptors == first.descriptors,
        "{} descriptors became {}",
        first.descriptors,
        last.descriptors
    );
    ensure!(
        last.threads == first.threads,
        "{} threads became {}",
        first.threads,
        last.threads
    );
    let third = holdings.len().div_ceil(3);
    let level = |part: &[Holding]| {
        let mut values: Vec<u64> = part.iter().map(|holding| holding.own_kib).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (before, after) = (
        level(&holdings[..third]),
        level(&holdings[holdings.len() - third..]),
    );
    ensure!(
        after <= before + MOST_GROWTH_KIB,
        "{before} KiB of memory became {after} KiB; {MOST_GROWTH_KIB} KiB more would be no growth"
    );
    Ok(())
}

/// The exit status of a launcher that could not start its program under the daemon.
const LAUNCH_FAILED: i32 = 125;

/// What the daemon is kept busy with.
struct Load<'a> {
    daemon: &'a PrivateDaemon,
    crowd: &'a Path,
    running: Vec<Running>,
    started: u64,
}

/// A launcher, and when its program is ended.
struct Running {
    launcher: Child,
    until: Instant,
    ending: Ending,
}

/// How a program comes to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Its launcher gets SIGTERM.
    Terminated,
    /// Its launcher is killed; it runs on and ends by itself.
    LauncherKilled,
    /// It ends by itself, or could not be started.
    ByItself,
}

impl Load<'_> {
    fn busy_for(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            while self.running.len() < AT_A_TIME {
                self.start_next()?;
            }
            self.end_those_due(Instant::now())?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Starts a program; which kind follows from its number, so that every run is the same mixture.
    fn start_next(&mut self) -> anyhow::Result<()> {
        let number = self.started;
        self.started += 1;
        let threads = (1 + number % 7).to_string();
        let mut command = match number % 8 {
            0 => self.launch(&["--name", "short"], Path::new("/bin/true"), &[]),
            1 => self.launch(
                &["--teams", "virtual"],
                self.crowd,
                &["work", &threads, "3000000"],
            ),
            2 => self.launch(&["--qos", "0.5"], Path::new("/no/such/program"), &[]),
            3 => self.launch(
                &["--no-runtime"],
                self.crowd,
                &["work", &threads, "100000000"],
            ),
            _ => self.launch(&["--weight", "2"], self.crowd, &["sleep", &threads, "500"]),
        };
        let ending = match number % 8 {
            0..3 => Ending::ByItself,
            3 => Ending::LauncherKilled,
            _ => Ending::Terminated,
        };
        let launcher = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start mapper-launch")?;
        self.running.push(Running {
            launcher,
            until: Instant::now() + Duration::from_millis(60 + number * 37 % 400),
            ending,
        });
        match number % 16 {
            // Says nothing and goes.
            5 => drop(UnixStream::connect(self.daemon.socket())?),
            11 => {
                let mut client = UnixStream::connect(self.daemon.socket())?;
                // The daemon may hang up at any point of this.
                let _ = client.write_all(b"{\"method\":\"nonsense\",\"parameters\":[1,2\0");
                let _ = client.write_all(&[0xff; 4096]);
            }
            _ => {}
        }
        Ok(())
    }

    fn launch(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.daemon.launch(options);
        command.arg("--").arg(program).args(arguments);
        command
    }

    fn end_those_due(&mut self, now: Instant) -> anyhow::Result<()> {
        for place in (0..self.running.len()).rev() {
            let due = self.running[place].until <= now;
            let running = &mut self.running[place];
            match running.ending {
                Ending::Terminated if due => running.terminate(),
                Ending::LauncherKilled if due => {
                    running.launcher.kill().context("kill mapper-launch")?;
                }
                _ => {}
            }
            let ended = running
                .launcher
                .try_wait()
                .context("wait for mapper-launch")?;
            if let Some(status) = ended {
                // A daemon that refuses every program does not grow, either.
                ensure!(
                    status.code() != Some(LAUNCH_FAILED),
                    "a program was not launched: mapper-launch ended with {LAUNCH_FAILED}"
                );
                self.running.swap_remove(place);
            }
        }
        Ok(())
    }

    /// Ends every program and waits until the daemon knows it.
    fn all_leave(&mut self) -> anyhow::Result<()> {
        for mut running in self.running.drain(..) {
            running.end();
        }
        let patience = Duration::from_secs(30);
        let deadline = Instant::now() + patience;
        loop {
            // A connection of its own: one that is kept would be a descriptor of the daemon's.
            let mut client = mapper_control::Client::connect(&self.daemon.socket(), patience)?;
            let apps = client.status()?.apps;
            drop(client);
            if apps.is_empty() {
                // Connections that were closed, and what is saved of the last departure.
                std::thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "{} applications are listed {patience:?} after the last has ended",
                    apps.len()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Running {
    /// Passes SIGTERM to the program, by its launcher.
    fn terminate(&self) {
        // The child is ours and not waited for: the number is its own.
        let pid = nix::unistd::Pid::from_raw(self.launcher.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    }

    fn end(&mut self) {
        if matches!(self.launcher.try_wait(), Ok(None)) {
            self.terminate();
        }
        let _ = self.launcher.wait();
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        for running in &mut self.running {
            running.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holdings(memory_kib: impl Fn(u64) -> u64) -> Vec<Holding> {
        (0..17)
            .map(|round| Holding {
                own_kib: memory_kib(round),
                resident_kib: 9000,
                descriptors: 12,
                threads: 2,
            })
            .collect()
    }

    #[test]
    fn memory_that_varies_around_a_level_has_not_grown() {
        judge(&holdings(|_| 4000)).unwrap();
        judge(&holdings(|round| 4000 + round % 3 * 400)).unwrap();
        // One round that was measured at a bad moment.
        judge(&holdings(|round| if round == 16 { 9000 } else { 4000 })).unwrap();
    }

    #[test]
    fn memory_that_adds_up_from_round_to_round_is_a_leak() {
        let error = judge(&holdings(|round| 4000 + round * 30)).unwrap_err();
        assert!(
            error.to_string().contains("KiB of memory became"),
            "{error}"
        );
    }

    #[test]
    fn one_descriptor_or_thread_more_is_a_leak() {
        let mut more = holdings(|_| 4000);
        more[16].descriptors = 13;
        assert!(
            judge(&more)
                .unwrap_err()
                .to_string()
                .contains("12 descriptors became 13")
        );
        let mut more = holdings(|_| 4000);
        more[16].threads = 3;
        assert!(
            judge(&more)
                .unwrap_err()
                .to_string()
                .contains("2 threads became 3")
        );
    }
}
