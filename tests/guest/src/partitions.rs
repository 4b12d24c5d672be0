//! CPUs that are one application's alone: isolated partitions of the kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use mapper_model::CpuSet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime, launch};
use crate::daemon::{UNIT, apps_group, main_pid, status_of, systemctl, wait_for_another};
use crate::drop_in::DropIn;
use crate::kernel::{self, cpu_list, effective_cpus, online_cpus, wait_for};
use crate::users::User;

/// What mapper-launch says when it must refuse.
fn refusal(user: User) -> Result<String> {
    let output = launch(user, &["--isolated"], &["true"])?.output()?;
    ensure!(
        output.status.code() == Some(125),
        "mapper-launch --isolated returned {}",
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn isolated(name: &'static str) -> Result<Application> {
    let options = ["--isolated", "--max-cpus", "6"];
    Application::start(name, User::Root, Runtime::Libgomp, &options)
}

/// What the kernel says of a group's partition.
fn partition_of(group: &Path) -> Result<String> {
    kernel::read(group.join("cpuset.cpus.partition"))
}

/// The CPUs of an application, which is isolated as the kernel and the daemon say, and where nobody else may run.
fn ensure_isolated(application: &Application) -> Result<CpuSet> {
    let group = kernel::group_of(application.pid)?;
    let partition = partition_of(&group)?;
    let reply = status_of(application.name())?;
    ensure!(
        partition == "isolated",
        "the kernel says {partition}, status {}",
        reply["partition"]
    );
    let cpus = application.cpus()?;
    let machine = cpu_list(&kernel::read("/sys/fs/cgroup/cpuset.cpus.isolated")?)?;
    ensure!(
        cpus.is_subset(&machine),
        "the machine's isolated CPUs are {machine}, those of the application {cpus}"
    );
    for group in ["", "system.slice", "mapper.slice"] {
        let others = effective_cpus(&Path::new("/sys/fs/cgroup").join(group))?;
        ensure!(
            others.is_disjoint(&cpus),
            "\"{group}\" has {others}, the application {cpus}"
        );
    }
    let reply = status_of(application.name())?;
    ensure!(
        reply["partition"]["in_force"] == "isolated",
        "status says {reply}"
    );
    Ok(cpus)
}

/// Nothing is claimed by the groups around, and everybody may run everywhere.
fn ensure_given_back() -> Result<()> {
    let online = online_cpus()?;
    for group in [PathBuf::from("/sys/fs/cgroup/mapper.slice"), apps_group()?] {
        let claimed = kernel::read(group.join("cpuset.cpus.exclusive"))?;
        ensure!(claimed.is_empty(), "{} claims {claimed}", group.display());
    }
    let cpus = effective_cpus(Path::new("/sys/fs/cgroup"))?;
    ensure!(cpus == online, "of {online} only {cpus} are everybody's");
    Ok(())
}

pub(crate) fn without_the_drop_in_isolation_is_refused_and_names_it() -> Result<()> {
    let reply = refusal(User::Root)?;
    ensure!(reply.contains("partitions.conf"), "root got {reply}");
    let reply = refusal(User::Alice)?;
    ensure!(reply.contains("[[access]]"), "alice got {reply}");
    Ok(())
}

/// Programs that compute without end, as many as the application has CPUs.
const SPINNERS: &str =
    "(while :; do :; done) & (while :; do :; done) & (while :; do :; done) & wait";

pub(crate) fn an_isolated_application_has_its_cpus_to_itself_until_it_ends() -> Result<()> {
    let _allowed = DropIn::for_isolating()?;
    let reply = refusal(User::Alice)?;
    ensure!(reply.contains("[[access]]"), "alice got {reply}");
    let apart = isolated("apart")?;
    let alone = wait_for("a partition", || ensure_isolated(&apart))?;
    // Others come and go, and it moves with its partition.
    let rival = Application::start("rival", User::Root, Runtime::Libomp, &["--min-cpus", "11"])?;
    wait_for("CPUs apart", || {
        let (cpus, theirs) = (ensure_isolated(&apart)?, rival.cpus()?);
        ensure!(cpus.is_disjoint(&theirs), "{cpus} and {theirs} overlap");
        ensure!(cpus.len() < alone.len(), "it still has {cpus}");
        Ok(())
    })?;
    let second = isolated("second")?;
    wait_for("two partitions", || {
        let (first, second) = (ensure_isolated(&apart)?, ensure_isolated(&second)?);
        ensure!(first.is_disjoint(&second), "{first} and {second} overlap");
        ensure!(second.is_disjoint(&rival.cpus()?), "overlap with the rival");
        Ok(())
    })?;
    drop(rival);
    apart.end(Signal::SIGTERM)?;
    second.end(Signal::SIGTERM)?;
    wait_for("everything to be given back", ensure_given_back)?;
    // The kernel balances nothing there.
    let options = ["--isolated", "--max-cpus", "3", "--name", "spinners"];
    let mut spinners = launch(User::Root, &options, &["sh", "-c", SPINNERS])?
        .stdin(Stdio::null())
        .spawn()
        .context("start the spinners")?;
    let spread = wait_for("the spinners to be spread", || {
        let reply = status_of("spinners")?;
        let pid = reply["pid"].as_u64().context("no pid")?;
        let children = kernel::read(format!("/proc/{pid}/task/{pid}/children"))?;
        let mut on = BTreeSet::new();
        for child in children.split_whitespace() {
            let stat = kernel::read(format!("/proc/{child}/stat"))?;
            let fields = stat.rsplit_once(')').context("stat")?.1;
            on.insert(
                fields
                    .split_whitespace()
                    .nth(36)
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        ensure!(on.len() == 3, "they are on {on:?}");
        Ok(())
    });
    // The shell ends when the last of them has.
    let reply = status_of("spinners")?;
    let pid = reply["pid"].as_u64().context("no pid")?;
    let children = kernel::read(format!("/proc/{pid}/task/{pid}/children"))?;
    for child in children.split_whitespace() {
        let child = child.parse().context("a child's number")?;
        kill(Pid::from_raw(child), Signal::SIGKILL).context("end a spinner")?;
    }
    spinners.wait().context("wait for the spinners")?;
    spread?;
    wait_for("everything to be given back", ensure_given_back)
}

pub(crate) fn isolation_outlives_a_crash_and_ends_with_a_stop() -> Result<()> {
    let _allowed = DropIn::for_isolating()?;
    let apart = isolated("apart")?;
    let before = wait_for("a partition", || ensure_isolated(&apart))?;
    let daemon = main_pid()?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL).context("kill the daemon")?;
    wait_for_another(daemon)?;
    let after = wait_for("the partition again", || ensure_isolated(&apart))?;
    ensure!(after == before, "it has {after}, before {before}");
    systemctl(&["stop", UNIT])?;
    let group = kernel::group_of(apart.pid)?;
    let partition = partition_of(&group)?;
    ensure!(partition == "member", "after the stop it is {partition}");
    ensure_given_back()?;
    ensure!(apart.cpus()? == online_cpus()?, "it has {}", apart.cpus()?);
    systemctl(&["start", UNIT])?;
    wait_for("the partition again", || ensure_isolated(&apart))?;
    // It ends while nobody looks.
    systemctl(&["kill", "--signal=STOP", "--kill-who=main", UNIT])?;
    drop(apart);
    let daemon = main_pid()?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL).context("kill the daemon")?;
    wait_for_another(daemon)?;
    wait_for("everything to be given back", ensure_given_back)
}

pub(crate) fn a_partition_that_the_kernel_dissolves_is_reported_and_the_program_runs_on()
-> Result<()> {
    let _allowed = DropIn::for_isolating()?;
    let apart = isolated("apart")?;
    let cpus = wait_for("a partition", || ensure_isolated(&apart))?;
    // A group beside it that wants the same CPUs.
    let beside = apps_group()?.join("beside");
    std::fs::create_dir(&beside).context("make a group")?;
    let outcome = (|| {
        std::fs::write(beside.join("cpuset.cpus"), cpus.to_string()).context("write its CPUs")?;
        wait_for("the daemon to notice", || {
            let reply = status_of("apart")?;
            let why = reply["partition"]["why_not"].as_str().unwrap_or_default();
            ensure!(why.contains("isolated invalid"), "status says {reply}");
            Ok(())
        })?;
        let partition = partition_of(&kernel::group_of(apart.pid)?)?;
        ensure!(partition == "member", "the kernel says {partition}");
        ensure!(apart.is_running(), "it has ended");
        ensure!(apart.cpus()? == cpus, "it has {}", apart.cpus()?);
        ensure_given_back()
    })();
    std::fs::remove_dir(&beside).context("remove the group")?;
    outcome
}
