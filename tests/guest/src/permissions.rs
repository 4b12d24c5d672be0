//! Users: each may launch, none may touch what is another's.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::application::{Application, Runtime, launch};
use crate::daemon::{output_of, status_of};
use crate::kernel;
use crate::users::User;

/// Where the system's daemon listens.
const SOCKET: &str = "/run/mapper/mapper.sock";

/// Sends one call to the daemon as another user and returns the reply.
fn call(user: User, method: &str, parameters: &Value) -> Result<Value> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = user.command(&program.to_string_lossy())?;
    command.args(["call", method, &parameters.to_string()]);
    let reply = output_of(&mut command)?;
    serde_json::from_str(&reply).with_context(|| format!("reply \"{reply}\""))
}

/// The other side of [`call`]: this program, started as that user.
pub(crate) fn call_as_this_user(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let (Some(method), Some(parameters)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: guest-tests call METHOD PARAMETERS");
        return ExitCode::FAILURE;
    };
    match exchange(&method, &parameters) {
        Ok(reply) => {
            println!("{reply}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn exchange(method: &str, parameters: &str) -> Result<String> {
    let parameters: Value = serde_json::from_str(parameters).context("read the parameters")?;
    let mut stream = UnixStream::connect(SOCKET).with_context(|| format!("connect to {SOCKET}"))?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .context("set a time limit")?;
    let message = json!({ "method": method, "parameters": parameters });
    stream
        .write_all(format!("{message}\0").as_bytes())
        .context("send")?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    while !reply.contains(&0) {
        match stream.read(&mut buffer).context("receive")? {
            0 => bail!("the daemon closed the connection"),
            count => reply.extend_from_slice(&buffer[..count]),
        }
    }
    reply.truncate(
        reply
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(reply.len()),
    );
    String::from_utf8(reply).context("reply")
}

fn ensure_refused(reply: &Value, error: &str) -> Result<()> {
    let expected = format!("org.mapper.Control.{error}");
    ensure!(
        reply["error"] == expected,
        "the daemon replied {reply}, not {expected}"
    );
    Ok(())
}

pub(crate) fn an_unprivileged_user_launches() -> Result<()> {
    let application = Application::start("alices", User::Alice, Runtime::Libgomp, &[])?;
    application.cpus()?;
    let response = status_of("alices")?;
    ensure!(
        response["uid"] == User::Alice.uid()?,
        "status says {response}"
    );
    ensure!(response["pid"] == application.pid, "status says {response}");
    let status = application.end(Signal::SIGTERM)?;
    ensure!(
        status.code() == Some(143),
        "after SIGTERM mapper-launch returned {status}"
    );

    let output = launch(User::Alice, &[], &["id", "-u"])?
        .stdin(Stdio::null())
        .output()
        .context("run mapper-launch")?;
    let uid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        uid == User::Alice.uid()?.to_string(),
        "the program runs as {uid}"
    );
    Ok(())
}

pub(crate) fn a_user_cannot_launch_for_anothers_process() -> Result<()> {
    let victim = Application::start("victim", User::Alice, Runtime::Libgomp, &[])?;
    let before = kernel::group_of(victim.pid)?;
    for pid in [victim.pid, 1] {
        let reply = call(
            User::Bob,
            "org.mapper.Control.Launch",
            &json!({ "protocol": 2, "pid": pid, "name": "stolen", "runtime": "off" }),
        )?;
        ensure_refused(&reply, "NotPermitted")?;
    }
    ensure!(
        kernel::group_of(victim.pid)? == before,
        "the process was moved"
    );
    Ok(())
}

pub(crate) fn a_user_cannot_end_anothers_application() -> Result<()> {
    let victim = Application::start("victim", User::Alice, Runtime::Libgomp, &[])?;
    let app = status_of("victim")?["id"].clone();
    // The daemon may refuse, or take no notice of a message that it never answers; what counts is
    // that the application is still its.
    let _ = call(
        User::Bob,
        "org.mapper.Control.Exited",
        &json!({ "app": app, "status": 0 }),
    );
    ensure!(victim.is_running(), "the program has ended");
    ensure!(
        status_of("victim")?["id"] == app,
        "the application is no longer listed"
    );
    victim.cpus()?;
    Ok(())
}

pub(crate) fn a_user_cannot_write_to_a_group() -> Result<()> {
    let application = Application::start("alices", User::Alice, Runtime::Libgomp, &[])?;
    let group = kernel::group_of(application.pid)?;
    for file in ["cpuset.cpus", "cgroup.procs"] {
        let path = group.join(file);
        let status = User::Alice
            .command("sh")?
            .args(["-c", "echo 0 2>/dev/null >\"$1\"", "sh"])
            .arg(&path)
            .stderr(Stdio::null())
            .status()
            .context("run sh")?;
        ensure!(!status.success(), "alice may write {}", path.display());
    }
    Ok(())
}
