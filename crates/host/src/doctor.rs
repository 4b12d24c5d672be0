//! What this machine offers to mapper, why something is missing, and the remedy. Nothing is changed. Findings hold for
//! this process: a service may have other rights than its operator's shell.

use crate::enforce::cgroup;
use crate::observe::{self, HardwareCounters};
use crate::procfs::{read_cpu_list, read_small};
use crate::topology::{HwlocSource, TopologySource};
use crate::{Missing, chain};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The state of a thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// There, in full.
    Good,
    /// There, with something lacking; mapper works with what there is.
    Limited,
    /// Not there; mapper works without it.
    Missing,
}

/// One thing that was examined.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was examined.
    pub what: &'static str,
    /// Its state.
    pub condition: Condition,
    /// What was seen, or why it is not there.
    pub seen: String,
    /// What would fix it; empty if nothing is wrong.
    pub remedy: String,
}

impl Finding {
    fn good(what: &'static str, seen: impl Into<String>) -> Self {
        Self {
            what,
            condition: Condition::Good,
            seen: seen.into(),
            remedy: String::new(),
        }
    }

    fn limited(what: &'static str, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            condition: Condition::Limited,
            remedy: remedy.into(),
            ..Self::good(what, seen)
        }
    }

    fn missing(what: &'static str, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            condition: Condition::Missing,
            ..Self::limited(what, seen, remedy)
        }
    }
}

#[derive(Clone, Debug)]
struct Places {
    sys: PathBuf,
    proc: PathBuf,
}

/// Examines everything on this machine.
#[must_use]
pub fn examine() -> Vec<Finding> {
    let places = Places {
        sys: "/sys".into(),
        proc: "/proc".into(),
    };
    let groups = control_groups();
    let place = delegation(groups.condition);
    let has_place = place.condition == Condition::Good;
    let mut findings = vec![topology(), groups, place];
    findings.extend(moves_between_groups(&places).filter(|_| has_place));
    findings.extend(hardware_counters());
    findings.extend([
        paranoid_level(&places),
        resctrl(&places),
        isolated_cpus(&places),
        smt(&places),
        descriptors(),
        kernel(&places),
    ]);
    findings
}

fn topology() -> Finding {
    match HwlocSource::ThisMachine.read() {
        Ok(topology) => Finding::good(
            "topology",
            format!(
                "hwloc: {}, {}, {}, {}",
                counted(topology.cpus().len() as usize, "CPU"),
                counted(topology.cores().len(), "core"),
                counted(topology.sockets().len(), "socket"),
                counted(topology.nodes().len(), "node")
            ),
        ),
        Err(error) => Finding::missing(
            "topology",
            chain(&error),
            "mount /sys; without a topology mapperd does not start",
        ),
    }
}

fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn control_groups() -> Finding {
    let what = "control groups";
    let remedy =
        "boot with systemd.unified_cgroup_hierarchy=1; until then threads are confined by affinity";
    let mounts = read_small(Path::new("/proc/self/mounts")).unwrap_or_default();
    let Some(mount) = cgroup::cgroup2_mount(&mounts) else {
        return Finding::missing(what, "no cgroup v2 file system is mounted", remedy);
    };
    let controllers = read_small(&mount.join("cgroup.controllers")).unwrap_or_default();
    let has_cpuset = controllers.split_ascii_whitespace().any(|c| c == "cpuset");
    let mount = mount.display();
    if has_cpuset {
        return Finding::good(what, format!("version 2 at {mount}, with cpuset"));
    }
    let seen = format!("version 2 at {mount}, without cpuset (version 1 holds it)");
    Finding::limited(what, seen, remedy)
}

fn delegation(groups: Condition) -> Finding {
    match cgroup::find_root() {
        Ok(root) => Finding::good("place for groups", root.display().to_string()),
        Err(error) => Finding::missing(
            "place for groups",
            chain(&error),
            // A service gets a place only where there is a tree of control groups to have one in.
            match groups {
                Condition::Good => {
                    "start mapperd as a service (systemctl start mapperd); without a place threads are confined by affinity"
                }
                Condition::Limited | Condition::Missing => {
                    "none without control groups of version 2 with cpuset, see there; threads are confined by affinity"
                }
            },
        ),
    }
}

/// Unless the file system is mounted with `favordynmods`, each move of a process into another group waits until all CPUs
/// have passed through the kernel (an RCU grace period). `None` where nothing can be or has to be done.
fn moves_between_groups(places: &Places) -> Option<Finding> {
    const FAST: &str = "favordynmods";
    /// Of the first control group namespace; the option is ignored in others.
    const FIRST: &str = "cgroup:[4026531835]";
    let what = "moves between groups";
    let mounts = read_small(&places.proc.join("self/mounts")).ok()?;
    let options = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (kind, options) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then_some(options)
    })?;
    if options.split(',').any(|option| option == FAST) {
        return Some(Finding::good(what, FAST));
    }
    let namespace = std::fs::read_link(places.proc.join("self/ns/cgroup")).ok()?;
    // Before Linux 6.0 there is no such option, and moves do not wait.
    let features = read_small(&places.sys.join("kernel/cgroup/features")).ok()?;
    let can_be = features.lines().any(|feature| feature == FAST);
    (can_be && namespace == Path::new(FIRST)).then(|| {
        Finding::limited(
            what,
            "each launch waits for the kernel, often 20 ms",
            "as root: mount -o remount,favordynmods /sys/fs/cgroup; mapperd.service does so when it starts, \
             cgroup_favordynmods=1 on the kernel's command line for good",
        )
    })
}

fn hardware_counters() -> Vec<Finding> {
    let of = |missing: Missing| Finding::missing(missing.what, missing.why, missing.hint);
    match HardwareCounters::probe() {
        Ok(mut found) => {
            use crate::observe::{CounterSource, SwitchCost, reduce_to_worth};
            let what = "hardware counters";
            let cost = reduce_to_worth(&mut found);
            let says = found.counters.describe();
            let us = |cost: std::time::Duration| cost.as_secs_f64() * 1e6;
            let mut findings = vec![match cost {
                SwitchCost::TooMuch(cost) => Finding::limited(
                    what,
                    format!(
                        "{says}; counters add {:.1} µs to every context switch on this machine (limit {:.1} µs)",
                        us(cost),
                        us(observe::MOST_SWITCH_COST)
                    ),
                    "no action needed: programs are measured by the progress that their OpenMP runtime reports; \
                     set counters = \"hardware\" under [expert] in mapper.toml to use them anyway",
                ),
                SwitchCost::Worth(cost) => Finding::good(
                    what,
                    format!("{says}; {:.1} µs for each context switch", us(cost)),
                ),
                SwitchCost::Unknown => Finding::good(what, says),
            }];
            if !found.processors.is_empty() {
                findings.push(Finding::good("event table", found.processors.join(" and ")));
            }
            findings.extend(found.described.into_iter().map(|described| {
                Finding::good(observe::hardware::name(&described.event), described.text)
            }));
            findings.extend(found.missing.into_iter().map(of));
            findings
        }
        Err(missing) => vec![of(missing)],
    }
}

fn paranoid_level(places: &Places) -> Finding {
    let what = "kernel.perf_event_paranoid";
    let path = places.proc.join("sys/kernel/perf_event_paranoid");
    let Ok(text) = read_small(&path) else {
        let seen = format!("no {}", path.display());
        return Finding::missing(what, seen, "use a kernel with CONFIG_PERF_EVENTS");
    };
    match text.trim().parse::<i32>() {
        Ok(level) if level <= 2 => Finding::good(what, level.to_string()),
        Ok(level) => Finding::limited(
            what,
            format!("{level}: threads of others are counted with CAP_SYS_ADMIN alone"),
            "set it to 2, the kernel's default (sysctl kernel.perf_event_paranoid=2)",
        ),
        Err(_) => Finding::limited(what, format!("{:?}", text.trim()), "see perf_event_open(2)"),
    }
}

fn resctrl(places: &Places) -> Finding {
    let what = "memory bandwidth (resctrl)";
    let root = places.sys.join("fs/resctrl");
    let features = root.join("info/L3_MON/mon_features");
    if let Ok(text) = read_small(&features) {
        let names: Vec<&str> = text.lines().collect();
        return match observe::MemoryBandwidth::probe(&root) {
            Ok(_) => Finding::good(what, names.join(", ")),
            Err(lack) => Finding::limited(what, lack.why, lack.hint),
        };
    }
    let flags = read_small(&places.proc.join("cpuinfo")).unwrap_or_default();
    if flags.contains("cqm_mbm_total") || flags.contains("cqm_mbm_local") {
        let seen = format!(
            "the processor counts it, but {} is not mounted",
            root.display()
        );
        Finding::limited(what, seen, "mount -t resctrl resctrl /sys/fs/resctrl")
    } else {
        Finding::missing(
            what,
            "the processor counts none for this system",
            "it cannot be added; last-level cache misses are used instead where they are counted",
        )
    }
}

fn isolated_cpus(places: &Places) -> Finding {
    let what = "CPUs";
    let dir = places.sys.join("devices/system/cpu");
    let list = |name: &str| read_cpu_list(&dir.join(name)).unwrap_or_default();
    let (online, offline, isolated) = (list("online"), list("offline"), list("isolated"));
    let mut seen = format!("online {online}");
    if !offline.is_empty() {
        seen.push_str(&format!(", offline {offline}"));
    }
    if isolated.is_empty() {
        return Finding::good(what, seen);
    }
    Finding::limited(
        what,
        format!("{seen}, isolated {isolated}: these are not assigned"),
        "take isolcpus= off the kernel's command line if mapper is to use them",
    )
}

fn smt(places: &Places) -> Finding {
    let path = places.sys.join("devices/system/cpu/smt/control");
    let text = read_small(&path).unwrap_or_default();
    Finding::good(
        "hardware threads (SMT)",
        match text.trim() {
            "" => "the kernel does not report it",
            "notsupported" => "one thread a core",
            "notimplemented" => "the kernel cannot switch them on and off here",
            message => message,
        },
    )
}

fn descriptors() -> Finding {
    const ENOUGH: u64 = 65_536;
    let what = "open files";
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < ENOUGH => Finding::limited(
            what,
            format!(
                "{most} at most; hardware counters take one for each event of each thread, which is {} \
                 threads with seven events; beyond that a program is counted by its control group, or in part",
                most / 7
            ),
            "raise LimitNOFILE in the unit, or `ulimit -Hn`, to 65536 or more",
        ),
        Some(most) => Finding::good(what, format!("{most} at most")),
        None => Finding::good(what, "no limit"),
    }
}

fn kernel(places: &Places) -> Finding {
    let what = "kernel";
    let text = read_small(&places.proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let release = text.trim();
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let resets = "a change of a cpuset resets the affinity that threads gave themselves";
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (6, 2) => Finding::limited(
            what,
            format!("{release}: {resets}"),
            "use Linux 6.2 or later where programs pin their threads",
        ),
        _ => Finding::good(what, release),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_advised_only_where_it_would_get_control_groups() {
        for (groups, advised) in [
            (Condition::Good, true),
            (Condition::Limited, false),
            (Condition::Missing, false),
        ] {
            let found = delegation(groups);
            let expected = advised && found.condition == Condition::Missing;
            let message = found.remedy.contains("systemctl start");
            assert_eq!(message, expected, "{groups:?}: {found:?}");
        }
    }

    #[test]
    fn groups_that_are_slow_to_change_are_reported_where_the_kernel_can_be_faster() {
        let features = ("sys/kernel/cgroup/features", "nsdelegate\nfavordynmods\n");
        let mounts = |options| {
            let mounts =
                format!("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 {options} 0 0\n");
            ("proc/self/mounts", mounts)
        };
        let (slow, fast) = (
            mounts("rw,nsdelegate"),
            mounts("rw,nsdelegate,favordynmods"),
        );
        let [slow, fast] = [&slow, &fast].map(|(file, mounts)| (*file, &mounts[..]));
        let found = |files: &[(&str, &str)], namespace: &str| {
            let (places, _dir) = machine(files);
            let own = places.proc.join("self/ns");
            std::fs::create_dir_all(&own).unwrap();
            std::os::unix::fs::symlink(namespace, own.join("cgroup")).unwrap();
            moves_between_groups(&places).map(|finding| finding.condition)
        };
        let (first, another) = ("cgroup:[4026531835]", "cgroup:[4026532100]");
        assert_eq!(found(&[slow, features], first), Some(Condition::Limited));
        assert_eq!(found(&[fast, features], first), Some(Condition::Good));
        assert_eq!(found(&[slow, features], another), None);
        assert_eq!(found(&[slow], first), None, "before Linux 6.0");
        assert_eq!(found(&[features], first), None, "no control groups");
    }

    fn machine(files: &[(&str, &str)]) -> (Places, tempfile::TempDir) {
        let dir = crate::procfs::fake_files(files);
        let places = Places {
            sys: dir.path().join("sys"),
            proc: dir.path().join("proc"),
        };
        (places, dir)
    }

    #[test]
    fn what_is_not_good_comes_with_a_remedy() {
        for finding in examine() {
            assert!(!finding.seen.is_empty(), "{finding:?}");
            let is_good = finding.condition == Condition::Good;
            assert_eq!(is_good, finding.remedy.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn a_paranoid_kernel_is_reported_with_its_level() {
        let level = |text| {
            let (places, _dir) = machine(&[("proc/sys/kernel/perf_event_paranoid", text)]);
            paranoid_level(&places)
        };
        assert_eq!(level("2\n").condition, Condition::Good);
        let three = level("3\n");
        assert_eq!(three.condition, Condition::Limited);
        assert!(three.seen.starts_with('3') && three.remedy.contains("paranoid=2"));
        let (places, _dir) = machine(&[]);
        assert_eq!(paranoid_level(&places).condition, Condition::Missing);
    }

    #[test]
    fn bandwidth_is_there_unmounted_or_missing() {
        let features = "sys/fs/resctrl/info/L3_MON/mon_features";
        let mon = (features, "llc_occupancy\nmbm_total_bytes\n");
        let flags = "flags : cqm_llc cqm_mbm_total cqm_mbm_local\n";
        let cpu = ("proc/cpuinfo", flags);
        let place = ("sys/fs/resctrl/mon_groups/other/tasks", "");
        for (files, condition) in [
            (&[mon, cpu, place][..], Condition::Good),
            (&[mon, cpu], Condition::Limited),
            (&[cpu], Condition::Limited),
            (&[], Condition::Missing),
        ] {
            let (places, _dir) = machine(files);
            assert_eq!(resctrl(&places).condition, condition);
        }
    }

    #[test]
    fn isolated_and_offline_cpus_are_reported() {
        let (places, _dir) = machine(&[
            ("sys/devices/system/cpu/online", "0-5\n"),
            ("sys/devices/system/cpu/offline", "6-7\n"),
            ("sys/devices/system/cpu/isolated", "5\n"),
        ]);
        let finding = isolated_cpus(&places);
        assert_eq!(finding.condition, Condition::Limited);
        assert!(finding.seen.contains("offline 6-7") && finding.seen.contains("isolated 5"));
    }

    #[test]
    fn an_old_kernel_is_reported() {
        for (release, condition) in [
            ("6.1.0-18-amd64", Condition::Limited),
            ("6.2.0", Condition::Good),
            ("10.0", Condition::Good),
            ("odd", Condition::Good),
        ] {
            let (places, _dir) = machine(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(kernel(&places).condition, condition, "{release}");
        }
    }
}
