//! The sequence: find the program, request CPUs for it, let it run, exit as it did.

use crate::arguments::{self, Arguments, CommandLine, Parsed};
use crate::catalogue::{Advice, Catalogue};
use crate::check_teams::{Check, Verdict};
use crate::child::WaitingChild;
use crate::daemon_watch::{DaemonWatch, MayStart};
use crate::descriptors;
use crate::environment::{self, Assignment, Environment, Granted, Runtime};
use crate::failure::{Failure, say};
use crate::identity::{FileId, Identity};
use crate::linkage;
use crate::loader::Loader;
use crate::memory;
use crate::own_daemon;
use crate::program::Program;
use crate::report::Report;
use crate::shim;
use crate::signal_state::{SignalState, suffer};
use crate::started_with::{StartedWith, TitleMemory};
use crate::supervise::{Ending, Event, Supervisor};
use crate::waiting::SpinTurns;
use anyhow::Context;
use mapper_control::schema::{
    self, ExitedRequest, LaunchRequest, LinkedOpenMp, MemoryPolicy, RuntimeChoice, ShimFile,
    TeamsWish,
};
use mapper_control::{Client, Launched, socket_path};
use mapper_manual::{Completions, wording};
use mapper_model::TeamMode;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a daemon may take for an answer. It gathers arrivals for some milliseconds; one that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a launch that a daemon did not answer waits for the next one, how often it looks, and how many it asks.
const NEXT_DAEMON: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(100);
const MOST_DAEMONS: u32 = 3;
const NO_MODE_IS_SAFE: u8 = 1;

/// Everything `mapper-launch` does. Returns the exit status.
#[must_use]
pub fn run(started: StartedWith) -> u8 {
    descriptors::reserve_standard_streams();
    status_of(try_run(started))
}

/// The same for a command line that was read already, of a program whose standard streams are open.
#[must_use]
pub fn run_line(line: CommandLine, started: StartedWith) -> u8 {
    status_of(Arguments::of(line).and_then(|arguments| execute(arguments, started)))
}

/// Fills each standard stream that is closed. To be called before anything opens a file.
pub fn reserve_standard_streams() {
    descriptors::reserve_standard_streams();
}

/// Starts the user's own daemon, unless it runs; returns the number of its process.
///
/// # Errors
/// If it cannot be started; the error has what its log says.
pub fn start_own_daemon(started: StartedWith) -> anyhow::Result<u32> {
    let started = own_daemon::start(&Environment::new(started.environment), PATIENCE)?;
    let mut client = started.client;
    Ok(client.status()?.daemon.pid)
}

fn status_of(outcome: Result<u8, Failure>) -> u8 {
    match outcome {
        Ok(status) => status,
        Err(failure) => {
            if !failure.message.is_empty() {
                say(&failure.message);
            }
            failure.status
        }
    }
}

fn try_run(started: StartedWith) -> Result<u8, Failure> {
    if let Some(folder) = mapper_manual::asked_for(&started.words) {
        let section = mapper_manual::Section::Users;
        mapper_manual::write(
            arguments::definition(),
            section,
            Completions::Listed,
            folder,
        )
        .map_err(Failure::own)?;
        return Ok(0);
    }
    match arguments::parse(&started.words)? {
        Parsed::Start(arguments) => execute(*arguments, started),
        Parsed::Tell(text) => {
            // Nothing flushes at the end, as there is no `main` of Rust's.
            let mut out = std::io::stdout();
            let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            shown.context("write to standard output")?;
            Ok(0)
        }
    }
}

fn execute(mut arguments: Arguments, started: StartedWith) -> Result<u8, Failure> {
    let environment = Environment::new(started.environment);
    let program = Program::find(&arguments.command, environment.get("PATH"))?;
    let wishes = &mut arguments.wishes;
    wishes.threads = (wishes.threads).or_environment(environment.get("OMP_NUM_THREADS"));
    wishes.schedule = (wishes.schedule).or_environment(environment.get("MAPPER_SCHEDULE"));
    if arguments.check_teams {
        return check_teams(&arguments, &program, &environment);
    }
    let wishes = &arguments.wishes;
    let is_open = matches!(wishes.teams, None | Some(TeamsWish::Auto)) && wishes.runtime.is_none();
    let advice = is_open.then(|| recorded(&arguments, &program, &environment));
    let wishes = &mut arguments.wishes;
    if let Some(advice) = advice.flatten() {
        match advice {
            Advice::Teams(teams) => wishes.teams = Some(TeamsWish::Checked(teams)),
            Advice::NoRuntime => {
                say(&format!(
                    "{} failed in every mode when it was checked; running without the runtime interface, as with --no-runtime",
                    program.path().display()
                ));
                wishes.teams = Some(TeamsWish::Checked(TeamMode::Fixed));
                wishes.runtime = Some(RuntimeChoice::Off);
            }
        }
    }
    if wishes.memory == MemoryPolicy::Interleave {
        memory::interleave()?;
    }
    let socket = socket_path::socket_path(arguments.socket.as_deref());
    let client = match connect(&arguments, &environment, &socket) {
        Ok(client) => client,
        Err(error) => {
            without_place(&arguments, &format!("{error:#}"))?;
            let obstacle = program.execute(environment.entries());
            return Err(program.not_run(obstacle));
        }
    };
    managed(&arguments, &program, &environment, client, started.title)
}

/// Connects to the daemon; where none serves the user, to one that is started.
fn connect(
    arguments: &Arguments,
    environment: &Environment,
    socket: &Path,
) -> anyhow::Result<Client> {
    let may_start = may_start(arguments, environment, socket);
    match Client::connect(socket, PATIENCE) {
        Err(error) if may_start == MayStart::Yes && own_daemon::is_missing(&error) => {
            Ok(own_daemon::start(environment, PATIENCE)?.announced())
        }
        connected => Ok(connected?),
    }
}

/// Whether the socket is that of the user's own daemon, asked for by no option or variable, and such daemons may be started.
fn may_start(arguments: &Arguments, environment: &Environment, socket: &Path) -> MayStart {
    let set = |value: &OsStr| !value.is_empty() && value != "0";
    let forbidden = arguments.no_start || environment.get("MAPPER_NO_START").is_some_and(set);
    let is_own = arguments.socket.is_none() && own_daemon::listens_at(socket);
    match is_own && !forbidden {
        true => MayStart::Yes,
        false => MayStart::No,
    }
}

fn catalogue(environment: &Environment) -> Option<Catalogue> {
    Catalogue::of_user(environment.get("XDG_STATE_HOME"), environment.get("HOME"))
}

/// What checks of this program say.
fn recorded(arguments: &Arguments, program: &Program, environment: &Environment) -> Option<Advice> {
    let catalogue = catalogue(environment).filter(|known| known.knows(program.path()))?;
    let words = arguments.command.get(1..).unwrap_or_default();
    let identity = Identity::of(program.path(), words).ok()?;
    let shim = FileId::of(&shim_at(arguments, environment).ok()?).ok()?;
    let entry = match catalogue.find(&identity, &shim) {
        Ok(entry) => entry?,
        Err(damaged) => {
            say(&format!("warning: {damaged}"));
            return None;
        }
    };
    if entry.shim.as_ref() == Some(&shim) {
        return Some(entry.advice());
    }
    let advice = entry.caution();
    let counts = match advice {
        Some(_) => "of which only what failed counts",
        None => "which does not count",
    };
    say(&format!(
        "{} was checked with another build of the shim, {counts}; run {} --check-teams again",
        program.path().display(),
        wording::launch()
    ));
    advice
}

fn check_teams(
    arguments: &Arguments,
    program: &Program,
    environment: &Environment,
) -> Result<u8, Failure> {
    let shim = shim_at(arguments, environment).map_err(Failure::own)?;
    let catalogue = catalogue(environment).ok_or_else(|| {
        Failure::own("no place for the catalogue; set HOME or XDG_STATE_HOME to an absolute path")
    })?;
    let check = Check {
        program: program.path(),
        command: &arguments.command,
        shim,
        catalogue,
        environment,
        wishes: &arguments.wishes,
    };
    Ok(match check.run()? {
        Verdict::SomeModeIsSafe => 0,
        Verdict::NoModeIsSafe => NO_MODE_IS_SAFE,
    })
}

/// Fails, or warns and lets the program run unmanaged, as the user wanted.
fn without_place(arguments: &Arguments, error: &impl Display) -> Result<(), Failure> {
    if !arguments.fallback {
        return Err(Failure::own(error));
    }
    say(&format!("warning: {error}; running unmanaged"));
    Ok(())
}

fn managed(
    arguments: &Arguments,
    program: &Program,
    environment: &Environment,
    mut client: Client,
    title: TitleMemory,
) -> Result<u8, Failure> {
    let shim = find_shim(arguments, environment);
    let inherited = SignalState::take_over()?;
    // Orphans come here so that the daemon can follow them; the program runs without that as well.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    let signals = Supervisor::listen()?;
    let child = WaitingChild::fork(program, environment, &inherited)?;
    let mut supervisor = Supervisor::new(child.pid(), signals, title);

    let mut linked = linkage::look_at(program.path());
    let mut unreachable = None;
    if let Some(linked) = &mut linked
        && !Loader::of(program.path()).loads_shims()
    {
        linked.openmp = LinkedOpenMp::OtherLoader;
        unreachable = linked.openmp.unreachable_because(&linked.path);
    }
    if let (Some(TeamsWish::Named(teams)), Shim::Found(_)) = (arguments.wishes.teams, &shim) {
        warn_of_unserved(linked.as_ref(), teams);
    }
    let request = launch_request(&child, arguments, &shim, linked);
    let (mut asked_of, deadline) = (1, Instant::now() + NEXT_DAEMON);
    let answer = loop {
        let asked = client.ask_launch(request.clone());
        let answer = match asked {
            Ok(()) => match supervisor.until_readable(client.as_fd(), Instant::now() + PATIENCE)? {
                Event::Readable => client.launched(),
                Event::Late => Err(client.gave_up()),
                Event::Ended(ending) => return Ok(end(ending)),
            },
            Err(error) => Err(error),
        };
        // The daemon ended before it answered. The next one may be on its way.
        match answer {
            Err(error)
                if own_daemon::is_missing(&error)
                    && asked_of < MOST_DAEMONS
                    && Instant::now() < deadline =>
            {
                if let Some(ending) = supervisor.until(Instant::now() + LOOK)? {
                    return Ok(end(ending));
                }
                let socket = socket_path::socket_path(arguments.socket.as_deref());
                if let Ok(next) = connect(arguments, environment, &socket) {
                    client = next;
                    asked_of += 1;
                }
            }
            answer => break answer,
        }
    };
    let launched = match answer {
        Ok(launched) => Some(launched),
        Err(error) => {
            // The daemon does not find a child that a signal has ended while it waited.
            if let Some(ending) = supervisor.ending()? {
                return Ok(end(ending));
            }
            // The child ends when it is not released.
            without_place(arguments, &error)?;
            None
        }
    };

    let mut set = launched.as_ref().map_or_else(Vec::new, |launched| {
        assignments(launched, shim.path(), program, environment)
    });
    if launched
        .as_ref()
        .is_some_and(|launched| launched.page.is_some())
    {
        // What the program asks is for the daemon that manages it.
        let socket = socket_path::socket_path(arguments.socket.as_deref());
        let socket = std::path::absolute(socket).ok();
        set.extend(socket.and_then(|socket| Assignment::new(socket_path::SOCKET_VARIABLE, socket)));
    }
    let starting = child.release(&set);
    // The pipe says whether it runs. A file system that does not answer is not the launcher's to judge.
    while supervisor.until_readable(starting.as_fd(), Instant::now() + PATIENCE)? == Event::Late {}
    if let Some(obstacle) = starting.obstacle() {
        return Err(program.not_run(obstacle));
    }

    let app = launched.as_ref().map(|launched| launched.reply.app);
    let report = app.zip(arguments.detail).and_then(|(app, detail)| {
        let socket = socket_path::socket_path(arguments.socket.as_deref());
        Report::prepare(app, detail, socket, unreachable)
    });
    let page = launched
        .as_ref()
        .and_then(|launched| launched.page.as_ref());
    let mut watch = launched.as_ref().map(|launched| {
        let socket = socket_path::socket_path(arguments.socket.as_deref());
        let may_start = may_start(arguments, environment, &socket);
        DaemonWatch::new(&launched.reply, socket, may_start, environment)
    });
    let mut keep: Vec<BorrowedFd<'_>> = vec![supervisor.descriptor(), client.as_fd()];
    keep.extend(report.as_ref().map(Report::descriptor));
    keep.extend(page.map(AsFd::as_fd));
    keep.extend(watch.as_ref().and_then(DaemonWatch::descriptor));
    descriptors::let_go(&keep);
    supervisor.watch_group();
    let ending = match &mut watch {
        Some(watch) => watch.until_ended(&mut client, &mut supervisor)?,
        None => supervisor.until_ended()?,
    };
    if let Some(report) = report {
        report.give();
    }
    if let Some(app) = app {
        let status = ending.status();
        // The lease ends with this process in any case.
        let _ = client.exited(ExitedRequest { app, status });
    }
    supervisor.finish();
    Ok(end(ending))
}

enum Shim {
    Found(PathBuf),
    Missing,
    Unwanted,
}

impl Shim {
    fn path(self) -> Option<PathBuf> {
        match self {
            Self::Found(path) => Some(path),
            Self::Missing | Self::Unwanted => None,
        }
    }
}

fn shim_at(arguments: &Arguments, environment: &Environment) -> Result<PathBuf, String> {
    let launcher = std::env::current_exe().ok();
    let variable = environment.get("MAPPER_SHIM");
    shim::find(arguments.shim.as_deref(), variable, launcher.as_deref())
}

fn find_shim(arguments: &Arguments, environment: &Environment) -> Shim {
    if arguments.wishes.runtime == Some(RuntimeChoice::Off) {
        return Shim::Unwanted;
    }
    shim_at(arguments, environment).map_or_else(
        |problem| {
            say(&format!(
                "warning: {problem}; running without the runtime interface"
            ));
            Shim::Missing
        },
        Shim::Found,
    )
}

fn launch_request(
    child: &WaitingChild,
    arguments: &Arguments,
    shim: &Shim,
    program: Option<schema::Program>,
) -> LaunchRequest {
    let words = arguments.command.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.collect();
    let mut request = LaunchRequest::new(
        child.pid().as_raw().unsigned_abs(),
        words.iter().map(AsRef::as_ref),
        arguments.wishes.clone(),
    );
    request.shim = match shim {
        Shim::Found(_) | Shim::Unwanted => ShimFile::Found,
        Shim::Missing => ShimFile::Missing,
    };
    request.program = program;
    request
}

fn warn_of_unserved(program: Option<&schema::Program>, teams: TeamMode) {
    let Some(program) = program else { return };
    if let Err(why) = program.openmp.serves(teams) {
        say(&format!(
            "warning: teams {teams}: {}: {why}; teams are fixed",
            program.path
        ));
    }
}

fn assignments(
    launched: &Launched,
    shim: Option<PathBuf>,
    program: &Program,
    environment: &Environment,
) -> Vec<Assignment> {
    let (reply, page) = (&launched.reply, launched.page.as_ref());
    let runtime = shim.zip(page.zip(reply.token.clone()));
    let runtime = runtime.map(|(shim, (page, token))| Runtime {
        preload: Loader::of(program.path()).preloads(&shim),
        shim,
        page: format!("/proc/{}/fd/{}", std::process::id(), page.as_raw_fd()),
        token,
    });
    let granted = Granted {
        cpu_count: reply.cpu_count,
        machine_cpus: reply.machine_cpus,
        runtime,
    };
    environment::assignments(&reply.terms, &granted, SpinTurns::measured(), environment)
}

/// A program that the terminal's signal ended ends the launcher likewise: a shell then ends the whole command.
fn end(ending: Ending) -> u8 {
    if let Ending::KilledFromTerminal(signal) = ending {
        let _ = nix::sys::prctl::set_dumpable(false);
        suffer(signal);
    }
    ending.status()
}
