//! The control socket: one thread, and on it one task for each connection.
//!
//! The thread accepts every connection, and answers at once where it refuses one. So what users connect, send and do not
//! read costs the daemon's task nothing until it is a call.
//!
//! A connection task splits bytes into calls, passes them to the daemon and writes the answers back, one at a time.
//! It holds at most one unfinished message of bounded size. Invalid input ends the connection; nothing a client
//! sends ends the daemon. A connection on which a program was launched is that application's lease: the daemon is
//! notified when it closes.

use crate::config::accounts::Accounts;
use crate::config::peer::Peer;
use crate::socket::arrivals::{ARRIVES_WITHIN, Arrival, Arrivals};
use crate::socket::message::{Answer, Message, Sender, Served};
use crate::socket::quota::{Place, Quotas};
use anyhow::Context;
use mapper_control::codec::{FrameDecoder, MAX_REQUEST_BYTES, Outgoing, Progress};
use mapper_control::{Call, ErrorReply, Expects, Reply, Request, RequestError};
use mapper_model::AppId;
use prometheus_client::metrics::histogram::Histogram;
use std::io;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

/// How long a client that holds no lease may send nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a client may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A longer request counts against the bytes that its user may hold.
const SHORT_REQUEST: usize = 2048;

/// Connections that are accepted before those that are there have a turn. Each step of a call waits for so many.
const AT_A_TIME: u32 = 8;

/// How often changed files of subordinate uids are noticed, while users connect.
const ACCOUNTS_REFRESH: Duration = Duration::from_secs(1);

/// Serves as long as the process lives.
pub(crate) fn start(
    listener: UnixListener,
    quotas: Quotas,
    accounts: Accounts,
    arrivals: Arrivals,
    sender: Sender,
    launch_s: Histogram,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop of the socket")?;
    let server = Server {
        quotas,
        accounts,
        arrivals,
        sender,
        launch_s,
    };
    let serve = move || {
        if let Err(error) = runtime.block_on(server.accept(listener)) {
            tracing::error!("no connections are accepted any more: {error}");
        }
    };
    let thread = std::thread::Builder::new().name("socket".to_owned());
    thread.spawn(serve).context("start the socket's thread")?;
    Ok(())
}

struct Server {
    quotas: Quotas,
    accounts: Accounts,
    arrivals: Arrivals,
    sender: Sender,
    /// How long launches take.
    launch_s: Histogram,
}

impl Server {
    async fn accept(self, listener: UnixListener) -> io::Result<()> {
        // The runtime watches the listener, and of the connections only those that are admitted.
        // SAFETY: a listener has one descriptor, which is open as long as it lives.
        let listener = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE)? };
        let mut refresh: Option<tokio::task::JoinHandle<()>> = None;
        let mut refreshed = Instant::now();
        let mut accepted = 0;
        loop {
            if accepted == AT_A_TIME {
                accepted = 0;
                tokio::task::yield_now().await;
            }
            accepted += 1;
            match listener
                .async_io(Interest::READABLE, UnixListener::accept)
                .await
            {
                Ok((stream, _address)) => self.admit(stream),
                Err(error) => {
                    // Out of descriptors, most likely: some will be closed.
                    tracing::warn!("no connection accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
            let refreshing = refresh.as_ref().is_some_and(|task| !task.is_finished());
            if !refreshing && refreshed.elapsed() > ACCOUNTS_REFRESH {
                let accounts = self.accounts.clone();
                refresh = Some(tokio::task::spawn_blocking(move || accounts.refresh()));
                refreshed = Instant::now();
            }
        }
    }

    fn admit(&self, stream: std::os::unix::net::UnixStream) {
        let Ok(credentials) = mapper_host::peer::credentials(&stream) else {
            return;
        };
        let uid = credentials.uid();
        let account = self.accounts.of(uid);
        match self.quotas.connect(uid, account, Instant::now()) {
            Ok(place) => {
                let watched = stream.set_nonblocking(true);
                let Ok(stream) = watched.and_then(|()| UnixStream::from_std(stream)) else {
                    return;
                };
                let connection = Connection {
                    stream,
                    sender: self.sender.clone(),
                    launch_s: self.launch_s.clone(),
                    account,
                    place,
                    arrival: Some(self.arrivals.begin()),
                    leases: Vec::new(),
                };
                tokio::spawn(connection.serve());
            }
            Err(refused) => {
                tracing::debug!(uid, "connection refused: {refused}");
                let message = refused.to_string();
                if let Ok(bytes) = (ErrorReply::Unavailable { message }).encode() {
                    // A socket that is new takes as little at once.
                    let _ = Outgoing::new(bytes).write_to(&stream);
                }
            }
        }
    }
}

struct Connection {
    stream: UnixStream,
    sender: Sender,
    launch_s: Histogram,
    account: u32,
    place: Place,
    arrival: Option<Arrival>,
    leases: Vec<AppId>,
}

impl Connection {
    async fn serve(mut self) {
        if let Err(why) = self.converse().await {
            tracing::debug!("connection closed: {why:#}");
        }
        for app in self.leases {
            // Sending fails while the daemon stops.
            let _ = self.sender.send(Message::LeaseEnded { app }).await;
        }
    }

    /// Handles calls until the client hangs up, or does something that cannot be answered.
    async fn converse(&mut self) -> anyhow::Result<()> {
        let peer = self.peer().context("no credentials")?;
        let mut decoder = FrameDecoder::new(MAX_REQUEST_BYTES);
        // Small, since a connection has it for life.
        let mut buffer = [0u8; 1024];
        let mut held = None;
        let arrives_until = tokio::time::Instant::now() + ARRIVES_WITHIN;
        loop {
            if self.arrival.is_some() {
                let in_time = tokio::time::timeout_at(arrives_until, self.stream.readable()).await;
                if in_time.is_err() || tokio::time::Instant::now() > arrives_until {
                    self.arrival = None;
                }
            }
            // A lease is silent; any other connection is expected to send something.
            let reading = self.read(&mut buffer);
            let read = match self.leases.is_empty() {
                true => tokio::time::timeout(SILENCE, reading).await.ok(),
                false => Some(reading.await),
            };
            let length = read.context("the client sends nothing")??;
            if length == 0 {
                return Ok(());
            }
            let mut arrived = &buffer[..length];
            while let Some(message) = decoder.next(&mut arrived)? {
                self.handle(&peer, message).await?;
                held = None;
            }
            if decoder.unfinished() > SHORT_REQUEST && held.is_none() {
                held = self.place.hold(MAX_REQUEST_BYTES);
                if held.is_none() {
                    let message = "too many long requests at a time; try again later".to_owned();
                    let refused = Outgoing::new(ErrorReply::Unavailable { message }.encode()?);
                    return self.write(refused).await;
                }
            }
        }
    }

    fn peer(&self) -> io::Result<Peer> {
        let credentials = self.stream.peer_cred()?;
        let pid = credentials
            .pid()
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid != 0)
            .ok_or_else(|| io::Error::other("the process is not visible from here"))?;
        Ok(Peer {
            pid,
            uid: credentials.uid(),
            account: self.account,
            groups: mapper_host::peer::groups(&self.stream)?.into(),
        })
    }

    async fn handle(&mut self, peer: &Peer, message: Vec<u8>) -> anyhow::Result<()> {
        let read = Instant::now();
        let turn = self.place.turn().await;
        let call = Call::parse(&message);
        drop(message);
        let (answer, expects) = match call {
            Ok(call) => {
                let launches = matches!(call.request, Request::Launch(_));
                let answer = self.answer(peer, call.request).await;
                if launches {
                    self.launch_s.observe(read.elapsed().as_secs_f64());
                }
                (answer, call.expects)
            }
            Err(RequestError::Refused { error, expects }) => (Err(error), expects),
            Err(error @ RequestError::NotVarlink(_)) => return Err(error.into()),
        };
        let lease = answer.as_ref().ok().and_then(|served| served.lease);
        self.leases.extend(lease);
        let outgoing = encode(answer)?;
        drop(turn);
        match expects {
            Expects::Reply => self.write(outgoing).await,
            Expects::Nothing => Ok(()),
        }
    }

    async fn answer(&mut self, peer: &Peer, request: Request) -> Answer {
        if let Some(answer) = Reply::about_service(&request, env!("CARGO_PKG_VERSION")) {
            return answer.map(Served::plain);
        }
        if let Request::Exited(exited) = &request
            && !self.leases.contains(&exited.app)
        {
            let app = exited.app;
            let message = format!("application {app} was not launched on this connection");
            return Err(ErrorReply::NotPermitted { message });
        }
        let (reply, answer) = oneshot::channel();
        let call = Message::Call {
            peer: peer.clone(),
            request,
            reply,
            arrival: self.arrival.take(),
        };
        let stopping = || ErrorReply::Unavailable {
            message: "the daemon is stopping".to_owned(),
        };
        self.sender.send(call).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            // Not `recvmsg`: the kernel drops descriptors that a client sends.
            match self.stream.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }

    async fn write(&self, mut outgoing: Outgoing) -> anyhow::Result<()> {
        let (bytes, mut held) = (outgoing.unsent(), None);
        let writing = async {
            loop {
                self.stream.writable().await?;
                let written = self.stream.try_io(Interest::WRITABLE, || {
                    match outgoing.write_to(&self.stream)? {
                        Progress::Done => Ok(()),
                        Progress::WouldBlock => Err(io::ErrorKind::WouldBlock.into()),
                    }
                });
                match written {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        held = held.take().or_else(|| self.place.hold(bytes));
                        if held.is_none() {
                            return Err(io::Error::other(
                                "the user leaves too many replies unread",
                            ));
                        }
                    }
                    result => return result,
                }
            }
        };
        let written = tokio::time::timeout(PATIENCE, writing).await.ok();
        Ok(written.context("the client does not read")??)
    }
}

fn encode(answer: Answer) -> anyhow::Result<Outgoing> {
    let (bytes, page) = match answer {
        Ok(served) => (served.reply.encode(), served.page),
        Err(error) => (error.encode(), None),
    };
    let bytes = bytes.or_else(|error| {
        let message = format!("the reply cannot be sent: {error}");
        ErrorReply::Internal { message }.encode()
    });
    let outgoing = Outgoing::new(bytes?);
    Ok(match page {
        Some(page) => outgoing.with_descriptor(page),
        None => outgoing,
    })
}
