//! Metrics as a scraper reads them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(crate) fn scrape(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

pub(crate) const GET: &str = "GET /metrics HTTP/1.1\r\nHost: mapper\r\n\r\n";

/// The value on the line that begins so.
pub(crate) fn value(text: &str, start: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(start))?;
    line.rsplit(' ').next()?.parse().ok()
}
