//! Regions and loops as clang emits them for LLVM's libomp.
//!
//! *Regions.* `__kmpc_fork_call(location, count, function, ...)` takes `count` further arguments, all
//! of the size of a pointer; libomp reads exactly so many with `va_arg`. Rust can not define such a
//! function, so its entry is written in assembly. A tail jump to the real one would preserve all
//! registers at no cost, but then nobody would see the region end, which is when a region is to be
//! counted and timed. So the entry copies the arguments that lie on the stack (`count` says how many)
//! into a frame of its own, calls the real function and counts when it returns. Vector registers are
//! kept for variadic arguments that a compiler might pass in them; `al`, as the ABI has it, says
//! whether there are any. The frame is described to unwinders.
//!
//! *Teams.* libomp has no argument for the size of a team; compilers announce a `num_threads` clause
//! by `__kmpc_push_num_threads` just before. The shim announces its own size in the same way, unless
//! the compiler did.
//!
//! *Loops.* `__kmpc_dispatch_next_*` hands out chunks, with inclusive bounds and the increment. For
//! programs that gcc compiled libomp calls it itself, with a location of its own; their loops are
//! counted a level above, and their sections not at all.
//!
//! The caller is known by the location descriptor, which lies in the calling module.

use core::ffi::{c_int, c_void};

use crate::libgomp_regions::real;
use crate::progress;
use crate::region::{self, OpenRegion, Start};
use crate::runtime::{self, Family, Runtime};
use crate::symbols::Symbol;
use crate::thread_state::{self, ThreadState};

#[inline(always)]
fn runtime_of(thread: &ThreadState, location: *const c_void, symbol: Symbol) -> &'static Runtime {
    match runtime::of_caller(thread, location as usize).or_else(|| thread.last_runtime.get()) {
        Some(runtime) => runtime,
        None => runtime::missing(symbol),
    }
}

/// Runs a region by the real function of the same name.
///
/// # Safety
/// To be called as clang does.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __kmpc_fork_call() {
    // Frame, from rbp: -8..-48 the six argument registers, -56 al, -64 the real function,
    // -80..-64 the `OpenRegion`, -208..-80 the vector registers; then the copied arguments.
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
        "sub rsp, 152",
        "test al, al",
        "je 2f",
        "movaps [rbp - 208], xmm0",
        "movaps [rbp - 192], xmm1",
        "movaps [rbp - 176], xmm2",
        "movaps [rbp - 160], xmm3",
        "movaps [rbp - 144], xmm4",
        "movaps [rbp - 128], xmm5",
        "movaps [rbp - 112], xmm6",
        "movaps [rbp - 96], xmm7",
        "2:",
        // fork_begin(location, function, &open)
        "mov rsi, rdx",
        "lea rdx, [rbp - 80]",
        "call {begin}",
        "mov [rbp - 64], rax",
        // Three arguments come in registers, the rest of `count` on the stack.
        "mov ecx, dword ptr [rbp - 16]",
        "sub ecx, 3",
        "jle 4f",
        "mov eax, ecx",
        "inc eax",
        "and eax, -2",
        "shl rax, 3",
        "sub rsp, rax",
        "3:",
        "mov rax, [rbp + 8 + 8 * rcx]",
        "mov [rsp - 8 + 8 * rcx], rax",
        "dec ecx",
        "jne 3b",
        "4:",
        "cmp byte ptr [rbp - 56], 0",
        "je 5f",
        "movaps xmm0, [rbp - 208]",
        "movaps xmm1, [rbp - 192]",
        "movaps xmm2, [rbp - 176]",
        "movaps xmm3, [rbp - 160]",
        "movaps xmm4, [rbp - 144]",
        "movaps xmm5, [rbp - 128]",
        "movaps xmm6, [rbp - 112]",
        "movaps xmm7, [rbp - 96]",
        "5:",
        "mov rdi, [rbp - 8]",
        "mov rsi, [rbp - 16]",
        "mov rdx, [rbp - 24]",
        "mov rcx, [rbp - 32]",
        "mov r8, [rbp - 40]",
        "mov r9, [rbp - 48]",
        "mov rax, [rbp - 56]",
        "call qword ptr [rbp - 64]",
        "lea rdi, [rbp - 80]",
        "call {end}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        begin = sym fork_begin,
        end = sym fork_end,
    )
}

/// Begins a region and returns the real function to call.
///
/// # Safety
/// `open` is a place for an `OpenRegion`.
unsafe extern "C-unwind" fn fork_begin(
    location: *mut c_void,
    function: *const c_void,
    open: *mut OpenRegion,
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
    let started = region::begin(&Start {
        thread,
        runtime,
        family: Family::Kmpc,
        function: function as usize,
        asked,
    });
    if started.num_threads != asked {
        announce_team(runtime, location, started.num_threads);
    }
    // SAFETY: the entry made room there.
    unsafe { open.write(started.open) };
    fork
}

/// Stands for the unknown value of a `num_threads` clause.
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

/// Ends a region.
///
/// # Safety
/// `open` is what `fork_begin` wrote.
unsafe extern "C-unwind" fn fork_end(open: *const OpenRegion) {
    // SAFETY: the entry passes the place that `fork_begin` filled.
    region::end(thread_state::current(), unsafe { &*open });
}

/// Notes that the next region has a `num_threads` clause, and passes it on.
///
/// # Safety
/// To be called as clang does.
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

macro_rules! dispatch_next {
    ($($name:ident($bound:ty, $stride:ty);)*) => {$(
        /// Hands out the next chunk by the real function of the same name.
        ///
        /// # Safety
        /// To be called as clang does.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            location: *mut c_void,
            thread_number: c_int,
            last: *mut c_int,
            lower: *mut $bound,
            upper: *mut $bound,
            stride: *mut $stride,
        ) -> c_int {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, location, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(*mut c_void, c_int, *mut c_int, *mut $bound, *mut $bound, *mut $stride) -> c_int
            );
            let counted_above = runtime.calls_itself(location as usize);
            if !counted_above {
                progress::chunk_done(thread);
            }
            // SAFETY: the arguments are the caller's.
            let more = unsafe { run(location, thread_number, last, lower, upper, stride) };
            if counted_above {
                return more;
            }
            if more == 0 || lower.is_null() || upper.is_null() {
                progress::loop_done(thread);
                return more;
            }
            // SAFETY: the runtime has filled in the bounds, and the increment if asked to.
            let (lower, upper, stride) = unsafe {
                (lower.read(), upper.read(), if stride.is_null() { 1 } else { stride.read() })
            };
            let (lower, upper, stride) = (lower as i64, upper as i64, i64::from(stride));
            // The bounds include `upper`.
            let end = upper.wrapping_add(stride.signum());
            let stride_less_one = stride.wrapping_sub(1);
            thread.pending.set(progress::chunk_size(lower, end, stride_less_one));
            more
        }
    )*};
}

dispatch_next! {
    __kmpc_dispatch_next_4(i32, i32);
    __kmpc_dispatch_next_4u(u32, i32);
    __kmpc_dispatch_next_8(i64, i64);
    __kmpc_dispatch_next_8u(u64, i64);
}
