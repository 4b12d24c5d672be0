//! On which node each last-level cache is, by the kernel's number for it (`cpu*/cache/index*/id`), which `resctrl` uses
//! too (`mon_L3_03`). A cache that serves CPUs of several nodes (a split socket) is on none of them.

use crate::procfs::read_small;
use mapper_model::{CpuSet, NodeId};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const MOST_NODES: usize = 1024;
/// Caches of a CPU that are read: there are two of level 1 and one of each other.
const CACHES: usize = 8;

/// The node of each cache of level 3. `system` is `/sys/devices/system`.
#[must_use]
pub(crate) fn read(system: &Path) -> BTreeMap<u32, NodeId> {
    let mut found: BTreeMap<u32, Option<NodeId>> = BTreeMap::new();
    let Ok(entries) = fs::read_dir(system.join("node")) else {
        return BTreeMap::new();
    };
    for entry in entries.flatten().take(MOST_NODES) {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        let Some(node) = number.and_then(|number| number.parse().ok()).map(NodeId) else {
            continue;
        };
        let cpus = read_small(&entry.path().join("cpulist")).unwrap_or_default();
        let cpus: CpuSet = cpus.trim().parse().unwrap_or_default();
        for cpu in &cpus {
            if let Some(cache) = third_level(&system.join(format!("cpu/cpu{}/cache", cpu.0))) {
                let of = found.entry(cache).or_insert(Some(node));
                *of = of.filter(|first| *first == node);
            }
        }
    }
    let on_one = |(cache, node): (u32, Option<NodeId>)| Some((cache, node?));
    found.into_iter().filter_map(on_one).collect()
}

fn third_level(caches: &Path) -> Option<u32> {
    let number = |path: &Path| -> Option<u32> { read_small(path).ok()?.trim().parse().ok() };
    (0..CACHES)
        .map(|index| caches.join(format!("index{index}")))
        .find(|cache| number(&cache.join("level")) == Some(3))
        .and_then(|cache| number(&cache.join("id")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(nodes: &[(&str, &str)], caches: &[(u32, &str)]) -> tempfile::TempDir {
        let mut files = Vec::new();
        for (node, cpus) in nodes {
            files.push((format!("node/{node}/cpulist"), *cpus));
        }
        for (cpu, cache) in caches {
            for (file, text) in [
                ("index2/level", "2\n"),
                ("index2/id", "77\n"),
                ("index3/level", "3\n"),
                ("index3/id", cache),
            ] {
                files.push((format!("cpu/cpu{cpu}/cache/{file}"), text));
            }
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        crate::procfs::fake_files(&files)
    }

    #[test]
    fn each_cache_is_on_the_node_of_its_cpus() {
        let dir = tree(
            &[("node0", "0-1\n"), ("node2", "2\n"), ("has_cpu", "0\n")],
            &[(0, "0\n"), (1, "4\n"), (2, "9\n")],
        );
        let expected = [(0, NodeId(0)), (4, NodeId(0)), (9, NodeId(2))];
        assert_eq!(read(dir.path()), BTreeMap::from(expected));
    }

    #[test]
    fn a_cache_of_two_nodes_is_on_neither() {
        let dir = tree(
            &[("node0", "0\n"), ("node1", "1-2\n")],
            &[(0, "5\n"), (1, "5\n"), (2, "6\n")],
        );
        assert_eq!(read(dir.path()), BTreeMap::from([(6, NodeId(1))]));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let dir = tree(
            &[("node0", "0-2\n"), ("node1", "nonsense\n"), ("nodeX", "0")],
            &[(0, "-1\n"), (1, "99999999999\n")],
        );
        assert_eq!(read(dir.path()), BTreeMap::new());
        assert_eq!(read(&dir.path().join("absent")), BTreeMap::new());
    }
}
