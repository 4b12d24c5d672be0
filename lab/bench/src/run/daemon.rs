//! A daemon of our own: `mapperd --user` with its socket in a temporary folder, ended with us.

use super::processes::terminate;
use anyhow::{Context, Result, bail};
use mapper_control::Client;
use mapper_control::schema::Status;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(10);

/// In its folder.
const SOCKET: &str = "mapper.sock";

/// A running daemon that nobody else uses. Stopped in order when dropped.
#[derive(Debug)]
pub(crate) struct PrivateDaemon {
    child: Child,
    folder: tempfile::TempDir,
    bin: PathBuf,
}

impl PrivateDaemon {
    /// Starts `mapperd` out of the folder `bin` with these further arguments and waits until its
    /// socket answers. Its log goes to `mapperd.log` in its temporary folder.
    pub(crate) fn start(bin: &Path, arguments: &[&str]) -> Result<Self> {
        let folder = runtime_folder().context("make a temporary folder")?;
        let log = folder.path().join("mapperd.log");
        let out = fs_err::File::create(&log)?.into_parts().0;
        let program = bin.join("mapperd");
        let mut command = Command::new(&program);
        command.args(["--user", "--socket"]);
        command.arg(folder.path().join(SOCKET)).args(arguments);
        command.env("XDG_RUNTIME_DIR", folder.path());
        command.stdin(Stdio::null()).stdout(out.try_clone()?);
        command.stderr(out);
        let child = command.spawn();
        let child = child.with_context(|| format!("start {}", program.display()))?;
        let bin = bin.to_owned();
        let mut daemon = Self { child, folder, bin };
        let deadline = Instant::now() + START;
        loop {
            if daemon.status(START).is_ok() {
                return Ok(daemon);
            }
            if let Some(status) = daemon.child.try_wait()? {
                bail!("mapperd ended immediately ({status}):\n{}", daemon.log());
            }
            if Instant::now() > deadline {
                bail!("mapperd did not answer within {START:?}:\n{}", daemon.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it reports, over a connection of its own.
    pub(crate) fn status(&self, patience: Duration) -> Result<Status> {
        Ok(Client::connect(&self.socket(), patience)?.status()?)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("mapperd.log")).unwrap_or_default()
    }

    /// `mapper-launch` with these arguments, for this daemon.
    pub(crate) fn launch(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join("mapper-launch"));
        command.env("MAPPER_SOCKET", self.socket()).args(arguments);
        command
    }
}

/// A folder for the socket and what the daemon notes down. In memory where there is such a place, as the
/// runtime folder of a user is: a disk may keep the daemon waiting for seconds.
fn runtime_folder() -> std::io::Result<tempfile::TempDir> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("mapper-");
    folder.tempdir_in("/dev/shm").or_else(|_| folder.tempdir())
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        // An orderly stop gives every program its CPUs back; only a daemon that does not stop is
        // killed.
        terminate(&self.child);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
