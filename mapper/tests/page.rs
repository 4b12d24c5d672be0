//! `mapper page`, as a browser asks for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mapper_control::fake::{Answer, FakeDaemon};
use mapper_control::{Reply, Request};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A recording of two programs.
fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/pipeline/tests/data/version_1.jsonl")
}

/// A page that is served until the end of the test.
struct Served {
    command: Child,
    /// Such as `127.0.0.1:4711`.
    host: String,
    path: String,
}

impl Served {
    fn start(arguments: &[&str], socket: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mapper"));
        command
            .arg("page")
            .args(arguments)
            .env("MAPPER_SOCKET", socket);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut command = command.spawn().unwrap();
        let mut address = String::new();
        let mut out = BufReader::new(command.stdout.take().unwrap());
        out.read_line(&mut address).unwrap();
        let (host, path) = address
            .trim_end()
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        Self {
            command,
            host: host.to_owned(),
            path: format!("/{path}"),
        }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn page(&self) -> String {
        self.ask(&format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.path, self.host
        ))
    }

    /// The page as soon as it contains this.
    fn page_with(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = self.page();
            if page.contains(text) {
                return page;
            }
            assert!(Instant::now() < deadline, "no {text}: {page}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

#[test]
fn the_page_is_at_its_address_alone_and_executes_only_its_own_script() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recording();
    let served = Served::start(&["--from", recording.to_str().unwrap()], folder.path());
    let (host, path) = (&served.host, &served.path);
    let page = served.page();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    let (_, rest) = page.split_once("script-src 'nonce-").unwrap();
    let (nonce, _) = rest.split_once('\'').unwrap();
    assert!(
        page.contains(&format!("<script nonce=\"{nonce}\">")),
        "{nonce}"
    );
    assert!(!served.page().contains(nonce), "the same for two answers");
    assert!(page.contains("frame-ancestors 'none'"));
    for (request, status) in [
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), "404"),
        (
            format!("GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n"),
            "421",
        ),
        (
            format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            "405",
        ),
        ("\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = served.ask(&request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
        assert!(!answer.contains("<html"), "{answer}");
    }
}

#[test]
fn a_client_that_sends_nothing_or_too_much_holds_no_other_up() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(&[], folder.path());
    let silent: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(&served.host).unwrap())
        .collect();
    let mut long = TcpStream::connect(&served.host).unwrap();
    // The server closes when it has seen enough.
    let _ = long.write_all("GET / ".repeat(10_000).as_bytes());
    assert!(served.page().starts_with("HTTP/1.1 200 OK\r\n"));
    drop(silent);
}

#[test]
fn without_a_daemon_the_page_says_how_to_start_and_then_shows_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let served = Served::start(&[], &socket);
    let page = served.page_with("No daemon answers");
    assert!(page.contains("mapper run -- ./program"), "{page}");
    let _daemon = FakeDaemon::start(&socket, |request| match request {
        Request::Status => {
            let mut status = samples::status();
            status.apps[0].sentence = "<script>alert(1)</script>".to_owned();
            status.apps[0].command = "./md \u{202e}\"' --x".to_owned();
            Answer::Reply(Reply::Status(Box::new(status)))
        }
        Request::Explain(_) => Answer::Reply(Reply::Explain(Box::new(samples::explain()))),
        Request::History => Answer::Reply(Reply::History(samples::history())),
        _ => Answer::HangUp,
    });
    let page = served.page_with("118 %");
    for text in [
        "3 programs on 48 CPUs, 4 free; cg is below its promise",
        "socket 1, node 1",
        "title=\"CPU 12: cg\"",
        "<b class=\"bad\">90 %</b> of promised: below",
        "31 s ago",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "./md ?&quot;' --x",
        "fit_b",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<script>"), "{page}");
}

#[test]
fn a_recording_becomes_a_file_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mapper"));
    command
        .args(["page", "--from"])
        .arg(recording())
        .arg("--out")
        .arg(&out);
    assert!(command.status().unwrap().success());
    let page = std::fs::read_to_string(&out).unwrap();
    for text in [
        "recording",
        "2 programs on",
        "CPUs over time",
        "Decisions",
        "new, ",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    for outside in [
        "http://", "https://", "src=", "href=", "@import", "url(", "fetch(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.len() < 200_000, "{}", page.len());
}

#[test]
fn what_is_no_recording_is_refused_and_a_last_line_that_is_not_whole_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("r"), folder.path().join("page.html"));
    let text = std::fs::read_to_string(recording()).unwrap();
    let cut = &text[..text.len() - 100];
    for (text, expected) in [
        ("", Some("is empty")),
        ("{}\n", Some("line 1: not the header of a recording")),
        (
            &text.replacen("\"tick\":9,", "\"tick\":x,", 1),
            Some("not a decision"),
        ),
        (cut, None),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mapper"));
        command
            .args(["page", "--from"])
            .arg(&file)
            .arg("--out")
            .arg(&out);
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), expected.is_none(), "{errors}");
        assert!(errors.contains(expected.unwrap_or_default()), "{errors}");
    }
}

#[path = "../../mapperctl/tests/samples/mod.rs"]
#[allow(dead_code)]
mod samples;
