//! `libmapper`: [`mapper_client`] for C, C++ and Fortran.
//!
//! One function for each call, documented in `include/mapper.h` and `fortran/mapper.f90`. The first call finds the page.
//! Without mapper every function does nothing and returns so.
//!
//! *Invariants.* No panic leaves an exported function (it would end the program): each runs in [`shielded`]. Pointers may
//! be null; meaningless amounts are ignored. All functions may be called from any thread; only `mapper_wait` and
//! `mapper_promise` wait.

use core::ffi::{c_double, c_int, c_void};
use core::num::NonZeroU32;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mapper_client::{Allocation, Generation, Mapper, PromiseError};
use rustix::io::Errno;

/// What `mapper_get_allocation` fills in; `struct mapper_allocation` of `mapper.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CAllocation {
    generation: u32,
    cpu_count: u32,
    node_mask: u64,
}

impl From<Allocation> for CAllocation {
    fn from(allocation: Allocation) -> Self {
        Self {
            generation: allocation.generation.get(),
            cpu_count: allocation.cpu_count.get(),
            node_mask: allocation.node_mask,
        }
    }
}

/// Runs `call`; the result is `otherwise` if it panics.
fn shielded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// Writes to a pointer of a C program unless it is null.
///
/// # Safety
/// `place` is null or may be written to.
unsafe fn give(place: *mut CAllocation, allocation: Option<Allocation>) -> c_int {
    let Some(allocation) = allocation else {
        return 0;
    };
    if !place.is_null() {
        // SAFETY: the caller guarantees that it may be written to.
        unsafe { place.write(allocation.into()) };
    }
    1
}

/// Whether mapper manages this program.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_is_managed() -> c_int {
    shielded(0, || c_int::from(Mapper::get().is_managed()))
}

/// How many CPUs the program has; 0 when not managed.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_cpu_count() -> u32 {
    shielded(0, || {
        let allocation = Mapper::get().allocation();
        allocation.map_or(0, |allocation| allocation.cpu_count.get())
    })
}

/// The generation of the allocation; 0 when not managed.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_generation() -> u32 {
    shielded(0, || Mapper::get().generation().get())
}

/// The allocation; 1 if there is one.
///
/// # Safety
/// `allocation` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mapper_get_allocation(allocation: *mut CAllocation) -> c_int {
    shielded(0, || {
        // SAFETY: as the caller guarantees.
        unsafe { give(allocation, Mapper::get().allocation()) }
    })
}

/// The CPUs as a `cpu_set_t` of `size` bytes; their number, 0 when not managed.
///
/// # Safety
/// `cpu_set` is null or `size` bytes from it may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mapper_get_cpus(size: usize, cpu_set: *mut c_void) -> c_int {
    shielded(0, || {
        let Some(allocation) = Mapper::get().allocation() else {
            return 0;
        };
        if cpu_set.is_null() {
            return 0;
        }
        // SAFETY: as the caller guarantees; bytes need no alignment, and zero is a valid value.
        let bytes = unsafe {
            core::ptr::write_bytes(cpu_set.cast::<u8>(), 0, size);
            core::slice::from_raw_parts_mut(cpu_set.cast::<u8>(), size)
        };
        let mut count = 0;
        for cpu in allocation.cpus.iter() {
            // Bit n of a little-endian array of words is bit n mod 8 of byte n / 8.
            if let Some(byte) = bytes.get_mut(cpu as usize / 8) {
                *byte |= 1 << (cpu % 8);
                count += 1;
            }
        }
        count
    })
}

/// Waits up to `timeout_s` until the allocation has another generation than `generation`; 1 if it has.
///
/// # Safety
/// `allocation` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mapper_wait(
    generation: u32,
    timeout_s: c_double,
    allocation: *mut CAllocation,
) -> c_int {
    shielded(0, || {
        // An invalid time is zero, one that is too long is the longest.
        let timeout = match timeout_s > 0.0 {
            true => Duration::try_from_secs_f64(timeout_s).unwrap_or(Duration::MAX),
            false => Duration::ZERO,
        };
        let known = Generation::from_number(generation);
        // SAFETY: as the caller guarantees.
        unsafe { give(allocation, Mapper::get().wait_for_change(known, timeout)) }
    })
}

/// Reports an amount of work done.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_work_done(amount: c_double) {
    shielded((), || Mapper::get().work_done(amount));
}

/// Reports how long something took.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_latency(seconds: c_double) {
    shielded((), || {
        if let Ok(latency) = Duration::try_from_secs_f64(seconds) {
            Mapper::get().latency(latency);
        }
    });
}

/// Declares the CPUs that the program can use; zeros revoke that.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_declare_cpus(least: u32, most: u32) {
    shielded((), || {
        match (NonZeroU32::new(least), NonZeroU32::new(most)) {
            (None, None) => Mapper::get().declare_nothing(),
            (least, most) => Mapper::get().declare_cpus(
                least.unwrap_or(NonZeroU32::MIN),
                most.unwrap_or(NonZeroU32::MAX),
            ),
        }
    });
}

/// Has the program promised another share; 0, or why not, as a number of `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_promise(share: c_double) -> c_int {
    shielded(Some(Errno::IO), || match Mapper::get().promise(share) {
        Ok(()) => None,
        Err(PromiseError::OutOfRange(_)) => Some(Errno::INVAL),
        Err(PromiseError::NotPermitted(_)) => Some(Errno::PERM),
        Err(PromiseError::Refused(_)) => Some(Errno::PROTO),
        Err(PromiseError::NoDaemon(_)) => Some(Errno::NOTCONN),
    })
    .map_or(0, Errno::raw_os_error)
}

/// Begins a serial phase.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_serial_begin() {
    shielded((), || Mapper::get().begin_serial());
}

/// Ends a serial phase.
#[unsafe(no_mangle)]
pub extern "C" fn mapper_serial_end() {
    shielded((), || Mapper::get().end_serial());
}
