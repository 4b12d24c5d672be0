//! The client against a daemon that behaves well, badly, or is not there.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

use mapper_control::fake::{Answer, FakeDaemon, Seen, grant};
use mapper_control::schema::{ExitedRequest, LaunchRequest, RuntimeChoice, Wishes};
use mapper_control::{Client, ClientErrorKind, ErrorReply, Reply, Request};
use mapper_model::{AppId, AppName, CpuSet};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(5);

struct Place {
    _folder: TempDir,
    socket: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mapper.sock");
    Place {
        _folder: folder,
        socket,
    }
}

fn request(runtime: RuntimeChoice) -> LaunchRequest {
    let mut wishes = Wishes::named(AppName::new("fft").unwrap());
    wishes.runtime = Some(runtime);
    LaunchRequest::new(std::process::id(), ["fft"], wishes)
}

/// Connects to a daemon that gives this answer to everything, and asks for its status.
fn status_error(answer: impl Fn() -> Answer + Send + Sync + 'static) -> ClientErrorKind {
    status_error_within(PATIENCE, answer)
}

fn status_error_within(
    patience: Duration,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> ClientErrorKind {
    let place = place();
    let _daemon = FakeDaemon::start(&place.socket, move |_| answer()).unwrap();
    let mut client = Client::connect(&place.socket, patience).unwrap();
    let error = client.status().unwrap_err();
    assert_eq!(error.socket, place.socket);
    assert!(
        error
            .to_string()
            .starts_with(&place.socket.display().to_string())
    );
    error.kind
}

#[test]
fn a_launch_brings_its_place_and_the_page() {
    let place = place();
    let cpus: CpuSet = "0-1".parse().unwrap();
    let daemon = FakeDaemon::granting(&place.socket, cpus.clone(), 2).unwrap();
    let mut client = Client::connect(&place.socket, PATIENCE).unwrap();
    let launched = client.launch(request(RuntimeChoice::On)).unwrap();
    assert_eq!(launched.reply.cpus, cpus);
    let token = launched.reply.token.unwrap();
    let mut page = std::fs::File::from(launched.page.unwrap());
    let mut text = String::new();
    std::io::Seek::rewind(&mut page).unwrap();
    page.read_to_string(&mut text).unwrap();
    assert_eq!(text, token);

    let exited = ExitedRequest {
        app: AppId(7),
        status: 3,
    };
    client.exited(exited).unwrap();
    drop(client);
    let seen = daemon.seen_when(|seen| seen.contains(&Seen::Closed));
    assert_eq!(
        seen,
        [
            Seen::Call(Request::Launch(Box::new(request(RuntimeChoice::On)))),
            Seen::Call(Request::Exited(exited)),
            Seen::Closed
        ]
    );
}

#[test]
fn a_launch_without_runtime_brings_no_page() {
    let place = place();
    let _daemon = FakeDaemon::granting(&place.socket, CpuSet::first(1), 2).unwrap();
    let mut client = Client::connect(&place.socket, PATIENCE).unwrap();
    let launched = client.launch(request(RuntimeChoice::Off)).unwrap();
    assert!(launched.page.is_none() && launched.reply.token.is_none());
}

#[test]
fn a_token_without_its_page_is_not_believed() {
    let place = place();
    let _daemon = FakeDaemon::start(&place.socket, |_| {
        let reply = grant(&request(RuntimeChoice::On), &CpuSet::first(1), 2);
        Answer::Bytes(reply.encode().unwrap())
    })
    .unwrap();
    let mut client = Client::connect(&place.socket, PATIENCE).unwrap();
    let error = client.launch(request(RuntimeChoice::On)).unwrap_err();
    assert!(
        matches!(error.kind, ClientErrorKind::NotVarlink(_)),
        "{error}"
    );
}

#[test]
fn a_refusal_sent_before_the_call_is_reported() {
    let place = place();
    let listener = UnixListener::bind(&place.socket).unwrap();
    let mut client = Client::connect(&place.socket, PATIENCE).unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let message = "user 7 has too many connections open".to_owned();
    let refusal = ErrorReply::Unavailable { message }.encode().unwrap();
    connection.write_all(&refusal).unwrap();
    drop(connection);
    let error = client.status().unwrap_err();
    assert!(
        error.to_string().contains("too many connections"),
        "{error}"
    );
}

#[test]
fn what_answers_in_place_of_a_daemon_is_reported() {
    let connect = |path: &std::path::Path| Client::connect(path, PATIENCE).unwrap_err();
    let place = place();
    let missing = connect(&place.socket);
    assert!(
        matches!(missing.kind, ClientErrorKind::NotFound),
        "{missing}"
    );

    drop(UnixListener::bind(&place.socket).unwrap());
    let stale = connect(&place.socket);
    assert!(matches!(stale.kind, ClientErrorKind::Refused), "{stale}");

    let file = place.socket.with_extension("txt");
    std::fs::write(&file, "").unwrap();
    let text = connect(&file);
    assert!(matches!(text.kind, ClientErrorKind::NotASocket), "{text}");

    let long = PathBuf::from(format!("/{}", "x".repeat(200)));
    let long = connect(&long);
    assert!(matches!(long.kind, ClientErrorKind::PathTooLong), "{long}");
    for error in [missing, stale, text, long] {
        let shown = error.to_string();
        assert!(
            shown.starts_with(&error.socket.display().to_string()),
            "{shown}"
        );
    }
}

#[test]
fn a_socket_without_permission_is_reported() {
    let place = place();
    let _listener = UnixListener::bind(&place.socket).unwrap();
    std::fs::set_permissions(&place.socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The kernel lets root connect to anything: become somebody else, in one thread only.
    let socket = place.socket.clone();
    let refused = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        Client::connect(&socket, PATIENCE).unwrap_err()
    });
    let refused = refused.join().unwrap();
    assert!(
        matches!(refused.kind, ClientErrorKind::PermissionDenied),
        "{refused}"
    );
}

#[test]
fn an_answer_of_another_form_is_reported() {
    let kind = status_error(|| Answer::Bytes(b"HTTP/1.1 400 Bad Request\r\n\0".to_vec()));
    assert!(matches!(kind, ClientErrorKind::NotVarlink(_)), "{kind}");
    let kind = status_error(|| Answer::Bytes(b"{}\0{}\0".to_vec()));
    assert!(matches!(kind, ClientErrorKind::NotVarlink(_)), "{kind}");
    let kind = status_error(|| {
        Answer::Error(ErrorReply::InterfaceNotFound {
            interface: "org.mapper.Control".into(),
        })
    });
    assert!(matches!(kind, ClientErrorKind::NotVarlink(_)), "{kind}");
    let kind = status_error(|| Answer::Bytes(vec![b' '; 5 << 20]));
    assert!(
        matches!(kind, ClientErrorKind::NotVarlink(ref why) if why.contains("longer than")),
        "{kind}"
    );
}

#[test]
fn another_version_is_reported() {
    let newer = br#"{"parameters":{"protocol":9,"apps":7}}"#;
    let kind = status_error(|| Answer::Bytes([newer.as_slice(), b"\0"].concat()));
    assert!(
        matches!(kind, ClientErrorKind::WrongProtocol(Some(9))),
        "{kind}"
    );
    let kind = status_error(|| {
        Answer::Error(ErrorReply::MethodNotFound {
            method: "org.mapper.Control.Status".into(),
        })
    });
    assert!(
        matches!(kind, ClientErrorKind::WrongProtocol(None)),
        "{kind}"
    );
    let kind = status_error(|| {
        Answer::Error(ErrorReply::WrongProtocol {
            message: String::new(),
            protocol: 3,
        })
    });
    assert!(
        matches!(kind, ClientErrorKind::WrongProtocol(Some(3))),
        "{kind}"
    );
}

#[test]
fn a_daemon_that_says_nothing_is_given_up_in_time() {
    let begun = Instant::now();
    let kind = status_error_within(Duration::from_millis(200), || Answer::Silence);
    assert!(matches!(kind, ClientErrorKind::TimedOut(_)), "{kind}");
    assert!(begun.elapsed() < Duration::from_secs(3));
    let kind = status_error(|| Answer::HangUp);
    assert!(matches!(kind, ClientErrorKind::Closed), "{kind}");
}

#[test]
fn an_error_this_version_does_not_know_is_passed_on() {
    let bytes = br#"{"error":"org.mapper.Control.Tired","parameters":{"of":"it"}}"#;
    let kind = status_error(|| Answer::Bytes([bytes.as_slice(), b"\0"].concat()));
    assert_eq!(kind.to_string(), r#"org.mapper.Control.Tired: {"of":"it"}"#);
}

#[test]
fn the_service_describes_itself() {
    let place = place();
    let _daemon = FakeDaemon::granting(&place.socket, CpuSet::first(1), 1).unwrap();
    let mut client = Client::connect(&place.socket, PATIENCE).unwrap();
    let info = client.info().unwrap();
    assert_eq!(
        info.interfaces,
        ["org.varlink.service", "org.mapper.Control"]
    );
    let unknown =
        Request::GetInterfaceDescription(mapper_control::schema::GetInterfaceDescription {
            interface: "org.other".into(),
        });
    assert!(matches!(Reply::about_service(&unknown, ""), Some(Err(_))));
}
