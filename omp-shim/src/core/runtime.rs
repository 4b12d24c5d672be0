//! Which real function a call is meant for.
//!
//! *Problem.* One process may hold several OpenMP runtimes: a program linked with libgomp, a Python
//! wheel that brings its own renamed libgomp and loads it with local scope, another library that uses
//! libomp. Without the shim the dynamic linker would have bound each module's calls to one of them;
//! the shim, which all those calls reach, has to find the same one, for the calls that it does not
//! stand in for (barriers, `omp_get_thread_num`) are bound by the linker. A call that got into another
//! runtime than its neighbours would give wrong results.
//!
//! *Approach.* What the linker does: first the global scope behind the shim (`RTLD_NEXT`), then the
//! libraries that the calling module itself depends on. Where both offer a runtime and they differ,
//! the scope that was global when the module was loaded decides, which cannot be known afterwards; but
//! it shows in what the module's other OpenMP calls are bound to. The caller is known by an address in
//! its module: the outlined function, the location descriptor, or the return address.
//!
//! *Fast path.* Usually one runtime is loaded and in the global scope when the first call comes. Then
//! one pointer serves all callers. A module loaded later binds to it as well, since the global scope
//! comes first, unless it needs what that runtime does not have: libgomp has nothing for clang's code.
//! So before the first library is loaded, the modules present are noted as that runtime's, and the
//! pointer given up, if it does not offer both interfaces. From then on, as where there are several
//! runtimes, each thread remembers the module it was called from last.
//!
//! *Invariants.* A [`Runtime`] is never freed, and the modules it was found through are never
//! unloaded. Nothing here takes a lock of its own: the dynamic linker's lock is held by a thread that
//! runs a library's constructor, which may contain parallel regions, and a second lock taken in the
//! other order would deadlock. Two threads that resolve the same thing at once may both store it.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::io::Write as _;

use mapper_abi::Runtimes;

use crate::core::by_handle;
use crate::core::elf::{self, Module};
use crate::core::shield::shielded;
use crate::core::symbols::Symbol;
use crate::core::thread_state::ThreadState;
use crate::degree::Sizes;
use crate::waiting::libgomp_spin;

/// The two interfaces between compilers and runtimes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    /// What gcc emits. libomp offers it too.
    Gomp,
    /// What clang emits.
    Kmpc,
}

impl Family {
    /// A function by which a runtime that offers the family is recognised.
    pub(crate) const fn mark(self) -> Symbol {
        match self {
            Self::Gomp => Symbol::GOMP_parallel,
            Self::Kmpc => Symbol::__kmpc_fork_call,
        }
    }

    /// Which sizes of teams its native runtime changes to cheaply.
    pub(crate) const fn sizes(self) -> Sizes {
        match self {
            Self::Gomp => Sizes::AllOrOne,
            Self::Kmpc => Sizes::Any,
        }
    }

    /// Its entry where there is one for each family, in the order of their numbers.
    fn entry<T>(self, [gomp, kmpc]: &mut [T; 2]) -> &mut T {
        match self {
            Self::Gomp => gomp,
            Self::Kmpc => kmpc,
        }
    }

    /// The runtime it is the native interface of.
    pub(crate) const fn runtimes(self) -> Runtimes {
        match self {
            Self::Gomp => Runtimes::LIBGOMP,
            Self::Kmpc => Runtimes::LIBOMP,
        }
    }
}

type Query = unsafe extern "C-unwind" fn() -> c_int;
type ScheduleQuery = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int);

/// Values of `omp_sched_t`.
const SCHEDULE_DYNAMIC: c_int = 2;
const SCHEDULE_GUIDED: c_int = 3;
const MONOTONIC: c_int = c_int::MIN;

/// The real functions, as one module sees them.
#[derive(Debug)]
pub(crate) struct Runtime {
    functions: [*mut c_void; Symbol::ALL.len()],
    /// `omp_get_level` of the library that offers each family.
    levels: [Option<Query>; 2],
    /// `omp_get_max_threads`, likewise.
    max_threads: [Option<Query>; 2],
    /// `omp_get_thread_num`, likewise.
    thread_nums: [Option<Query>; 2],
    /// `omp_get_num_threads`, likewise.
    team_sizes: [Option<Query>; 2],
    /// `omp_get_schedule`, likewise.
    schedules: [Option<ScheduleQuery>; 2],
    /// Where the library lies that offers clang's family.
    kmpc_library: Option<Module>,
}

impl Runtime {
    /// One that offers nothing, the same for each thread.
    #[cfg(test)]
    pub(crate) fn nowhere() -> &'static Self {
        std::thread_local! {
            static NOWHERE: &'static Runtime = Box::leak(Box::new(Runtime {
                functions: [null_mut(); Symbol::ALL.len()],
                levels: [None; 2],
                max_threads: [None; 2],
                thread_nums: [None; 2],
                team_sizes: [None; 2],
                schedules: [None; 2],
                kmpc_library: None,
            }));
        }
        NOWHERE.with(|nowhere| *nowhere)
    }

    /// The real function; null if this runtime has none.
    #[inline(always)]
    pub(crate) fn function(&self, symbol: Symbol) -> *mut c_void {
        self.functions
            .get(symbol as usize)
            .copied()
            .unwrap_or(null_mut())
    }

    /// How many regions the calling thread is inside of.
    #[inline]
    pub(crate) fn level(&self, family: Family) -> u32 {
        query(&self.levels, family)
    }

    /// The team that the next region would get.
    pub(crate) fn max_threads(&self, family: Family) -> u32 {
        query(&self.max_threads, family)
    }

    /// The calling thread's number in its team.
    #[inline]
    pub(crate) fn thread_num(&self, family: Family) -> u32 {
        query(&self.thread_nums, family)
    }

    /// How many threads the calling thread's team has.
    #[inline]
    pub(crate) fn team_size(&self, family: Family) -> u32 {
        query(&self.team_sizes, family)
    }

    /// Whether loops with `schedule(runtime)` are dispensed in chunks now.
    pub(crate) fn dispenses_runtime_loops(&self, family: Family) -> bool {
        let Some(Some(schedule)) = self.schedules.get(family as usize) else {
            return false;
        };
        let (mut kind, mut chunk) = (0, 0);
        // SAFETY: the function fills in both.
        unsafe { schedule(&raw mut kind, &raw mut chunk) };
        matches!(kind & !MONOTONIC, SCHEDULE_DYNAMIC | SCHEDULE_GUIDED)
    }

    /// Whether a call with this location or return address comes from libomp itself.
    #[inline]
    pub(crate) fn calls_itself(&self, location: usize) -> bool {
        self.kmpc_library
            .as_ref()
            .is_some_and(|library| library.contains(location))
    }

    /// Whether it has what either compiler's code needs, so that no module brings another one.
    pub(crate) fn is_complete(&self) -> bool {
        [Family::Gomp, Family::Kmpc]
            .iter()
            .all(|family| !self.function(family.mark()).is_null())
    }

    fn look_up(scope: Scope) -> Self {
        let functions = core::array::from_fn(|index| {
            Symbol::ALL
                .get(index)
                .map_or(null_mut(), |symbol| scope.find(symbol.name()))
        });
        let mut runtime = Self {
            functions,
            levels: [None; 2],
            max_threads: [None; 2],
            thread_nums: [None; 2],
            team_sizes: [None; 2],
            schedules: [None; 2],
            kmpc_library: None,
        };
        for family in [Family::Gomp, Family::Kmpc] {
            let mark = runtime.function(family.mark());
            let Some(module) = elf::module_containing(mark as usize) else {
                continue;
            };
            let library = Scope::of_library(&module);
            // The program itself has no path and stays as well.
            if family == Family::Gomp && (library.is_some() || module.path.is_empty()) {
                libgomp_spin::meet(mark as usize);
            }
            if let Some(library) = library {
                let query = |name| library.query(name);
                *family.entry(&mut runtime.levels) = query(Symbol::omp_get_level);
                *family.entry(&mut runtime.max_threads) = query(Symbol::omp_get_max_threads);
                *family.entry(&mut runtime.thread_nums) = query(Symbol::omp_get_thread_num);
                *family.entry(&mut runtime.team_sizes) = query(Symbol::omp_get_num_threads);
                let schedule = library.find(Symbol::omp_get_schedule.name());
                // SAFETY: a function of that name has this type in every runtime; null becomes
                // `None`.
                *family.entry(&mut runtime.schedules) =
                    unsafe { core::mem::transmute::<*mut c_void, Option<ScheduleQuery>>(schedule) };
            }
            if family == Family::Kmpc {
                runtime.kmpc_library = Some(module);
            }
        }
        runtime
    }
}

fn query(functions: &[Option<Query>; 2], family: Family) -> u32 {
    let Some(Some(function)) = functions.get(family as usize) else {
        return 0;
    };
    // SAFETY: both queries take nothing and return an int, in every runtime.
    u32::try_from(unsafe { function() }).unwrap_or(0)
}

/// Where to look a function up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// What comes after the shim in the global scope.
    Global,
    /// A library and what it depends on: a handle of `dlopen`, never closed.
    Library(*mut c_void),
}

impl Scope {
    fn find(self, name: &CStr) -> *mut c_void {
        match self {
            // SAFETY: the handle is a special one; `name` is a C string.
            Self::Global => unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) },
            // SAFETY: the handle is one of `dlopen`.
            Self::Library(handle) => unsafe { by_handle::look_up(handle, name) },
        }
    }

    fn query(self, symbol: Symbol) -> Option<Query> {
        let function = self.find(symbol.name());
        // SAFETY: a function of that name has this type in every runtime; null becomes `None`.
        unsafe { core::mem::transmute::<*mut c_void, Option<Query>>(function) }
    }

    /// The program and what was loaded with it.
    fn of_program() -> Option<Self> {
        // SAFETY: null names the program, which is loaded.
        let handle = unsafe { libc::dlopen(core::ptr::null(), libc::RTLD_LAZY) };
        (!handle.is_null()).then_some(Self::Library(handle))
    }

    fn of_library(module: &Module) -> Option<Self> {
        if module.path.is_empty() {
            return None;
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: `path` is a C string. With RTLD_NOLOAD nothing is loaded and no constructor runs.
        let handle = unsafe { libc::dlopen(module.path.as_ptr(), flags) };
        (!handle.is_null()).then_some(Self::Library(handle))
    }
}

/// A function that `module` itself offers, null if it has none; the module stays loaded for good.
pub(crate) fn function_within(module: &Module, name: &CStr) -> *mut c_void {
    // Of the program the global scope tells, in which it comes first.
    let scope = Scope::of_library(module).or_else(Scope::of_program);
    let function = scope.map_or(null_mut(), |scope| scope.find(name));
    match module.contains(function as usize) {
        true => function,
        false => null_mut(),
    }
}

/// Has a library stay loaded for good.
pub(crate) fn keep_loaded(module: &Module) {
    let _ = Scope::of_library(module);
}

/// The runtime for all callers, while that is certain.
static SOLE: AtomicPtr<Runtime> = AtomicPtr::new(null_mut());
/// How often the program has begun to load a library.
static LOADS: AtomicUsize = AtomicUsize::new(0);
/// A stretch of addresses and the runtime of the module there.
struct Route {
    module: Module,
    runtime: &'static Runtime,
}
/// Routes found so far, in no order; null where there is none yet.
static ROUTES: [AtomicPtr<Route>; 128] = [const { AtomicPtr::new(null_mut()) }; 128];

/// The runtime that the module at `address` calls.
#[inline(always)]
pub(crate) fn of_caller(thread: &ThreadState, address: usize) -> Option<&'static Runtime> {
    of_known_caller(thread, address).or_else(|| of_unknown_caller(thread, address))
}

/// The same, if it is the only one or the module is the one that the thread called from last.
#[inline(always)]
pub(crate) fn of_known_caller(thread: &ThreadState, address: usize) -> Option<&'static Runtime> {
    let sole = SOLE.load(Ordering::Acquire);
    if !sole.is_null() {
        // SAFETY: only leaked boxes are stored there.
        return Some(unsafe { &*sole });
    }
    if address.wrapping_sub(thread.route_start.get()) < thread.route_len.get() {
        return thread.route_runtime.get();
    }
    None
}

/// Whether one runtime serves all callers.
#[inline(always)]
pub(crate) fn is_sole() -> bool {
    !SOLE.load(Ordering::Relaxed).is_null()
}

/// The program is about to load a library, which may bring another runtime: what is present keeps the
/// one it has. For every load, before it.
pub(crate) fn library_comes() {
    // Before the look at `SOLE`, as `sole_runtime` looks here after it has stored there.
    LOADS.fetch_add(1, Ordering::SeqCst);
    let sole = SOLE.load(Ordering::SeqCst);
    // SAFETY: only leaked boxes are stored there.
    let Some(runtime) = (unsafe { sole.as_ref() }) else {
        return;
    };
    if !runtime.is_complete() {
        let _ = shielded(|| {
            let here = library_comes as *const () as usize;
            let present = elf::modules_importing(is_openmp_call);
            for module in present.into_iter().filter(|m| !m.contains(here)) {
                store_route(Route { module, runtime });
            }
            Some(())
        });
        SOLE.store(null_mut(), Ordering::SeqCst);
    }
}

/// Any runtime found so far, for callers that are not known.
pub(crate) fn any() -> Option<&'static Runtime> {
    let sole = SOLE.load(Ordering::Acquire);
    if !sole.is_null() {
        // SAFETY: only leaked boxes are stored there.
        return Some(unsafe { &*sole });
    }
    routes().next().map(|route| route.runtime)
}

fn routes() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().map_while(|cell| {
        // SAFETY: only leaked boxes are stored there.
        unsafe { cell.load(Ordering::Acquire).as_ref() }
    })
}

/// Where the shim itself lies, once it has been asked for: a call from there is not its own but one that
/// a compiler turned into a jump, at the end of a function that the shim had called.
static OWN_START: AtomicUsize = AtomicUsize::new(0);
static OWN_LEN: AtomicUsize = AtomicUsize::new(0);

fn is_own(address: usize) -> bool {
    let start = OWN_START.load(Ordering::Relaxed);
    address.wrapping_sub(start) < OWN_LEN.load(Ordering::Acquire)
}

#[cold]
fn of_unknown_caller(thread: &ThreadState, address: usize) -> Option<&'static Runtime> {
    if is_own(address) {
        return None;
    }
    shielded(|| {
        if let Some(runtime) = sole_runtime() {
            return Some(runtime);
        }
        let known = routes().find(|route| route.module.contains(address));
        let route = match known {
            Some(route) => route,
            None => add_route(address)?,
        };
        thread.route_start.set(route.module.start);
        thread.route_len.set(route.module.len);
        thread.route_runtime.set(Some(route.runtime));
        Some(route.runtime)
    })
}

/// Decides, at the first call of the process, whether one runtime serves all.
fn sole_runtime() -> Option<&'static Runtime> {
    if routes().next().is_some() {
        // Some module has been given a runtime of its own; it must keep it.
        return None;
    }
    let loads = LOADS.load(Ordering::SeqCst);
    let marks = [Family::Gomp.mark().name(), Family::Kmpc.mark().name()];
    let global = marks.iter().any(|mark| !Scope::Global.find(mark).is_null());
    // The shim defines the marks, too.
    if !global || elf::count_defining(&marks) != 2 {
        return None;
    }
    let runtime: *mut Runtime = Box::into_raw(Box::new(Runtime::look_up(Scope::Global)));
    let winner =
        match SOLE.compare_exchange(null_mut(), runtime, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => runtime,
            // Another thread was faster; this copy is left alone.
            Err(winner) => winner,
        };
    // SAFETY: only leaked boxes are stored there.
    let sole = unsafe { &*winner };
    if LOADS.load(Ordering::SeqCst) != loads && !sole.is_complete() {
        // Another thread loads a library, which may not have been there yet when they were counted.
        SOLE.store(null_mut(), Ordering::SeqCst);
        return None;
    }
    Some(sole)
}

fn add_route(address: usize) -> Option<&'static Route> {
    let module = elf::module_containing(address)?;
    if module.contains(add_route as *const () as usize) {
        // What the shim exports itself is no runtime.
        OWN_START.store(module.start, Ordering::Relaxed);
        OWN_LEN.store(module.len, Ordering::Release);
        return None;
    }
    let scope = scope_of(&module, address)?;
    let runtime = Box::leak(Box::new(Runtime::look_up(scope)));
    Some(store_route(Route { module, runtime }))
}

fn store_route(route: Route) -> &'static Route {
    let route: *mut Route = Box::into_raw(Box::new(route));
    // When the table is full, the route serves this thread until it calls from elsewhere.
    let _ = ROUTES.iter().find(|cell| {
        cell.compare_exchange(null_mut(), route, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    // SAFETY: just leaked.
    unsafe { &*route }
}

/// The scope in which the linker looks up, or has looked up, the OpenMP functions of `module`.
fn scope_of(module: &Module, address: usize) -> Option<Scope> {
    // A library that carries the runtime inside itself, or libomp calling its own functions, finds
    // it here, too.
    let own = Scope::of_library(module);
    let library_at = |scope: Scope| {
        [Family::Gomp, Family::Kmpc]
            .map(|family| scope.find(family.mark().name()) as usize)
            .into_iter()
            .find(|found| *found != 0)
            .and_then(elf::module_containing)
    };
    let own_library = own.and_then(library_at);
    let global_library = library_at(Scope::Global);
    match (own_library, global_library) {
        (None, None) => None,
        (None, Some(_)) => Some(Scope::Global),
        (Some(_), None) => own,
        (Some(own_library), Some(global_library)) => {
            let bound_to_own = own_library != global_library
                && elf::bound_addresses(address, is_direct_openmp_call)
                    .into_iter()
                    .any(|target| own_library.contains(target));
            if bound_to_own {
                own
            } else {
                Some(Scope::Global)
            }
        }
    }
}

/// Whether a function of this name is one of an OpenMP runtime.
fn is_openmp_call(name: &CStr) -> bool {
    ["GOMP_", "omp_", "__kmpc_"]
        .iter()
        .any(|prefix| name.to_bytes().starts_with(prefix.as_bytes()))
}

/// Whether a call of this name goes to the runtime directly, not through the shim.
fn is_direct_openmp_call(name: &CStr) -> bool {
    let interposed = name
        .to_str()
        .is_ok_and(|name| Symbol::INTERPOSED.contains(&name));
    is_openmp_call(name) && !interposed
}

/// Ends the program as the dynamic linker does when a function is missing: the program called a
/// function of an OpenMP runtime, the shim offers it, and there is no runtime behind it.
#[cold]
pub(crate) fn missing(symbol: Symbol) -> ! {
    let _ = shielded(|| {
        let name = symbol.name().to_string_lossy();
        writeln!(
            std::io::stderr(),
            "libmapper_omp: symbol lookup error: undefined symbol: {name}"
        )
        .ok()
    });
    // SAFETY: ends the process at once, without running anything of the program's.
    unsafe { libc::_exit(127) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_the_shim_stands_in_for_do_not_count_as_direct() {
        assert!(is_direct_openmp_call(c"GOMP_taskwait"));
        assert!(is_direct_openmp_call(c"omp_get_wtime"));
        assert!(is_direct_openmp_call(c"__kmpc_global_thread_num"));
        assert!(!is_direct_openmp_call(c"GOMP_parallel"));
        assert!(!is_direct_openmp_call(c"malloc"));
    }

    #[test]
    fn a_process_without_a_runtime_has_none_to_call() {
        // The test program holds the shim, which offers the marks, and nothing behind it.
        let thread = crate::core::thread_state::current();
        let here = is_direct_openmp_call as *const () as usize;
        assert!(of_caller(thread, here).is_none());
        assert!(any().is_none());
    }
}
