//! What is loaded in this process: the program headers of all modules ([`loaded`]) and the symbol and relocation tables
//! that they lead to. They tell which module a call came from, which OpenMP runtimes there are, and to which one a module is
//! bound.
//!
//! *Invariants.* Tables are read only inside the callback, while no module can go.

use core::ffi::{CStr, c_char};
use core::mem::size_of;
use core::ops::Range;
use std::ffi::CString;

use crate::loaded;

/// A loaded module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// The linker's path; empty for the program itself.
    pub path: CString,
    /// Lowest address.
    pub start: usize,
    /// Length from there to the end of its last segment.
    pub len: usize,
}

impl Module {
    /// Whether `address` lies in it.
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.len
    }

    /// Whether its file's name begins like this.
    pub fn is_named(&self, beginning: &[u8]) -> bool {
        let name = self.path.to_bytes().rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.starts_with(beginning))
    }

    /// Whether it contains this code.
    pub fn is_this(&self) -> bool {
        self.contains(module_containing as *const () as usize)
    }
}

/// The module that `address` lies in.
pub fn module_containing(address: usize) -> Option<Module> {
    find_module(|view| view.span()?.contains(address).then(|| view.module())?)
}

/// How many modules define one of `names` for others.
pub fn count_defining(names: &[&CStr]) -> usize {
    let mut count = 0;
    find_module(|view| {
        if let Some(tables) = view.tables() {
            count += usize::from(names.iter().any(|name| tables.defines(name)));
        }
        None::<()>
    });
    count
}

/// Where the module at `address` calls functions whose names `wanted` accepts, as far as the linker has bound them.
pub fn bound_addresses(address: usize, wanted: impl Fn(&CStr) -> bool) -> Vec<usize> {
    find_module(|view| {
        let span = view.span().filter(|span| span.contains(address))?;
        let mut bound = Vec::new();
        if let Some(tables) = view.tables() {
            tables.each_binding(|name, target| {
                if !span.contains(target) && wanted(name) {
                    bound.push(target);
                }
            });
        }
        Some(bound)
    })
    .unwrap_or_default()
}

/// Whether the module at `address` defines `name` for others.
pub fn defines(address: usize, name: &CStr) -> bool {
    find_module(|view| {
        view.span().filter(|span| span.contains(address))?;
        Some(view.tables().is_some_and(|tables| tables.defines(name)))
    })
    .unwrap_or(false)
}

/// `name` in the first module behind this one that defines it; as `RTLD_NEXT`, without allocating.
pub fn next_definition(name: &CStr) -> Option<usize> {
    let own = next_definition as *const () as usize;
    let mut is_behind = false;
    find_module(|view| {
        if is_behind {
            return view.tables()?.function(name);
        }
        is_behind = view
            .extents(libc::PT_LOAD)
            .any(|extent| extent.contains(&own));
        None
    })
}

/// `name` in the module at `address`, if that defines it for others.
pub fn function_within(address: usize, name: &CStr) -> Option<usize> {
    find_module(|view| {
        view.span().filter(|span| span.contains(address))?;
        view.tables()?.function(name)
    })
}

/// Where calls of `name` by the module at `address` go, if they go through the linker.
pub fn binding(address: usize, name: &CStr) -> Option<usize> {
    find_module(|view| {
        view.span().filter(|span| span.contains(address))?;
        view.tables()?.binding(name)
    })
}

/// Where the calls of a function by one module go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The calling module, without its path.
    pub caller: Module,
    /// An address in the called module, or in the caller before the linker has bound the call.
    pub target: usize,
}

/// The calls of `name` by all modules but this one.
pub fn calls_of_others(module: &Module, name: &CStr) -> Vec<Call> {
    let mut calls = Vec::new();
    find_module(|view| {
        let caller = view.span().filter(|span| span.start != module.start)?;
        let target = view.tables()?.binding(name)?;
        calls.push(Call { caller, target });
        None::<()>
    });
    calls
}

/// Shows `judge` the tables of each loaded module, until it returns something.
pub fn find_importer<T>(mut judge: impl FnMut(&Tables) -> Option<T>) -> Option<T> {
    find_module(|view| judge(&view.tables()?))
}

/// A sign of what a module may do.
#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// It has or refers to thread-local variables.
    ThreadStorage,
    /// It imports a function or variable of this name.
    Import(&'a CStr),
    /// It replaces the C library's allocation, which the C library calls too.
    Allocator,
    /// It has no tables.
    Opaque,
}

/// Shows `judge` the path and the traces of all modules but this one, until it returns something.
pub fn find_trace<T>(mut judge: impl FnMut(&CStr, Trace<'_>) -> Option<T>) -> Option<T> {
    find_module(|view| {
        if view.span().is_some_and(|span| span.is_this()) {
            return None;
        }
        let path = view.path();
        if view.extents(libc::PT_TLS).next().is_some() {
            return judge(path, Trace::ThreadStorage);
        }
        let Some(tables) = view.tables() else {
            return judge(path, Trace::Opaque);
        };
        let mut found = None;
        if ALLOCATORS.iter().any(|name| tables.defines(name)) {
            found = judge(path, Trace::Allocator);
        }
        tables.each_relocation(|relocation| {
            if found.is_none() && THREAD_STORAGE.contains(&relocation.kind()) {
                found = judge(path, Trace::ThreadStorage);
            }
            if let Some(name) = tables.import(relocation).filter(|_| found.is_none()) {
                found = judge(path, Trace::Import(name));
            }
        });
        found
    })
}

/// The modules that import a function whose name `wanted` accepts.
pub fn modules_importing(wanted: impl Fn(&CStr) -> bool) -> Vec<Module> {
    let mut importing = Vec::new();
    find_module(|view| {
        let mut imports = false;
        view.tables()?.each_import(|name| imports |= wanted(name));
        if imports {
            importing.extend(view.module());
        }
        None::<()>
    });
    importing
}

/// Shows `look` each word of the module's variables. Excluded are what the linker protects after relocation, and
/// segments with the linker's tables, which tools that rename libraries make writable.
pub fn each_variable_word(address: usize, mut look: impl FnMut(*mut u64)) {
    find_module(|view| {
        view.span().filter(|span| span.contains(address))?;
        let protected = view.extents(libc::PT_GNU_RELRO).next().unwrap_or_default();
        let tables = view.tables().unwrap_or_default();
        for header in view.headers() {
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W == 0 {
                continue;
            }
            let extent = view.extent(header);
            if tables.lie_in(&extent) {
                continue;
            }
            let words = extent.start.next_multiple_of(size_of::<u64>())..extent.end;
            for word in words.step_by(size_of::<u64>()) {
                if word + size_of::<u64>() <= extent.end && !protected.contains(&word) {
                    look(word as *mut u64);
                }
            }
        }
        Some(())
    });
}

/// Another number whenever modules have been loaded since.
pub fn modules_added() -> u64 {
    find_module(|view| Some(view.info.dlpi_adds)).unwrap_or(0)
}

fn find_module<T>(mut look: impl FnMut(&View<'_>) -> Option<T>) -> Option<T> {
    let mut found = None;
    loaded::each(&mut |info| {
        // A panic must not unwind into the linker.
        found = crate::shield::shielded(|| look(&View { info }));
        found.is_some()
    });
    found
}

struct View<'a> {
    info: &'a libc::dl_phdr_info,
}

impl View<'_> {
    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.info.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the linker describes so many program headers at that address.
        unsafe { core::slice::from_raw_parts(self.info.dlpi_phdr, self.info.dlpi_phnum.into()) }
    }

    fn base(&self) -> usize {
        self.info.dlpi_addr as usize
    }

    fn extent(&self, header: &libc::Elf64_Phdr) -> Range<usize> {
        let start = self.base().wrapping_add(header.p_vaddr as usize);
        start..start.saturating_add(header.p_memsz as usize)
    }

    fn extents(&self, kind: u32) -> impl Iterator<Item = Range<usize>> {
        let headers = self.headers().iter();
        headers
            .filter(move |header| header.p_type == kind)
            .map(|header| self.extent(header))
    }

    fn span(&self) -> Option<Module> {
        let start = self.extents(libc::PT_LOAD).map(|it| it.start).min()?;
        let end = self.extents(libc::PT_LOAD).map(|it| it.end).max()?;
        Some(Module {
            path: CString::default(),
            start,
            len: end.wrapping_sub(start),
        })
    }

    fn module(&self) -> Option<Module> {
        let mut module = self.span()?;
        self.path().clone_into(&mut module.path);
        Some(module)
    }

    fn path(&self) -> &CStr {
        match self.info.dlpi_name.is_null() {
            true => c"",
            // SAFETY: the linker's name of the module is a C string.
            false => unsafe { CStr::from_ptr(self.info.dlpi_name) },
        }
    }

    fn tables(&self) -> Option<Tables> {
        let dynamic = self.extents(libc::PT_DYNAMIC).next()?;
        let mut entry = dynamic.start as *const Dynamic;
        let mut tables = Tables {
            base: self.base(),
            ..Tables::default()
        };
        loop {
            // SAFETY: the dynamic section is an array that ends with a null tag.
            let Dynamic { tag, value } = unsafe { entry.read() };
            match tag {
                DT_NULL => break,
                DT_STRTAB => tables.strings = self.relocated(value),
                DT_SYMTAB => tables.symbols = self.relocated(value),
                DT_GNU_HASH => tables.gnu_hash = self.relocated(value),
                DT_VERSYM => tables.versions = self.relocated(value),
                DT_JMPREL => tables.calls.start = self.relocated(value),
                DT_PLTRELSZ => tables.calls.bytes = value,
                DT_RELA => tables.data.start = self.relocated(value),
                DT_RELASZ => tables.data.bytes = value,
                _ => {}
            }
            // SAFETY: the array continues until the null tag.
            entry = unsafe { entry.add(1) };
        }
        (tables.strings != 0 && tables.symbols != 0).then_some(tables)
    }

    /// The linker makes the section's addresses absolute, except where the section is read-only.
    fn relocated(&self, value: usize) -> usize {
        if value < self.base() {
            self.base().wrapping_add(value)
        } else {
            value
        }
    }
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

impl Relocation {
    fn kind(&self) -> u64 {
        self.info & 0xffff_ffff
    }

    fn symbol(&self) -> usize {
        (self.info >> 32) as usize
    }
}

const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
/// A version of a symbol that only modules get that were linked with it.
const HIDDEN: u16 = 0x8000;
const R_X86_64_GLOB_DAT: u64 = 6;
const R_X86_64_JUMP_SLOT: u64 = 7;
/// Relocations of thread-local variables: module number, offset within it, offset from the thread pointer, descriptors.
const THREAD_STORAGE: [u64; 6] = [16, 17, 18, 22, 23, 36];
/// A library that replaces the C library's allocation defines all of these.
const ALLOCATORS: [&CStr; 4] = [c"malloc", c"calloc", c"realloc", c"free"];
const SHN_UNDEF: u16 = 0;
const STT_FUNC: u8 = 2;

#[derive(Clone, Copy, Default)]
struct Extent {
    start: usize,
    bytes: usize,
}

/// Where a module's tables lie.
#[derive(Default)]
pub struct Tables {
    base: usize,
    strings: usize,
    symbols: usize,
    gnu_hash: usize,
    /// 0 where symbols have no versions.
    versions: usize,
    calls: Extent,
    data: Extent,
}

impl Tables {
    fn lie_in(&self, extent: &Range<usize>) -> bool {
        let starts = [
            self.strings,
            self.symbols,
            self.gnu_hash,
            self.calls.start,
            self.data.start,
        ];
        starts.iter().any(|start| extent.contains(start))
    }

    fn symbol(&self, index: usize) -> libc::Elf64_Sym {
        // SAFETY: callers take the index from the module's own tables.
        unsafe { (self.symbols as *const libc::Elf64_Sym).add(index).read() }
    }

    fn name(&self, symbol: &libc::Elf64_Sym) -> &CStr {
        // SAFETY: `st_name` is an offset into the string table, whose entries are C strings.
        unsafe { CStr::from_ptr((self.strings + symbol.st_name as usize) as *const c_char) }
    }

    fn is_hidden(&self, index: usize) -> bool {
        // SAFETY: there is a version for each symbol; callers take the index from the module's own tables.
        self.versions != 0
            && unsafe { (self.versions as *const u16).add(index).read() } & HIDDEN != 0
    }

    fn defines(&self, name: &CStr) -> bool {
        self.definition(name).is_some()
    }

    /// The address of a function that is not chosen at its first call.
    fn function(&self, name: &CStr) -> Option<usize> {
        let symbol = self.definition(name)?;
        (symbol.st_info & 0xf == STT_FUNC).then(|| self.base.wrapping_add(symbol.st_value as usize))
    }

    /// Looks `name` up in the GNU hash table. A module with only the old kind (none for many years) defines nothing.
    fn definition(&self, name: &CStr) -> Option<libc::Elf64_Sym> {
        if self.gnu_hash == 0 {
            return None;
        }
        let word = |index: usize| {
            // SAFETY: callers stay within the table, whose header states its sizes.
            unsafe { (self.gnu_hash as *const u32).add(index).read() }
        };
        let (buckets, first_hashed, bloom_words) =
            (word(0) as usize, word(1) as usize, word(2) as usize);
        let hash = gnu_hash(name);
        let bucket = (hash as usize).checked_rem(buckets)?;
        // The Bloom filter has 64-bit words.
        let first_bucket = 4 + 2 * bloom_words;
        let mut index = word(first_bucket + bucket) as usize;
        if index < first_hashed {
            return None;
        }
        loop {
            let chained = word(first_bucket + buckets + index - first_hashed);
            if chained | 1 == hash | 1 {
                let symbol = self.symbol(index);
                let is_defined = symbol.st_shndx != SHN_UNDEF && !self.is_hidden(index);
                if is_defined && self.name(&symbol) == name {
                    return Some(symbol);
                }
            }
            if chained & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }

    fn each_binding(&self, mut look: impl FnMut(&CStr, usize)) {
        self.each_relocation(|relocation| {
            if matches!(relocation.kind(), R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT) {
                let slot = self.base.wrapping_add(relocation.offset) as *const usize;
                // SAFETY: the linker writes the target's address there; the slot stays mapped and readable while the
                // module is loaded.
                let target = unsafe { slot.read_volatile() };
                look(self.name(&self.symbol(relocation.symbol())), target);
            }
        });
    }

    fn binding(&self, name: &CStr) -> Option<usize> {
        let mut bound = None;
        self.each_binding(|called, target| {
            if called == name {
                bound = Some(target);
            }
        });
        bound
    }

    /// Shows `look` the name of every symbol that the module imports, as often as it refers to it.
    pub fn each_import(&self, mut look: impl FnMut(&CStr)) {
        self.each_relocation(|relocation| {
            if let Some(name) = self.import(relocation) {
                look(name);
            }
        });
    }

    fn import(&self, relocation: &Relocation) -> Option<&CStr> {
        let symbol = self.symbol(relocation.symbol());
        let is_import = relocation.symbol() != 0 && symbol.st_shndx == SHN_UNDEF;
        is_import.then(|| self.name(&symbol))
    }

    fn each_relocation(&self, mut look: impl FnMut(&Relocation)) {
        for extent in [self.calls, self.data] {
            if extent.start == 0 {
                continue;
            }
            for index in 0..extent.bytes / size_of::<Relocation>() {
                // SAFETY: the table has this many entries.
                look(unsafe { &*(extent.start as *const Relocation).add(index) });
            }
        }
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn of_several_versions_of_a_function_the_one_that_the_linker_takes_is_found() {
        for name in [c"sched_getaffinity", c"pthread_setaffinity_np", c"nice"] {
            // SAFETY: the handle is a special one, the name a C string.
            let expected = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            assert_eq!(next_definition(name), Some(expected as usize), "{name:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn an_address_leads_to_its_module() {
        let here = module_containing(gnu_hash as *const () as usize).unwrap();
        assert!(here.path.is_empty(), "the test program itself has no path");
        let libc = module_containing(libc::dl_iterate_phdr as *const () as usize).unwrap();
        assert!(libc.path.to_str().unwrap().contains("libc.so"), "{libc:?}");
        assert!(!libc.contains(here.start));
        assert_eq!(module_containing(8), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn the_modules_that_define_a_function_are_counted() {
        let unknown = c"no_such_function_anywhere";
        assert_eq!(count_defining(&[c"dl_iterate_phdr"]), 1);
        assert_eq!(count_defining(&[unknown, c"malloc_usable_size"]), 1);
        assert_eq!(count_defining(&[unknown]), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn the_variables_of_a_module_are_seen_and_what_is_protected_is_not() {
        static VARIABLE: AtomicU64 = AtomicU64::new(0x0123_4567_89ab_cdef);
        static CONSTANT: fn(&CStr) -> u32 = gnu_hash;
        let (mut variable, mut constant) = (0, 0);
        each_variable_word(gnu_hash as *const () as usize, |word| {
            variable += u32::from(word.cast_const() == VARIABLE.as_ptr().cast_const());
            constant += u32::from(word.cast_const().cast() == &raw const CONSTANT);
        });
        assert_eq!((variable, constant), (1, 0));
        each_variable_word(8, |_| panic!("no module lies there"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn the_bindings_of_a_module_lead_to_other_modules() {
        let here = gnu_hash as *const () as usize;
        let bound = bound_addresses(here, |name| name == c"dl_iterate_phdr");
        let libc = module_containing(*bound.first().unwrap()).unwrap();
        assert!(libc.path.to_str().unwrap().contains("libc.so"), "{libc:?}");
    }
}
