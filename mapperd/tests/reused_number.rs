//! A process number that is used again is another process's. It takes root: the number is chosen with `clone3`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod private_daemon;

use nix::libc;
use private_daemon::{Daemon, Program, all_cpus, cpus_of, eventually, launch, require_strace};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process of this test with a number that an earlier one had.
struct Later(u32);

impl Later {
    /// Nothing where the kernel refuses that.
    fn start(number: u32) -> Option<Self> {
        match start_sleep_as(number) {
            Ok(()) => {
                let name = format!("/proc/{number}/comm");
                let runs = || std::fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n");
                eventually("it runs", runs);
                Some(Self(number))
            }
            // Or another process has had the number since.
            Err(error @ (Errno::PERM | Errno::NOSYS | Errno::EXIST)) => {
                eprintln!("left out: a process with the number of an earlier one: {error}");
                None
            }
            Err(error) => panic!("process {number}: {error}"),
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        let process = Pid::from_raw(self.0.cast_signed());
        let _ = kill_process(process.unwrap(), Signal::KILL);
        let _ = waitpid(process, WaitOptions::empty());
    }
}

fn start_sleep_as(number: u32) -> Result<(), Errno> {
    let numbers = [number.cast_signed()];
    let (program, time) = (c"/bin/sleep", c"3600");
    let words = [program.as_ptr(), time.as_ptr(), std::ptr::null()];
    let no_variables = [std::ptr::null()];
    // SAFETY: all of its members are numbers, and zero is valid for each.
    let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
    how.exit_signal = libc::SIGCHLD.cast_unsigned().into();
    how.set_tid = numbers.as_ptr() as u64;
    how.set_tid_size = 1;
    // SAFETY: without shared memory this is a `fork`; the child calls only what is safe after one in a process with
    // threads. All pointers are to what lives until it has become another program or has ended.
    let child = unsafe {
        let child = libc::syscall(libc::SYS_clone3, &raw mut how, size_of_val(&how));
        if child == 0 {
            // It ends with the test.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::execve(program.as_ptr(), words.as_ptr(), no_variables.as_ptr());
            libc::_exit(127);
        }
        child
    };
    match child {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
        _ => Ok(()),
    }
}

/// Whether a process has a descriptor of another one.
fn has_descriptor_of(process: u32, other: u32) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}/fdinfo"));
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let line = format!("Pid:\t{other}");
    let mut all = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    all.any(|text| text.lines().any(|found| found == line))
}

/// The launcher asks, its child ends, and another child of it has the number before the daemon has checked anything but
/// that there is such a process.
#[test]
fn a_launch_takes_no_process_that_has_the_number_of_the_one_that_was_launched() {
    require_strace();
    let mut command = Command::new("strace");
    // As a process of its own: the daemon is the child.
    command.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
    command.args(["-e", "trace=pidfd_open"]);
    command.args(["-e", "inject=pidfd_open:delay_exit=5s"]);
    command.arg(Daemon::command().get_program());
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_as(command, dir, &["--interval", "50ms"]);
    let mut program = Program::sleeping();
    let number = program.child.id();
    let (request, mut client) = (program.request("earlier"), daemon.client());
    let asking = std::thread::spawn(move || client.launch(request));
    eventually("the daemon has a descriptor of it", || {
        has_descriptor_of(daemon.child.id(), number)
    });
    program.kill();
    let Some(later) = Later::start(number) else {
        return;
    };
    let refused = asking.join().unwrap().unwrap_err().to_string();
    assert!(refused.contains("no such process"), "{refused}");
    assert_eq!(daemon.status().apps, []);
    assert_eq!(cpus_of(later.0), all_cpus());
}

/// What the next test starts as another process, so that its child is no orphan of a program; nothing otherwise.
#[test]
fn another_parent() {
    let Ok(number) = std::env::var("MAPPER_REUSED") else {
        return;
    };
    // Ends with the test that started it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let later = Later::start(number.parse().unwrap());
    println!("started: {}", later.is_some());
    // Until its input ends.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A process whose child has the number.
struct Parent(Child);

impl Parent {
    fn of(number: u32) -> Option<Self> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["another_parent", "--exact", "--nocapture"]);
        command.env("MAPPER_REUSED", number.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut parent = Self(command.spawn().unwrap());
        let output = parent.0.stdout.as_mut().unwrap();
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let started = lines.find_map(|line| Some(line.split_once("started: ")?.1 == "true"));
        started.unwrap().then_some(parent)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn the_next_daemon_takes_over_no_process_that_has_the_number_of_one_that_has_ended() {
    let mut daemon = Daemon::start();
    let (mut earlier, other) = (launch(&daemon, "earlier"), launch(&daemon, "other"));
    let number = earlier.program.child.id();
    let state = daemon.dir.path().join("state/state.json");
    let saved = |number: u32| {
        let state = std::fs::read_to_string(&state);
        state.is_ok_and(|state| state.contains(&format!("\"pid\":{number},")))
    };
    eventually("both are in the saved state", || {
        saved(number) && saved(other.program.child.id())
    });
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    earlier.program.kill();
    // The kernel notes when a process began in hundredths of a second.
    std::thread::sleep(Duration::from_millis(30));
    let Some(_later) = Parent::of(number) else {
        return;
    };
    daemon.start_again();
    let apps = daemon.status().apps;
    assert_eq!(apps.len(), 1, "{apps:?}");
    // Not even until the first decision.
    assert!(daemon.log().contains("has ended in the meantime"));
    assert_eq!(apps[0].pid, other.program.child.id());
    assert_eq!(cpus_of(number), all_cpus());
    assert_eq!(other.program.cpus(), all_cpus());
}
