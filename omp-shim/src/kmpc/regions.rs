//! Parallel regions as clang emits them: `__kmpc_fork_call(location, count, function, ...)`, with `count` further
//! arguments of the size of a pointer.
//!
//! *Regions.* Rust cannot define a variadic function, so the entry is written in assembly: it passes one argument more,
//! the region's [`TeamRecord`], and the shim's function instead of the program's. Vector registers are kept for
//! variadic arguments; `al`, by the ABI, says whether there are any. Every thread runs [`run_microtask`], which joins
//! the team record and calls the program's function with its own arguments. Both frames are described to unwinders.
//!
//! *Teams.* Compilers announce a `num_threads` clause by `__kmpc_push_num_threads` just before; the shim announces its
//! size in the same way, unless the compiler did. (OMPT's callback would cost a second call: [`crate::ompt::tool`].)

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, offset_of, size_of};

use mapper_shim_core::construct::Start;
use mapper_shim_core::membership::Outer;
use mapper_shim_core::pass_on::{jump_on, real, real_of_caller};
use mapper_shim_core::runtime::{self, Family, Runtime};
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::team_record::{Beginning, TeamRecord};
use mapper_shim_core::thread_state::{self, ThreadState};
use mapper_shim_core::{attachment, caller, shared_loop};

use crate::kmpc::location::runtime_of;
use crate::region::kept_records::{Known, Place, Ready};
use crate::region::{self, OpenRegion, Routine};

/// Where [`fork_begin`] leaves what the region needs, in the frame of `__kmpc_fork_call`.
#[repr(C, align(16))]
struct ForkFrame {
    routine: Option<Routine>,
    open: MaybeUninit<OpenRegion>,
    place: Place,
}

/// Bytes from the frame pointer down: argument registers, al, real function, vector registers, the `ForkFrame`.
const FORK_FRAME: usize = 192 + size_of::<ForkFrame>();
const _: () = assert!(FORK_FRAME.is_multiple_of(16));

/// Runs a region by the real function of the same name. Safety: as clang calls it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __kmpc_fork_call() {
    // Frame, from rbp: -8..-48 the six argument registers, -56 al, -64 the real function, -192..-64
    // the vector registers, below them the `ForkFrame`, then the arguments that go on the stack.
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, {frame} - 56",
        "test al, al",
        "je 2f",
        "movaps [rbp - 192], xmm0",
        "movaps [rbp - 176], xmm1",
        "movaps [rbp - 160], xmm2",
        "movaps [rbp - 144], xmm3",
        "movaps [rbp - 128], xmm4",
        "movaps [rbp - 112], xmm5",
        "movaps [rbp - 96], xmm6",
        "movaps [rbp - 80], xmm7",
        "2:",
        // fork_begin(location, count, function, &frame)
        "mov rcx, rsp",
        "call {begin}",
        "mov [rbp - 64], rax",
        // The team record takes the place of the first argument; the third goes on the stack, before those
        // that lie there already.
        "mov ecx, dword ptr [rbp - 16]",
        "sub ecx, 2",
        "jle 4f",
        "lea eax, [rcx + 1]",
        "and eax, -2",
        "shl rax, 3",
        "sub rsp, rax",
        "mov rax, [rbp - 48]",
        "mov [rsp], rax",
        "dec ecx",
        "je 4f",
        "3:",
        "mov rax, [rbp + 8 + 8 * rcx]",
        "mov [rsp + 8 * rcx], rax",
        "dec ecx",
        "jne 3b",
        "4:",
        "cmp byte ptr [rbp - 56], 0",
        "je 5f",
        "movaps xmm0, [rbp - 192]",
        "movaps xmm1, [rbp - 176]",
        "movaps xmm2, [rbp - 160]",
        "movaps xmm3, [rbp - 144]",
        "movaps xmm4, [rbp - 128]",
        "movaps xmm5, [rbp - 112]",
        "movaps xmm6, [rbp - 96]",
        "movaps xmm7, [rbp - 80]",
        "5:",
        "mov rdi, [rbp - 8]",
        "mov rsi, [rbp - 16]",
        "inc esi",
        "lea rdx, [rip + {microtask}]",
        "mov rcx, [rbp - {frame} + {record}]",
        "mov r8, [rbp - 32]",
        "mov r9, [rbp - 40]",
        "mov rax, [rbp - 56]",
        "call qword ptr [rbp - 64]",
        "lea rdi, [rbp - {frame}]",
        "call {end}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        frame = const FORK_FRAME,
        record = const offset_of!(ForkFrame, place) + Place::CREW_OFFSET,
        begin = sym fork_begin,
        microtask = sym run_microtask,
        end = sym fork_end,
    )
}

/// Begins a region and returns the real function. Regions like the one before take no call here, so that no register
/// has to be kept for one. Safety: `frame` is a place for a `ForkFrame`.
unsafe extern "C-unwind" fn fork_begin(
    location: *mut c_void,
    count: c_int,
    function: *const c_void,
    frame: *mut ForkFrame,
) -> *mut c_void {
    let thread = thread_state::current();
    let body = Microtask {
        function,
        count,
        asked: 0,
    };
    if let Some(runtime) = caller::of_known_caller(thread, location as usize)
        && !thread.clause_announced.get()
        && !shared_loop::is_on()
        && let Some(ready) = Ready::like(&record_of(thread, runtime, body))
        && let Some(routine) = region::begin_routine(thread, runtime, 0, || ready.known())
    {
        let fork = runtime.function(Symbol::__kmpc_fork_call);
        // SAFETY: the entry made room there; nothing there has a value that would have to be dropped.
        unsafe {
            (&raw mut (*frame).routine).write(Some(routine));
            Place::resume_in(&raw mut (*frame).place, ready);
        }
        return fork;
    }
    // SAFETY: the caller vouches for it.
    unsafe { fork_begin_anew(location, count, function, frame) }
}

#[derive(Clone, Copy)]
struct Microtask {
    function: *const c_void,
    count: c_int,
    /// 0 without a `num_threads` clause.
    asked: u32,
}

#[inline(always)]
fn record_of(thread: &ThreadState, runtime: &'static Runtime, body: Microtask) -> TeamRecord {
    let count = core::ptr::without_provenance_mut(body.count.max(0).unsigned_abs() as usize);
    let (family, beginning) = (Family::Kmpc, Beginning::Body);
    let cpus = cpus_that_may_lack(thread, body.asked, attachment::cpu_count());
    TeamRecord::new(body.function as usize, count, runtime, family, beginning).on_cpus(cpus)
}

/// The number of CPUs, if an outermost region of the thread may have more threads; else 0: its static loops stay.
#[inline(always)]
fn cpus_that_may_lack(thread: &ThreadState, asked: u32, cpu_count: u32) -> u32 {
    let usual = thread.initial_max_threads.get();
    let suffice =
        asked == 0 && !thread.has_set_num_threads.get() && usual != 0 && usual <= cpu_count;
    if suffice { 0 } else { cpu_count }
}

/// Begins a region and returns the real function to call. Safety: `frame` is a place for a `ForkFrame`.
#[inline(never)]
unsafe extern "C-unwind" fn fork_begin_anew(
    location: *mut c_void,
    count: c_int,
    function: *const c_void,
    frame: *mut ForkFrame,
) -> *mut c_void {
    let thread = thread_state::current();
    let runtime = runtime_of(thread, location, Symbol::__kmpc_fork_call);
    let fork = runtime.function(Symbol::__kmpc_fork_call);
    if fork.is_null() {
        runtime::missing(Symbol::__kmpc_fork_call);
    }
    // The value of the clause does not matter, only that there is one.
    let asked = if thread.clause_announced.replace(false) {
        CLAUSE
    } else {
        0
    };
    let routine = region::begin_routine(thread, runtime, asked, || Known::of(function as usize));
    // SAFETY: the entry made room there. `open` has no value that would have to be dropped.
    let place = unsafe {
        (&raw mut (*frame).routine).write(routine);
        (&raw mut (*frame).place).write(Place::empty());
        &mut (*frame).place
    };
    // The number of CPUs is certain only once the region has begun.
    let body = Microtask {
        function,
        count,
        asked,
    };
    let record = || record_of(thread, runtime, body).with_growing_loops();
    if routine.is_some() {
        place.keep(record());
        return fork;
    }
    let start = Start {
        thread,
        runtime,
        family: Family::Kmpc,
        function: function as usize,
        asked,
    };
    let open = begin_other(&start, location);
    place.put(record());
    // SAFETY: as above.
    unsafe { (&raw mut (*frame).open).cast::<OpenRegion>().write(open) };
    fork
}

#[inline(never)]
fn begin_other(start: &Start<'_>, location: *mut c_void) -> OpenRegion {
    let started = region::begin(start);
    if started.num_threads != start.asked {
        announce_team(start.runtime, location, started.num_threads);
    }
    started.open
}

/// Bytes from the frame pointer down to the `Outer`: six argument registers and itself.
const MICROTASK_FRAME: usize = 48 + size_of::<Outer>();
const _: () = assert!(MICROTASK_FRAME.is_multiple_of(16));

/// What threads run: joins the team record, the third argument, and calls the program's microtask with the others.
#[unsafe(naked)]
unsafe extern "C-unwind" fn run_microtask() {
    // Frame, from rbp: -8..-48 the six argument registers, below them the `Outer`, then the arguments
    // that go on the stack: all but the first four of those that the program passed.
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, {frame} - 48",
        // microtask_begin(team record, &outer)
        "mov rdi, rdx",
        "mov rsi, rsp",
        "call {begin}",
        "mov rdx, [rbp - 24]",
        "mov ecx, dword ptr [rdx + {count}]",
        "sub ecx, 4",
        "jle 3f",
        "lea eax, [rcx + 1]",
        "and eax, -2",
        "shl rax, 3",
        "sub rsp, rax",
        "2:",
        "mov rax, [rbp + 16 + 8 * rcx]",
        "mov [rsp - 8 + 8 * rcx], rax",
        "dec ecx",
        "jne 2b",
        "3:",
        "mov r10, [rdx + {function}]",
        "mov rdi, [rbp - 8]",
        "mov rsi, [rbp - 16]",
        "mov rdx, [rbp - 32]",
        "mov rcx, [rbp - 40]",
        "mov r8, [rbp - 48]",
        // With fewer than four arguments this is some other word of the caller's frame, unused.
        "mov r9, [rbp + 16]",
        "call r10",
        "lea rdi, [rbp - {frame}]",
        "call {end}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        frame = const MICROTASK_FRAME,
        count = const TeamRecord::DATA_OFFSET,
        function = const TeamRecord::FUNCTION_OFFSET,
        begin = sym microtask_begin,
        end = sym microtask_end,
    )
}

/// Makes the thread part of the team record. Safety: `record` is that of the region; `outer` is a place.
unsafe extern "C-unwind" fn microtask_begin(record: *const TeamRecord, outer: *mut Outer) {
    let thread = thread_state::current();
    // SAFETY: the team record lives with the thread that began the region until it has ended, which is after
    // `microtask_end`; the entry made room for `outer`.
    unsafe {
        if thread.enter_outermost(&*record) {
            outer.write(Outer::default());
        } else {
            microtask_begin_slowly(record, outer);
        }
    }
}

/// Makes the thread part of the team record. Safety: as for [`microtask_begin`].
#[inline(never)]
unsafe extern "C-unwind" fn microtask_begin_slowly(record: *const TeamRecord, outer: *mut Outer) {
    // SAFETY: as there.
    unsafe { outer.write(thread_state::current().join_team(&*record)) };
}

/// Takes it out again. Safety: `outer` is what `microtask_begin` wrote.
unsafe extern "C-unwind" fn microtask_end(outer: *const Outer) {
    // SAFETY: the caller vouches for it.
    thread_state::current().leave_team(unsafe { &*outer });
}

const CLAUSE: u32 = u32::MAX;

fn announce_team(runtime: &Runtime, location: *mut c_void, num_threads: u32) {
    type ThreadNumber = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    type PushNumThreads = unsafe extern "C-unwind" fn(*mut c_void, c_int, c_int);
    let thread_number = runtime.function(Symbol::__kmpc_global_thread_num);
    let push_num_threads = runtime.function(Symbol::__kmpc_push_num_threads);
    // SAFETY: functions of these names have these types; null becomes `None`.
    let (thread_number, push_num_threads) = unsafe {
        (
            core::mem::transmute::<*mut c_void, Option<ThreadNumber>>(thread_number),
            core::mem::transmute::<*mut c_void, Option<PushNumThreads>>(push_num_threads),
        )
    };
    if let (Some(thread_number), Some(push_num_threads), Ok(size)) = (
        thread_number,
        push_num_threads,
        c_int::try_from(num_threads),
    ) {
        // SAFETY: as clang calls them before a region with a clause.
        unsafe { push_num_threads(location, thread_number(location), size) };
    }
}

/// Ends a region. Safety: `frame` is what `fork_begin` wrote.
unsafe extern "C-unwind" fn fork_end(frame: *mut ForkFrame) {
    let thread = thread_state::current();
    // SAFETY: the entry passes the place that `fork_begin` filled, and nobody uses it afterwards.
    let place = unsafe { &mut *frame };
    match place.routine {
        Some(routine) if region::ends_at_once(thread, routine) => {
            region::end_routine(thread, routine);
            place.place.clear();
        }
        // SAFETY: likewise.
        _ => unsafe { fork_end_slowly(frame) },
    }
}

/// Ends a region. Safety: `frame` is what `fork_begin` wrote.
#[inline(never)]
unsafe extern "C-unwind" fn fork_end_slowly(frame: *mut ForkFrame) {
    // SAFETY: the entry passes the place that `fork_begin` filled, and nobody uses it afterwards.
    let frame = unsafe { &mut *frame };
    let thread = thread_state::current();
    match frame.routine {
        Some(routine) => region::end_routine(thread, routine),
        // SAFETY: `fork_begin` filled it in, the region having taken the other path.
        None => region::end(thread, unsafe { frame.open.assume_init_ref() }),
    }
    frame.place.clear();
}

/// Notes that the next region has a `num_threads` clause, and passes it on. Safety: as clang calls it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_push_num_threads(
    location: *mut c_void,
    thread_number: c_int,
    num_threads: c_int,
) {
    let thread = thread_state::current();
    let runtime = runtime_of(thread, location, Symbol::__kmpc_push_num_threads);
    let push = real!(
        runtime,
        Symbol::__kmpc_push_num_threads,
        fn(*mut c_void, c_int, c_int)
    );
    thread.clause_announced.set(true);
    // SAFETY: the arguments are the caller's.
    unsafe { push(location, thread_number, num_threads) };
}

unsafe extern "C" fn announce(number: usize) -> *mut c_void {
    real_of_caller(number, |thread, _| thread.clause_announced.set(true))
}

// The forms of OpenMP 6, in the newest LLVM.
jump_on! { announce:
    __kmpc_push_num_threads_strict
    __kmpc_push_num_threads_list
    __kmpc_push_num_threads_list_strict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_loops_are_divided_only_where_threads_may_lack_cpus() {
        let thread = thread_state::current();
        thread.initial_max_threads.set(0);
        assert_eq!(cpus_that_may_lack(thread, 0, 4), 4, "its team is not known");
        thread.initial_max_threads.set(4);
        for (asked, cpus, lacking) in [(0, 3, 3), (0, 4, 0), (0, 5, 0), (CLAUSE, 5, 5), (0, 0, 0)] {
            assert_eq!(cpus_that_may_lack(thread, asked, cpus), lacking);
        }
        thread.has_set_num_threads.set(true);
        assert_eq!(cpus_that_may_lack(thread, 0, 5), 5, "it may be larger now");
        thread.has_set_num_threads.set(false);
        thread.initial_max_threads.set(0);
    }
}
