//! `mapperctl gather`: a report for those who look for a fault, in one file. What it has and has not is in its
//! `README.txt`, and is printed.

mod hiding;

use crate::plain_text::{Width, wrapped};
use anyhow::{Context, ensure};
use hiding::Hiding;
use mapper_control::socket_path::Surroundings;
use mapper_control::{Client, PROTOCOL};
use mapper_host::doctor;
use mapper_host::topology::{HwlocSource, TopologySource};
use mapper_manual::wording;
use nix::unistd::{Uid, User};
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Lines of the log's end.
const LOG_LINES: usize = 500;

/// Options of the kernel that change what mapper can do; others may be secrets.
const BOOT_OPTIONS: [&str; 10] = [
    "cgroup_no_v1",
    "isolcpus",
    "maxcpus",
    "mitigations",
    "nohz_full",
    "nosmt",
    "nr_cpus",
    "preempt",
    "rcu_nocbs",
    "systemd.unified_cgroup_hierarchy",
];

const LEFT_OUT: &str = "\
Left out: command lines and environments of programs, names and numbers of users and groups, the name of this machine, \
comments of the configuration. Names of programs and paths outside of home directories are in it.";

/// A file of the report.
struct Part {
    name: String,
    about: &'static str,
    content: String,
}

struct Report {
    hiding: Hiding,
    parts: Vec<Part>,
}

impl Report {
    fn text(&mut self, name: &str, about: &'static str, content: &str) {
        let content = self.hiding.text(content);
        let name = name.to_owned();
        self.parts.push(Part {
            name,
            about,
            content,
        });
    }

    /// Adds a reply, or why there is none.
    fn json<T: Serialize>(
        &mut self,
        name: &str,
        about: &'static str,
        reply: anyhow::Result<T>,
    ) -> anyhow::Result<()> {
        let value = match reply {
            Ok(reply) => serde_json::to_value(reply).context("write a reply as JSON")?,
            Err(error) => serde_json::json!({ "error": format!("{error:#}") }),
        };
        let content = serde_json::to_string_pretty(&self.hiding.json(value))? + "\n";
        let name = name.to_owned();
        self.parts.push(Part {
            name,
            about,
            content,
        });
        Ok(())
    }
}

/// Writes the report; returns what to print.
pub(crate) fn gather(
    client: anyhow::Result<Client>,
    out: Option<&Path>,
    width: Width,
) -> anyhow::Result<String> {
    let now = SystemTime::now();
    let stem = format!(
        "mapper-report-{}",
        humantime::format_rfc3339_seconds(now)
            .to_string()
            .replace(':', "")
    );
    let path = out.map_or_else(|| PathBuf::from(format!("{stem}.tar.gz")), Path::to_owned);
    let report = collect(client)?;
    let bytes = pack(&report, &stem, &path)?;
    let shown = std::path::absolute(&path).unwrap_or(path);
    let size = bytes.div_ceil(1000);
    Ok(format!(
        "Wrote {} ({size} kB) with\n{}\n{}\nLook at it before you send it: tar -xzf {}\n",
        shown.display(),
        contents(&report),
        wrapped("", LEFT_OUT, width),
        shown.display()
    ))
}

fn contents(report: &Report) -> String {
    let width = report.parts.iter().map(|part| part.name.len()).max();
    let width = width.unwrap_or_default();
    let line = |part: &Part| format!("  {:width$}  {}\n", part.name, part.about);
    report.parts.iter().map(line).collect()
}

/// Packs the report as `path`, which nobody else may read, and which is no file that is there.
fn pack(report: &Report, stem: &str, path: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::OpenOptionsExt;
    let aside = tempfile::tempdir().context("make a temporary folder")?;
    let folder = aside.path().join(stem);
    fs::create_dir(&folder)?;
    let left_out = wrapped("", LEFT_OUT, Width::new(80));
    let readme = format!("A report of mapper.\n\n{}\n{left_out}", contents(report));
    fs::write(folder.join("README.txt"), readme)?;
    for part in &report.parts {
        fs::write(folder.join(&part.name), &part.content)?;
    }
    let mut new = File::options();
    let new = new.write(true).create_new(true).mode(0o600).open(path);
    let to =
        new.with_context(|| format!("write {}; name another place with --out", path.display()))?;
    let mut tar = Command::new("tar");
    // Of the one who packs, neither name nor number.
    tar.args([
        "--create",
        "--gzip",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]);
    tar.arg("--directory").arg(aside.path()).arg(stem);
    let packed = tar.stdout(to).status().context("start `tar`")?;
    ensure!(packed.success(), "tar failed ({packed}); see above");
    Ok(fs::metadata(path)?.len())
}

fn collect(client: anyhow::Result<Client>) -> anyhow::Result<Report> {
    let kernel = nix::sys::utsname::uname().context("ask for the kernel's name")?;
    let host = kernel.nodename().to_string_lossy().into_owned();
    let mut report = Report {
        hiding: Hiding::of_host(host),
        parts: Vec::new(),
    };
    for variable in ["USER", "LOGNAME", "SUDO_USER"] {
        report
            .hiding
            .add(std::env::var(variable).ok().as_deref(), None);
    }
    know(&mut report.hiding, Uid::current().as_raw());
    let (mut client, status, history) = match client {
        Ok(mut client) => {
            let (status, history) = (client.status(), client.history());
            (
                Some(client),
                status.map_err(Into::into),
                history.map_err(Into::into),
            )
        }
        Err(error) => (None, Err(anyhow::anyhow!("{error:#}")), Err(error)),
    };
    let running = status.iter().flat_map(|status| &status.apps);
    let ended = history.iter().flat_map(|history| &history.ended);
    for uid in running.map(|app| app.uid).chain(ended.map(|app| app.uid)) {
        know(&mut report.hiding, uid);
    }
    // First, as users are hidden that stand in its rules alone.
    for (name, path) in configurations() {
        let text = fs::read_to_string(path);
        let content = text.map(|text| report.hiding.configuration(&text));
        if let Ok(content) = content {
            report.text(name, "the configuration", &content);
        }
    }
    let daemon = status.as_ref().map(|status| &status.daemon.version[..]);
    report.text(
        "versions.txt",
        "mapper, the system, the kernel",
        &versions(daemon.unwrap_or("does not answer"), &kernel),
    );
    report.json(
        "doctor.json",
        "what this machine offers",
        Ok(doctor::examine()),
    )?;
    let topology = HwlocSource::ThisMachine.read().map_err(Into::into);
    report.json("topology.json", "CPUs, cores, caches, nodes", topology)?;
    let apps = status.iter().flat_map(|status| &status.apps);
    let ids: Vec<u64> = apps.map(|app| app.id.0).collect();
    report.json(
        "status.json",
        "the daemon and the programs that run",
        status,
    )?;
    report.json("history.json", "the programs that have ended", history)?;
    for id in ids {
        let Some(client) = &mut client else { break };
        // Another user's cannot be looked into.
        if let Ok(explained) = client.explain(&id.to_string()) {
            let name = format!("explain-{id}.json");
            report.json(&name, "one program's speeds and decisions", Ok(explained))?;
        }
    }
    report.text("log.txt", "the end of the log", &log());
    Ok(report)
}

/// Hides a user, by number and name.
fn know(hiding: &mut Hiding, uid: u32) {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let name = user.map(|user| user.name);
    hiding.add(name.as_deref(), Some(uid));
}

/// A directory of the user's, by the XDG specification.
fn base_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = set(variable).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(set("HOME")?).join(below_home)))
}

/// Where the daemons look for it.
fn configurations() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let system = ("mapper.toml", PathBuf::from("/etc/mapper/mapper.toml"));
    let own = base_directory("XDG_CONFIG_HOME", ".config");
    let own = own.map(|folder| ("own-mapper.toml", folder.join("mapper/mapper.toml")));
    [Some(system), own].into_iter().flatten()
}

fn versions(daemon: &str, kernel: &nix::sys::utsname::UtsName) -> String {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = text("/etc/os-release");
    let system = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let processors = text("/proc/cpuinfo");
    let processor = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let boot = text("/proc/cmdline");
    let options: Vec<&str> = boot
        .split_whitespace()
        .filter(|word| BOOT_OPTIONS.contains(&word.split('=').next().unwrap_or_default()))
        .collect();
    format!(
        "{} {}, protocol {PROTOCOL}\ndaemon {daemon}\nsystem {}\nkernel {} {} {}\nprocessor {}\nkernel options {}\n",
        wording::ask(),
        env!("CARGO_PKG_VERSION"),
        system.unwrap_or("unknown").trim_matches('"'),
        kernel.release().to_string_lossy(),
        kernel.version().to_string_lossy(),
        kernel.machine().to_string_lossy(),
        processor.map_or("unknown", |(_, name)| name),
        match options.is_empty() {
            true => "none that matter".to_owned(),
            false => options.join(" "),
        }
    )
}

/// The ends of the logs: of the user's own daemon, and of the system's in the journal.
fn log() -> String {
    let state = base_directory("XDG_STATE_HOME", ".local/state").map(|state| state.join("mapper"));
    let beside = Surroundings::of_process().user_dir;
    let places = state.into_iter().chain([beside]);
    let mut text = String::new();
    for place in places {
        if let Ok(bytes) = fs::read(place.join("mapperd.log")) {
            text += &last_lines(&bytes);
        }
    }
    let mut journal = Command::new("journalctl");
    journal.args(["--unit=mapperd", "--no-pager", "--no-hostname", "--quiet"]);
    // A machine without systemd has none.
    if let Ok(output) = journal.arg(format!("--lines={LOG_LINES}")).output() {
        text += &last_lines(&output.stdout);
    }
    match text.is_empty() {
        true => "no log was found; a daemon that was started by hand logs to standard error\n"
            .to_owned(),
        false => text,
    }
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LOG_LINES));
    last.map(|line| format!("{line}\n")).collect()
}
