//! Serving metrics over HTTP, on a Unix socket or on the loopback device.
//!
//! Enough of HTTP/1.1 for a scraper: one `GET /metrics`, one answer, and the connection is closed. Requests are bounded
//! in length and time, and few are served at a time.

use crate::socket::message::{Message, Sender};
use anyhow::{Context, bail};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Scrapers served at a time; others wait.
const CONNECTIONS: usize = 8;
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
    let accept = async move || Ok(listener.accept().await?.0);
    tokio::spawn(serve(accept, sender));
    Ok(SocketFile(path.to_owned()))
}

pub(crate) async fn serve_tcp(address: SocketAddr, sender: Sender) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("serve metrics on {address}"))?;
    let accept = async move || Ok(listener.accept().await?.0);
    tokio::spawn(serve(accept, sender));
    Ok(())
}

/// Answers for as long as the daemon lives.
async fn serve<S>(accept: impl AsyncFn() -> io::Result<S>, sender: Sender)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match accept().await {
            // The connection keeps its place until it is answered.
            Ok(stream) => drop(tokio::spawn(answer(stream, sender.clone(), place))),
            // Out of descriptors, most likely: some will be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    sender: Sender,
    _place: OwnedSemaphorePermit,
) {
    let served = async {
        let request = read_request(&mut stream).await?;
        let response = match route(&request) {
            Route::Metrics => {
                let (reply, text) = oneshot::channel();
                let _ = sender.send(Message::Scrape { reply }).await;
                // Empty while the daemon stops.
                response("200 OK", &text.await.unwrap_or_default())
            }
            Route::NotFound => response("404 Not Found", "metrics are at /metrics\n"),
            Route::OtherMethod => {
                response("405 Method Not Allowed\r\nAllow: GET", "GET /metrics\n")
            }
            Route::BadRequest => response("400 Bad Request", "GET /metrics\n"),
        };
        stream.write_all(response.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    };
    // A scraper that is too slow or hangs up gets nothing.
    let _ = tokio::time::timeout(PATIENCE, served).await;
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

fn response(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n\
         Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
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
