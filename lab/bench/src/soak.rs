//! `cargo xtask soak`: does a daemon that runs for long grow?
//!
//! A private daemon with the shortest interval is kept busy by the load of `experiments/soak.toml`, and by clients
//! that connect and send nothing, or nonsense. The time is divided into rounds. At the end of each everything has
//! left, and the daemon's memory, descriptors and threads are noted: whatever an application leaves behind adds up
//! from round to round. The first rounds are not counted, as an allocator takes what it will need.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::build::build_mapper;
use crate::build::workloads::compile_probe;
use crate::data::{Ending, FigureExperiment, LoadProgram};
use crate::evaluate::results::of_figures;
use crate::probe::process;
use crate::result::Figure;
use crate::run::daemon::PrivateDaemon;
use crate::run::processes::{EndedOnDrop, terminate};
use crate::show::publish::{Outputs, publish_figures};

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

const ROUNDS: u32 = 20;

/// The first ones, in which the daemon takes what it will need.
const WARMING_UP: usize = 3;

const AT_A_TIME: usize = 6;

/// The exit status of a launcher that could not start its program under the daemon.
const LAUNCH_FAILED: i32 = 125;

/// How long the daemon may list a program after its end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the daemon holds when nothing is managed.
#[derive(Clone, Copy, Debug)]
struct Holding {
    /// `RssAnon`, and the pages that it shares with programs, `RssShmem`.
    own_kib: u64,
    resident_kib: u64,
    descriptors: usize,
    threads: u64,
}

impl Holding {
    fn of(pid: u32) -> anyhow::Result<Self> {
        let status = process::status(pid)?;
        let own_kib = status.rssanon.zip(status.rssshmem);
        let (anonymous_kib, shared_kib) = own_kib.context("no RssAnon and RssShmem")?;
        Ok(Self {
            own_kib: anonymous_kib + shared_kib,
            resident_kib: status.vmrss.context("no VmRSS")?,
            descriptors: process::open_descriptors(pid)?,
            threads: status.threads,
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let experiment = FigureExperiment::find("soak")?;
    let bin = build_mapper()?;
    let crowd = compile_probe("crowd")?;
    let daemon = PrivateDaemon::start(&bin, &["--interval", "20ms", "--counters", &args.counters])?;
    let begun = Instant::now();
    let round = Duration::from_secs(args.minutes * 60) / ROUNDS;
    let mut load = Load {
        daemon: &daemon,
        crowd: &crowd,
        programs: &experiment.load,
        running: Vec::new(),
        started: 0,
    };
    let mut holdings = Vec::new();
    for number in 1..=ROUNDS {
        load.busy_for(round)?;
        load.all_leave()?;
        let holding = Holding::of(daemon.pid())?;
        let (own_kib, resident_kib) = (holding.own_kib, holding.resident_kib);
        let memory = format!("memory {resident_kib} KiB ({own_kib} KiB of its own)");
        let (descriptors, threads) = (holding.descriptors, holding.threads);
        let held = format!("{memory}, {descriptors} descriptors, {threads} threads");
        let started = load.started;
        println!("round {number} of {ROUNDS}: {started} programs so far, {held}");
        holdings.push(holding);
    }
    let figures = figures(&holdings[WARMING_UP..])?;
    let results = of_figures(&experiment, "soak", figures, |_| true, begun.elapsed());
    publish_figures(Outputs::default(), &results)?;
    let started = load.started;
    println!("nothing has grown, with {started} programs come and gone");
    Ok(())
}

fn figures(holdings: &[Holding]) -> anyhow::Result<Vec<Figure>> {
    let (Some(first), Some(last)) = (holdings.first(), holdings.last()) else {
        bail!("no round was measured");
    };
    let third = holdings.len().div_ceil(3);
    let level = |part: &[Holding]| {
        let mut values: Vec<u64> = part.iter().map(|of| of.own_kib).collect();
        values.sort_unstable();
        values[values.len() / 2] as f64
    };
    let growth = level(&holdings[holdings.len() - third..]) - level(&holdings[..third]);
    let descriptors = last.descriptors.abs_diff(first.descriptors) as f64;
    let threads = last.threads.abs_diff(first.threads) as f64;
    Ok(vec![
        Figure::of("growth of memory", "KiB", &[growth])?,
        Figure::of("change of descriptors", "descriptors", &[descriptors])?,
        Figure::of("change of threads", "threads", &[threads])?,
    ])
}

struct Load<'a> {
    daemon: &'a PrivateDaemon,
    crowd: &'a Path,
    programs: &'a [LoadProgram],
    running: Vec<Running>,
    started: usize,
}

/// A launcher, and when its program is ended.
struct Running {
    launcher: EndedOnDrop,
    until: Instant,
    ending: Ending,
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

    /// Starts a program; which one follows from its number, so that every run is the same mixture.
    fn start_next(&mut self) -> anyhow::Result<()> {
        let number = self.started;
        self.started += 1;
        let program = &self.programs[number % self.programs.len()];
        let mut command = self.daemon.launch(&[]);
        command.args(&program.options).arg("--");
        for word in &program.words {
            match word.as_str() {
                "crowd" => command.arg(self.crowd),
                "THREADS" => command.arg((1 + number % 7).to_string()),
                word => command.arg(word),
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let launcher = command.stderr(Stdio::null()).spawn();
        self.running.push(Running {
            launcher: EndedOnDrop(launcher.context("start mapper-launch")?),
            until: Instant::now() + Duration::from_millis(60 + number as u64 * 37 % 400),
            ending: program.ending,
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

    fn end_those_due(&mut self, now: Instant) -> anyhow::Result<()> {
        for place in (0..self.running.len()).rev() {
            let of = &mut self.running[place];
            let launcher = &mut of.launcher.0;
            match of.ending {
                Ending::Terminated if of.until <= now => terminate(launcher),
                Ending::LauncherKilled if of.until <= now => {
                    launcher.kill().context("kill mapper-launch")?;
                }
                _ => {}
            }
            let ended = launcher.try_wait();
            if let Some(status) = ended.context("wait for mapper-launch")? {
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
        self.running.clear();
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A connection of its own: one that is kept would be a descriptor of the daemon's.
            let apps = self.daemon.status(PATIENCE)?.apps;
            if apps.is_empty() {
                // Connections that were closed, and what is saved of the last departure.
                std::thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{} applications are listed {PATIENCE:?} after the last has ended",
                apps.len()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::judge;

    fn holdings(memory_kib: impl Fn(u64) -> u64) -> Vec<Holding> {
        let holding = |own_kib| Holding {
            own_kib,
            resident_kib: 9000,
            descriptors: 12,
            threads: 2,
        };
        (0..17).map(|round| holding(memory_kib(round))).collect()
    }

    /// What has grown, as the experiment judges it.
    fn grown(holdings: &[Holding]) -> Vec<String> {
        let figures = figures(holdings).unwrap();
        let experiment = FigureExperiment::find("soak").unwrap();
        let judged = judge::figures(&experiment, &figures, |_| true);
        let grown = judged.into_iter().filter(|of| !of.is_met);
        grown.map(|of| of.name).collect()
    }

    #[test]
    fn memory_may_vary_around_a_level_and_nothing_may_add_up() {
        for memory_kib in [|_| 4000, |round| 4000 + round % 3 * 400] {
            assert_eq!(grown(&holdings(memory_kib)), [""; 0]);
        }
        // One round that was measured at a bad moment.
        let late = |round| if round == 16 { 9000 } else { 4000 };
        assert_eq!(grown(&holdings(late)), [""; 0]);
        let leaking = holdings(|round| 4000 + round * 30);
        assert_eq!(grown(&leaking), ["growth of memory"]);
        // One descriptor more, and one thread less.
        let mut more = holdings(|_| 4000);
        more[16].descriptors = 13;
        assert_eq!(grown(&more), ["change of descriptors"]);
        let mut less = holdings(|_| 4000);
        less[16].threads = 1;
        assert_eq!(grown(&less), ["change of threads"]);
    }
}
