//! The path of the daemon's socket: of the command line, else `MAPPER_SOCKET`, else the system daemon's socket if there
//! is one, else the socket of the user's own daemon, in a directory that needs no setting.

use rustix::process::geteuid;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The system daemon's socket.
pub const SYSTEM_SOCKET: &str = "/run/mapper/mapper.sock";

/// The variable that names the socket.
pub const SOCKET_VARIABLE: &str = "MAPPER_SOCKET";

/// What the environment contains about the socket.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `MAPPER_SOCKET`.
    pub socket: Option<OsString>,
    /// The directory of the user's own daemon.
    pub user_dir: PathBuf,
    /// The system daemon's socket, if it has one or is being started again.
    pub system_socket: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        let system = PathBuf::from(SYSTEM_SOCKET);
        // While a service is restarted its directory stays and its socket does not.
        let here = system.parent().unwrap_or(&system).try_exists();
        Self {
            socket: env::var_os(SOCKET_VARIABLE),
            user_dir: user_dir(
                env::var_os("XDG_RUNTIME_DIR"),
                Path::new("/run/user"),
                geteuid().as_raw(),
            ),
            // What cannot be inspected exists: connecting shows what is wrong.
            system_socket: here.unwrap_or(true).then_some(system),
        }
    }

    /// The socket that a client connects to; `flag` is from its command line. Empty variables count as unset.
    pub fn socket(&self, flag: Option<&Path>) -> PathBuf {
        let found = self
            .named_socket(flag)
            .or_else(|| self.system_socket.clone());
        found.unwrap_or_else(|| self.user_socket())
    }

    /// The socket that the user named, by `flag` or by the variable.
    pub fn named_socket(&self, flag: Option<&Path>) -> Option<PathBuf> {
        let variable = self.socket.as_ref().filter(|path| !path.is_empty());
        flag.map(Path::to_owned)
            .or_else(|| variable.map(PathBuf::from))
    }

    /// The socket of the user's own daemon.
    pub fn user_socket(&self) -> PathBuf {
        self.user_dir.join("mapper.sock")
    }
}

/// `XDG_RUNTIME_DIR`, else what it would be after a login, else a directory that every machine has. Who connects
/// checks whose daemon listens there, and a daemon that no other user can write to its directory.
fn user_dir(runtime_dir: Option<OsString>, logins: &Path, uid: u32) -> PathBuf {
    let login = || Some(logins.join(uid.to_string())).filter(|dir| dir.is_dir());
    let named = runtime_dir.filter(|dir| !dir.is_empty());
    match named.map(PathBuf::from).or_else(login) {
        Some(dir) => dir.join("mapper"),
        None => PathBuf::from(format!("/tmp/mapper-{uid}")),
    }
}

/// The socket that this process connects to; `flag` is from its command line.
pub fn socket_path(flag: Option<&Path>) -> PathBuf {
    Surroundings::of_process().socket(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_then_variable_then_system_then_user() {
        let mut around = Surroundings {
            socket: Some("/v".into()),
            user_dir: "/run/user/7/mapper".into(),
            system_socket: Some("/s".into()),
        };
        assert_eq!(around.socket(Some(Path::new("/f"))), Path::new("/f"));
        assert_eq!(around.socket(None), Path::new("/v"));
        around.socket = Some("".into());
        assert_eq!(around.socket(None), Path::new("/s"));
        around.system_socket = None;
        let user = Path::new("/run/user/7/mapper/mapper.sock");
        assert_eq!(around.socket(None), user);
    }

    #[test]
    fn a_users_daemon_has_a_directory_whatever_the_environment() {
        let logins = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dir = |variable: Option<&str>, logins| user_dir(variable.map(Into::into), logins, 7);
        assert_eq!(dir(Some("/x"), logins), Path::new("/x/mapper"));
        for unset in [None, Some("")] {
            assert_eq!(dir(unset, logins), Path::new("/tmp/mapper-7"));
        }
        let logins = tempfile::tempdir().unwrap();
        std::fs::create_dir(logins.path().join("7")).unwrap();
        assert_eq!(dir(None, logins.path()), logins.path().join("7/mapper"));
    }
}
