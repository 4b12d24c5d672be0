//! Memory traffic of an application, through the kernel's resource control file system (`resctrl`).
//!
//! Server processors count, for each monitoring group, the bytes between last-level cache and memory (Intel MBM, AMD
//! QoS). Each application gets a group under `mon_groups`; threads that a member starts belong to it, others are
//! written into its `tasks`. The counts of all cache domains are added up, also by node where those are known.
//!
//! A processor has few groups; an application beyond them has no reading. A domain without a count (`Unavailable`)
//! makes the whole reading absent: a sum with a part missing would look like a fall. What is read stays cumulative.

use super::source::{CounterSource, Subject};
use crate::Missing;
use crate::procfs::read_small;
use mapper_model::{AppId, MemoryTraffic, NodeId, NodeTraffic, Reading, ThreadId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub(crate) const RESCTRL: &str = "/sys/fs/resctrl";
const PREFIX: &str = "mapper-";
const MOST_DOMAINS: usize = 1024;

#[derive(Debug)]
pub(crate) struct MemoryBandwidth {
    groups: PathBuf,
    features: Features,
    /// The node of each domain; without that of each, there are no counts by node.
    nodes: BTreeMap<u32, NodeId>,
    apps: BTreeMap<AppId, MonitoringGroup>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Features {
    Total,
    Local,
    Both,
}

#[derive(Debug)]
enum MonitoringGroup {
    Open {
        path: PathBuf,
        members: BTreeSet<ThreadId>,
    },
    Refused,
}

impl MemoryBandwidth {
    /// Checks that the file system at `root` counts memory traffic and lets this process make groups.
    pub(crate) fn probe(root: &Path) -> Result<Self, Missing> {
        let lack = |why: String, hint: &str| Missing::new("memory bandwidth", why, hint);
        let path = root.join("info/L3_MON/mon_features");
        let text = read_small(&path).map_err(|_| {
            lack(
                format!("no {}", path.display()),
                "see mapperctl doctor; last-level cache misses are used instead",
            )
        })?;
        let has = |name| text.lines().any(|line| line.trim() == name);
        let features = match (has("mbm_total_bytes"), has("mbm_local_bytes")) {
            (true, true) => Features::Both,
            (true, false) => Features::Total,
            (false, true) => Features::Local,
            (false, false) => {
                return Err(lack(
                    format!("{} has no mbm_ counter", path.display()),
                    "nothing: the processor counts no bandwidth",
                ));
            }
        };
        let groups = root.join("mon_groups");
        rustix::fs::access(&groups, rustix::fs::Access::WRITE_OK).map_err(|error| {
            lack(
                format!("{}: {}", groups.display(), io::Error::from(error)),
                "let mapperd write there (root, and ReadWritePaths=/sys/fs/resctrl in its unit)",
            )
        })?;
        Ok(Self {
            groups,
            features,
            nodes: BTreeMap::new(),
            apps: BTreeMap::new(),
        })
    }

    #[must_use]
    pub(crate) fn by_node(mut self, nodes: BTreeMap<u32, NodeId>) -> Self {
        self.nodes = nodes;
        self
    }

    /// Removes the empty groups of a daemon that was killed. The others are found again by their names.
    pub(crate) fn remove_abandoned(&self) {
        for group in abandoned(&self.groups) {
            // A thread that has just entered it is monitored elsewhere then.
            let _ = fs::remove_dir(group);
        }
    }

    fn open(&self, app: AppId) -> MonitoringGroup {
        let path = self.groups.join(format!("{PREFIX}{}", app.0));
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                tracing::warn!(
                    app = app.0,
                    "no memory bandwidth: {}: {error}",
                    path.display()
                );
                return MonitoringGroup::Refused;
            }
        }
        MonitoringGroup::Open {
            path,
            members: BTreeSet::new(),
        }
    }
}

impl CounterSource for MemoryBandwidth {
    fn describe(&self) -> String {
        "memory bandwidth (resctrl)".to_owned()
    }

    fn read(&mut self, subject: &Subject<'_>, reading: &mut Reading) {
        let mut group = self
            .apps
            .remove(&subject.app)
            .unwrap_or_else(|| self.open(subject.app));
        if let MonitoringGroup::Open { path, members } = &mut group {
            enrol(&path.join("tasks"), members, &subject.tasks.threads);
            let domains = traffic(&path.join("mon_data"), self.features);
            reading.memory = domains.as_deref().and_then(sum);
            reading.memory_by_node = domains.map_or(Vec::new(), |d| by_node(&d, &self.nodes));
        }
        self.apps.insert(subject.app, group);
    }

    fn forget(&mut self, app: AppId) {
        if let Some(MonitoringGroup::Open { path, .. }) = self.apps.remove(&app)
            && let Err(error) = fs::remove_dir(&path)
        {
            tracing::debug!(app = app.0, "{} stays: {error}", path.display());
        }
    }
}

impl Drop for MemoryBandwidth {
    fn drop(&mut self) {
        for app in self.apps.keys().copied().collect::<Vec<_>>() {
            self.forget(app);
        }
    }
}

fn abandoned(groups: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(groups) else {
        return Vec::new();
    };
    let ours = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(PREFIX))
    };
    let empty =
        |path: &PathBuf| read_small(&path.join("tasks")).is_ok_and(|text| text.trim().is_empty());
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| ours(path) && empty(path))
        .collect()
}

fn enrol(tasks: &Path, members: &mut BTreeSet<ThreadId>, threads: &[ThreadId]) {
    members.retain(|member| threads.binary_search(member).is_ok());
    for thread in threads {
        if members.contains(thread) {
            continue;
        }
        // A thread that ended meanwhile is not found (ESRCH); it is tried no more.
        if let Err(error) = append(tasks, &thread.0.to_string()) {
            tracing::debug!(thread = thread.0, "not monitored: {error}");
        }
        members.insert(*thread);
    }
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    // Not created: in this file system every file is there with its group.
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// The traffic of each domain, by its number; `None` unless every one of them has a count.
fn traffic(data: &Path, features: Features) -> Option<Vec<(Option<u32>, MemoryTraffic)>> {
    let mut domains = Vec::new();
    for entry in fs::read_dir(data).ok()?.take(MOST_DOMAINS) {
        let name = entry.ok()?.file_name();
        let Some(number) = name.to_str()?.strip_prefix("mon_L3_") else {
            continue;
        };
        let number = number.parse().ok();
        let domain = data.join(name);
        let bytes =
            |file| -> Option<u64> { read_small(&domain.join(file)).ok()?.trim().parse().ok() };
        let mut message = MemoryTraffic::default();
        if features != Features::Local {
            message.total_bytes = Some(bytes("mbm_total_bytes")?);
        }
        if features != Features::Total {
            message.local_bytes = Some(bytes("mbm_local_bytes")?);
        }
        domains.push((number, message));
    }
    Some(domains)
}

fn plus(a: MemoryTraffic, b: MemoryTraffic) -> MemoryTraffic {
    let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    MemoryTraffic {
        total_bytes: add(a.total_bytes, b.total_bytes),
        local_bytes: add(a.local_bytes, b.local_bytes),
    }
}

fn sum(domains: &[(Option<u32>, MemoryTraffic)]) -> Option<MemoryTraffic> {
    domains.iter().map(|(_, message)| *message).reduce(plus)
}

fn by_node(
    domains: &[(Option<u32>, MemoryTraffic)],
    nodes: &BTreeMap<u32, NodeId>,
) -> Vec<NodeTraffic> {
    let mut sums: BTreeMap<NodeId, MemoryTraffic> = BTreeMap::new();
    for (domain, message) in domains {
        let Some(node) = domain.and_then(|domain| nodes.get(&domain)) else {
            return Vec::new();
        };
        (sums.entry(*node))
            .and_modify(|sum| *sum = plus(*sum, *message))
            .or_insert(*message);
    }
    let message = |(node, traffic)| NodeTraffic { node, traffic };
    sums.into_iter().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforce::{Extent, Tasks};
    use crate::procfs::fake_files;

    fn tree(features: &str, domains: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let dir = fake_files(&[
            ("info/L3_MON/mon_features", features),
            ("mon_groups/mapper-7/tasks", ""),
        ]);
        for (domain, total, local) in domains {
            let data = dir.path().join("mon_groups/mapper-7/mon_data").join(domain);
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join("mbm_total_bytes"), total).unwrap();
            fs::write(data.join("mbm_local_bytes"), local).unwrap();
        }
        dir
    }

    fn probe(root: &Path) -> MemoryBandwidth {
        MemoryBandwidth::probe(root).unwrap()
    }

    const BOTH: &str = "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n";

    fn read(source: &mut MemoryBandwidth, app: u64, threads: &[u32]) -> Reading {
        let tasks = Tasks {
            processes: vec![],
            threads: threads.iter().map(|tid| ThreadId(*tid)).collect(),
            extent: Extent::Whole,
        };
        let mut reading = Reading::default();
        source.read(&Subject::of(AppId(app), &tasks), &mut reading);
        reading
    }

    const fn bytes(total: u64, local: u64) -> MemoryTraffic {
        MemoryTraffic {
            total_bytes: Some(total),
            local_bytes: Some(local),
        }
    }

    #[test]
    fn traffic_is_added_up_and_reported_by_node_where_every_domain_has_one() {
        let dir = tree(
            BOTH,
            &[
                ("mon_L3_00", "1000\n", "900\n"),
                ("mon_L3_01", "50\n", "5\n"),
                ("mon_L3_08", "7\n", "1\n"),
            ],
        );
        let nodes = BTreeMap::from([(0, NodeId(0)), (1, NodeId(0)), (8, NodeId(1))]);
        let message = |nodes| read(&mut probe(dir.path()).by_node(nodes), 7, &[]);
        let of = |node, total, local| NodeTraffic {
            node: NodeId(node),
            traffic: bytes(total, local),
        };
        let all = message(nodes.clone());
        assert_eq!(all.memory, Some(bytes(1057, 906)));
        assert_eq!(all.memory_by_node, [of(0, 1050, 905), of(1, 7, 1)]);
        let mut without = nodes;
        without.remove(&8);
        let reading = message(without);
        assert_eq!(reading.memory_by_node, []);
        assert_eq!(reading.memory, all.memory, "the sum is reported anyway");
    }

    #[test]
    fn a_domain_that_cannot_tell_makes_the_reading_absent() {
        let huge = "99999999999999999999999\n";
        for broken in ["Unavailable\n", "Error\n", "", "-3\n", huge] {
            let whole = ("mon_L3_00", "1000\n", "1\n");
            let dir = tree(BOTH, &[whole, ("mon_L3_01", broken, "1\n")]);
            let mut source = probe(dir.path());
            assert_eq!(read(&mut source, 7, &[]).memory, None, "{broken:?}");
        }
    }

    #[test]
    fn what_the_processor_does_not_count_is_not_invented() {
        let dir = tree("mbm_total_bytes\n", &[("mon_L3_00", "8\n", "8\n")]);
        let mut source = probe(dir.path());
        let memory = read(&mut source, 7, &[]).memory.unwrap();
        assert_eq!((memory.total_bytes, memory.local_bytes), (Some(8), None));
    }

    #[test]
    fn each_thread_is_enrolled_once() {
        let dir = tree(BOTH, &[]);
        let mut source = probe(dir.path());
        let tasks = dir.path().join("mon_groups/mapper-7/tasks");
        read(&mut source, 7, &[11, 12]);
        read(&mut source, 7, &[11, 12]);
        assert_eq!(fs::read_to_string(&tasks).unwrap(), "1112");
        // 12 ended; its number is used again by a thread that has to be enrolled anew.
        read(&mut source, 7, &[11]);
        read(&mut source, 7, &[11, 12]);
        assert_eq!(fs::read_to_string(&tasks).unwrap(), "111212");
    }

    #[test]
    fn only_empty_groups_of_our_own_are_abandoned() {
        let dir = tree(BOTH, &[]);
        let groups = dir.path().join("mon_groups");
        for (name, tasks) in [("mapper-1", "4711\n"), ("other", ""), ("mapper-2", "")] {
            fs::create_dir(groups.join(name)).unwrap();
            fs::write(groups.join(name).join("tasks"), tasks).unwrap();
        }
        fs::write(groups.join("mapper-7/tasks"), "1\n").unwrap();
        assert_eq!(abandoned(&groups), [groups.join("mapper-2")]);
    }

    #[test]
    fn a_group_is_made_on_arrival_and_removed_in_the_end_or_when_the_daemon_stops() {
        for forgets in [true, false] {
            let dir = tree(BOTH, &[]);
            let mut source = probe(dir.path());
            let group = dir.path().join("mon_groups/mapper-8");
            assert_eq!(read(&mut source, 8, &[]).memory, None);
            assert!(group.is_dir());
            if forgets {
                source.forget(AppId(8));
                assert!(!group.exists());
            }
            drop(source);
            assert!(!group.exists());
        }
    }

    #[test]
    fn missing_bandwidth_counters_are_reported() {
        let empty = tempfile::tempdir().unwrap();
        let lack = MemoryBandwidth::probe(empty.path()).unwrap_err();
        assert!(lack.why.contains("mon_features"), "{lack}");
        let occupancy = tree("llc_occupancy\n", &[]);
        let lack = MemoryBandwidth::probe(occupancy.path()).unwrap_err();
        assert!(lack.why.contains("no mbm_ counter"), "{lack}");
    }
}
