//! Why the kernel refuses a counter, and how to fix that.

use crate::Missing;
use rustix::io::Errno;
use std::io;

pub(super) fn explain(error: &io::Error) -> Missing {
    let (why, hint) = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => (
            format!("the processor offers none to this system ({error})"),
            "on a virtual machine, ask for a virtual PMU",
        ),
        Some(Errno::ACCESS | Errno::PERM) => {
            let path = std::path::Path::new("/proc/sys/kernel/perf_event_paranoid");
            let level = crate::procfs::read_small(path).unwrap_or_default();
            let level = level.trim();
            (
                format!("not permitted, kernel.perf_event_paranoid is {level} ({error})"),
                "set kernel.perf_event_paranoid to 2 or lower, or give mapperd CAP_PERFMON",
            )
        }
        Some(Errno::NOSYS) => (
            format!("the kernel has no perf_event_open ({error})"),
            "use a kernel with CONFIG_PERF_EVENTS, and allow the call in the container",
        ),
        Some(Errno::MFILE | Errno::NFILE) => (error.to_string(), "raise LimitNOFILE"),
        Some(Errno::BUSY) => (
            format!("the counters are in use by another program ({error})"),
            "stop other profilers, or the NMI watchdog",
        ),
        _ => (error.to_string(), "see perf_event_open(2)"),
    };
    Missing::new("hardware counters", why, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_cause_and_remedy() {
        for (errno, why, hint) in [
            (libc::ENOENT, "processor offers none", "virtual PMU"),
            (libc::EACCES, "perf_event_paranoid is", "CAP_PERFMON"),
            (libc::ENOSYS, "no perf_event_open", "CONFIG_PERF_EVENTS"),
        ] {
            let lack = explain(&io::Error::from_raw_os_error(errno));
            assert!(lack.why.contains(why) && lack.hint.contains(hint), "{lack}");
        }
    }
}
