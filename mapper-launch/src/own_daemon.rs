//! A daemon of the user's own, started when no daemon serves the user.
//!
//! It is detached from the terminal, from the launcher's process group and from its descriptors, logs to a file, and
//! ends by itself. Of many launchers at once the first starts it, while the others wait for its lock.

use crate::descriptors;
use crate::environment::Environment;
use crate::failure::say;
use crate::program::Program;
use anyhow::{Context, bail, ensure};
use mapper_control::socket_path::Surroundings;
use mapper_control::{Client, ClientError, ClientErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, IsTerminal};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The kernel divides CPUs among sessions first; this says and sets how urgent one is (`CONFIG_SCHED_AUTOGROUP`).
const AUTOGROUP: &str = "/proc/self/autogroup";
/// Without programs the daemon stops after so long.
const IDLE_MINUTES: u32 = 10;
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a launcher looks whether it has.
const POLL: Duration = Duration::from_millis(2);
/// A longer log of earlier daemons is put aside.
const LONGEST_LOG: u64 = 1 << 20;

/// What a service manager tells its service, and what the user preloads into programs.
const NOT_FOR_THE_DAEMON: [&str; 6] = [
    "LD_PRELOAD",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "STATE_DIRECTORY",
    "WATCHDOG_USEC",
];

/// Whether the user's own daemon would listen there.
pub(crate) fn listens_at(socket: &Path) -> bool {
    socket == Surroundings::of_process().user_socket()
}

/// Whether no daemon runs, in contrast to one that does not serve the user.
pub(crate) fn is_missing(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ClientErrorKind::NotFound | ClientErrorKind::Refused | ClientErrorKind::Closed
    )
}

/// A connection to the user's daemon.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) client: Client,
    /// Where it logs to, if it was started for this.
    log: Option<PathBuf>,
}

impl Started {
    /// The connection, with a line on a terminal if there was no daemon.
    pub(crate) fn announced(self) -> Client {
        if let Some(log) = self.log.filter(|_| std::io::stderr().is_terminal()) {
            say(&format!(
                "no daemon was running; started one, which logs to {} and stops after {IDLE_MINUTES} idle minutes",
                log.display()
            ));
        }
        self.client
    }
}

/// Starts the user's daemon, unless another launcher does, and connects to it.
pub(crate) fn start(environment: &Environment, patience: Duration) -> anyhow::Result<Started> {
    let around = Surroundings::of_process();
    let (folder, socket) = (&around.user_dir, around.user_socket());
    make_own(folder)?;
    let deadline = Instant::now() + PATIENCE;
    let lock = folder.join("start.lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&lock, flags, Mode::RUSR | Mode::WUSR)
        .with_context(|| format!("open {}", lock.display()))?;
    while rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        ensure!(
            Instant::now() < deadline,
            "another launch has been starting a daemon for {} s; see whether it hangs",
            PATIENCE.as_secs()
        );
        std::thread::sleep(POLL);
    }
    // Connecting succeeds before the daemon is ready, and shows nothing if it fails to become that.
    let connect = || {
        let mut client = Client::connect(&socket, patience)?;
        client.info().map(|_| client)
    };
    if let Ok(client) = connect() {
        return Ok(Started { client, log: None });
    }
    let log = log(environment, folder)?;
    let before = fs::metadata(&log).map_or(0, |found| found.len());
    let running = detached(&mapperd(environment)?, &log)?;
    loop {
        match connect() {
            Ok(client) => {
                let log = Some(log);
                return Ok(Started { client, log });
            }
            Err(error) if Instant::now() > deadline => {
                let log = log.display();
                bail!("the daemon that was started does not answer: {error}; its log is {log}");
            }
            Err(_) if has_ended(&running) => {
                let text = fs::read(&log).unwrap_or_default();
                let text = text.get(before as usize..).unwrap_or_default();
                bail!(
                    "the daemon that was started has ended; {} has:\n{}",
                    log.display(),
                    String::from_utf8_lossy(text).trim_end()
                );
            }
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// Makes the folder, or sees that it is the user's: in `/tmp` another may have made it first.
fn make_own(folder: &Path) -> anyhow::Result<()> {
    let place = folder.display();
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("make {place} for a daemon of your own"));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(folder).with_context(|| format!("read {place}"))?;
    ensure!(
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw(),
        "{place} is not a directory of yours, so that no daemon of your own can be started there; set XDG_RUNTIME_DIR \
         to one (mkdir -m 700)"
    );
    Ok(())
}

/// The file that daemons log to: with the user's state, else beside the socket.
fn log(environment: &Environment, folder: &Path) -> anyhow::Result<PathBuf> {
    let absolute = |name| {
        environment
            .get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let state = state.map(|state| state.join("mapper"));
    let usable = state.filter(|state| fs::create_dir_all(state).is_ok());
    let log = usable
        .unwrap_or_else(|| folder.to_owned())
        .join("mapperd.log");
    if fs::metadata(&log).is_ok_and(|found| found.len() > LONGEST_LOG) {
        let aside = log.with_extension("log.1");
        fs::rename(&log, &aside).with_context(|| format!("rename {}", log.display()))?;
    }
    Ok(log)
}

/// The daemon beside this program, else that of `PATH`.
fn mapperd(environment: &Environment) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join("mapperd")));
    if let Some(beside) = beside.filter(|path| path.is_file()) {
        return Ok(beside);
    }
    let found = Program::find(&["mapperd".into()], environment.get("PATH"));
    let found = found.map_err(|failure| anyhow::anyhow!(failure.message));
    let found = found.context("no daemon runs, and none can be started")?;
    Ok(found.path().to_owned())
}

/// Starts it as a process of its own session, whose parent is not the launcher. The end of what is returned is the
/// daemon's: it prints nothing.
fn detached(mapperd: &Path, log: &Path) -> anyhow::Result<OwnedFd> {
    let opened = File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(log);
    let opened = opened.with_context(|| format!("open {}", log.display()))?;
    let (running, open) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut daemon = Command::new(mapperd);
    let idle_s = (60 * IDLE_MINUTES).to_string();
    daemon.args(["--user", "--stop-when-idle", &idle_s]);
    daemon.current_dir("/").stdin(Stdio::null());
    daemon.stdout(open).stderr(opened);
    for name in NOT_FOR_THE_DAEMON {
        daemon.env_remove(name);
    }
    let inherited = descriptors::beside_standard_streams();
    let session = fs::read_to_string(AUTOGROUP).unwrap_or_default();
    let favoured = favoured(&session).map(str::to_owned);
    // SAFETY: the launcher has a single thread, so that no lock is held that the child needs.
    unsafe { daemon.pre_exec(move || detach(&inherited, favoured.as_deref())) };
    let started = daemon.spawn();
    let mut between = started.with_context(|| format!("start {}", mapperd.display()))?;
    between.wait().context("start the daemon")?;
    Ok(running)
}

/// The nice value of a session that the kernel favours above others. The programs of such a session, busy on every CPU,
/// would leave a daemon of another session hardly any time.
fn favoured(session: &str) -> Option<&str> {
    let (_, nice) = session.trim().rsplit_once("nice ")?;
    nice.starts_with('-').then_some(nice)
}

/// Leaves the session and the parent; descriptors that the launcher was started with are closed when the daemon is
/// executed.
fn detach(inherited: &[i32], favoured: Option<&str>) -> std::io::Result<()> {
    nix::unistd::setsid()?;
    if let Some(nice) = favoured {
        // Who may not ask for it keeps the usual.
        let _ = fs::write(AUTOGROUP, nice);
    }
    // What the launcher was confined to is no bound for all programs of this user.
    let mut cpus = nix::sched::CpuSet::new();
    (0..nix::sched::CpuSet::count()).try_for_each(|cpu| cpus.set(cpu))?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus)?;
    // SAFETY: the launcher has a single thread, so the child finds every lock free.
    if let nix::unistd::ForkResult::Parent { .. } = unsafe { nix::unistd::fork() }? {
        // SAFETY: ends the process between the launcher and the daemon without running anything.
        unsafe { libc::_exit(0) }
    }
    for &number in inherited {
        // SAFETY: sets a flag of a number, which nothing here owns.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Whether the other end is closed.
fn has_ended(running: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(running, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_the_kernel_favours_passes_its_urgency_on() {
        for (session, nice) in [
            ("/autogroup-4 nice -20\n", Some("-20")),
            ("/autogroup-213 nice 0\n", None),
            ("/autogroup-213 nice 10\n", None),
            ("", None),
        ] {
            assert_eq!(favoured(session), nice, "{session}");
        }
    }
}
