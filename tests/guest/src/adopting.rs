//! What runs already is adopted: processes, units, groups; and released as it was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use mapper_model::CpuSet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::application::{Application, Runtime};
use crate::daemon::{
    UNIT, app_groups, apps_group, main_pid, output_of, property, status, status_of, systemctl,
    wait_for_another,
};
use crate::drop_in::DropIn;
use crate::kernel::{self, effective_cpus, online_cpus, wait_for};
use crate::users::User;

/// As the unit is installed nothing is adopted, and what is refused names what would allow it.
pub(crate) fn without_the_drop_in_adopting_is_refused_and_names_it() -> Result<()> {
    let service = Service::start("refused.service", &["Delegate=cpuset"], WITH_CHILD)?;
    let pid = service.pid()?;
    let (number, before) = (pid.to_string(), kernel::group_of(pid)?);
    for target in [["--pid", &number], ["--unit", service.0]] {
        let reply = refusal(User::Root, &["adopt", target[0], target[1]])?;
        ensure!(reply.contains("adopt.conf"), "of {target:?} got {reply}");
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
        // It is started once the program runs: until then the process is root's.
        command.args(["--service-type", "exec"]);
        for property in properties {
            command.args(["--property", property]);
        }
        output_of(command.args(["/bin/sh", "-ec", script]))?;
        let service = Self(name);
        wait_for("the service to run", || service.pid())?;
        Ok(service)
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        let text = property(self.0, "MainPID")?;
        let pid = text
            .parse()
            .with_context(|| format!("MainPID \"{text}\""))?;
        ensure!(pid != 0, "{} has no process", self.0);
        Ok(pid)
    }

    pub(crate) fn group(&self) -> Result<PathBuf> {
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
    let _allowed = DropIn::for_adopting()?;
    let service = Service::start("adopted-pid.service", &["User=alice"], WITH_CHILD)?;
    let pid = service.pid()?;
    let child = wait_for("its child", || {
        children(pid)?.first().copied().context("it has no child")
    })?;
    let before = kernel::group_of(pid)?;
    let number = pid.to_string();
    let reply = refusal(User::Bob, &["adopt", "--pid", &number])?;
    ensure!(reply.contains("belongs to user"), "bob got {reply}");
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
    ensure!(kernel::group_of(child)? == moved, "its child is elsewhere");
    let rival = rival()?;
    ensure_confined(&moved, &rival)?;
    kill_daemon()?;
    let reply = status_of("adopted")?;
    ensure!(reply["adopted"]["pid"] == pid, "status says {reply}");
    let refused = refusal(User::Bob, &["release", "adopted"])?;
    ensure!(refused.contains("no application"), "bob got {refused}");
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

/// More than are moved back at once.
const MANY: &str = "i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; exec sleep 1000";

pub(crate) fn hundreds_of_adopted_processes_go_back_in_pieces_also_by_the_next_daemon() -> Result<()>
{
    let _allowed = DropIn::for_adopting()?;
    let service = Service::start("adopted-many.service", &["User=alice"], MANY)?;
    let pid = service.pid()?;
    wait_for("its children", || {
        let count = children(pid)?.len();
        ensure!(count == 400, "it has {count}");
        Ok(())
    })?;
    let before = kernel::group_of(pid)?;
    let number = pid.to_string();
    let adopt = ["adopt", "--pid", &number, "--name", "many"];
    mapperctl(User::Alice, &adopt)?;
    let moved = kernel::group_of(pid)?;
    let processes = || -> Result<usize> {
        let there = kernel::read(moved.join("cgroup.procs"))?;
        Ok(there.lines().count())
    };
    ensure!(processes()? == 401, "{} were adopted", processes()?);
    // It would be answered once they are back.
    let release = thread::spawn(|| mapperctl(User::Alice, &["release", "many"]));
    wait_for("the release to begin", || {
        let listed = status()?["apps"].as_array().map(Vec::len);
        ensure!(listed == Some(0), "{listed:?} applications are listed");
        Ok(())
    })?;
    kill_daemon()?;
    let _cut_off = release.join();
    wait_for("all to go back", || {
        let listed = status()?["apps"].as_array().map(Vec::len);
        ensure!(listed == Some(0), "{listed:?} applications are listed");
        ensure!(!moved.exists(), "{} are left over", processes()?);
        Ok(())
    })?;
    for process in children(pid)? {
        let group = kernel::group_of(process)?;
        ensure!(group == before, "{process} is in {}", group.display());
    }
    Ok(())
}

pub(crate) fn an_adopted_unit_is_confined_through_systemd_and_restored() -> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let online = online_cpus()?;
    let bounded = format!("AllowedCPUs={online}");
    let bounded = bounded.as_str();
    for properties in [&[][..], &[bounded][..]] {
        let service = Service::start("adopted-unit.service", properties, WITH_CHILD)?;
        let had = online.clone();
        let group = service.group()?;
        let refused = refusal(User::Alice, &["adopt", "--unit", service.0])?;
        ensure!(refused.contains("only root"), "alice got {refused}");
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
        let reply = status_of("adopted-unit")?;
        ensure!(reply["adopted"]["unit"] == service.0, "status says {reply}");
        let reply = status_of("adopted-unit")?;
        ensure!(reply["state"] != "set by others", "status says {reply}");
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
    let _allowed = DropIn::for_adopting()?;
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
        let reply = refusal(User::Root, &["adopt", "--cgroup", &group])?;
        ensure!(reply.contains(says), "of {group} got {reply}");
    }
    let reply = refusal(User::Alice, &["adopt", "--cgroup", &path])?;
    ensure!(
        reply.contains("its cpuset.cpus belongs to user 0"),
        "alice got {reply}"
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

/// `systemctl set-property` on the slice that an adopted unit is in.
pub(crate) fn an_adopted_unit_is_kept_within_a_limit_that_is_set_later() -> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let service = Service::start("bounded.service", &["Slice=bounded.slice"], WITH_CHILD)?;
    let group = service.group()?;
    mapperctl(User::Root, &["adopt", "--unit", service.0])?;
    let rival = rival()?;
    ensure_confined(&group, &rival)?;
    let limit = |cpus: &str| {
        let property = format!("AllowedCPUs={cpus}");
        systemctl(&["set-property", "--runtime", "bounded.slice", &property])
    };
    limit("0-2")?;
    let within = kernel::cpu_list("0-2")?;
    wait_for("the daemon to keep to the limit", || {
        let reply = status_of("bounded")?;
        ensure!(reply["state"] == "limited", "status says {reply}");
        let (promised, given) = (
            kernel::cpu_list(reply["cpus"].as_str().unwrap_or_default())?,
            kernel::cpu_list(&kernel::read(group.join("cpuset.cpus"))?)?,
        );
        for cpus in [&promised, &given, &effective_cpus(&group)?] {
            ensure!(cpus.is_subset(&within), "it has {cpus}, of {within}");
            let theirs = rival.cpus()?;
            ensure!(cpus.is_disjoint(&theirs), "{cpus} and {theirs} overlap");
        }
        Ok(())
    })?;
    kill_daemon()?;
    wait_for("the next daemon to keep to it", || {
        let reply = status_of("bounded")?;
        ensure!(reply["state"] == "limited", "status says {reply}");
        Ok(())
    })?;
    limit(&online_cpus()?.to_string())?;
    wait_for("the daemon to see that the limit is gone", || {
        let reply = status_of("bounded")?;
        ensure!(reply["state"] != "limited", "status says {reply}");
        let cpus = ensure_confined(&group, &rival)?;
        ensure!(cpus.len() > 3, "it still has {cpus}");
        Ok(())
    })
}

pub(crate) fn memory_of_an_adopted_unit_follows_its_cpus_through_systemd() -> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let service = Service::start("placed.service", &[], WITH_CHILD)?;
    let group = service.group()?;
    let asked = ["adopt", "--unit", service.0, "--mem", "interleave"];
    let reply = refusal(User::Root, &asked)?;
    ensure!(reply.contains("give local or keep"), "root got {reply}");
    let asked = ["--mem", "local", "--max-cpus", "2"];
    mapperctl(
        User::Root,
        &[&["adopt", "--unit", service.0], &asked[..]].concat(),
    )?;
    let mems = |name| kernel::read(group.join(name));
    let nodes = wait_for("its memory to be bound", || {
        let nodes = property(service.0, "AllowedMemoryNodes")?;
        let cpus = effective_cpus(&group)?;
        let cpu = cpus.first_cpu().context("it has no CPU")?;
        // The guest has four CPUs to a node, in order.
        let node = (cpu.0 / 4).to_string();
        ensure!(nodes.contains(&node), "nodes \"{nodes}\", CPUs {cpus}");
        ensure!(mems("cpuset.mems")? == nodes, "{}", mems("cpuset.mems")?);
        Ok(nodes)
    })?;
    systemctl(&["daemon-reload"])?;
    let after = mems("cpuset.mems.effective")?;
    ensure!(
        after == nodes,
        "after daemon-reload it has {after}, not {nodes}"
    );
    kill_daemon()?;
    mapperctl(User::Root, &["release", "placed"])?;
    wait_for("its nodes to come back", || {
        let (all, now) = (
            kernel::read("/sys/devices/system/node/has_memory")?,
            mems("cpuset.mems.effective")?,
        );
        ensure!(now == all, "it has nodes {now}, not {all}");
        let nodes = property(service.0, "AllowedMemoryNodes")?;
        ensure!(nodes.is_empty(), "AllowedMemoryNodes is \"{nodes}\"");
        Ok(())
    })
}

pub(crate) fn what_lost_its_state_is_roots_to_release_and_stays_released() -> Result<()> {
    let _allowed = DropIn::for_adopting()?;
    let service = Service::start("lost.service", &["User=alice"], WITH_CHILD)?;
    let pid = service.pid()?;
    mapperctl(User::Alice, &["adopt", "--pid", &pid.to_string()])?;
    let group = kernel::group_of(pid)?;
    systemctl(&["stop", UNIT])?;
    std::fs::remove_file("/var/lib/mapper/state.json").context("lose the state")?;
    systemctl(&["start", UNIT])?;
    let name = group.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("app-"));
    let name = format!("recovered-{}", number.context("its group has no number")?);
    let reply = status_of(&name)?;
    ensure!(reply["adopted"].is_null(), "status says {reply}");
    let refused = refusal(User::Alice, &["release", &name])?;
    ensure!(refused.contains("root"), "alice got {refused}");
    mapperctl(User::Root, &["release", &name])?;
    let listed = || -> Result<bool> {
        let status = status()?;
        let apps = status["apps"].as_array().context("no list")?;
        Ok(apps.iter().any(|app| app["name"] == name.as_str()))
    };
    ensure!(!listed()?, "it is still managed");
    let cpus = effective_cpus(&group)?;
    ensure!(cpus == online_cpus()?, "released it has {cpus}");
    // Nor does the next daemon take it for one that was forgotten.
    kill_daemon()?;
    ensure!(!listed()?, "the next daemon manages it again");
    ensure!(kernel::is_running(pid), "it has ended");
    // They are not in their unit any more, which would end them.
    for process in children(pid)?.into_iter().chain([pid]) {
        kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL).context("end it")?;
    }
    wait_for("its group to be removed", || {
        // An idle daemon looks when somebody comes.
        output_of(&mut crate::application::launch(User::Root, &[], &["true"])?)?;
        ensure!(!group.exists(), "{} is left over", group.display());
        Ok(())
    })
}
