//! The client's side of the socket: blocking, with a time limit.

use crate::PROTOCOL;
use crate::client_error::{ClientError, ClientErrorKind};
use crate::codec::{FrameDecoder, MAX_REPLY_BYTES, Outgoing, Progress, receive};
use crate::error_reply::ErrorReply;
use crate::request::{Call, Expects, Request};
use crate::schema::{
    AdoptReply, AdoptRequest, AdviseReply, ExitedRequest, ExplainReply, ExplainRequest,
    HistoryReply, LaunchReply, LaunchRequest, PoliciesReply, PromiseReply, PromiseRequest,
    ReleaseReply, ReleaseRequest, ReloadReply, ReportReply, ReportRequest, ServiceInfo, Status,
};
use crate::socket_path::SYSTEM_SOCKET;
use mapper_model::{AppId, Qos};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A connection to the daemon. Dropping it ends the lease of an application launched on it.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    path: PathBuf,
    patience: Duration,
    decoder: FrameDecoder,
}

/// The answer to `Launch`.
#[derive(Debug)]
pub struct Launched {
    /// The reply.
    pub reply: LaunchReply,
    /// The page to share with the daemon: present exactly if the reply has a token.
    pub page: Option<OwnedFd>,
}

#[derive(Deserialize)]
struct ReplyWire<'a> {
    #[serde(default)]
    error: Option<String>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ProtocolOnly {
    protocol: Option<u32>,
}

impl Client {
    /// Connects to the daemon's socket. Connecting and each call may take as long as `patience`.
    pub fn connect(path: &Path, patience: Duration) -> Result<Self, ClientError> {
        let socket = open(path, patience).map_err(|kind| ClientError {
            socket: path.to_owned(),
            kind,
        })?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            patience,
            decoder: FrameDecoder::new(MAX_REPLY_BYTES),
        })
    }

    /// Requests a launch for a process that waits to exec, and waits for the reply.
    pub fn launch(&mut self, request: LaunchRequest) -> Result<Launched, ClientError> {
        self.ask_launch(request)?;
        self.launched()
    }

    /// Requests a launch without waiting. [`Client::launched`] does not wait long once the connection (see its [`AsFd`])
    /// is readable.
    pub fn ask_launch(&mut self, request: LaunchRequest) -> Result<(), ClientError> {
        self.request(Request::Launch(Box::new(request)))
    }

    /// The answer to [`Client::ask_launch`].
    pub fn launched(&mut self) -> Result<Launched, ClientError> {
        let (reply, mut descriptors): (LaunchReply, _) = self.answer_versioned()?;
        let page = descriptors.pop();
        if page.is_some() != reply.token.is_some() || !descriptors.is_empty() {
            let problem = "page and token do not come together";
            return Err(self.failed(ClientErrorKind::NotVarlink(problem.into())));
        }
        // The token goes into the environment of a program.
        let is_hex = |token: &String| {
            !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !reply.token.as_ref().is_none_or(is_hex) {
            let problem = "the page's token is not a hexadecimal number";
            return Err(self.failed(ClientErrorKind::NotVarlink(problem.into())));
        }
        Ok(Launched { reply, page })
    }

    /// The error of a caller that has itself waited too long for an answer.
    #[must_use]
    pub fn gave_up(&self) -> ClientError {
        self.failed(ClientErrorKind::TimedOut(self.patience))
    }

    /// Reports that an application has ended; there is no answer.
    pub fn exited(&mut self, request: ExitedRequest) -> Result<(), ClientError> {
        self.send(&Call {
            request: Request::Exited(request),
            expects: Expects::Nothing,
        })
    }

    /// What an application got so far, or until it ended a short while ago.
    pub fn report(&mut self, app: AppId) -> Result<ReportReply, ClientError> {
        self.call(Request::Report(ReportRequest { app }))
    }

    /// The applications that ended last, the latest first.
    pub fn history(&mut self) -> Result<HistoryReply, ClientError> {
        self.call(Request::History)
    }

    /// What further CPUs would bring, and which programs go well together.
    pub fn advise(&mut self) -> Result<AdviseReply, ClientError> {
        self.call(Request::Advise)
    }

    /// Has a running program managed.
    pub fn adopt(&mut self, request: AdoptRequest) -> Result<AdoptReply, ClientError> {
        self.call(Request::Adopt(Box::new(request)))
    }

    /// Ends the management of what was adopted. [`ErrorReply::UnknownApplication`] lists the applications that run.
    pub fn release(&mut self, name: &str) -> Result<ReleaseReply, ClientError> {
        let name = name.to_owned();
        self.call(Request::Release(ReleaseRequest { name }))
    }

    /// Gives another promise to the application of this name or id; without one to that which this process is part of.
    pub fn promise(&mut self, name: Option<&str>, qos: Qos) -> Result<PromiseReply, ClientError> {
        let name = name.map(str::to_owned);
        self.call(Request::Promise(PromiseRequest { name, qos }))
    }

    /// Has the daemon read its configuration again. If that has an error, the daemon continues with the former one.
    pub fn reload(&mut self) -> Result<ReloadReply, ClientError> {
        self.call(Request::Reload)
    }

    /// What the daemon does now.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        self.call(Request::Status)
    }

    /// Why an application has its CPUs. [`ErrorReply::UnknownApplication`] lists the applications that run.
    pub fn explain(&mut self, name: &str) -> Result<ExplainReply, ClientError> {
        let name = name.to_owned();
        self.call(Request::Explain(ExplainRequest { name }))
    }

    /// All policies.
    pub fn policies(&mut self) -> Result<PoliciesReply, ClientError> {
        self.call(Request::Policies)
    }

    /// What the service is.
    pub fn info(&mut self) -> Result<ServiceInfo, ClientError> {
        self.request(Request::GetInfo)?;
        let (text, _) = self.answer()?;
        self.read(&text)
    }

    /// A call whose reply has the protocol version and carries no descriptor.
    fn call<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, ClientError> {
        self.request(request)?;
        Ok(self.answer_versioned()?.0)
    }

    /// A reply with its protocol version, which is checked before the rest.
    fn answer_versioned<T: DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), ClientError> {
        let (text, descriptors) = self.answer()?;
        let ProtocolOnly { protocol } = self.read(&text)?;
        if protocol != Some(PROTOCOL) {
            return Err(self.failed(ClientErrorKind::WrongProtocol(protocol)));
        }
        Ok((self.read(&text)?, descriptors))
    }

    /// Waits for the parameters of a reply.
    fn answer(&mut self) -> Result<(String, Vec<OwnedFd>), ClientError> {
        let (message, descriptors) = self.receive().map_err(|kind| self.failed(kind))?;
        let parameters = parameters(&message).map_err(|kind| self.failed(kind))?;
        Ok((parameters, descriptors))
    }

    fn request(&self, request: Request) -> Result<(), ClientError> {
        let expects = Expects::Reply;
        self.send(&Call { request, expects })
    }

    fn send(&self, call: &Call) -> Result<(), ClientError> {
        let bytes = call.encode();
        let bytes =
            bytes.map_err(|error| self.failed(ClientErrorKind::Request(error.to_string())))?;
        match Outgoing::new(bytes).write_to(&self.socket) {
            Ok(Progress::Done) => Ok(()),
            // A blocking socket "would block" when its time limit has passed.
            Ok(Progress::WouldBlock) => Err(self.failed(ClientErrorKind::TimedOut(self.patience))),
            // The daemon hung up, but may have said why: that is read next.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => match call.expects {
                Expects::Reply => Ok(()),
                Expects::Nothing => Err(self.failed(ClientErrorKind::Closed)),
            },
            Err(error) => Err(self.failed(ClientErrorKind::Io(error))),
        }
    }

    fn receive(&mut self) -> Result<(Vec<u8>, Vec<OwnedFd>), ClientErrorKind> {
        let deadline = Instant::now() + self.patience;
        let (mut buffer, mut descriptors) = ([0; 16 * 1024], Vec::new());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientErrorKind::TimedOut(self.patience));
            }
            set_socket_timeout(&self.socket, Timeout::Recv, Some(left))
                .map_err(|error| ClientErrorKind::Io(error.into()))?;
            let count = match receive(&self.socket, &mut buffer, &mut descriptors) {
                Ok(0) => return Err(ClientErrorKind::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(ClientErrorKind::Closed);
                }
                Err(error) => return Err(ClientErrorKind::Io(error)),
            };
            let mut arrived = &buffer[..count];
            let message = self.decoder.next(&mut arrived);
            let message =
                message.map_err(|error| ClientErrorKind::NotVarlink(error.to_string()))?;
            if let Some(message) = message {
                if !arrived.is_empty() {
                    let problem = "more than was asked for";
                    return Err(ClientErrorKind::NotVarlink(problem.into()));
                }
                return Ok((message, descriptors));
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, parameters: &str) -> Result<T, ClientError> {
        serde_json::from_str(parameters)
            .map_err(|error| self.failed(ClientErrorKind::NotVarlink(error.to_string())))
    }

    fn failed(&self, kind: ClientErrorKind) -> ClientError {
        ClientError {
            socket: self.path.clone(),
            kind,
        }
    }
}

/// To wait for an answer together with other things.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The parameters of a reply, or the error that it reports.
fn parameters(message: &[u8]) -> Result<String, ClientErrorKind> {
    let wire: ReplyWire<'_> = serde_json::from_slice(message)
        .map_err(|error| ClientErrorKind::NotVarlink(error.to_string()))?;
    let parameters = wire.parameters.map_or("{}", RawValue::get);
    let Some(name) = wire.error else {
        return Ok(parameters.to_owned());
    };
    let known = serde_json::from_slice::<ErrorReply>(message);
    Err(match known {
        Ok(ErrorReply::WrongProtocol { protocol, .. }) => {
            ClientErrorKind::WrongProtocol(Some(protocol))
        }
        // Every daemon of this protocol has every method called here.
        Ok(ErrorReply::MethodNotFound { .. }) => ClientErrorKind::WrongProtocol(None),
        Ok(ErrorReply::InterfaceNotFound { .. }) => {
            ClientErrorKind::NotVarlink("it has no interface org.mapper.Control".into())
        }
        Ok(error) => ClientErrorKind::Daemon(error),
        Err(_) => ClientErrorKind::Daemon(ErrorReply::Other {
            name,
            parameters: parameters.to_owned(),
        }),
    })
}

fn open(path: &Path, patience: Duration) -> Result<OwnedFd, ClientErrorKind> {
    let io = |error: Errno| ClientErrorKind::Io(error.into());
    let address = SocketAddrUnix::new(path).map_err(|_| ClientErrorKind::PathTooLong)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(io)?;
    // Holds for connecting, too, which waits when many others do.
    set_socket_timeout(&socket, Timeout::Send, Some(patience)).map_err(io)?;
    match connect(&socket, &address) {
        Ok(()) => {
            trust(&socket, path)?;
            Ok(socket)
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Err(ClientErrorKind::NotFound),
        Err(Errno::ACCESS | Errno::PERM) => Err(ClientErrorKind::PermissionDenied),
        Err(Errno::AGAIN) => Err(ClientErrorKind::TimedOut(patience)),
        Err(Errno::CONNREFUSED) if is_socket(path) => Err(ClientErrorKind::Refused),
        Err(Errno::CONNREFUSED) => Err(ClientErrorKind::NotASocket),
        Err(error) => Err(io(error)),
    }
}

/// Whether the process that listens is trusted: any at the system's path, which only root can create; elsewhere root's or
/// the caller's.
fn trust(socket: &OwnedFd, path: &Path) -> Result<(), ClientErrorKind> {
    if path == Path::new(SYSTEM_SOCKET) {
        return Ok(());
    }
    // By `nix`, as the daemon may be outside this PID namespace: its number is 0 then, which `rustix` cannot hold.
    let owner = getsockopt(socket, PeerCredentials)
        .map_err(|error| ClientErrorKind::Io(error.into()))?
        .uid();
    believed(owner, rustix::process::geteuid().as_raw())
}

const fn believed(owner: u32, caller: u32) -> Result<(), ClientErrorKind> {
    match owner == 0 || owner == caller {
        true => Ok(()),
        false => Err(ClientErrorKind::Stranger(owner)),
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_daemon_of_another_user_is_not_believed_but_roots_and_ones_own_are() {
        assert!(believed(0, 1000).is_ok() && believed(1000, 1000).is_ok());
        for caller in [0, 1001] {
            let error = believed(1000, caller).unwrap_err();
            assert!(error.to_string().contains("user 1000"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn random_replies_never_panic(message in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parameters(&message);
        }

        #[test]
        fn damaged_replies_never_panic(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let whole = br#"{"error":"org.mapper.Control.UnknownApplication","parameters":{"message":"m","running":["a"]}}"#;
            let mut message = whole.to_vec();
            let place = place.index(message.len());
            message[place] = byte;
            let _ = parameters(&message);
        }
    }
}
