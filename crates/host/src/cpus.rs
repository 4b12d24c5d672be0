//! Which CPUs may be given out: online ∩ what this daemon is allowed (its own affinity, or the effective set of its
//! group) ∖ isolated ∖ those the operator reserves. All of it can change, so it is read for every decision.
//!
//! Isolated CPUs (`isolcpus=`) are left out unless the daemon is confined to them alone.

use crate::HostError;
use crate::enforce::masks;
use crate::procfs::read_cpu_list;
use mapper_model::{CpuSet, ThreadId};
use std::path::PathBuf;

/// Reads the usable CPUs. See the [module](self).
#[derive(Clone, Debug)]
pub struct UsableCpus {
    sysfs: PathBuf,
    reserve: CpuSet,
}

/// The usable CPUs, and why the others are not; for the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usable {
    /// The CPUs that may be given out.
    pub cpus: CpuSet,
    /// CPUs that are online.
    pub online: CpuSet,
    /// Online CPUs that the daemon itself may not use.
    pub forbidden: CpuSet,
    /// Online CPUs left out because they are isolated.
    pub isolated: CpuSet,
    /// Online CPUs left out because they are reserved.
    pub reserved: CpuSet,
}

impl Usable {
    /// Why no CPU may be given out, if so.
    #[must_use]
    pub fn why_none(&self) -> Option<String> {
        let shown = |cpus: &CpuSet| match cpus.is_empty() {
            true => "none".to_owned(),
            false => cpus.to_string(),
        };
        self.cpus.is_empty().then(|| {
            format!(
                "no CPU is usable: online {}, not allowed to this daemon {}, isolated {}, reserved {}; \
                 change the reserve or the affinity of the daemon",
                shown(&self.online),
                shown(&self.forbidden),
                shown(&self.isolated),
                shown(&self.reserved)
            )
        })
    }
}

impl UsableCpus {
    /// On this machine.
    #[must_use]
    pub fn system(reserve: CpuSet) -> Self {
        Self::at("/sys/devices/system/cpu", reserve)
    }

    /// On a directory that looks like `/sys/devices/system/cpu`.
    #[must_use]
    pub fn at(sysfs: impl Into<PathBuf>, reserve: CpuSet) -> Self {
        Self {
            sysfs: sysfs.into(),
            reserve,
        }
    }

    /// Reads them now. `allowed`: what the enforcer may give out; `own`: what it has isolated, as newer kernels count.
    pub fn read(&self, allowed: &CpuSet, own: &CpuSet) -> Result<Usable, HostError> {
        let online = read_cpu_list(&self.sysfs.join("online"))?;
        let isolated = read_cpu_list(&self.sysfs.join("isolated")).unwrap_or_default();
        let isolated = isolated.difference(own);
        let may = online.intersection(allowed);
        let isolated = match may.is_subset(&isolated) {
            true => CpuSet::new(),
            false => isolated.intersection(&may),
        };
        let reserved = self.reserve.intersection(&may);
        Ok(Usable {
            cpus: may.difference(&isolated).difference(&reserved),
            forbidden: online.difference(&may),
            online,
            isolated,
            reserved,
        })
    }
}

/// The CPUs that this machine has, online or not.
pub fn present() -> Result<CpuSet, HostError> {
    read_cpu_list(std::path::Path::new("/sys/devices/system/cpu/present"))
}

/// The CPUs that this process may use.
pub fn own_affinity() -> Result<CpuSet, HostError> {
    masks::get(ThreadId(std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::fake_files;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn usable(files: &[(&str, &str)], [allowed, own, reserve]: [&str; 3]) -> Usable {
        let dir = fake_files(files);
        UsableCpus::at(dir.path(), set(reserve))
            .read(&set(allowed), &set(own))
            .unwrap()
    }

    #[test]
    fn usable_is_online_and_allowed_less_isolated_and_reserved() {
        let files = [("online", "0-7\n"), ("isolated", "6-7\n")];
        let usable = usable(&files, ["0-3,6-9", "", "0"]);
        assert_eq!(usable.cpus, set("1-3"));
        assert_eq!(usable.isolated, set("6-7"));
        assert_eq!(usable.forbidden, set("4-5"));
        assert_eq!(usable.reserved, set("0"));
    }

    #[test]
    fn isolated_cpus_are_used_by_a_daemon_that_is_confined_to_them() {
        let files = [("online", "0-7\n"), ("isolated", "4-7\n")];
        assert_eq!(usable(&files, ["4-5", "", ""]).cpus, set("4-5"));
    }

    #[test]
    fn what_was_isolated_for_an_application_is_usable() {
        let files = [("online", "0-7\n"), ("isolated", "2-3,6-7\n")];
        assert_eq!(usable(&files, ["0-7", "2-3", ""]).cpus, set("0-5"));
    }

    #[test]
    fn a_kernel_without_isolation_has_none() {
        let files = [("online", "0-1\n")];
        assert_eq!(usable(&files, ["0-1", "", ""]).cpus, set("0-1"));
    }

    #[test]
    fn this_machine_has_a_usable_cpu() {
        let usable = UsableCpus::system(CpuSet::new())
            .read(&own_affinity().unwrap(), &CpuSet::new())
            .unwrap();
        assert!(!usable.cpus.is_empty());
        assert!(usable.cpus.is_subset(&present().unwrap()));
    }
}
