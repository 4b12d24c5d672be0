//! What runs already is adopted: processes, units, groups; and released as it was.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mapper_model::CpuSet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime};
use crate::daemon::{
    UNIT, app_groups, apps_group, main_pid, output_of, property, status, status_of, systemctl,
    wait_for_another,
};
use crate::kernel::{self, effective_cpus, online_cpus, wait_for};
use crate::users::User;

/// The drop-in that lets the daemon adopt, installed until the end of a test.
pub(crate) struct Allowed;

const DROP_IN: &str = "/run/systemd/system/mapperd.service.d/adopt.conf";

impl Allowed {
    pub(crate) fn install() -> Result<Self> {
        let path = Path::new(DROP_IN);
        let folder = path.parent().context("no folder")?;
        std::fs::create_dir_all(folder).context("make the folder of the drop-in")?;
        std::fs::write(path, include_str!("../../../deploy/adopt.conf")).context("write it")?;
        let allowed = Self;
        systemctl(&["daemon-reload"])?;
        systemctl(&["restart", UNIT])?;
        Ok(allowed)
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(DROP_IN);
        let _ = systemctl(&["daemon-reload"]);
        let _ = systemctl(&["restart", UNIT]);
    }
}

/// As the unit is installed nothing is adopted, and what is refused names what would allow it.
pub(crate) fn without_the_drop_in_adopting_is_refused_and_names_it() -> Result<()> {
    let service = Service::start("refused.service", &["Delegate=cpuset"], WITH_CHILD)?;
    let pid = service.pid()?;
    let (number, before) = (pid.to_string(), kernel::group_of(pid)?);
    for target in [["--pid", &number], ["--unit", service.0]] {
        let told = refusal(User::Root, &["adopt", target[0], target[1]])?;
        ensure!(told.contains("adopt.conf"), "of {target:?} was told {told}");
    }
    let group = kernel::group_of(pid)?;
    ensure!(group == before, "it was moved to {}", group.display());
    ensure!(app_groups()?.is_empty(), "a group is left over");
    Ok(())
}

/// A service that has nothing to do with mapper: a process with a child. It ends with the test.
pub(crate) struct Service(pub(crate) &'static str);

impl Service {
    pub(crate) fn start(name: &'static str, properties: &[&str], script: &str) -> Result<Self> {
        let mut command = Command::new("systemd-run");
        command.args(["--quiet", "--collect", "--unit", name]);
        for property in properties {
            command.args(["--property", property]);
        }
        output_of(command.args(["/bin/sh", "-ec", script]))?;
        let service = Self(name);
        wait_for("the service to run", || service.pid())?;
        Ok(service)
    }

    fn pid(&self) -> Result<u32> {
        let text = property(self.0, "MainPID")?;
        let pid = text
            .parse()
            .with_context(|| format!("MainPID \"{text}\""))?;
        ensure!(pid != 0, "{} has no process", self.0);
        Ok(pid)
    }

    fn group(&self) -> Result<PathBuf> {
        let group = property(self.0, "ControlGroup")?;
        ensure!(!group.is_empty(), "{} has no group", self.0);
        Ok(Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/')))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = systemctl(&["stop", self.0]);
    }
}

pub(crate) const WITH_CHILD: &str = "sleep 1000 & exec sleep 1000";

/// A further program, so that nobody has the machine for himself.
fn rival() -> Result<Application> {
    Application::start("rival", User::Root, Runtime::Libgomp, &[])
}

/// Runs mapperctl, which must succeed.
pub(crate) fn mapperctl(user: User, arguments: &[&str]) -> Result<String> {
    output_of(user.command("mapperctl")?.args(arguments))
}

/// What mapperctl says when it must refuse.
fn refusal(user: User, arguments: &[&str]) -> Result<String> {
    let output = user.command("mapperctl")?.args(arguments).output()?;
    ensure!(
        !output.status.success(),
        "mapperctl {arguments:?} succeeded"
    );
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Kills the daemon and waits for the next.
pub(crate) fn kill_daemon() -> Result<()> {
    let daemon = main_pid()?;
    kill(Pid::from_raw(daemon.cast_signed()), Signal::SIGKILL).context("kill the daemon")?;
    wait_for_another(daemon)?;
    Ok(())
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let text = kernel::read(format!("/proc/{pid}/task/{pid}/children"))?;
    text.split_whitespace()
        .map(|child| {
            child
                .parse()
                .with_context(|| format!("children \"{text}\""))
        })
        .collect()
}

/// A group has other CPUs than the rival, and not all.
fn ensure_confined(group: &Path, rival: &Application) -> Result<CpuSet> {
    wait_for("disjoint CPU sets", || {
        let (mine, theirs) = (effective_cpus(group)?, rival.cpus()?);
        ensure!(mine.is_disjoint(&theirs), "{mine} and {theirs} overlap");
        Ok(mine)
    })
}

pub(crate) fn an_adopted_process_is_moved_with_its_child_and_goes_back() -> Result<()> {
    let _allowed = Allowed::install()?;
    let service = Service::start("adopted-pid.service", &["User=alice"], WITH_CHILD)?;
    let pid = service.pid()?;
    let before = kernel::group_of(pid)?;
    let number = pid.to_string();
    let told = refusal(User::Bob, &["adopt", "--pid", &number])?;
    ensure!(told.contains("belongs to user"), "bob was told {told}");
    mapperctl(
        User::Alice,
        &["adopt", "--pid", &number, "--name", "adopted"],
    )?;
    let moved = kernel::group_of(pid)?;
    ensure!(
        moved.parent() == Some(&apps_group()?),
        "the process is in {}",
        moved.display()
    );
    let child = *children(pid)?.first().context("it has no child")?;
    ensure!(kernel::group_of(child)? == moved, "its child is elsewhere");
    let rival = rival()?;
    ensure_confined(&moved, &rival)?;
    kill_daemon()?;
    let told = status_of("adopted")?;
    ensure!(told["adopted"]["pid"] == pid, "status says {told}");
    let refused = refusal(User::Bob, &["release", "adopted"])?;
    ensure!(refused.contains("no application"), "bob was told {refused}");
    let said = mapperctl(User::Alice, &["release", "adopted"])?;
    for process in [pid, child] {
        let group = kernel::group_of(process)?;
        ensure!(
            group == before,
            "{process} is in {} after the release: {said}",
            group.display()
        );
    }
    ensure!(!moved.exists(), "{} is left over", moved.display());
    ensure!(
        property(service.0, "ActiveState")? == "active",
        "the service has ended"
    );
    ensure!(
        status()?["apps"].as_array().map(Vec::len) == Some(1),
        "it is still listed"
    );
    Ok(())
}

pub(crate) fn an_adopted_unit_is_confined_through_systemd_and_restored() -> Result<()> {
    let _allowed = Allowed::install()?;
    let online = online_cpus()?;
    let bounded = format!("AllowedCPUs={online}");
    let bounded = bounded.as_str();
    for properties in [&[][..], &[bounded][..]] {
        let service = Service::start("adopted-unit.service", properties, WITH_CHILD)?;
        let had = online.clone();
        let group = service.group()?;
        let refused = refusal(User::Alice, &["adopt", "--unit", service.0])?;
        ensure!(refused.contains("only root"), "alice was told {refused}");
        mapperctl(User::Root, &["adopt", "--unit", service.0])?;
        let rival = rival()?;
        let confined = ensure_confined(&group, &rival)?;
        systemctl(&["daemon-reload"])?;
        let after = effective_cpus(&group)?;
        ensure!(
            after == confined,
            "after daemon-reload it has {after}, not {confined}"
        );
        ensure!(
            kernel::group_of(service.pid()?)? == group,
            "the process has left its unit"
        );
        kill_daemon()?;
        let told = status_of("adopted-unit")?;
        ensure!(told["adopted"]["unit"] == service.0, "status says {told}");
        let told = status_of("adopted-unit")?;
        ensure!(told["state"] != "set by others", "status says {told}");
        mapperctl(User::Root, &["release", "adopted-unit"])?;
        wait_for("its CPUs to come back", || {
            let cpus = effective_cpus(&group)?;
            ensure!(cpus == had, "it has {cpus}, not {had}");
            Ok(())
        })?;
        let allowed = property(service.0, "AllowedCPUs")?;
        let all = online.to_string();
        let expected = if properties.is_empty() {
            ""
        } else {
            all.as_str()
        };
        ensure!(
            allowed == expected,
            "AllowedCPUs is \"{allowed}\", not \"{expected}\""
        );
        systemctl(&["daemon-reload"])?;
        ensure!(effective_cpus(&group)? == had, "daemon-reload changed it");
    }
    Ok(())
}

pub(crate) fn an_adopted_group_stays_in_its_place_and_gets_its_cpus_back() -> Result<()> {
    let _allowed = Allowed::install()?;
    let script = "cd /sys/fs/cgroup/system.slice/adopted-group.service; mkdir job idle; \
                  echo 0 >job/cgroup.procs; echo +cpuset >cgroup.subtree_control; \
                  cat cpuset.cpus.effective >job/cpuset.cpus; exec sleep 1000";
    let online = online_cpus()?.to_string();
    let service = Service::start("adopted-group.service", &["Delegate=cpuset"], script)?;
    let job = service.group()?.join("job");
    let path = job.to_string_lossy().into_owned();
    wait_for("the group", || {
        ensure!(
            kernel::read(job.join("cpuset.cpus"))? == online,
            "no set yet"
        );
        Ok(())
    })?;
    let idle = service.group()?.join("idle");
    for (group, says) in [
        (idle.to_string_lossy().into_owned(), "no process is in it"),
        (
            "system.slice/dbus.service".to_owned(),
            "--unit dbus.service",
        ),
        ("mapper.slice".to_owned(), "holds the daemon"),
    ] {
        let told = refusal(User::Root, &["adopt", "--cgroup", &group])?;
        ensure!(told.contains(says), "of {group} was told {told}");
    }
    let told = refusal(User::Alice, &["adopt", "--cgroup", &path])?;
    ensure!(
        told.contains("its cpuset.cpus belongs to user 0"),
        "alice was told {told}"
    );
    mapperctl(User::Root, &["adopt", "--cgroup", &path, "--name", "job"])?;
    let rival = rival()?;
    ensure_confined(&job, &rival)?;
    // A stop gives back what it had; the next daemon goes on with it.
    systemctl(&["stop", "mapperd.service"])?;
    let cpus = kernel::read(job.join("cpuset.cpus"))?;
    ensure!(cpus == online, "after the stop it has {cpus}");
    systemctl(&["start", "mapperd.service"])?;
    ensure_confined(&job, &rival)?;
    mapperctl(User::Root, &["release", "job"])?;
    let cpus = kernel::read(job.join("cpuset.cpus"))?;
    ensure!(cpus == online, "after the release it has {cpus}");
    drop(rival);
    wait_for("groups to be removed", || {
        let groups = app_groups()?;
        ensure!(groups.is_empty(), "there still is {groups:?}");
        Ok(())
    })
}
