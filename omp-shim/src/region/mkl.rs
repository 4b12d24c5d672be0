//! The number of threads of Intel's MKL, which has a call for it.
//!
//! *Problem.* MKL divides its work among its threads before it begins a region, and they wait for one another by spinning:
//! matrices of 700 rows take two threads on one CPU more than twice as long as one. So its teams can neither be made
//! smaller nor be left as they are.
//!
//! *Approach.* When a region of this interface begins under a new allocation, MKL is given as many threads as there are
//! CPUs, at most as many as it had at first. It divides its next piece of work among so many.
//!
//! *Left alone* is MKL whose user has chosen a number or reproducible results ([`CHOICES`]), whose program chooses a number
//! itself, and under `--teams fixed`. One that is loaded after the first such region is noticed with the next allocation.
//!
//! *Invariant.* A thread that finds an allocation unchanged reads two words.

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use mapper_shim_core::shield::shielded;
use mapper_shim_core::{attachment, elf, environment, scope};

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

/// The allocation that was looked at last; no sequence number of a page has so many bits.
static SEEN: AtomicU64 = AtomicU64::new(u64::MAX);

/// The number of threads that MKL had at first, 0 before it is known.
static INITIAL: AtomicU32 = AtomicU32::new(0);

/// The number that was set last, 0 before any.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Gives MKL as many threads as there are CPUs now. For the thread that begins a region.
#[inline]
pub(crate) fn follow() {
    let sequence = u64::from(attachment::sequence());
    if SEEN.load(Ordering::Relaxed) != sequence {
        SEEN.store(sequence, Ordering::Relaxed);
        let _ = shielded(resize);
    }
}

#[cold]
fn resize() -> Option<()> {
    let limit = attachment::carrier_limit();
    if limit == attachment::NO_LIMIT
        || CHOICES
            .iter()
            .any(|name| environment::variable(name).is_some())
    {
        return None;
    }
    let found = elf::next_definition(c"MKL_Set_Num_Threads")?;
    let mkl = elf::module_containing(found)?;
    let [set, get] = [c"MKL_Set_Num_Threads", c"MKL_Get_Max_Threads"]
        .map(|name| scope::function_within(&mkl, name));
    // SAFETY: functions of these names have these types; null becomes `None`.
    let (set, get) = unsafe {
        (
            transmute::<*mut c_void, Option<Set>>(set)?,
            transmute::<*mut c_void, Option<Get>>(get)?,
        )
    };
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
