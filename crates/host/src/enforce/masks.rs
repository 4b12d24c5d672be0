//! Affinity masks of threads, of any width: the types of libc and its wrappers stop at 1,024 CPUs, so the two system
//! calls are made directly with a buffer that fits.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the kernel's masks are arrays of unsigned long, taken here to be 64 bits wide");

use crate::HostError;
use mapper_model::cpuset::MAX_CPU;
use mapper_model::{CpuId, CpuSet, ThreadId};
use std::io;

/// The kernel leaves out CPUs that the thread may not use: [`get`] reads what is in force. Fails if none is left.
pub fn set(thread: ThreadId, cpus: &CpuSet) -> Result<(), HostError> {
    let words = cpus.as_words();
    // SAFETY: `words` is valid for reads of its own length in bytes during the call, and the kernel
    // only reads from it. A mask shorter than the kernel's is allowed: missing bits are zero.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            thread.0 as libc::pid_t,
            size_of_val(words),
            words.as_ptr(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(HostError::thread(
        "set the affinity of",
        thread,
        io::Error::last_os_error(),
    ))
}

/// The CPUs that a thread may use; an error if it is gone.
pub fn get(thread: ThreadId) -> Result<CpuSet, HostError> {
    // 1,024 CPUs first; the kernel refuses a buffer shorter than its own mask.
    let mut small = [0u64; 16];
    match get_into(thread, &mut small) {
        Err(error) if error.errno() == Some(rustix::io::Errno::INVAL) => {
            let mut large = vec![0u64; MAX_CPU as usize / 64 + 1];
            get_into(thread, &mut large)
        }
        result => result,
    }
}

fn get_into(thread: ThreadId, words: &mut [u64]) -> Result<CpuSet, HostError> {
    // SAFETY: `words` is valid for writes of its own length in bytes during the call, and any bits
    // the kernel writes are a valid u64.
    let written = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            thread.0 as libc::pid_t,
            size_of_val(words),
            words.as_mut_ptr(),
        )
    };
    let written = usize::try_from(written).map_err(|_| {
        HostError::thread("read the affinity of", thread, io::Error::last_os_error())
    })?;
    let mut cpus = CpuSet::new();
    for (index, word) in words.iter().take(written.div_ceil(8)).enumerate() {
        let mut rest = *word;
        while rest != 0 {
            cpus.insert(CpuId(index as u32 * 64 + rest.trailing_zeros()));
            rest &= rest - 1;
        }
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_mask_when_it_is_set_to_what_it_has() {
        let this = ThreadId(0);
        let before = get(this).unwrap();
        assert!(!before.is_empty());
        set(this, &before).unwrap();
        assert_eq!(get(this).unwrap(), before);
    }

    #[test]
    fn a_mask_beyond_the_machine_is_refused_with_the_thread() {
        let beyond: CpuSet = [CpuId(5000)].into_iter().collect();
        let error = set(ThreadId(0), &beyond).unwrap_err();
        error.says(&["affinity of thread 0"]);
    }

    #[test]
    fn a_mask_of_more_than_1024_cpus_is_accepted() {
        let own = get(ThreadId(0)).unwrap();
        let mut wide = own.clone();
        wide.insert(CpuId(4000));
        set(ThreadId(0), &wide).unwrap();
        assert_eq!(get(ThreadId(0)).unwrap(), own);
    }
}
