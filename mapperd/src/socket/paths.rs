//! The path of the socket, and the guarantee that one daemon listens on it.
//!
//! A daemon that died leaves its socket file behind, which must not prevent the next start; but a running daemon must
//! not lose its socket. A lock on a file beside the socket decides: its holder may replace the socket. The kernel
//! releases the lock when its holder ends. A socket that answers without a lock belongs to another program and stays.

use crate::config::types::Audience;
use crate::store::trusted_directory;
use crate::telemetry::service::Passed;
use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that may wait to be accepted. The queue is served in order, 25 µs for each; further clients block in
/// `connect`, and of a flood each thread only once. So a flood delays no client by more than it has threads.
const BACKLOG: i32 = 64;

/// The name by which a service manager passes the socket (`FileDescriptorName=`).
const PASSED_AS: &str = "control";

#[derive(Debug, thiserror::Error)]
#[error(
    "a daemon is already running on {}{}; stop it, or name another --socket", socket.display(),
    pid.map(|pid| format!(", pid {pid}")).unwrap_or_default()
)]
pub(crate) struct AlreadyRunning {
    socket: PathBuf,
    pid: Option<u32>,
}

/// The socket this daemon listens on. Dropping it removes the file, unless a service manager made it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) path: PathBuf,
    listener: UnixListener,
    made_by: Maker,
    lock_path: PathBuf,
    /// Held as long as the daemon lives.
    _lock: OwnedFd,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Maker {
    Daemon { inode: u64 },
    ServiceManager,
}

impl Maker {
    /// This daemon, of the file that is there now.
    fn of(path: &Path) -> io::Result<Self> {
        let inode = fs::symlink_metadata(path)?.ino();
        Ok(Self::Daemon { inode })
    }
}

impl Socket {
    pub(crate) fn listener(&self) -> anyhow::Result<UnixListener> {
        let listener = self.listener.try_clone();
        listener.context("duplicate the listener")
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The lock is this daemon's. The socket may have been replaced, by a service manager's.
        if self.made_by != Maker::ServiceManager && Maker::of(&self.path).ok() == Some(self.made_by)
        {
            let _ = fs::remove_file(&self.path);
        }
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// Listens on a path: by the socket that a service manager passed, or else replacing that of a dead daemon.
pub(crate) fn listen(
    path: &Path,
    audience: Audience,
    passed: &mut Vec<Passed>,
) -> anyhow::Result<Socket> {
    make_directory(path, audience)?;
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    let lock_path = PathBuf::from(lock_path);
    let lock = lock(path, &lock_path)?;
    let (listener, made_by) = match take_passed(path, passed)? {
        Some(listener) => (listener, Maker::ServiceManager),
        None => {
            remove_stale(path)?;
            let listener = bind(path, audience)?;
            let made_by = Maker::of(path).with_context(|| path.display().to_string())?;
            (listener, made_by)
        }
    };
    Ok(Socket {
        path: path.to_owned(),
        listener,
        made_by,
        lock_path,
        _lock: lock,
    })
}

/// The socket of this path among what a service manager passed.
fn take_passed(path: &Path, passed: &mut Vec<Passed>) -> anyhow::Result<Option<UnixListener>> {
    let place = passed.iter().position(|passed| passed.name == PASSED_AS);
    let Some(place) = place else {
        return Ok(None);
    };
    let listener = UnixListener::from(passed.swap_remove(place).descriptor);
    let address = listener.local_addr();
    let there = address.as_ref().ok().and_then(SocketAddr::as_pathname);
    if there != Some(path) {
        bail!(
            "the service manager listens on {}, this daemon on {}; make ListenStream= of mapperd.socket the same",
            there.unwrap_or(Path::new("something else")).display(),
            path.display()
        );
    }
    let set = listener.set_nonblocking(true);
    set.with_context(|| format!("set {} non-blocking", path.display()))?;
    Ok(Some(listener))
}

/// Creates the directory of the socket if there is none. A user's own daemon uses an existing one only if no other user
/// can write to it and listen there instead.
fn make_directory(socket: &Path, audience: Audience) -> anyhow::Result<()> {
    let dir = match socket.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    create_directory(dir, audience)?;
    match audience {
        Audience::Everybody => Ok(()),
        Audience::Owner => trusted_directory::check(dir, "--socket"),
    }
}

fn create_directory(dir: &Path, audience: Audience) -> anyhow::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let mode = match audience {
        Audience::Everybody => 0o755,
        Audience::Owner => 0o700,
    };
    match fs::DirBuilder::new().mode(mode).create(dir) {
        // The mode is subject to the umask.
        Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(mode))
            .with_context(|| format!("set mode {mode:o} of {}", dir.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!(
                "create directory {} for the socket; create it, name another --socket, or run a \
                 daemon of your own with --user",
                dir.display()
            )
        }),
    }
}

fn lock(socket: &Path, path: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
            .with_context(|| format!("open lock {}", path.display()))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let pid = listening_pid(socket).ok().flatten();
                return Err(already_running(socket, pid));
            }
            Err(error) => {
                return Err(error).with_context(|| format!("lock {}", path.display()));
            }
        }
        // A daemon that stopped meanwhile has removed the file, so that the lock means nothing.
        let same = |a: &Stat, b: &Stat| a.st_dev == b.st_dev && a.st_ino == b.st_ino;
        if let (Ok(held), Ok(named)) = (rustix::fs::fstat(&file), rustix::fs::stat(path))
            && same(&held, &named)
        {
            return Ok(file);
        }
    }
}

fn already_running(socket: &Path, pid: Option<u32>) -> anyhow::Error {
    let socket = socket.to_owned();
    AlreadyRunning { socket, pid }.into()
}

/// Removes a socket file on which no process listens.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    if !kind.is_socket() {
        bail!(
            "{} is there already and is not a socket; remove it, or name another --socket",
            path.display()
        );
    }
    match listening_pid(path) {
        Ok(pid) => Err(already_running(path, pid)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(socket = %path.display(), "removed the socket of a daemon that has ended");
            fs::remove_file(path).with_context(|| format!("remove stale socket {}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!(
                "check whether another process listens on {}",
                path.display()
            )
        }),
    }
}

fn listening_pid(path: &Path) -> io::Result<Option<u32>> {
    let stream = UnixStream::connect(path)?;
    let peer = mapper_host::peer::credentials(&stream).ok();
    let pid = peer.and_then(|peer| u32::try_from(peer.pid()).ok());
    Ok(pid.filter(|pid| *pid != 0))
}

fn bind(path: &Path, audience: Audience) -> anyhow::Result<UnixListener> {
    let mode = match audience {
        Audience::Everybody => 0o666,
        Audience::Owner => 0o600,
    };
    // No process may connect before the mode is set.
    let umask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(umask);
    let listener = bound.with_context(|| format!("listen on {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("set mode {mode:o} of {}", path.display()))?;
    rustix::net::listen(&listener, BACKLOG)
        .with_context(|| format!("listen on {}", path.display()))?;
    listener
        .set_nonblocking(true)
        .with_context(|| format!("set {} non-blocking", path.display()))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_socket_is_open_to_its_audience_and_gone_afterwards() {
        for (audience, socket_mode, dir_mode) in [
            (Audience::Everybody, 0o666, 0o755),
            (Audience::Owner, 0o600, 0o700),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("mapper/mapper.sock");
            let socket = listen(&path, audience, &mut vec![]).unwrap();
            assert_eq!(mode(&path), socket_mode);
            assert_eq!(mode(path.parent().unwrap()), dir_mode);
            drop(socket);
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        }
    }

    #[test]
    fn the_socket_of_a_dead_daemon_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        listen(&path, Audience::Owner, &mut vec![]).unwrap();
    }

    fn passed(path: &Path) -> Vec<Passed> {
        let descriptor = UnixListener::bind(path).unwrap().into();
        let name = PASSED_AS.to_owned();
        vec![Passed { name, descriptor }]
    }

    #[test]
    fn a_socket_that_was_passed_is_used_and_left_to_the_service_manager() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut passed = passed(&path);
        let socket = listen(&path, Audience::Owner, &mut passed).unwrap();
        assert!(passed.is_empty());
        let _client = UnixStream::connect(&path).unwrap();
        assert!(socket.listener().unwrap().accept().is_ok());
        drop(socket);
        assert!(path.exists());
    }

    #[test]
    fn a_socket_of_another_path_is_refused_with_both() {
        let dir = tempfile::tempdir().unwrap();
        let mut passed = passed(&dir.path().join("other"));
        let error = listen(&dir.path().join("s"), Audience::Owner, &mut passed);
        assert_says(error.unwrap_err(), &["/other", "/s;", "mapperd.socket"]);
    }

    #[test]
    fn a_second_daemon_is_refused_with_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _first = listen(&path, Audience::Owner, &mut vec![]).unwrap();
        let error = listen(&path, Audience::Owner, &mut vec![]).unwrap_err();
        assert!(error.is::<AlreadyRunning>());
        assert_says(error, &[&format!("pid {}", std::process::id())]);
    }

    #[test]
    fn a_socket_of_another_program_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _other = UnixListener::bind(&path).unwrap();
        let error = listen(&path, Audience::Owner, &mut vec![]).unwrap_err();
        assert!(error.is::<AlreadyRunning>());
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        fs::write(&path, "precious").unwrap();
        assert_says(
            listen(&path, Audience::Owner, &mut vec![]).unwrap_err(),
            &["not a socket"],
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_users_daemon_does_not_listen_where_others_can() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("mapper");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let path = open.join("mapper.sock");
        assert_says(
            listen(&path, Audience::Owner, &mut vec![]).unwrap_err(),
            &["mode 777"],
        );
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let error = listen(
            Path::new("/proc/none/such/mapper.sock"),
            Audience::Owner,
            &mut vec![],
        );
        assert_says(error.unwrap_err(), &["/proc/none/such", "--socket"]);
    }
}
