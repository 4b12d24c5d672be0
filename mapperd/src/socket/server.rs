//! The control socket: one task for each connection.
//!
//! A connection task splits bytes into calls, passes them to the daemon and writes the answers back, one at a time.
//! It holds at most one unfinished message of bounded size. Invalid input ends the connection; nothing a client
//! sends ends the daemon. A connection on which a program was launched is that application's lease: the daemon is
//! notified when it closes.

use crate::config::peer::Peer;
use crate::socket::message::{Answer, Message, Sender, Served};
use crate::socket::quota::{Asked, Place, Quotas};
use anyhow::{Context, bail};
use mapper_control::codec::{FrameDecoder, MAX_REQUEST_BYTES, Outgoing, Progress};
use mapper_control::{Call, ErrorReply, Expects, Reply, Request, RequestError};
use mapper_model::AppId;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};

/// Connections that may be open at a time.
const CONNECTIONS: usize = 2048;
/// How long a client that holds no lease may send nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a client may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn accept(listener: UnixListener, sender: Sender) {
    let quotas = Quotas::default();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _address)) => {
                let (sender, quotas) = (sender.clone(), quotas.clone());
                let connection = Connection {
                    stream,
                    sender,
                    quotas,
                    leases: Vec::new(),
                };
                tokio::spawn(async move {
                    connection.serve().await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: some will be closed.
                tracing::warn!("no connection accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Connection {
    stream: UnixStream,
    sender: Sender,
    quotas: Quotas,
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
        let Some(place) = self.quotas.connect(peer.uid, Instant::now()) else {
            let message = format!("user {} has too many connections open", peer.uid);
            let error = ErrorReply::Unavailable { message };
            let _ = self.write(Err(error)).await;
            bail!("user {} has too many connections", peer.uid);
        };
        let mut decoder = FrameDecoder::new(MAX_REQUEST_BYTES);
        let mut buffer = [0u8; 4096];
        loop {
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
                self.handle(&peer, &place, &message).await?;
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
            groups: mapper_host::peer::groups(&self.stream)?.into(),
        })
    }

    async fn handle(&mut self, peer: &Peer, place: &Place, message: &[u8]) -> anyhow::Result<()> {
        let call = Call::parse(message);
        let asked = match call.as_ref().map(|call| &call.request) {
            Ok(Request::Adopt(_)) => Asked::Adoption,
            _ => Asked::Call,
        };
        let wait = place.call(asked, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let (answer, expects) = match call {
            Ok(call) => (self.answer(peer, call.request).await, call.expects),
            Err(RequestError::Refused { error, expects }) => (Err(error), expects),
            Err(error @ RequestError::NotVarlink(_)) => return Err(error.into()),
        };
        let lease = answer.as_ref().ok().and_then(|served| served.lease);
        self.leases.extend(lease);
        match expects {
            Expects::Reply => self.write(answer).await,
            Expects::Nothing => Ok(()),
        }
    }

    async fn answer(&self, peer: &Peer, request: Request) -> Answer {
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

    async fn write(&self, answer: Answer) -> anyhow::Result<()> {
        let (bytes, page) = match answer {
            Ok(served) => (served.reply.encode(), served.page),
            Err(error) => (error.encode(), None),
        };
        let bytes = bytes.or_else(|error| {
            let message = format!("the reply cannot be sent: {error}");
            ErrorReply::Internal { message }.encode()
        });
        let mut outgoing = Outgoing::new(bytes?);
        if let Some(page) = page {
            outgoing = outgoing.with_descriptor(page);
        }
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
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return result,
                }
            }
        };
        let written = tokio::time::timeout(PATIENCE, writing).await.ok();
        Ok(written.context("the client does not read")??)
    }
}
