//! Why a client did not get what it requested.

use crate::PROTOCOL;
use crate::error_reply::ErrorReply;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A call that failed, with the socket it was made on.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", .socket.display())]
pub struct ClientError {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The cause; part of this error's own text and so not its source.
    pub kind: ClientErrorKind,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientErrorKind {
    /// There is no such socket.
    #[error(
        "no daemon there; start mapperd (`systemctl start mapperd` or `mapperd --user`) or give its socket with --socket"
    )]
    NotFound,
    /// The socket is there, but no daemon listens.
    #[error(
        "no daemon listens there any more; start mapperd again or give its socket with --socket"
    )]
    Refused,
    /// The file is something else.
    #[error("not a socket; give the daemon's with --socket")]
    NotASocket,
    /// The caller may not connect.
    #[error(
        "permission denied; ask for access to that daemon or start your own with `mapperd --user`"
    )]
    PermissionDenied,
    /// Neither the caller nor root listens there.
    #[error(
        "what listens there is a process of user {0}, neither yours nor root's, and could be anything; \
         start a daemon of your own with `mapperd --user`, with XDG_RUNTIME_DIR a directory of yours, or \
         give its socket with --socket"
    )]
    Stranger(u32),
    /// The path cannot name a socket.
    #[error("path is too long for a socket; give one of at most 107 bytes")]
    PathTooLong,
    /// The daemon took too long.
    #[error("no answer within {} ms; is the daemon stopped or overloaded?", .0.as_millis())]
    TimedOut(Duration),
    /// The daemon hung up.
    #[error("the daemon closed the connection without an answer")]
    Closed,
    /// What answers is something else.
    #[error(
        "what answers there does not speak mapper's protocol ({0}); give mapperd's socket with --socket"
    )]
    NotVarlink(String),
    /// The daemon speaks another version.
    #[error(
        "the daemon speaks {}, this program protocol {PROTOCOL}; install mapperd and its tools in the same version",
        .0.map_or_else(|| "another protocol".to_owned(), |version| format!("protocol {version}"))
    )]
    WrongProtocol(Option<u32>),
    /// The request is too long.
    #[error("request: {0}")]
    Request(String),
    /// The daemon said no.
    #[error("{0}")]
    Daemon(ErrorReply),
    /// Anything else of the kernel's.
    #[error("{0}")]
    Io(io::Error),
}
