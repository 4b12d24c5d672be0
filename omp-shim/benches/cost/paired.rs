//! The shim against the plain runtime, a batch of each in turn.
//!
//! *Problem.* A few nanoseconds are to be distinguished on a machine that does other things as well, whose
//! clock speed changes, and where the same program is faster or slower by some nanoseconds each time it
//! is started, as its pages and stacks happen to lie.
//!
//! *Approach.* Programs in every setting are started and wait for orders; each round orders a batch of a
//! fraction of a millisecond from each of them, in turn. What counts is the difference between a
//! setting's batch and the plain one of the same round: whatever changes slowly is in both. The median
//! over the rounds of several sets of programs is reported, and beside it the difference of the fastest
//! batches. One plain program more, compared like the others, shows what differs for no reason.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mapper_abi::TeamMode;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::harness::{Compiler, Page, Program};
use crate::report::{Verdict, median, quartile_distance};

/// Sets of programs that are started one after the other.
const SETS: usize = 8;
/// Rounds with each set.
const ROUNDS: usize = 60;

/// How a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Setting {
    /// Without the shim, once more.
    Control,
    /// With the shim, without a page.
    Inert,
    /// With a page, under `fixed`, on as many CPUs as it has threads.
    Fixed,
    /// Under `fixed`, with a page that says one CPU.
    Shrunk,
    /// Under `follow`, on as many CPUs as it has threads.
    Follow,
    /// Under `virtual`, on as many CPUs as it has threads.
    Virtual,
    /// The same of a program that virtual teams refuse.
    Refused,
}

impl Setting {
    pub(crate) const ALL: [Self; 7] = [
        Self::Control,
        Self::Inert,
        Self::Fixed,
        Self::Shrunk,
        Self::Follow,
        Self::Virtual,
        Self::Refused,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Control => "plain",
            Self::Inert => "inert",
            Self::Fixed => "fixed",
            Self::Shrunk => "shrunk",
            Self::Follow => "follow",
            Self::Virtual => "virtual",
            Self::Refused => "refused",
        }
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) compiler: Compiler,
    /// As `cost.c` calls it.
    pub(crate) construct: &'static str,
    pub(crate) threads: u32,
    /// Constructs in a batch.
    pub(crate) batch: u32,
    pub(crate) wanted: Wanted,
}

impl Subject {
    /// The settings in which as many threads work as in the plain program: `follow` and `virtual` give
    /// small regions fewer, `shrunk` parks one.
    fn settings(&self) -> &'static [Setting] {
        match self.threads {
            1 => &Setting::ALL,
            _ => &[
                Setting::Control,
                Setting::Inert,
                Setting::Fixed,
                Setting::Refused,
            ],
        }
    }
}

/// What the shim may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// So many nanoseconds more than the plain runtime, whatever the setting.
    AtMost(f64),
    /// No more than two plain programs differ.
    NotMeasurable,
    /// Nothing was said.
    Unsaid,
}

/// A batch, as the program says.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// Nanoseconds for each construct.
    each_ns: f64,
    /// What the thread with the fewest chunks had, over an even share.
    evenness: f64,
}

/// Less even batches are left out: a thread that had no CPU at the time did not compete for chunks.
const EVEN: f64 = 0.6;
/// With fewer pairs of even batches nothing is said.
const FEWEST_PAIRS: usize = 30;

/// A program that waits for orders.
struct Server {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    _page: Option<Page>,
}

impl Server {
    fn start(mut command: Command, page: Option<Page>, cpus: &[usize]) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut set = CpuSet::new();
        for &cpu in cpus {
            set.set(cpu);
        }
        // It starts its threads at the first order, so they inherit the set.
        sched_setaffinity(Pid::from_raw(child.id().cast_signed()), &set).unwrap();
        Self {
            child,
            orders,
            answers,
            _page: page,
        }
    }

    fn time(&mut self, construct: &str, batch: u32) -> Batch {
        writeln!(self.orders, "{construct} {batch}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let (each_ns, evenness) = line.trim().split_once(' ').unwrap();
        Batch {
            each_ns: each_ns.parse().unwrap(),
            evenness: evenness.parse().unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server(program: &Program, subject: &Subject, setting: Option<Setting>) -> Server {
    let threads = subject.threads.to_string();
    let cpus: Vec<usize> = (0..subject.threads as usize).collect();
    let (mut command, page) = match setting {
        None | Some(Setting::Control) => (program.plain_command(), None),
        Some(setting) => {
            let mut managed = program.managed();
            match setting {
                Setting::Inert => managed = managed.env("MAPPER_PAGE", "").env("MAPPER_DEBUG", "0"),
                Setting::Shrunk => {
                    managed.page.publish(1, TeamMode::Fixed);
                }
                Setting::Follow => managed = managed.following(subject.threads),
                Setting::Virtual | Setting::Refused => managed = managed.virtually(subject.threads),
                _ => {
                    managed.page.publish(subject.threads, TeamMode::Fixed);
                }
            }
            (managed.command, Some(managed.page))
        }
    };
    // A list of sizes for nested teams is one of the reasons for refusing virtual ones; binding, as below, another.
    let nested = match setting {
        Some(Setting::Refused) if subject.threads == 1 => ",1",
        _ => "",
    };
    command.env("OMP_NUM_THREADS", threads + nested);
    // As the launcher has them.
    command
        .env("GOMP_SPINCOUNT", "3000")
        .env("KMP_BLOCKTIME", "1");
    if subject.threads > 1 {
        // They stay on a CPU each.
        command.env("OMP_PROC_BIND", "true");
        command.env("OMP_PLACES", "threads");
    }
    Server::start(command, page, &cpus)
}

/// The batches of one setting beside the plain ones.
#[derive(Debug)]
struct Series {
    setting: Setting,
    differences: Vec<f64>,
    least: f64,
}

/// Times one subject in its settings and prints a line of medians and one of minima.
pub(crate) fn compare(label: &str, subject: &Subject) {
    let program = Program::new(subject.compiler, "../../benches/cost/cost.c");
    let mut plain = Vec::new();
    let mut all_series: Vec<Series> = subject
        .settings()
        .iter()
        .map(|&setting| Series {
            setting,
            differences: Vec::new(),
            least: f64::INFINITY,
        })
        .collect();
    for set in 0..SETS {
        let mut reference = server(&program, subject, None);
        let mut servers: Vec<Server> = all_series
            .iter()
            .map(|series| server(&program, subject, Some(series.setting)))
            .collect();
        for round in 0..ROUNDS {
            let base = reference.time(subject.construct, subject.batch);
            if base.evenness < EVEN {
                continue;
            }
            plain.push(base.each_ns);
            // Whoever comes after whom is different in each round.
            let count = servers.len();
            servers.rotate_left((round + set) % count);
            all_series.rotate_left((round + set) % count);
            for (server, series) in servers.iter_mut().zip(&mut all_series) {
                let batch = server.time(subject.construct, subject.batch);
                if batch.evenness >= EVEN {
                    series.differences.push(batch.each_ns - base.each_ns);
                    series.least = series.least.min(batch.each_ns);
                }
            }
        }
    }
    all_series.sort_by_key(|series| series.setting as usize);
    let pairs = all_series.iter().map(|series| series.differences.len());
    let pairs = pairs.min().unwrap_or(0);
    if pairs < FEWEST_PAIRS {
        println!("{label:30} the machine was too busy: both threads ran in {pairs} pairs only");
        return;
    }
    let least = plain.iter().copied().fold(f64::INFINITY, f64::min);
    let limit = match subject.wanted {
        Wanted::AtMost(limit) => Some(limit),
        Wanted::NotMeasurable => all_series.first().map(Series::noise),
        Wanted::Unsaid => None,
    };
    let missed: Vec<&str> = all_series
        .iter()
        .skip(1)
        .filter(|series| limit.is_some_and(|limit| series.median() > limit))
        .map(|series| series.setting.name())
        .collect();
    let verdict = match limit {
        None => Verdict::Unjudged,
        Some(_) if missed.is_empty() => Verdict::Met,
        Some(_) => Verdict::Missed(missed.join(", ")),
    };
    let wanted = limit.map_or(String::new(), |limit| format!("<= {limit:+.1}"));
    let column = |value: &dyn Fn(&Series) -> f64| {
        Setting::ALL.map(|setting| {
            all_series
                .iter()
                .find(|one| one.setting == setting)
                .map(value)
        })
    };
    let verdict = verdict.to_string();
    line(
        label,
        median(&plain),
        &column(&Series::median),
        &wanted,
        &verdict,
    );
    line(
        "    (fastest batches)",
        least,
        &column(&|series| series.least - least),
        "",
        "",
    );
}

impl Series {
    fn median(&self) -> f64 {
        median(&self.differences)
    }

    /// What two programs that do not differ differ by.
    fn noise(&self) -> f64 {
        self.median()
            .abs()
            .max(quartile_distance(&self.differences) / 2.0)
    }
}

fn line(label: &str, plain: f64, differences: &[Option<f64>], wanted: &str, verdict: &str) {
    print!("{label:30} {plain:9.2}");
    for difference in differences {
        match difference {
            Some(difference) => print!(" {difference:+8.2}"),
            None => print!(" {:>8}", "-"),
        }
    }
    println!("  {wanted:>8}  {verdict}");
}

/// The heading of the table that [`compare`] prints lines of.
pub(crate) fn heading() {
    println!("\nns, median of {} batches; more than that:", SETS * ROUNDS);
    print!("{:30} {:>9}", "", "plain");
    for setting in Setting::ALL {
        print!(" {:>8}", setting.name());
    }
    println!("  {:>8}", "wanted");
}

/// Times a construct of a virtual team on one CPU, which the plain runtime does not have. `storage` is a value of
/// `MAPPER_THREAD_STORAGE`.
pub(crate) fn on_one_cpu(
    (construct, batch): (&str, u32),
    threads: u32,
    storage: &str,
    limit: Option<f64>,
) -> Verdict {
    let times = times_on_one_cpu((construct, batch), threads, storage, &["-fopenmp"]);
    let median = median(&times);
    let verdict = Verdict::of(median, limit);
    println!(
        "virtual {construct}, {threads} on 1 CPU, {storage} storage: {}{}  {verdict}",
        described(&times),
        limit.map_or(String::new(), |limit| format!(", wanted <= {limit} ns")),
    );
    verdict
}

/// The same in a program that has tasks, which the shim expects in each region then.
pub(crate) fn with_tasks_on_one_cpu((construct, batch): (&str, u32), threads: u32) {
    let flags = ["-fopenmp", "-DTASKS"];
    let times = times_on_one_cpu((construct, batch), threads, "own", &flags);
    println!(
        "virtual {construct}, a program with tasks, {threads} on 1 CPU: {}",
        described(&times)
    );
}

fn described(times: &[f64]) -> String {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let median = median(times);
    format!("median {median:.1} ns, fastest batch {least:.1} ns")
}

fn times_on_one_cpu(
    (construct, batch): (&str, u32),
    threads: u32,
    storage: &str,
    flags: &[&str],
) -> Vec<f64> {
    let program = Program::with_flags(Compiler::Gcc, "../../benches/cost/cost.c", flags);
    let mut times = Vec::new();
    for _ in 0..SETS {
        let managed = program.managed().threads(threads).virtually(1);
        let managed = managed.env("MAPPER_THREAD_STORAGE", storage);
        let mut server = Server::start(managed.command, Some(managed.page), &[0]);
        times.extend((0..ROUNDS).map(|_| server.time(construct, batch).each_ns));
    }
    times
}
