//! The call of the daemon by which a program changes its promise. By hand, since libmapper is linked into programs: one
//! request, of which only the kind of answer matters.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use thiserror::Error;

/// Where the daemon listens; the launcher leaves it in the program's environment.
const SOCKET_ENV: &str = "MAPPER_SOCKET";
/// How long the daemon may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer is longer.
const LONGEST: u64 = 1 << 20;

/// Why the promise is as it was.
#[derive(Debug, Error)]
pub enum PromiseError {
    /// There is no such promise.
    #[error("promise {0}: give a number above 0 and up to 1, such as 0.85")]
    OutOfRange(f64),
    /// The operator allows the user less.
    #[error("promise {0}: the operator allows this user less")]
    NotPermitted(f64),
    /// It is refused for another reason; the answer as it came.
    #[error("the daemon refuses the promise: {0}")]
    Refused(String),
    /// No daemon answers.
    #[error("the daemon does not answer: {0}")]
    NoDaemon(#[from] io::Error),
}

/// Asks for a promise for the application that this process is part of.
pub(crate) fn ask(share: f64) -> Result<(), PromiseError> {
    let socket = std::env::var_os(SOCKET_ENV);
    let socket = socket.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let mut daemon = UnixStream::connect(socket)?;
    daemon.set_read_timeout(Some(PATIENCE))?;
    daemon.set_write_timeout(Some(PATIENCE))?;
    let call = format!(
        "{{\"method\":\"org.mapper.Control.Promise\",\"parameters\":{{\"qos\":{share}}}}}\0"
    );
    daemon.write_all(call.as_bytes())?;
    let mut answer = Vec::new();
    BufReader::new(daemon.take(LONGEST)).read_until(0, &mut answer)?;
    if answer.pop() != Some(0) {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    // Within a string, quotation marks are escaped.
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.contains("\"error\":\"org.mapper.Control.NotPermitted\"") {
        return Err(PromiseError::NotPermitted(share));
    }
    match answer.contains("\"error\":\"") {
        true => Err(PromiseError::Refused(answer)),
        false => Ok(()),
    }
}
