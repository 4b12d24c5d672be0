//! A pseudo-terminal with a shell on it, as a user sits in front of it.

use super::PATIENCE;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ctrl-C.
pub(crate) const CTRL_C: &str = "\u{3}";
/// Ctrl-Z.
pub(crate) const CTRL_Z: &str = "\u{1a}";
/// Ctrl-\.
pub(crate) const CTRL_BACKSLASH: &str = "\u{1c}";

/// A shell with job control on a terminal of its own.
pub(crate) struct Terminal {
    shell: Child,
    keyboard: File,
    screen: String,
    looked_at: usize,
}

impl Terminal {
    /// Starts bash in the environment of `base`, a command whose program does not matter.
    pub(crate) fn start(base: &Command) -> Self {
        // Not `openpty`: other tests start programs at the same time, which would inherit the
        // keyboard and keep the terminal alive.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let keyboard = posix_openpt(flags).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let screen = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(ptsname_r(&keyboard).unwrap())
            .unwrap();
        let mut shell = Command::new("bash");
        // Line editing loses what is typed while it is being set up.
        shell.args(["--norc", "--noprofile", "--noediting", "-i"]);
        for (name, value) in base.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
            .env("PS1", "")
            .env("TERM", "dumb")
            .env_remove("PROMPT_COMMAND");
        let side = || Stdio::from(screen.try_clone().unwrap());
        shell.stdin(side()).stdout(side()).stderr(side());
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            shell.pre_exec(|| {
                if libc::setsid() == -1 || libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                // Tests that run in the background of a shell ignore them.
                for key in [libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(key, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        let shell = shell.spawn().unwrap();
        let keyboard = File::from(OwnedFd::from(keyboard));
        // SAFETY: sets a flag of a descriptor that is open.
        let set = unsafe { libc::fcntl(keyboard.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_ne!(set, -1);
        let mut terminal = Self {
            shell,
            keyboard,
            screen: String::new(),
            looked_at: 0,
        };
        // What is typed is not to be mistaken for what is printed.
        terminal.types("stty -echo\n");
        terminal.types("echo began=$((6*7))\n");
        terminal.sees("began=42");
        terminal
    }

    /// Types something.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text appears after what was seen last, and returns what lies between.
    pub(crate) fn sees(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let unseen = &self.screen[self.looked_at..];
            if let Some(place) = unseen.find(text) {
                let before = unseen[..place].to_owned();
                self.looked_at += place + text.len();
                return before;
            }
            assert!(
                Instant::now() < deadline,
                "{text:?} does not appear after {unseen:?}"
            );
            let mut buffer = [0; 4096];
            match self.keyboard.read(&mut buffer) {
                Ok(count) => self
                    .screen
                    .push_str(&String::from_utf8_lossy(&buffer[..count])),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Closes the terminal, as when its window is closed.
    pub(crate) fn hangs_up(self) -> Child {
        self.shell
    }
}
