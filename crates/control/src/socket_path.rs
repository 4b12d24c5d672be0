//! The path of the daemon's socket: of the command line, else `MAPPER_SOCKET`, else the system daemon's socket if there
//! is one, else the socket of the user's own daemon under `XDG_RUNTIME_DIR`.

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
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<OsString>,
    /// The system daemon's socket, if there is something at its path.
    pub system_socket: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        let system = PathBuf::from(SYSTEM_SOCKET);
        Self {
            socket: env::var_os(SOCKET_VARIABLE),
            runtime_dir: env::var_os("XDG_RUNTIME_DIR"),
            // A file that cannot be inspected exists: connecting to it shows what is wrong.
            system_socket: system.try_exists().unwrap_or(true).then_some(system),
        }
    }

    /// The socket that a client connects to; `flag` is from its command line. Empty variables count as unset.
    pub fn socket(&self, flag: Option<&Path>) -> PathBuf {
        let variable = self.socket.as_ref().filter(|path| !path.is_empty());
        let named = flag
            .map(Path::to_owned)
            .or_else(|| variable.map(PathBuf::from));
        let found = named.or_else(|| self.system_socket.clone());
        // Without any, the system's path is the one to name in an error.
        let found = found.or_else(|| self.user_socket());
        found.unwrap_or_else(|| SYSTEM_SOCKET.into())
    }

    /// The socket of the user's own daemon; `None` without `XDG_RUNTIME_DIR`.
    pub fn user_socket(&self) -> Option<PathBuf> {
        let dir = self.runtime_dir.as_ref().filter(|dir| !dir.is_empty())?;
        Some(Path::new(dir).join("mapper/mapper.sock"))
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
            runtime_dir: Some("/run/user/7".into()),
            system_socket: Some("/s".into()),
        };
        assert_eq!(around.socket(Some(Path::new("/f"))), Path::new("/f"));
        assert_eq!(around.socket(None), Path::new("/v"));
        around.socket = Some("".into());
        assert_eq!(around.socket(None), Path::new("/s"));
        around.system_socket = None;
        let user = Path::new("/run/user/7/mapper/mapper.sock");
        assert_eq!(around.socket(None), user);
        around.runtime_dir = None;
        assert_eq!(around.socket(None), Path::new(SYSTEM_SOCKET));
    }
}
