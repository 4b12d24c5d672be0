//! A daemon for tests of mapper's programs, with the feature `fake-daemon` alone: answers on a real socket what the test
//! says, and records every call and the end of every connection.

use crate::PROTOCOL;
use crate::codec::{FrameDecoder, MAX_REQUEST_BYTES, Outgoing};
use crate::error_reply::ErrorReply;
use crate::reply::Reply;
use crate::request::{Call, Expects, Request};
use crate::schema::{
    BY_DEFAULT, LaunchReply, LaunchRequest, RuntimeChoice, ShimFile, TeamsWish, Terms, Threads,
};
use mapper_model::{AppId, CpuSet};
use rustix::fs::{MemfdFlags, memfd_create};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What a fake daemon does with a request.
#[derive(Debug)]
pub enum Answer {
    /// Replies. To a launch with a token it adds a page, a memfd that holds the token's text.
    Reply(Reply),
    /// Replies with an error.
    Error(ErrorReply),
    /// Sends just these bytes.
    Bytes(Vec<u8>),
    /// Says nothing and keeps the connection.
    Silence,
    /// Closes the connection.
    HangUp,
}

/// What a fake daemon has recorded.
#[derive(Clone, PartialEq, Debug)]
pub enum Seen {
    /// A request.
    Call(Request),
    /// The end of a connection.
    Closed,
}

/// A daemon for tests. Dropping it breaks connections and removes the socket.
#[derive(Debug)]
pub struct FakeDaemon {
    path: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<Vec<UnixStream>>,
    ended: Mutex<Option<Instant>>,
}

impl FakeDaemon {
    /// Listens at `path` and answers every request with the result of `behave`.
    ///
    /// # Errors
    /// The kernel's, when it cannot listen there.
    pub fn start(
        path: &Path,
        behave: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let shared = Arc::new(Shared::default());
        let behave = Arc::new(behave);
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(connection) = connection else { return };
                if lock(&accepting.ended).is_some() {
                    return;
                }
                if let Ok(copy) = connection.try_clone() {
                    lock(&accepting.connections).push(copy);
                }
                let (shared, behave) = (Arc::clone(&accepting), Arc::clone(&behave));
                thread::spawn(move || {
                    // A broken connection counts as closed.
                    let _ = serve(&connection, &*behave, &shared);
                    let _ = connection.shutdown(std::net::Shutdown::Both);
                    lock(&shared.seen).push(Seen::Closed);
                });
            }
        });
        Ok(Self {
            path: path.to_owned(),
            shared,
        })
    }

    /// Listens at `path` and grants every launch these CPUs of `machine_cpus`; errors as [`start`](Self::start).
    pub fn granting(path: &Path, cpus: CpuSet, machine_cpus: u32) -> io::Result<Self> {
        Self::start(path, move |request| match request {
            Request::Launch(launch) => Answer::Reply(grant(launch, &cpus, machine_cpus)),
            Request::Exited(_) => Answer::Reply(Reply::Exited {}),
            other => match Reply::about_service(other, "0.0.0") {
                Some(Ok(reply)) => Answer::Reply(reply),
                Some(Err(error)) => Answer::Error(error),
                None => Answer::Error(ErrorReply::Unavailable {
                    message: "this is a test".into(),
                }),
            },
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it has recorded so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// What it has recorded once `enough` accepts that, or after twenty seconds.
    #[must_use]
    pub fn seen_when(&self, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let seen = self.seen();
            if enough(&seen) || Instant::now() > deadline {
                return seen;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        *lock(&self.shared.ended) = Some(Instant::now());
        // Wakes the thread that accepts.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        for connection in lock(&self.shared.connections).iter() {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// The reply that gives a launch these CPUs and what its user requests, with a page unless the user or the launcher does
/// without the runtime interface.
pub fn grant(launch: &LaunchRequest, cpus: &CpuSet, machine_cpus: u32) -> Reply {
    let wishes = &launch.wishes;
    let has_page = wishes.runtime != Some(RuntimeChoice::Off) && launch.shim == ShimFile::Found;
    let asked = wishes.teams.and_then(TeamsWish::mode);
    let teams = asked.filter(|_| has_page).unwrap_or_default();
    Reply::Launch(LaunchReply {
        protocol: PROTOCOL,
        app: AppId(7),
        name: wishes.name.clone(),
        cpus: cpus.clone(),
        cpu_count: cpus.len(),
        machine_cpus,
        token: has_page.then(|| "00c0ffee00c0ffee".to_owned()),
        terms: Terms {
            teams,
            teams_by: asked.map_or(BY_DEFAULT, |_| "as asked").to_owned(),
            threads: wishes.threads.or_rule(Some(Threads::by_default(teams))),
            schedule: wishes.schedule.or_rule(None),
            max_cpus: wishes.cpus.max(),
        },
    })
}

fn serve(
    connection: &UnixStream,
    behave: &(impl Fn(&Request) -> Answer + ?Sized),
    shared: &Shared,
) -> io::Result<()> {
    let mut decoder = FrameDecoder::new(MAX_REQUEST_BYTES);
    let mut buffer = [0; 4096];
    loop {
        let count = { connection }.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut arrived = &buffer[..count];
        while let Some(message) = decoder.next(&mut arrived).map_err(io::Error::other)? {
            let call = Call::parse(&message).map_err(io::Error::other)?;
            lock(&shared.seen).push(Seen::Call(call.request.clone()));
            let answer = behave(&call.request);
            if call.expects == Expects::Nothing {
                continue;
            }
            let mut outgoing = match answer {
                Answer::Reply(reply) => {
                    let outgoing = Outgoing::new(reply.encode().map_err(io::Error::other)?);
                    match &reply {
                        Reply::Launch(LaunchReply {
                            token: Some(token), ..
                        }) => outgoing.with_descriptor(page(token)?),
                        _ => outgoing,
                    }
                }
                Answer::Error(error) => Outgoing::new(error.encode().map_err(io::Error::other)?),
                Answer::Bytes(bytes) => Outgoing::new(bytes),
                Answer::Silence => continue,
                Answer::HangUp => return Ok(()),
            };
            outgoing.write_to(connection)?;
        }
    }
}

fn page(token: &str) -> io::Result<OwnedFd> {
    let memory = memfd_create("mapper-fake-page", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(token.as_bytes())?;
    Ok(file.into())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
