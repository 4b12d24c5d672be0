//! The users of the guest and how to start programs as one of them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

/// An unprivileged user that the guest's image has, or root.
#[derive(Clone, Copy)]
pub(crate) enum User {
    Root,
    Alice,
    Bob,
}

impl User {
    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Alice => "alice",
            Self::Bob => "bob",
        }
    }

    /// The number by which the kernel knows the user.
    pub(crate) fn uid(self) -> Result<u32> {
        let user = nix::unistd::User::from_name(self.name())
            .with_context(|| format!("look up user {}", self.name()))?;
        Ok(user
            .with_context(|| format!("the guest has no user {}", self.name()))?
            .uid
            .as_raw())
    }

    /// A command that runs as this user, in the user's own group, with no other rights.
    pub(crate) fn command(self, program: &str) -> Result<Command> {
        let uid = self.uid()?;
        let mut command = Command::new(program);
        command.current_dir("/").uid(uid).gid(uid);
        Ok(command)
    }
}
