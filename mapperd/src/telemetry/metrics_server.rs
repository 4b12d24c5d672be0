//! Serving metrics over HTTP, on a Unix socket or on the loopback device.
//!
//! Enough of HTTP/1.1 for a scraper: one `GET /metrics`, one answer, and the connection is closed. Requests are bounded
//! in length and time, and a client that is slow or asks often takes no place or time from others.

use crate::socket::message::{Message, Sender};
use anyhow::{Context, bail};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

/// Scrapers served at a time; others wait in the kernel's queue.
const CONNECTIONS: usize = 256;
/// Of these, so many may wait for their client: each newer one ends the one that waits longest.
const SLOW: usize = 64;
/// How often the daemon is asked for metrics at most.
const SCRAPE_EVERY: Duration = Duration::from_millis(50);
/// How long a scraper may take to send its request and to read.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request.
const REQUEST_BYTES: usize = 4096;

/// The file of a socket that is served. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens on a Unix socket that its owner alone may connect to.
pub(crate) fn serve_unix(path: &Path, sender: Sender) -> anyhow::Result<SocketFile> {
    // The lock of the control socket is held, so that a socket here belongs to a dead daemon.
    match std::fs::symlink_metadata(path) {
        Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => bail!(
            "{} is there already and is not a socket; remove it, or name another metrics.socket",
            path.display()
        ),
        Ok(_) => std::fs::remove_file(path)
            .with_context(|| format!("remove stale socket {}", path.display()))?,
        Err(_) => {}
    }
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(umask);
    let listener = bound.with_context(|| format!("serve metrics on {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("set mode of {}", path.display()))?;
    listener.set_nonblocking(true)?;
    let start = || {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        Ok(async move || Ok(listener.accept().await?.0))
    };
    serve(start, sender)?;
    Ok(SocketFile(path.to_owned()))
}

pub(crate) fn serve_tcp(address: SocketAddr, sender: Sender) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("serve metrics on {address}"))?;
    listener.set_nonblocking(true)?;
    let start = || {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(async move || Ok(listener.accept().await?.0))
    };
    serve(start, sender)
}

/// Answers for as long as the daemon lives, on a thread of its own.
fn serve<S, A>(
    start: impl FnOnce() -> io::Result<A> + Send + 'static,
    sender: Sender,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: AsyncFn() -> io::Result<S>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop of the metrics")?;
    let server = Arc::new(Server {
        sender,
        slow: std::sync::Mutex::default(),
        newest: Mutex::default(),
    });
    let serve = async move || match start() {
        Ok(accept) => server.accept_all(accept).await,
        Err(error) => tracing::error!("metrics are not served: {error}"),
    };
    let thread = std::thread::Builder::new().name("metrics".to_owned());
    thread
        .spawn(move || runtime.block_on(serve()))
        .context("start the thread of the metrics")?;
    Ok(())
}

#[derive(Debug)]
struct Server {
    sender: Sender,
    /// Connections that wait for their client, the oldest first.
    slow: std::sync::Mutex<VecDeque<AbortHandle>>,
    /// The newest metrics and when they were asked for.
    newest: Mutex<(Option<Instant>, Arc<str>)>,
}

impl Server {
    async fn accept_all<S>(self: Arc<Self>, accept: impl AsyncFn() -> io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match accept().await {
                // The connection keeps its place until it is answered.
                Ok(stream) => {
                    let reading = Arc::clone(&self).read(stream, place);
                    self.wait_for_client(reading);
                }
                // Out of descriptors, most likely: some will be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// A client that is too slow gets nothing, and nothing either if too many newer ones wait.
    fn wait_for_client(&self, work: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(tokio::time::timeout(PATIENCE, work));
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        slow.retain(|task| !task.is_finished());
        slow.push_back(task.abort_handle());
        if slow.len() > SLOW {
            slow.pop_front().iter().for_each(AbortHandle::abort);
        }
    }

    async fn read<S>(self: Arc<Self>, mut stream: S, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(request) = read_request(&mut stream).await else {
            return;
        };
        let answer = async move {
            let (status, body) = match route(&request) {
                Route::Metrics => ("200 OK", self.metrics().await),
                Route::NotFound => ("404 Not Found", "metrics are at /metrics\n".into()),
                Route::OtherMethod => (
                    "405 Method Not Allowed\r\nAllow: GET",
                    "GET /metrics\n".into(),
                ),
                Route::BadRequest => ("400 Bad Request", "GET /metrics\n".into()),
            };
            self.wait_for_client(async move {
                let _place = place;
                let head = head(status, body.len());
                if stream.write_all(head.as_bytes()).await.is_ok()
                    && stream.write_all(body.as_bytes()).await.is_ok()
                {
                    let _hung_up = stream.shutdown().await;
                }
            });
        };
        // By itself, since the daemon and not the client is waited for.
        tokio::spawn(answer);
    }

    /// The metrics of now. The daemon is asked now and then, for all that wait.
    async fn metrics(&self) -> Arc<str> {
        let arrived = Instant::now();
        let mut newest = self.newest.lock().await;
        if let Some(asked) = newest.0 {
            if asked >= arrived {
                return Arc::clone(&newest.1);
            }
            tokio::time::sleep_until((asked + SCRAPE_EVERY).into()).await;
        }
        let asked = Instant::now();
        let (reply, text) = oneshot::channel();
        let _ = self.sender.send(Message::Scrape { reply }).await;
        // Empty while the daemon stops.
        *newest = (Some(asked), text.await.unwrap_or_default().into());
        Arc::clone(&newest.1)
    }
}

/// The head of a request, up to the empty line.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0u8; 512];
    loop {
        let length = stream.read(&mut buffer).await.ok()?;
        request.extend_from_slice(&buffer[..length]);
        let whole = request.windows(4).any(|end| end == b"\r\n\r\n");
        if whole || length == 0 || request.len() >= REQUEST_BYTES {
            return (!request.is_empty()).then_some(request);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    Metrics,
    NotFound,
    OtherMethod,
    BadRequest,
}

fn route(request: &[u8]) -> Route {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or(b"");
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next(), words.next()) {
        (Some(method), Some(path), Some(version)) if version.starts_with(b"HTTP/1.") => {
            match (method, path) {
                (b"GET", b"/metrics") => Route::Metrics,
                (b"GET", _) => Route::NotFound,
                (b"", _) => Route::BadRequest,
                _ if method.iter().all(u8::is_ascii_uppercase) => Route::OtherMethod,
                _ => Route::BadRequest,
            }
        }
        _ => Route::BadRequest,
    }
}

fn head(status: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\n\
         Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_metrics_is_answered_with_them() {
        for (request, expected) in [
            (
                &b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..],
                Route::Metrics,
            ),
            (b"GET / HTTP/1.0\r\n\r\n", Route::NotFound),
            (b"POST /metrics HTTP/1.1\r\n\r\n", Route::OtherMethod),
            (b"\x01 /metrics HTTP/1.1\r\n\r\n", Route::BadRequest),
            (b"\0\xff", Route::BadRequest),
            (b"", Route::BadRequest),
            (b"GET /metrics", Route::BadRequest),
        ] {
            assert_eq!(route(request), expected, "{request:?}");
        }
    }
}
