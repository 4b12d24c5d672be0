//! Serves one page to the user of this machine who knows its address: on the loopback device, at a path that nobody can
//! guess. Other users can connect there, too, so that requests are bounded in length and number; and a web site that has
//! its name resolve to this machine is refused by the name that browsers send.

use crate::document::policy;
use anyhow::Context;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Connections served at a time: each newer one ends the oldest, so that slow clients hold no other up.
const CONNECTIONS: usize = 32;
/// The longest request. Browsers send less than 2 kB.
const REQUEST_BYTES: u64 = 16 << 10;
/// How long a client may send nothing, or read nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// What browsers call this machine, whatever the port: `ssh -L` may have another.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Makes the page, whose style and script carry the given nonce.
pub(super) type Page = dyn Fn(&str) -> String + Send + Sync;

/// A page that is ready to be served.
pub(super) struct Server {
    listener: TcpListener,
    token: String,
}

impl Server {
    /// Listens, on any free port where `port` is 0.
    pub(super) fn bind(port: u16) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).with_context(|| {
            format!("serve the page at {address}; leave out --port for any free one")
        })?;
        let token = random().context("choose an address that nobody can guess")?;
        Ok(Self { listener, token })
    }

    pub(super) fn address(&self) -> anyhow::Result<String> {
        let address = self.listener.local_addr().context("find the page's port")?;
        Ok(format!("http://{address}/{}/", self.token))
    }

    /// Serves until the program ends.
    pub(super) fn serve(&self, page: &Arc<Page>) {
        let path: Arc<str> = format!("/{}/", self.token).into();
        let mut open = VecDeque::new();
        for stream in self.listener.incoming() {
            // Without a copy, descriptors are short: some will be closed.
            let Ok((stream, copy)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream)))
            else {
                std::thread::sleep(PATIENCE / 50);
                continue;
            };
            open.push_back(copy);
            if open.len() > CONNECTIONS
                && let Some(oldest) = open.pop_front()
            {
                // It fails for one that is closed already.
                let _ = oldest.shutdown(Shutdown::Both);
            }
            let (page, path) = (Arc::clone(page), Arc::clone(&path));
            // A client that is gone or slow gets nothing, nor does one where there are too many threads.
            let _ = std::thread::Builder::new().spawn(move || {
                let _ = answer(&stream, &path, &*page);
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    }
}

/// 32 hexadecimal digits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn answer(stream: &TcpStream, path: &str, page: &Page) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let route = Route::of(BufReader::new(stream.take(REQUEST_BYTES)), path)?;
    let nonce = random()?;
    let (status, kind, body) = match route {
        Route::Page => ("200 OK", "text/html", page(&nonce)),
        other => (
            other.status(),
            "text/plain",
            format!("{}\n", other.status()),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nContent-Security-Policy: {}; frame-ancestors 'none'\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\r\n",
        body.len(),
        policy(&nonce),
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    Page,
    NotFound,
    OtherMethod,
    OtherHost,
    BadRequest,
}

impl Route {
    /// Reads a request up to the empty line.
    fn of(mut request: impl BufRead, path: &str) -> io::Result<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if request.read_line(&mut line)? == 0 {
                return Ok(Self::BadRequest);
            }
            if line.trim_end().is_empty() {
                break;
            }
            lines.push(line);
        }
        let mut words = lines.first().map_or("", String::as_str).split_whitespace();
        let (Some(method), Some(asked), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Ok(Self::BadRequest);
        };
        let hosts = lines.iter().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then_some(value.trim())
        });
        let hosts: Vec<_> = hosts.collect();
        Ok(match hosts.as_slice() {
            [host] if !is_here(host) => Self::OtherHost,
            [_] if !is_same(asked.as_bytes(), path.as_bytes()) => Self::NotFound,
            [_] if method != "GET" => Self::OtherMethod,
            [_] => Self::Page,
            _ => Self::BadRequest,
        })
    }

    const fn status(self) -> &'static str {
        match self {
            Self::Page => "200 OK",
            Self::NotFound => "404 Not Found",
            Self::OtherMethod => "405 Method Not Allowed",
            Self::OtherHost => "421 Misdirected Request",
            Self::BadRequest => "400 Bad Request",
        }
    }
}

fn is_here(host: &str) -> bool {
    HOSTS.iter().any(|name| match host.strip_prefix(name) {
        Some("") => true,
        Some(port) => port
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok()),
        None => false,
    })
}

/// In a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_path_and_calls_the_machine_by_its_own_name_gets_the_page() {
        for (request, expected) in [
            (
                "GET /t/ HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
                Route::Page,
            ),
            (
                "GET /t/ HTTP/1.1\r\nA: b\r\nhost:localhost:9\r\n\r\n",
                Route::Page,
            ),
            ("GET /t/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", Route::Page),
            (
                "GET /t HTTP/1.1\r\nHost: localhost\r\n\r\n",
                Route::NotFound,
            ),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Route::NotFound),
            (
                "POST /t/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
                Route::OtherMethod,
            ),
            (
                "GET /t/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                Route::OtherHost,
            ),
            (
                "GET /t/ HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n",
                Route::OtherHost,
            ),
            (
                "GET /t/ HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n",
                Route::BadRequest,
            ),
            ("GET /t/ HTTP/1.1\r\n\r\n", Route::BadRequest),
            ("GET /t/ HTTP/1.1\r\nHost: localhost\r\n", Route::BadRequest),
            ("GET  HTTP/2\r\n\r\n", Route::BadRequest),
            ("\r\n\r\n", Route::BadRequest),
        ] {
            assert_eq!(
                Route::of(request.as_bytes(), "/t/").unwrap(),
                expected,
                "{request:?}"
            );
        }
    }

    #[test]
    fn no_two_addresses_are_the_same() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_eq!((one.len(), other.len()), (32, 32));
        assert_ne!(one, other);
    }
}
