//! Where the functions of a runtime are looked up.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use crate::elf::{self, Module};
use crate::features::features;
use crate::lookup;
use crate::runtime::{Family, Queries, Query, Runtime, ScheduleQuery};
use crate::symbols::Symbol;

/// Where to look a function up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// What comes after the shim in the global scope.
    Global,
    /// A library and what it depends on: a handle of `dlopen`, never closed, or `RTLD_DEFAULT`.
    Library(*mut c_void),
}

impl Scope {
    /// The function of that name; null if there is none.
    pub fn find(self, name: &CStr) -> *mut c_void {
        match self {
            // SAFETY: the handle is a special one; `name` is a C string.
            Self::Global => unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) },
            // SAFETY: the handle is one of `dlopen`.
            Self::Library(handle) => unsafe { lookup::look_up(handle, name) },
        }
    }

    fn query(self, symbol: Symbol) -> Option<Query> {
        let function = self.find(symbol.name());
        // SAFETY: a function of that name has this type in every runtime; null becomes `None`.
        unsafe { core::mem::transmute::<*mut c_void, Option<Query>>(function) }
    }

    /// A library that is loaded, and stays so.
    pub fn of_library(module: &Module) -> Option<Self> {
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
pub fn function_within(module: &Module, name: &CStr) -> *mut c_void {
    // Of the program the global scope tells, in which it comes first. (To open the program ends children of forks that
    // were made while another thread loaded a library.)
    let scope = Scope::of_library(module).unwrap_or(Scope::Library(libc::RTLD_DEFAULT));
    let function = scope.find(name);
    match module.contains(function as usize) {
        true => function,
        false => null_mut(),
    }
}

impl Runtime {
    /// The one that is found there.
    pub fn look_up(scope: Scope) -> Self {
        let mut runtime = Self::empty();
        for (function, symbol) in runtime.functions.iter_mut().zip(Symbol::ALL) {
            *function = scope.find(symbol.name());
        }
        for family in [Family::Gomp, Family::Kmpc] {
            let mark = runtime.function(family.mark());
            let Some(module) = elf::module_containing(mark as usize) else {
                continue;
            };
            let library = Scope::of_library(&module);
            // The program itself has no path and stays as well.
            if family == Family::Gomp && (library.is_some() || module.path.is_empty()) {
                (features().libgomp_found)(mark as usize);
            }
            if let (Some(library), Some(queries)) =
                (library, runtime.queries.get_mut(family as usize))
            {
                let schedule = library.find(Symbol::omp_get_schedule.name());
                *queries = Queries {
                    level: library.query(Symbol::omp_get_level),
                    max_threads: library.query(Symbol::omp_get_max_threads),
                    thread_num: library.query(Symbol::omp_get_thread_num),
                    team_size: library.query(Symbol::omp_get_num_threads),
                    // SAFETY: a function of that name has this type in every runtime; null becomes `None`.
                    schedule: unsafe {
                        core::mem::transmute::<*mut c_void, Option<ScheduleQuery>>(schedule)
                    },
                };
            }
            if family == Family::Kmpc {
                runtime.kmpc_library = Some(module);
            }
        }
        runtime
    }
}
