//! The unit files: does the daemon run as a service, and with no more rights than it needs.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::application::launch;
use crate::daemon::{
    APPS_UNIT, UNIT, apps_group, main_pid, output_of, property, status, systemctl,
};
use crate::kernel;
use crate::users::User;

/// The highest exposure that `systemd-analyze security` may find, in tenths.
const EXPOSURE_LIMIT_TENTHS: &str = "25";

pub(crate) fn the_service_starts_and_says_so() -> Result<()> {
    // With Type=notify, `systemctl start` has returned because the daemon said it was ready.
    ensure!(
        property(UNIT, "Type")? == "notify",
        "{UNIT} is not of Type=notify"
    );
    ensure!(
        property(UNIT, "ActiveState")? == "active",
        "{UNIT} is not active"
    );
    let pid = main_pid()?;
    let reply = systemctl(&["--no-pager", "status", UNIT])?;
    ensure!(
        reply.contains("active (running)"),
        "systemctl status says: {reply}"
    );
    ensure!(
        status()?["daemon"]["pid"] == pid,
        "mapperctl talks to another daemon than {pid}"
    );
    Ok(())
}

pub(crate) fn the_service_is_confined_to_what_it_needs() -> Result<()> {
    for unit in [UNIT, APPS_UNIT] {
        let threshold = format!("--threshold={EXPOSURE_LIMIT_TENTHS}");
        output_of(Command::new("systemd-analyze").args([
            "security",
            "--no-pager",
            &threshold,
            unit,
        ]))?;
    }
    let status = kernel::read(format!("/proc/{}/status", main_pid()?))?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
            .unwrap_or_default()
    };
    // CAP_SYS_NICE (23) and CAP_PERFMON (38), and nothing that could be gained.
    let capabilities = format!("{:016x}", 1u64 << 23 | 1u64 << 38);
    ensure!(
        field("CapEff:") == capabilities,
        "the daemon has capabilities {}",
        field("CapEff:")
    );
    ensure!(
        field("CapBnd:") == capabilities,
        "the daemon could gain {}",
        field("CapBnd:")
    );
    ensure!(
        field("NoNewPrivs:") == "1",
        "the daemon could gain privileges by exec"
    );
    ensure!(
        field("Seccomp:") == "2",
        "the daemon's system calls are not filtered"
    );
    Ok(())
}

fn mount_of_groups() -> Result<String> {
    let mounts = kernel::read("/proc/self/mounts")?;
    let mut groups = mounts.lines().filter(|line| line.contains(" cgroup2 "));
    let mount = groups.next().context("no control groups")?;
    Ok(mount.to_owned())
}

pub(crate) fn the_service_has_the_kernel_move_processes_at_once_and_keeps_the_mounts_options()
-> Result<()> {
    const FSTAB: &str = "/etc/fstab";
    let before = fs::read_to_string(FSTAB).unwrap_or_default();
    // Its options are not those of the mount, and are not to take their place.
    let entry = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    fs::write(FSTAB, format!("{before}{entry}")).context("write fstab")?;
    let options = "remount,nosuid,nodev,noexec,nsdelegate,memory_recursiveprot";
    let slow = ["-o", options, "cgroup2", "/sys/fs/cgroup"];
    let slowed = output_of(Command::new("mount").args(slow)).and_then(|_| mount_of_groups());
    let restarted = systemctl(&["restart", UNIT]);
    fs::write(FSTAB, before).context("write fstab")?;
    let (slowed, _) = (slowed?, restarted?);
    ensure!(!slowed.contains("favordynmods"), "not slowed: {slowed}");
    let mount = mount_of_groups()?;
    // The last two are systemd's.
    for option in [
        "favordynmods",
        "nosuid",
        "nodev",
        "noexec",
        "nsdelegate",
        "memory_recursiveprot",
    ] {
        ensure!(mount.contains(option), "no {option}: {mount}");
    }
    Ok(())
}

pub(crate) fn the_journal_has_structured_fields() -> Result<()> {
    let text = output_of(Command::new("journalctl").args([
        "--no-pager",
        "--output=json",
        "--unit",
        UNIT,
        "--identifier=mapperd",
    ]))?;
    let mut seen = String::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).context("journalctl --output=json")?;
        let fields = entry.as_object().context("journalctl --output=json")?;
        // What a service merely prints arrives over a pipe (`_TRANSPORT=stdout`) and has none.
        if entry["_TRANSPORT"] == "journal"
            && fields.contains_key("TARGET")
            && fields.keys().any(|name| name.starts_with("F_"))
        {
            return Ok(());
        }
        seen = line.to_owned();
    }
    bail!("no journal entry of the daemon has fields of its own; the last is {seen}")
}

pub(crate) fn a_launch_is_one_entry_in_the_span_of_its_interval() -> Result<()> {
    output_of(&mut launch(User::Root, &[], &["true"])?)?;
    let text = output_of(Command::new("journalctl").args([
        "--no-pager",
        "--output=json",
        "--unit",
        UNIT,
        "--identifier=mapperd",
    ]))?;
    let mut last = String::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).context("journalctl --output=json")?;
        let number = |name: &str| {
            entry[name]
                .as_str()
                .and_then(|text| text.parse::<u64>().ok())
        };
        let fields = ["F_INTERVAL", "F_APP", "F_PID", "F_UID"];
        if entry["SPAN_NAME"] == "interval" && fields.iter().all(|name| number(name).is_some()) {
            return Ok(());
        }
        last = line.to_owned();
    }
    bail!("no launch is in the journal with its numbers; the last entry is {last}")
}

pub(crate) fn the_groups_place_is_delegated_and_the_daemon_is_elsewhere() -> Result<()> {
    let group = apps_group()?;
    ensure!(
        property(APPS_UNIT, "Delegate")? == "yes",
        "{APPS_UNIT} is not delegated"
    );
    let below = kernel::read(group.join("cgroup.subtree_control"))?;
    ensure!(
        below.split_whitespace().eq(["cpuset", "cpu"]),
        "controllers below {}: \"{below}\", not cpuset and cpu alone",
        group.display()
    );
    let daemon = kernel::group_of(main_pid()?)?;
    ensure!(
        !daemon.starts_with(&group) && !group.starts_with(&daemon),
        "the daemon's group {} and the applications' {} are not apart",
        daemon.display(),
        group.display()
    );
    Ok(())
}
