//! What programs say of themselves changes who has how many CPUs.
//!
//! Two programs report pieces of work whose speed follows the CPUs they have, or does not. How fast
//! the emulated processors are does not come into it: see `programs/speaks.c`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::application::launch;
use crate::daemon::{output_of, status_of};
use crate::kernel::{online_cpus, wait_for, wait_long_for};
use crate::users::User;

/// How long it may take until the daemon, which decides each second and tries one count after another, has found
/// out who scales.
const LEARNING: Duration = Duration::from_secs(240);

/// CPUs of the programs of which one computes on all that it has: the host has two to emulate them.
const COMPUTING: u32 = 6;

/// How many times it is looked whether what was found stays.
const LOOKS: u32 = 5;

/// By what a program reports its progress.
#[derive(Clone, Copy)]
enum Report {
    Work,
    Latency,
}

impl Report {
    const fn word(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Latency => "latency",
        }
    }
}

/// What CPUs do for a program.
#[derive(Clone, Copy)]
enum Pieces {
    /// Each is divided among all CPUs, as it says, which hardly compute.
    Divided,
    /// Each is divided among all CPUs, which compute: others could not gain by more CPUs.
    Computed,
    /// None is.
    Whole,
}

impl Pieces {
    const fn word(self) -> &'static str {
        match self {
            Self::Divided => "divided",
            Self::Computed => "computed",
            Self::Whole => "whole",
        }
    }
}

/// A program that speaks to mapper by `libmapper` and ends with the test.
struct Speaker {
    name: &'static str,
    launcher: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Speaker {
    fn start(name: &'static str, report: Report, pieces: Pieces) -> Result<Self> {
        Self::start_as(User::Alice, name, &[], report, pieces)
    }

    /// The same for another user, with further options of mapper-launch.
    fn start_as(
        user: User,
        name: &'static str,
        options: &[&str],
        report: Report,
        pieces: Pieces,
    ) -> Result<Self> {
        let program = ["/usr/lib/mapper-tests/speaks", report.word(), pieces.word()];
        let options = [&["--name", name], options].concat();
        let mut launcher = launch(user, &options, &program)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start mapper-launch")?;
        let input = launcher.stdin.take();
        let output = launcher.stdout.take().context("it has no output")?;
        let mut speaker = Self {
            name,
            launcher,
            input,
            output: BufReader::new(output),
        };
        let said = speaker.line()?;
        ensure!(said.starts_with("ready "), "{name} said \"{said}\"");
        Ok(speaker)
    }

    /// One that keeps all CPUs but those that can be emulated for a program that computes.
    fn keeping_the_rest(report: Report) -> Result<Self> {
        let rest = (online_cpus()?.len() as u32).saturating_sub(COMPUTING);
        let rest = rest.to_string();
        let keeps = ["--no-resize", "--min-cpus", &rest, "--max-cpus", &rest];
        Self::start_as(User::Root, "rest", &keeps, report, Pieces::Whole)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .with_context(|| format!("hear from {}", self.name))?;
        Ok(line)
    }

    /// Has it say something to mapper.
    fn say(&mut self, what: &str) -> Result<()> {
        let input = self.input.as_mut().context("it has no input")?;
        writeln!(input, "{what}").with_context(|| format!("tell {}", self.name))?;
        let said = self.line()?;
        ensure!(said == "done\n", "{} said \"{said}\"", self.name);
        Ok(())
    }

    fn seen(&self) -> Result<Seen> {
        let status = status_of(self.name)?;
        let number = |key: &str| {
            status[key]
                .as_u64()
                .with_context(|| format!("{key} in {status}"))
        };
        Ok(Seen {
            cpus: number("cpu_count")?,
            fair: number("fair_cpus")?,
            status: status.clone(),
        })
    }

    /// What `mapperctl explain` prints, on one line.
    fn explained(&self) -> Result<String> {
        let text = output_of(Command::new("mapperctl").args(["explain", self.name]))?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        // Its input ends with this, and it with that.
        drop(self.input.take());
        let _ = self.launcher.wait();
    }
}

/// What the daemon tells of a program.
struct Seen {
    cpus: u64,
    fair: u64,
    status: Value,
}

impl Seen {
    /// It is judged by what it reports, and that is no less than it was promised.
    fn ensure_promise_is_kept(&self) -> Result<()> {
        let (performance, status) = (&self.status["performance"], &self.status);
        ensure!(
            performance["source"] == "reported",
            "it is not judged by its reports: {status}"
        );
        let value = performance["value"].as_f64().context("no performance")?;
        let floor = status["floor"].as_f64().context("no promise is known")?;
        ensure!(value >= floor, "{value} is less than promised: {status}");
        Ok(())
    }
}

/// Waits for what has to be learnt; of the programs, `why` is reported if it never comes.
fn learnt<T>(what: &str, programs: [&Speaker; 2], probe: impl FnMut() -> Result<T>) -> Result<T> {
    wait_long_for(LEARNING, what, probe).with_context(|| {
        programs
            .map(|program| program.explained().unwrap_or_default())
            .join("\n# ")
    })
}

/// One program whose pieces are divided takes CPUs from one whose pieces are not, since both say so.
fn cpus_go_where_they_are_said_to_help(report: Report) -> Result<()> {
    let _rest = Speaker::keeping_the_rest(report)?;
    let whole = Speaker::start("whole", report, Pieces::Whole)?;
    let divided = Speaker::start("divided", report, Pieces::Computed)?;
    let moved = || {
        let (less, more) = (whole.seen()?, divided.seen()?);
        ensure!(
            less.cpus + 2 <= less.fair && more.cpus >= more.fair + 2,
            "{} of {} and {} of {}",
            less.cpus,
            less.fair,
            more.cpus,
            more.fair
        );
        less.ensure_promise_is_kept()?;
        more.ensure_promise_is_kept()
    };
    learnt("CPUs to move", [&whole, &divided], moved)?;
    for _ in 0..LOOKS {
        std::thread::sleep(Duration::from_secs(1));
        // An interval in which a program was just resized has no performance.
        wait_for("both promises", moved)?;
    }
    // Here, too.
    wait_for("the explanation", || {
        let (given, taken) = (whole.explained()?, divided.explained()?);
        for (text, why) in [
            (&given, "by reported progress"),
            (&given, "to `divided`"),
            (&taken, "by reported progress"),
            (&taken, "from `whole`"),
        ] {
            ensure!(text.contains(why), "no \"{why}\" in: {text}");
        }
        Ok(())
    })
}

pub(crate) fn who_says_that_more_cpus_bring_no_work_gives_them_to_who_says_that_they_do()
-> Result<()> {
    cpus_go_where_they_are_said_to_help(Report::Work)
}

pub(crate) fn who_says_that_more_cpus_bring_no_speed_gives_them_to_who_says_that_they_do()
-> Result<()> {
    cpus_go_where_they_are_said_to_help(Report::Latency)
}

pub(crate) fn who_says_that_it_can_use_two_cpus_has_two_and_the_other_has_the_rest() -> Result<()> {
    let all = online_cpus()?.len() as u64;
    let mut modest = Speaker::start("modest", Report::Work, Pieces::Divided)?;
    let other = Speaker::start("other", Report::Work, Pieces::Divided)?;
    wait_for("equal shares", || {
        let (one, two) = (modest.seen()?.cpus, other.seen()?.cpus);
        ensure!(one == all / 2 && two == all / 2, "{one} and {two}");
        Ok(())
    })?;
    modest.say("declare 1 2")?;
    let rest = || {
        let (one, two) = (modest.seen()?.cpus, other.seen()?.cpus);
        ensure!(one <= 2 && one + two == all, "{one} and {two} of {all}");
        Ok(())
    };
    learnt("the rest of the CPUs", [&modest, &other], rest)?;
    let text = modest.explained()?;
    ensure!(text.contains("its own limits are 1 to 2"), "{text}");
    // Taken back.
    modest.say("declare 0 0")?;
    learnt("its share", [&modest, &other], || {
        let (one, fair) = (modest.seen()?.cpus, all / 2);
        ensure!(one >= fair, "{one} of {fair}");
        Ok(())
    })
}

pub(crate) fn who_says_that_it_is_serial_lends_its_cpus_and_has_them_back_after_that() -> Result<()>
{
    let _rest = Speaker::keeping_the_rest(Report::Work)?;
    // Both compute: who keeps few CPUs busy is given no more of them.
    let mut serial = Speaker::start("serial", Report::Work, Pieces::Computed)?;
    let other = Speaker::start("other", Report::Work, Pieces::Computed)?;
    let both_measured = || {
        serial.seen()?.ensure_promise_is_kept()?;
        other.seen()?.ensure_promise_is_kept()
    };
    learnt("both to be measured", [&serial, &other], both_measured)?;
    let had = serial.seen()?;
    serial.say("serial 1")?;
    let lent = || {
        let (less, more) = (serial.seen()?, other.seen()?);
        ensure!(
            2 * less.cpus <= less.fair && more.cpus > more.fair,
            "{} and {}",
            less.cpus,
            more.cpus
        );
        Ok(())
    };
    learnt("CPUs to be lent", [&serial, &other], lent)?;
    serial.say("serial -1")?;
    // With the next decision. Had it been trying more than its share, that is over.
    let due = had.cpus.min(had.fair);
    wait_for("all its CPUs to come back", || {
        let seen = serial.seen()?;
        ensure!(seen.cpus >= due, "{} of {due}", seen.cpus);
        Ok(())
    })?;
    let text = serial.explained()?;
    ensure!(text.contains("gave"), "{text}");
    ensure!(
        text.contains("its serial phase is over, before which it had"),
        "{text}"
    );
    let kept = || serial.seen()?.ensure_promise_is_kept();
    learnt("its promise to be kept", [&serial, &other], kept)
}
