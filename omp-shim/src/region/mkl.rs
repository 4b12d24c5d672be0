//! The number of threads of Intel's MKL, which has a call for it.
//!
//! *Problem.* MKL divides its work among its threads before it begins a region, and they wait for one another by spinning:
//! matrices of 700 rows take two threads on one CPU more than twice as long as one. So its teams can neither be made
//! smaller nor be left as they are.
//!
//! *Approach.* When MKL (`libmkl*`) begins a region under a new allocation, it is given as many threads as there are CPUs, at
//! most as many as it had at first. It divides its next piece of work among so many.
//!
//! *Left alone* is MKL whose user has chosen a number or reproducible results ([`CHOICES`]), whose program chooses a number
//! itself, and under `--teams fixed`. MKL that is linked statically is not found.
//!
//! *Invariant.* A thread that finds an allocation unchanged reads two words, and takes no lock that is held while libraries
//! are loaded.

use core::ffi::{CStr, c_int};
use core::mem::transmute;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mapper_shim_core::shield::shielded;
use mapper_shim_core::{attachment, elf, environment};

type Set = unsafe extern "C" fn(c_int);
type Get = unsafe extern "C" fn() -> c_int;

/// By which a user chooses the number of MKL's threads, or that results do not depend on it.
const CHOICES: [&CStr; 5] = [
    c"MKL_NUM_THREADS",
    c"MKL_DOMAIN_NUM_THREADS",
    c"MKL_DYNAMIC",
    c"MKL_CBWR",
    c"MKL_CBWR_CONDITIONAL",
];

/// Regions of others that are looked at under one allocation.
const LOOKS: u32 = 16;

/// The allocation under which nothing is to be done any more; no sequence number of a page has so many bits.
static DONE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Regions of others that were looked at.
static LOOKED: AtomicU32 = AtomicU32::new(0);

/// The number of threads that MKL had at first, 0 before it is known.
static INITIAL: AtomicU32 = AtomicU32::new(0);

/// The number that was set last, 0 before any.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Gives MKL as many threads as there are CPUs now, if the region that the calling thread begins with this function is
/// MKL's.
#[inline]
pub(crate) fn follow(function: usize) {
    let sequence = u64::from(attachment::sequence());
    if DONE.load(Ordering::Relaxed) != sequence {
        look(sequence, function);
    }
}

#[cold]
fn look(sequence: u64, function: usize) {
    // Where others begin regions all the time, MKL is noticed with a later allocation.
    let is_mkl = shielded(|| is_mkl(function)).is_some();
    if is_mkl || LOOKED.fetch_add(1, Ordering::Relaxed) >= LOOKS {
        LOOKED.store(0, Ordering::Relaxed);
        DONE.store(sequence, Ordering::Relaxed);
    }
    if is_mkl {
        let _ = shielded(resize);
    }
}

/// `None` if the function is not one of MKL's. Called before its own first region, MKL would load its libraries.
fn is_mkl(function: usize) -> Option<()> {
    let module = elf::module_containing(function)?;
    let path = Path::new(OsStr::from_bytes(module.path.to_bytes()));
    let name = path.file_name()?.as_bytes();
    name.starts_with(b"libmkl").then_some(())
}

fn resize() -> Option<()> {
    let limit = attachment::carrier_limit();
    let chosen = |name: &&CStr| environment::variable(name).is_some();
    if limit == attachment::NO_LIMIT || CHOICES.iter().any(chosen) {
        return None;
    }
    // Not by `dlsym`, whose lock a thread may hold that waits for this one: it loads a library whose constructor computes.
    let [set, get] = [c"MKL_Set_Num_Threads", c"MKL_Get_Max_Threads"].map(elf::next_definition);
    let (set, get) = (set?, get?);
    if !elf::module_containing(set)?.contains(get) {
        return None;
    }
    // SAFETY: functions of these names have these types, and stay while this thread computes with MKL.
    let (set, get) = unsafe { (transmute::<usize, Set>(set), transmute::<usize, Get>(get)) };
    // SAFETY: it takes nothing.
    let current = u32::try_from(unsafe { get() }).ok()?;
    let initial = INITIAL.compare_exchange(0, current, Ordering::Relaxed, Ordering::Relaxed);
    let initial = initial.err().unwrap_or(current);
    let size = wanted(current, initial, GIVEN.load(Ordering::Relaxed), limit)?;
    GIVEN.store(size, Ordering::Relaxed);
    // SAFETY: any thread may set the number, at any time; it holds from MKL's next function on.
    unsafe { set(c_int::try_from(size).ok()?) };
    Some(())
}

/// The number to set, if MKL is to have another one than it has. One that is neither what it had at first nor what was
/// `given` is the program's choice.
fn wanted(current: u32, initial: u32, given: u32, limit: u32) -> Option<u32> {
    let is_chosen = current != initial && current != given;
    let size = limit.clamp(1, initial.max(1));
    (!is_chosen && size != current).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mkl_has_a_thread_for_each_cpu_unless_the_program_chose_a_number() {
        // At first, under another allocation, and with all CPUs again.
        assert_eq!(wanted(8, 8, 0, 3), Some(3));
        assert_eq!(wanted(3, 8, 3, 5), Some(5));
        assert_eq!(wanted(5, 8, 5, 16), Some(8));
        assert_eq!(wanted(8, 8, 8, 16), None);
        // The program gave back what it had found.
        assert_eq!(wanted(8, 8, 3, 3), Some(3));
        // Or chose.
        assert_eq!(wanted(2, 8, 3, 1), None);
        assert_eq!(wanted(2, 2, 0, 0), Some(1));
    }
}
