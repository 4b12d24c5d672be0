//! What the kernel says about processes and control groups, independently of mapper.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mapper_model::CpuSet;

/// How long something may take that should happen at once; the guest is emulated and slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `probe` returns a value. What it was waiting for is named if it never comes, with
/// the last reason why not.
pub(crate) fn wait_for<T>(what: &str, probe: impl FnMut() -> Result<T>) -> Result<T> {
    wait_long_for(PATIENCE, what, probe)
}

/// The same for what takes its time.
pub(crate) fn wait_long_for<T>(
    patience: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("waited {patience:?} for {what}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A file's text without the white space around it.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// The CPUs that a control group may really use.
pub(crate) fn effective_cpus(group: &Path) -> Result<CpuSet> {
    cpu_list(&read(group.join("cpuset.cpus.effective"))?)
}

/// All CPUs of the machine.
pub(crate) fn online_cpus() -> Result<CpuSet> {
    cpu_list(&read("/sys/devices/system/cpu/online")?)
}

/// A list such as `0-3,8`.
pub(crate) fn cpu_list(text: &str) -> Result<CpuSet> {
    text.trim()
        .parse()
        .with_context(|| format!("CPU list \"{text}\""))
}

/// The control group of a process.
pub(crate) fn group_of(pid: u32) -> Result<PathBuf> {
    let text = read(format!("/proc/{pid}/cgroup"))?;
    let path = text
        .strip_prefix("0::/")
        .with_context(|| format!("cgroup of {pid}: \"{text}\""))?;
    Ok(Path::new("/sys/fs/cgroup").join(path))
}

/// A field of `/proc/PID/status` or of a thread's.
pub(crate) fn status_field(status: &Path, field: &str) -> Result<String> {
    let text = read(status)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value
        .with_context(|| format!("{} has no {field}", status.display()))?
        .trim()
        .to_owned())
}

/// The CPUs each thread of a process may run on.
pub(crate) fn thread_affinities(pid: u32) -> Result<Vec<CpuSet>> {
    let mut affinities = Vec::new();
    let tasks = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&tasks).with_context(|| format!("read {tasks}"))? {
        let status = task?.path().join("status");
        affinities.push(cpu_list(&status_field(&status, "Cpus_allowed_list")?)?);
    }
    Ok(affinities)
}

/// Whether a process runs (a zombie does not).
pub(crate) fn is_running(pid: u32) -> bool {
    status_field(Path::new(&format!("/proc/{pid}/status")), "State")
        .is_ok_and(|state| !state.starts_with('Z') && !state.starts_with('X'))
}

/// The control groups right below one.
pub(crate) fn groups_below(group: &Path) -> Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    for entry in std::fs::read_dir(group).with_context(|| format!("read {}", group.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            groups.push(entry.path());
        }
    }
    groups.sort();
    Ok(groups)
}

/// Every thread of a process may run on just the CPUs of its group.
pub(crate) fn every_thread_obeys(pid: u32) -> Result<CpuSet> {
    let cpus = effective_cpus(&group_of(pid)?)?;
    let affinities = thread_affinities(pid)?;
    ensure!(!affinities.is_empty(), "process {pid} has no threads");
    for affinity in affinities {
        if affinity != cpus {
            bail!("a thread of {pid} may run on {affinity}, its group on {cpus}");
        }
    }
    Ok(cpus)
}
