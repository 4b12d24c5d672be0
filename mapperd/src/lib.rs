//! The daemon: observes, decides and enforces every interval.
//!
//! One task, [`daemon::Daemon`], owns everything that changes: the applications, the controller, the enforcer, the
//! counters, the pages. Every event reaches it as a [`message::Message`] (a call on the socket ([`socket::server`]),
//! the end of a process ([`machine::watch`])), a timer or a signal. So there are no locks, and a decision always sees
//! one consistent state. The saved state, a recording, the log and notifications have threads of their own
//! ([`store::saver`], [`telemetry::record`], [`telemetry::background`]), since a slow disk or reader must not delay
//! decisions and launches, and the socket, since users must not; one returns memory after a burst.
//!
//! ```text
//!  socket ──► connection tasks ──┐
//!  pidfds, cgroup.events ────────┼──► messages ──► Daemon ──► observe ─► step ─► check ─► enforce
//!  timers, signals ──────────────┘                   │
//!                                                    ├──► replies, pages
//!                                                    └──► mailboxes ──► threads: saved state, recording, log, notifications
//! ```
//!
//! An idle daemon has no timer running, but for the watchdog of the service manager and, with rules that adopt, for
//! [`adopter`].

mod adopter;
mod config;
mod daemon;
mod decider;
#[cfg(test)]
mod fake;
#[cfg(fuzzing)]
pub mod fuzzing;
mod interval;
mod machine;
mod memory;
mod registry;
mod requests;
mod socket;
mod store;
mod telemetry;
#[cfg(test)]
mod tests;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use config::accounts::Accounts;
use config::settings::Settings;
use config::{args, file, former_places};
use daemon::{Daemon, Timing};
use decider::Decider;
use machine::sleep::Sleep;
use machine::wake::Lookout;
use machine::{Machine, profile, selection};
use mapper_host::clock::{Clock, MonotonicClock};
use mapper_host::cpus::UsableCpus;
use mapper_host::procfs::ProcFs;
use mapper_host::topology::HwlocSource;
use mapper_manual::{Completions, Section};
use mapper_model::CpuSet;
use mapper_pipeline::{Controller, Pacing};
use registry::Registry;
use socket::arrivals::Arrivals;
use socket::quota::Quotas;
use socket::{message, paths, server};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use store::directory::StateDir;
use store::saver::Saver;
use store::{Store, takeover};
use telemetry::tally::Tally;
use telemetry::{Telemetry, logging, metrics_server, record, service};
use tokio::sync::watch;

/// Exit status when another daemon listens on the socket.
const ALREADY_RUNNING: u8 = 3;

/// Does what the command line says; returns the exit status.
#[must_use]
pub fn run() -> ExitCode {
    let Err(error) = obey() else {
        return ExitCode::SUCCESS;
    };
    say(&format!("{error:#}"));
    match error.is::<paths::AlreadyRunning>() {
        true => ExitCode::from(ALREADY_RUNNING),
        false => ExitCode::FAILURE,
    }
}

/// Does what the command line says.
fn obey() -> anyhow::Result<()> {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(folder) = mapper_manual::asked_for(&words) {
        let section = Section::Administration;
        mapper_manual::write(args::Args::command(), section, Completions::Listed, folder)?;
        let (version, text) = (env!("CARGO_PKG_VERSION"), file::COMMENTED);
        mapper_manual::write_configuration("mapper.toml", version, text, folder)?;
        return Ok(());
    }
    let args = match args::Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => args::with_hint(error, &words).exit(),
    };
    if args.config_schema {
        return print(&file::ConfigFile::schema()?);
    }
    if let Some(args::Task::Calibrate { out }) = &args.task {
        return profile::calibrate(&args, out.as_deref());
    }
    let only_check = args.check_config;
    let settings = Settings::gather(args)?;
    if only_check {
        for moved in &settings.moved {
            say(&format!("warning: {moved}"));
        }
        for warning in settings.programs.for_all_programs() {
            say(&format!("warning: {warning}"));
        }
        settings.reserve_fits().with_context(|| settings.origin())?;
        return print(&settings.checked());
    }
    let _logging = logging::start()?;
    let _notifying = service::start()?;
    former_places::warn_of(&settings.moved);
    start(settings)
}

fn say(line: &str) {
    // An error cannot be reported anywhere else.
    let line = format!("mapperd: {line}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints to standard output. That the reader closes the pipe is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}

fn start(settings: Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop")?;
    runtime.block_on(serve(settings))
}

async fn serve(mut settings: Settings) -> anyhow::Result<()> {
    // Before any client can find this daemon: until then SIGHUP would end it.
    let signals = service::Signals::listen()?;
    // Next, since the socket decides whether this daemon may run at all.
    let mut passed = service::passed();
    let socket = paths::listen(&settings.socket, settings.audience, &mut passed)?;
    settings.reserve_is_here()?;
    let topology = selection::topology()?;
    settings.pipeline.machine = profile::thresholds(
        &settings.machine_profile,
        &settings.pipeline.machine,
        &topology,
    )?;
    let counters = selection::counters(settings.counters)?;
    let accounts = Accounts::read(Path::new("/etc"));
    let enforcer = selection::enforcer(&settings, accounts.clone())?;
    let mut controller = Controller::new(settings.pipeline.clone(), topology)
        .context("configuration names no policy")?;
    let state_dir = settings.state_dir.as_deref();
    let state_dir = state_dir.map(StateDir::open).transpose()?;
    let legacy = takeover::Legacy::find(state_dir.as_ref(), passed);
    let saver = state_dir.map(Saver::start).transpose()?;
    legacy.teach(&mut controller);
    let recording = settings.record.as_deref();
    let recorder = recording.map(|path| record::Recorder::create(path, &controller));
    let watchdog = service::Watchdog::from_environment();
    if let Err(error) = mapper_host::weigh_session_as_process() {
        tracing::debug!("the session keeps its weight: {error}");
    }
    let (sender, inbox) = message::channel();
    let clock: Box<dyn Clock> = Box::new(MonotonicClock);
    let telemetry = Telemetry {
        tally: Tally::default(),
        recorder: recorder.transpose()?,
        started_ns: clock.now_ns(),
    };
    let mut machine = Machine {
        isolation: selection::isolation(enforcer.value.as_ref()),
        enforcer: enforcer.value,
        enforcer_selection: enforcer.selection,
        counters: counters.value,
        counters_selection: counters.selection,
        topology_source: Box::new(HwlocSource::ThisMachine),
        usable_cpus: UsableCpus::system(settings.reserve.clone()),
        sleep: Sleep::until_now(clock.as_ref()),
        clock,
        proc: ProcFs::system()?,
        accounts: accounts.clone(),
        sender: sender.clone(),
        usable: CpuSet::new(),
        online: CpuSet::new(),
        finished: Default::default(),
        spinning: Default::default(),
    };
    machine.find_usable()?;
    let metrics = settings.metrics.clone();
    let pacing = Pacing::new(settings.interval.nanoseconds(), settings.overhead_budget);
    let quotas = Quotas::new(mapper_host::raise_file_limit());
    let arrivals = Arrivals::default();
    let (adopt_rules, rules) = watch::channel(settings.adopt.clone());
    let mut daemon = Daemon {
        config: settings,
        registry: Registry::new(),
        machine,
        decider: Decider::new(controller, pacing),
        store: Store { saver },
        telemetry,
        quotas: quotas.clone(),
        arrivals: arrivals.clone(),
        lookout: Lookout::default(),
        adopt_rules,
        reloads: requests::reloads::Reloads::start()?,
        timing: Timing::default(),
    };
    daemon.take_over(legacy);
    let launch_s = daemon.telemetry.tally.launch_s.clone();
    let metrics_socket = metrics.socket.as_deref();
    let _metrics_socket = metrics_socket
        .map(|path| metrics_server::serve_unix(path, sender.clone()))
        .transpose()?;
    if let Some(address) = metrics.tcp {
        metrics_server::serve_tcp(address, sender.clone())?;
    }
    memory::start()?;
    daemon.machine.spinning.start(sender.clone())?;
    tokio::spawn(adopter::run(rules, accounts.clone(), sender.clone()));
    server::start(
        socket.listener()?,
        quotas,
        accounts,
        arrivals,
        sender,
        launch_s,
    )?;
    tracing::info!(socket = %socket.path.display(), "ready");
    service::ready(&format!("listening on {}", socket.path.display()));
    daemon.run(inbox, signals, watchdog).await;
    Ok(())
}
