//! What the kernel keeps of one process.

use anyhow::{Context, Result};

/// Run time of all threads, to the nanosecond, from `/proc/PID/task/*/schedstat`.
pub(crate) fn cpu_time_ns(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = 0;
    for task in std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
        let file = task?.path().join("schedstat");
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let first = text.split_whitespace().next().unwrap_or_default();
        sum += first
            .parse::<u64>()
            .with_context(|| format!("{}: {first:?}", file.display()))?;
    }
    Ok(sum)
}

/// Memory in kibibytes, by the name that `/proc/PID/status` has for it, such as `VmRSS`.
pub(crate) fn memory_kib(pid: u32, name: &str) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    text.lines()
        .find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            value.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .with_context(|| format!("{file} has no {name}"))
}

/// How many descriptors are open.
pub(crate) fn open_descriptors(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))?;
    Ok(entries.count() as u64)
}

/// How many threads there are.
pub(crate) fn threads(pid: u32) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))?;
    Ok(entries.count() as u64)
}
