//! Many launches while the daemon is killed again and again, and programs that do unusual things.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{UNIT, app_groups, main_pid, output_of, property, status, wait_for_another};
use crate::kernel::wait_for;
use crate::users::User;

/// Programs launched in all, by as many at a time.
const LAUNCHES: u32 = 200;
const AT_A_TIME: u32 = 4;
/// How often the daemon is killed meanwhile.
const KILLS: u32 = 20;

/// What could be left over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) groups: usize,
    kept_descriptors: String,
    pages: usize,
}

/// What is held at the moment.
pub(crate) fn held() -> Result<Held> {
    Ok(Held {
        groups: app_groups()?.len(),
        kept_descriptors: property(UNIT, "NFileDescriptorStore")?,
        pages: pages_open()?,
    })
}

/// Descriptors of shared pages in all processes.
fn pages_open() -> Result<usize> {
    let mut count = 0;
    for process in fs::read_dir("/proc").context("read /proc")?.flatten() {
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let target = fs::read_link(descriptor.path()).unwrap_or_default();
            count += usize::from(target.to_string_lossy().starts_with("/memfd:mapper-page"));
        }
    }
    Ok(count)
}

/// Launches a program until the daemon is there to take it, and counts that it ran.
fn launch_until_it_runs(number: u32, file: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let script = format!("echo {number} >>{file}; sleep 0.2");
        let user = if number.is_multiple_of(2) {
            User::Root
        } else {
            User::Alice
        };
        let status = launch(user, &[], &["sh", "-c", &script])?
            .stderr(Stdio::null())
            .status()
            .context("run mapper-launch")?;
        match status.code() {
            Some(0) => return Ok(()),
            // No daemon at this moment, or it was killed before it had answered.
            Some(125) => thread::sleep(Duration::from_millis(100)),
            _ => return Err(anyhow!("launch {number} returned {status}")),
        }
        ensure!(
            Instant::now() < deadline,
            "launch {number}: no daemon for too long"
        );
    }
}

pub(crate) fn nothing_is_lost_or_left_over_when_the_daemon_is_killed_among_launches() -> Result<()>
{
    let steady = Application::start("steady", User::Alice, Runtime::Libgomp, &[])?;
    let before = held()?;
    let file = "/tmp/launched";
    fs::write(file, "").with_context(|| format!("write {file}"))?;
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .with_context(|| format!("set mode of {file}"))?;
    let done = AtomicU32::new(0);
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|worker| {
                let done = &done;
                scope.spawn(move || -> Result<()> {
                    for number in (worker..LAUNCHES).step_by(AT_A_TIME as usize) {
                        launch_until_it_runs(number, file)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        for killed in 0..KILLS {
            wait_for("further launches", || {
                let reached = done.load(Ordering::Relaxed);
                let over = workers.iter().all(thread::ScopedJoinHandle::is_finished);
                ensure!(
                    over || reached >= killed * LAUNCHES / KILLS,
                    "{reached} launched"
                );
                Ok(())
            })?;
            let daemon = main_pid()?;
            kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL)
                .context("kill the daemon")?;
            wait_for_another(daemon)?;
        }
        for worker in workers {
            worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok(())
    })?;
    let text = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    let mut ran: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    ran.sort_unstable();
    ensure!(
        ran == (0..LAUNCHES).collect::<Vec<_>>(),
        "programs that ran: {} of {LAUNCHES}, {ran:?}",
        ran.len()
    );
    wait_for("everything to be given back", || {
        let after = held()?;
        ensure!(after == before, "{before:?} became {after:?}");
        let apps = status()?["apps"].as_array().map_or(0, Vec::len);
        ensure!(apps == 1, "{apps} applications are known");
        Ok(())
    })?;
    ensure!(steady.is_running(), "the one that ran all along has ended");
    let status = steady.end(Signal::SIGTERM)?;
    ensure!(status.code() == Some(143), "its launcher returned {status}");
    Ok(())
}

pub(crate) fn programs_that_fork_and_thread_without_end_are_followed() -> Result<()> {
    let forking = "i=0; while [ $i -lt 500 ]; do true & i=$((i+1)); done; wait; echo done";
    let text = output_of(&mut launch(User::Alice, &[], &["sh", "-c", forking])?)?;
    ensure!(text == "done\n", "it said {text:?}");
    let threads = "/usr/lib/mapper-tests/threads";
    let text = output_of(&mut launch(User::Alice, &[], &[threads, "4"])?)?;
    let created: u32 = text
        .trim()
        .parse()
        .with_context(|| format!("it said {text:?}"))?;
    ensure!(created > 100, "only {created} threads");
    wait_for("groups to be removed", || {
        let groups = app_groups()?;
        ensure!(groups.is_empty(), "there still is {groups:?}");
        Ok(())
    })
}

pub(crate) fn a_program_that_is_stopped_and_continued_is_none_the_worse() -> Result<()> {
    // It is to be moved while it stands still.
    let keeps = ["--no-lend"];
    let application = Application::start("pausing", User::Alice, Runtime::Libgomp, &keeps)?;
    let pid = Pid::from_raw(application.pid.cast_signed());
    kill(pid, Signal::SIGSTOP).context("stop the program")?;
    thread::sleep(Duration::from_secs(3));
    let other = Application::start("moving", User::Root, Runtime::Libgomp, &[])?;
    wait_for("two disjoint CPU sets", || {
        let (one, two) = (application.cpus()?, other.cpus()?);
        ensure!(one.is_disjoint(&two), "{one} and {two} overlap");
        Ok(())
    })?;
    kill(pid, Signal::SIGCONT).context("continue the program")?;
    ensure!(application.is_running(), "it has ended");
    let status = application.end(Signal::SIGTERM)?;
    ensure!(status.code() == Some(143), "its launcher returned {status}");
    Ok(())
}
