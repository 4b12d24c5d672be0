//! The time that a program leaves idle on its CPUs is another's, and it loses none by that.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{apps_group, main_pid, output_of, status_of, wait_for_another};
use crate::kernel::{cpu_list, online_cpus, read, wait_for};
use crate::users::User;

/// Keeps some of its CPU busy.
const SERVES: &str = "while :; do timeout 0.1 sh -c 'while :; do :; done'; sleep 0.4; done";
/// The same without a pause.
const COMPUTES: &str = "while :; do :; done";
const COMPUTES_TWICE: &str =
    "(while :; do :; done) & trap \"kill $!; exit\" TERM; while :; do :; done";

/// Time over which CPU time is compared.
const WHILE: Duration = Duration::from_secs(5);

struct Program {
    launcher: Child,
    name: &'static str,
}

impl Program {
    fn start(name: &'static str, script: &str) -> Result<Self> {
        let options = ["--quiet", "--name", name, "--min-cpus", "1"];
        let mut launcher = launch(User::Alice, &options, &["sh", "-c", script])?;
        let launcher = launcher.stdin(Stdio::null()).spawn();
        let launcher = launcher.with_context(|| format!("launch {name}"))?;
        let program = Self { launcher, name };
        wait_for("a launched program", || status_of(name))?;
        Ok(program)
    }

    fn in_group(&self, file: &str) -> Result<String> {
        let id = status_of(self.name)?["id"].as_u64().context("no id")?;
        read(apps_group()?.join(format!("app-{id}")).join(file))
    }

    /// CPU time in a while, in microseconds.
    fn used_us(&self) -> Result<u64> {
        let used = || -> Result<u64> {
            let stat = self.in_group("cpu.stat")?;
            let used = stat
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec "));
            Ok(used.context("no usage in cpu.stat")?.parse()?)
        };
        let before = used()?;
        std::thread::sleep(WHILE);
        Ok(used()? - before)
    }

    /// Whether it uses idle time of other CPUs now, by the kernel's files.
    fn ensure_it_uses_idle_time(&self) -> Result<()> {
        let (last, cpus) = (self.in_group("cpu.idle")?, self.in_group("cpuset.cpus")?);
        let state = status_of(self.name)?;
        ensure!(
            last == "1" && cpu_list(&cpus)?.len() == 2 && state["cpu_count"] == 1,
            "cpu.idle is {last}, its CPUs {cpus}: {state}"
        );
        Ok(())
    }

    fn ensure_it_uses_its_own_cpus_alone(&self) -> Result<()> {
        let (last, cpus) = (self.in_group("cpu.idle")?, self.in_group("cpuset.cpus")?);
        let state = status_of(self.name)?;
        ensure!(
            last == "0" && state["cpus"] == cpus.as_str() && state["idle_time"].is_null(),
            "cpu.idle is {last}, its CPUs {cpus}: {state}"
        );
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let launcher = Pid::from_raw(self.launcher.id().cast_signed());
        let _ = kill(launcher, Signal::SIGTERM);
        let _ = self.launcher.wait();
    }
}

/// Leaves two CPUs to the programs of a test.
fn rest() -> Result<Application> {
    let rest = (online_cpus()?.len() as u32).saturating_sub(2).to_string();
    let options = [
        "--no-resize",
        "--no-lend",
        "--min-cpus",
        &rest,
        "--max-cpus",
        &rest,
    ];
    Application::start("rest", User::Root, Runtime::Libgomp, &options)
}

pub(crate) fn what_a_service_leaves_idle_is_used_and_it_has_as_much_as_without() -> Result<()> {
    let _rest = rest()?;
    let service = Program::start("service", SERVES)?;
    let alone = service.used_us()?;
    println!("# service {alone} us of {WHILE:?} alone");
    let batch = Program::start("batch", COMPUTES_TWICE)?;
    wait_for("the batch to use idle time", || {
        batch.ensure_it_uses_idle_time()
    })?;
    let explained = output_of(Command::new("mapperctl").args(["explain", "batch"]))?;
    ensure!(
        explained.contains("as well while it is idle"),
        "{explained}"
    );
    let (beside, used) = std::thread::scope(|scope| {
        let used = scope.spawn(|| batch.used_us());
        let beside = service.used_us();
        (beside, used.join())
    });
    let (beside, used) = (beside?, used.map_err(|_| anyhow::anyhow!("broke off"))??);
    println!("# service {alone} alone, {beside} beside the batch, which used {used} us");
    ensure!(
        beside as f64 >= 0.9 * alone as f64,
        "{beside} of {alone} us"
    );
    let whole = WHILE.as_micros() as f64;
    ensure!(used as f64 >= 1.3 * whole, "{used} us in {whole} us");
    // The next daemon knows, and ends it when the program that leaves time has gone.
    let daemon = main_pid()?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL)?;
    wait_for_another(daemon)?;
    wait_for("the batch to use idle time again", || {
        batch.ensure_it_uses_idle_time()
    })?;
    drop(service);
    wait_for("the service to be gone", || {
        ensure!(status_of("service").is_err(), "it is listed");
        Ok(())
    })?;
    let _busy = Program::start("busy", COMPUTES)?;
    wait_for("the batch to leave", || {
        batch.ensure_it_uses_its_own_cpus_alone()
    })
}
