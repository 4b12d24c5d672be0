//! Which real function a call is meant for.
//!
//! *Problem.* One process may hold several OpenMP runtimes (libgomp, a Python wheel's renamed copy, a library's
//! libomp). The shim has to find the one to which the dynamic linker would have bound the module: calls that the shim
//! does not export go there, and calls of one module to two runtimes give wrong results.
//!
//! *Approach.* As the linker does: first the global scope behind the shim (`RTLD_NEXT`), then the libraries that the
//! calling module depends on. Where these offer different runtimes, the module's other OpenMP calls show which one it
//! is bound to. An address in the module identifies the caller.
//!
//! *Fast path.* Usually one runtime is loaded, in the global scope, and one pointer serves all callers. A module loaded
//! later binds to it as well, unless it needs what that runtime lacks (libgomp has nothing for clang's code). So before
//! the first library is loaded, and if the runtime does not offer both interfaces, the modules present are noted as
//! that runtime's and the pointer is given up. From then on each thread remembers the module it was called from last.
//!
//! *Invariants.* A [`Runtime`] is never freed, and its modules are never unloaded. Nothing here takes a lock: a thread
//! that runs a library's constructor holds the linker's, and a second one taken in the other order would deadlock. Two
//! threads that resolve the same thing may both store it.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::elf::{self, Module};
use crate::runtime::{Family, Runtime};
use crate::scope::Scope;
use crate::shield::shielded;
use crate::symbols::Symbol;
use crate::thread_state::ThreadState;

static SOLE: AtomicPtr<Runtime> = AtomicPtr::new(null_mut());
static LOADS: AtomicUsize = AtomicUsize::new(0);
struct Route {
    module: Module,
    runtime: &'static Runtime,
}
/// Routes found so far, in no order; null where there is none yet.
static ROUTES: [AtomicPtr<Route>; 128] = [const { AtomicPtr::new(null_mut()) }; 128];

/// The runtime that the module at `address` calls.
#[inline(always)]
pub fn of_caller(thread: &ThreadState, address: usize) -> Option<&'static Runtime> {
    of_known_caller(thread, address).or_else(|| of_unknown_caller(thread, address))
}

/// The same without a search: if there is one runtime, or the module is the one that called the thread last.
#[inline(always)]
pub fn of_known_caller(thread: &ThreadState, address: usize) -> Option<&'static Runtime> {
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
pub fn is_sole() -> bool {
    !SOLE.load(Ordering::Relaxed).is_null()
}

/// To be called before every load of a library, which may bring another runtime: present modules keep theirs.
pub fn library_comes() {
    // Before `SOLE` is read, as `sole_runtime` reads this after it has stored there.
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

/// Any runtime found so far, for unknown callers.
pub fn any() -> Option<&'static Runtime> {
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

/// Where the shim lies, once known: a call from there is one that a compiler turned into a jump at a function's end.
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
        // Some module has a runtime of its own; it must keep it.
        return None;
    }
    let loads = LOADS.load(Ordering::SeqCst);
    let marks = [Family::Gomp.mark().name(), Family::Kmpc.mark().name()];
    let global = marks.iter().any(|mark| !Scope::Global.find(mark).is_null());
    // The shim defines the marks too.
    if !global || elf::count_defining(&marks) != 2 {
        return None;
    }
    let runtime: *mut Runtime = Box::into_raw(Box::new(Runtime::look_up(Scope::Global)));
    let winner =
        match SOLE.compare_exchange(null_mut(), runtime, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => runtime,
            // Another thread was faster; this copy stays unused.
            Err(winner) => winner,
        };
    // SAFETY: only leaked boxes are stored there.
    let sole = unsafe { &*winner };
    if LOADS.load(Ordering::SeqCst) != loads && !sole.is_complete() {
        // Another thread loads a library, which may not have been counted.
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
    // When the table is full, the route serves this thread until it is called from elsewhere.
    let _ = ROUTES.iter().find(|cell| {
        cell.compare_exchange(null_mut(), route, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    });
    // SAFETY: just leaked.
    unsafe { &*route }
}

fn scope_of(module: &Module, address: usize) -> Option<Scope> {
    // A library that contains the runtime, or libomp calling its own functions, finds it here too.
    let own = Scope::of_library(module);
    let library_at = |scope: Scope| {
        [Family::Gomp, Family::Kmpc]
            .map(|family| scope.find(family.mark().name()) as usize)
            .into_iter()
            .find(|found| *found != 0)
            .and_then(elf::module_containing)
    };
    let is_bound_to = |library: &Module| {
        elf::bound_addresses(address, is_direct_openmp_call)
            .into_iter()
            .any(|target| library.contains(target))
    };
    match (own.and_then(library_at), library_at(Scope::Global)) {
        (None, None) => None,
        (Some(_), None) => own,
        (Some(library), Some(global)) if library != global && is_bound_to(&library) => own,
        (_, Some(_)) => Some(Scope::Global),
    }
}

fn is_openmp_call(name: &CStr) -> bool {
    ["GOMP_", "omp_", "__kmpc_"]
        .iter()
        .any(|prefix| name.to_bytes().starts_with(prefix.as_bytes()))
}

/// Whether a call of this name reaches the runtime directly, not through the shim.
fn is_direct_openmp_call(name: &CStr) -> bool {
    let interposed = name
        .to_str()
        .is_ok_and(|name| Symbol::INTERPOSED.contains(&name));
    is_openmp_call(name) && !interposed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exported_functions_do_not_count_as_direct_calls() {
        for name in [
            c"GOMP_cancel",
            c"omp_get_wtime",
            c"__kmpc_global_thread_num",
        ] {
            assert!(is_direct_openmp_call(name), "{name:?}");
        }
        assert!(!is_direct_openmp_call(c"GOMP_parallel"));
        assert!(!is_direct_openmp_call(c"malloc"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "has inline assembly")]
    fn a_process_without_a_runtime_has_none_to_call() {
        // The test program holds the shim, which offers the marks, and nothing behind it.
        let thread = crate::thread_state::current();
        let here = is_direct_openmp_call as *const () as usize;
        assert!(of_caller(thread, here).is_none());
        assert!(any().is_none());
    }
}
