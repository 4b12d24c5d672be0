//! How many threads Intel's MKL uses for linear algebra, if it runs on Intel's OpenMP.
//!
//! *Problem.* MKL divides its work among its threads before it begins a region, and they wait for one another by
//! spinning: a factorisation by two threads on one CPU takes almost four times as long as by one. So its teams can neither be
//! made smaller nor be left as they are.
//!
//! *Approach.* Each function of MKL first asks one function how many threads to use, through the linker. The shim exports
//! that one, and answers with the program's CPUs if these are fewer. Nothing is set: the number grows again with the
//! CPUs, threads do not disturb one another, and a number that the program sets is what MKL says.
//!
//! *Left alone* is MKL whose user chose numbers by a variable, whose number is not its default (the program chose one),
//! which may not adjust it (`MKL_DYNAMIC`) or is to have reproducible results (`MKL_CBWR`). So are questions of the
//! program, and those for other work: the sparse solver PARDISO keeps tables for so many threads from one call to the
//! next, and crashes or gives wrong results if the number changes.
//!
//! *In the middle of a function* the answer may change. Intel documents that a call of `mkl_set_num_threads` has this
//! effect on other threads, and BLAS and LAPACK of MKL 2026.2 stayed right with a new number every 300 µs.
//!
//! *Invariants.* The answer is never larger than MKL's own. The shim does not load MKL; a module that has asked is kept
//! loaded, as what is found of it is kept: the list of modules is read at the first question of each.

use core::ffi::{CStr, c_int};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use mapper_shim_core::elf::{self, Module};
use mapper_shim_core::scope::Scope;
use mapper_shim_core::shield::shielded;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::{attachment, caller, environment, thread_state};

type Query = unsafe extern "C" fn() -> c_int;
type Choice = unsafe extern "C" fn(c_int) -> c_int;

const QUESTION: &CStr = c"mkl_serv_domain_get_max_threads";
/// The kinds of work that keep nothing from one call to the next: `MKL_DOMAIN_BLAS` and `MKL_DOMAIN_LAPACK`.
/// (LAPACK's functions that were translated from Fortran give an address in place of the kind: they keep MKL's number.)
const LINEAR_ALGEBRA: [c_int; 2] = [1, 5];
/// By which a user chooses the number. (MKL reads `MKL_DYNAMIC` and `MKL_CBWR`, and says what holds.)
const CHOICES: [&CStr; 2] = [c"MKL_NUM_THREADS", c"MKL_DOMAIN_NUM_THREADS"];
/// What `MKL_CBWR_Get` answers to this, if results need not be reproducible.
const ALL_OF_CBWR: c_int = -1;
const CBWR_OFF: c_int = 1;

/// MKL's modules whose functions the program calls: what they ask is what the program asks.
const INTERFACES: [&[u8]; 4] = [
    b"libmkl_intel_lp64",
    b"libmkl_intel_ilp64",
    b"libmkl_gf_",
    b"libmkl_rt",
];

/// What is known of a module that has asked.
struct Asker {
    module: Module,
    real: Choice,
    /// If its number may be lowered.
    mkl: Option<Mkl>,
}

/// What MKL says of itself.
struct Mkl {
    dynamic: Query,
    processors: Query,
    cores: Query,
    reproducible: Choice,
}

/// Those that asked so far, in no order; null where there is none yet.
static ASKERS: [AtomicPtr<Asker>; 64] = [const { AtomicPtr::new(null_mut()) }; 64];

/// How many threads MKL is to use for that kind of work. Safety: as MKL calls it.
#[cfg_attr(not(miri), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn mkl_serv_domain_get_max_threads(domain: c_int) -> c_int {
    core::arch::naked_asm!(
        "mov rsi, qword ptr [rsp]",
        "jmp {answer}",
        answer = sym answer,
    )
}

/// Some functions of MKL read all of the register.
unsafe extern "C" fn answer(domain: c_int, from: usize) -> u64 {
    // SAFETY: what MKL gave is passed on.
    let size = unsafe { size(domain, from) };
    u64::from(size.cast_unsigned())
}

/// Safety: as MKL calls it.
unsafe fn size(domain: c_int, from: usize) -> c_int {
    let known = ASKERS.iter().map_while(|cell| {
        // SAFETY: only leaked boxes are stored there.
        unsafe { cell.load(Ordering::Acquire).as_ref() }
    });
    let mut known = known.filter(|asker| asker.module.contains(from));
    let Some(asker) = known.next().or_else(|| shielded(|| meet(from))) else {
        // Code that is in no module, say: it has been compiled just now.
        let real = shielded(|| asked_by(from));
        // SAFETY: as below. Without MKL nobody asks.
        return real.map_or(1, |real| unsafe {
            transmute::<usize, Choice>(real)(domain)
        });
    };
    // SAFETY: MKL's function of that name has this type.
    let size = unsafe { (asker.real)(domain) };
    match &asker.mkl {
        Some(mkl) if LINEAR_ALGEBRA.contains(&domain) => mkl.lowered(size, asker.real as usize),
        _ => size,
    }
}

/// MKL's function that this code asks. MKL that is linked into a library asks itself.
fn asked_by(from: usize) -> Option<usize> {
    elf::function_within(from, QUESTION).or_else(|| elf::next_definition(QUESTION))
}

#[cold]
fn meet(from: usize) -> Option<&'static Asker> {
    let module = elf::module_containing(from)?;
    let real = asked_by(from)?;
    let library = elf::module_containing(real)?;
    for kept in [&module, &library] {
        // The program itself has no name, and is not unloaded.
        let _ = Scope::of_library(kept);
    }
    let is_interface = INTERFACES.iter().any(|name| module.is_named(name));
    let may_be_lowered = module.is_named(b"libmkl_")
        && !is_interface
        && library.is_named(b"libmkl_intel_thread")
        && !is_chosen();
    let mkl = may_be_lowered.then(|| Mkl::find(real)).flatten();
    // SAFETY: functions of that name have this type.
    let real = unsafe { transmute::<usize, Choice>(real) };
    let asker = Box::into_raw(Box::new(Asker { module, real, mkl }));
    let stored = ASKERS.iter().any(|cell| {
        cell.compare_exchange(null_mut(), asker, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    if !stored {
        // SAFETY: nobody else has seen it.
        drop(unsafe { Box::from_raw(asker) });
        return None;
    }
    // SAFETY: just leaked.
    Some(unsafe { &*asker })
}

fn is_chosen() -> bool {
    CHOICES
        .iter()
        .any(|name| environment::variable(name).is_some())
}

impl Mkl {
    fn find(real: usize) -> Option<Self> {
        let within = |name| elf::function_within(real, name);
        let dynamic = within(c"mkl_serv_get_dynamic")?;
        let processors = within(c"mkl_serv_get_ncpus")?;
        let cores = within(c"mkl_serv_get_ncorespercpu")?;
        let reproducible = elf::next_definition(c"mkl_serv_cbwr_get")?;
        // SAFETY: functions of these names have these types in all versions that have all of them.
        unsafe {
            Some(Self {
                dynamic: transmute::<usize, Query>(dynamic),
                processors: transmute::<usize, Query>(processors),
                cores: transmute::<usize, Query>(cores),
                reproducible: transmute::<usize, Choice>(reproducible),
            })
        }
    }

    /// The number to use, where MKL says `size`; `address` lies in it.
    #[inline]
    fn lowered(&self, size: c_int, address: usize) -> c_int {
        attachment::settle();
        let limit = c_int::try_from(attachment::carrier_limit()).unwrap_or(c_int::MAX);
        match limit < size && self.may_lower(size, address) {
            true => limit.max(1),
            false => size,
        }
    }

    fn may_lower(&self, size: c_int, address: usize) -> bool {
        let runtime = caller::of_caller(thread_state::current(), address);
        let usual = runtime.map_or(0, |runtime| runtime.ask(Symbol::omp_get_max_threads));
        // SAFETY: they only read what MKL has noted of the machine and of its settings.
        let (cores, may_adjust, reproducible) = unsafe {
            (
                (self.processors)().wrapping_mul((self.cores)()),
                (self.dynamic)() != 0,
                (self.reproducible)(ALL_OF_CBWR) != CBWR_OFF,
            )
        };
        size == usual.min(cores) && may_adjust && !reproducible
    }
}
