//! The modules that are loaded, in the linker's order.
//!
//! *Problem.* `dl_iterate_phdr` takes a lock that the C library does not free in the child of a fork: where another
//! thread of the parent held it, the child would wait for ever.
//!
//! *Approach.* Until the library's constructor has run ([`note_process`]), and in any other process than that one's, the
//! linker's list is followed as debuggers do, without a lock. A module that a thread of the parent was unloading is on
//! that list, perhaps unmapped: the kernel tells, and the ELF header that it is the module. Which process it is says a
//! page that the kernel wipes in children, however they are made: a system call could be one that a filter forbids.
//!
//! *Bounds.* In a child that has made threads, a module may be unloaded by one while another follows the list.

use core::ffi::{c_char, c_int, c_void};
use core::mem::size_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Shown each module; says whether that was enough.
type Look<'a> = &'a mut dyn FnMut(&libc::dl_phdr_info) -> bool;

/// What is known of the process, in a page of its own once the constructor has run.
static PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNKNOWN).cast_mut());
static UNKNOWN: AtomicU32 = AtomicU32::new(STRANGER);
/// Nothing: a child made by a bare system call, or the constructor has not run.
const STRANGER: u32 = 0;
/// It loaded the shim.
const LOADER: u32 = 1;
/// It is the child of a `fork`, whose handler has run.
const CHILD: u32 = 2;

fn process() -> &'static AtomicU32 {
    // SAFETY: it points to a static or to a page that stays mapped for ever.
    unsafe { &*PROCESS.load(Ordering::Relaxed) }
}

/// This process loads the shim.
pub fn note_process() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new page, wherever there is room. A kernel that cannot wipe it leaves it as it is.
    let page = unsafe {
        let page = libc::mmap(null_mut(), PAGE, access, kind, -1, 0);
        libc::madvise(page, PAGE, libc::MADV_WIPEONFORK);
        page
    };
    if page != libc::MAP_FAILED {
        PROCESS.store(page.cast(), Ordering::Relaxed);
        process().store(LOADER, Ordering::Relaxed);
    }
}

/// This process is the child of a fork.
pub(crate) fn note_fork() {
    process().store(CHILD, Ordering::Relaxed);
}

/// Whether the child of a fork would have noticed.
pub(crate) fn is_noted() -> bool {
    process().load(Ordering::Relaxed) != STRANGER
}

/// Shows `look` the modules until it has seen enough.
pub(crate) fn each(look: Look<'_>) {
    let is_loader = process().load(Ordering::Relaxed) == LOADER;
    match (!is_loader).then(first_entry).flatten() {
        Some(first) => follow(first, look),
        None => ask_linker(look),
    }
}

fn ask_linker(mut look: Look<'_>) {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        look: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid description and the pointer given to it, which nobody else uses.
        let (info, look) = unsafe { (&*info, &mut *look.cast::<Look<'_>>()) };
        c_int::from(look(info))
    }
    // SAFETY: the callback matches the data's type; the data outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut look).cast()) };
}

/// The linker's entry for a module, as `link.h` has it.
#[repr(C)]
struct Entry {
    base: usize,
    path: *const c_char,
    dynamic: *const [usize; 2],
    next: *const Entry,
    previous: *const Entry,
}

/// What the linker tells debuggers.
#[repr(C)]
struct Debug {
    version: c_int,
    first: *const Entry,
}

const DT_NULL: usize = 0;
const DT_DEBUG: usize = 21;

/// The program's headers, from the auxiliary vector.
fn headers_of_program() -> (*const libc::Elf64_Phdr, u16) {
    // SAFETY: takes a number.
    let value = |what| unsafe { libc::getauxval(what) };
    (
        value(libc::AT_PHDR) as *const _,
        value(libc::AT_PHNUM) as u16,
    )
}

/// The program's, where its dynamic section leads to what the linker tells debuggers.
fn first_entry() -> Option<&'static Entry> {
    let (headers, count) = headers_of_program();
    if headers.is_null() {
        return None;
    }
    // SAFETY: the kernel named the place and the number of the program's headers.
    let headers = unsafe { core::slice::from_raw_parts(headers, count.into()) };
    let address = |kind| headers.iter().find(|header| header.p_type == kind);
    let base = (headers.as_ptr() as usize).wrapping_sub(address(libc::PT_PHDR)?.p_vaddr as usize);
    let dynamic = base.wrapping_add(address(libc::PT_DYNAMIC)?.p_vaddr as usize);
    let mut entry = dynamic as *const [usize; 2];
    loop {
        // SAFETY: the dynamic section is an array that ends with a null tag.
        match unsafe { entry.read() } {
            [DT_NULL, _] => return None,
            // SAFETY: the linker writes the address there before it runs any module's code.
            [DT_DEBUG, debug] => unsafe {
                return (debug as *const Debug).as_ref()?.first.as_ref();
            },
            // SAFETY: the array continues until the null tag.
            _ => entry = unsafe { entry.add(1) },
        }
    }
}

fn follow(first: &Entry, look: Look<'_>) {
    let mut changes = 0_u64;
    let mut next = Some(first);
    while let Some(entry) = next {
        let seen = [entry.base, entry.dynamic as usize];
        for part in seen {
            changes = (changes ^ part as u64).wrapping_mul(0x0100_0000_01b3);
        }
        // SAFETY: the linker's entries stay where they are while they are on the list.
        next = unsafe { entry.next.as_ref() };
    }
    next = Some(first);
    while let Some(entry) = next {
        let headers = match core::ptr::eq(entry, first) {
            true => Some(headers_of_program()),
            false => entry.headers(),
        };
        if let Some((headers, count)) = headers {
            // SAFETY: a structure of numbers and pointers, which may be null.
            let mut info: libc::dl_phdr_info = unsafe { core::mem::zeroed() };
            info.dlpi_addr = entry.base as u64;
            info.dlpi_name = entry.path;
            info.dlpi_phdr = headers;
            info.dlpi_phnum = count;
            // Not how many, but another number whenever there are others.
            info.dlpi_adds = changes;
            if look(&info) {
                return;
            }
        }
        // SAFETY: as above.
        next = unsafe { entry.next.as_ref() };
    }
}

impl Entry {
    /// Its program headers, if it is there. The linker unmaps all of a module at once.
    fn headers(&self) -> Option<(*const libc::Elf64_Phdr, u16)> {
        if !is_mapped(self.base) || !is_mapped(self.dynamic as usize) {
            return None;
        }
        // SAFETY: its page is mapped, of a module or of something that came to lie there.
        let header = unsafe { &*(self.base as *const libc::Elf64_Ehdr) };
        let bytes = size_of::<libc::Elf64_Phdr>() * usize::from(header.e_phnum);
        let fits = (header.e_phoff as usize).checked_add(bytes)? <= PAGE;
        if header.e_ident.get(..4)? != b"\x7fELF" || !fits {
            return None;
        }
        let headers = (self.base + header.e_phoff as usize) as *const libc::Elf64_Phdr;
        // SAFETY: they lie in the same page.
        let all = unsafe { core::slice::from_raw_parts(headers, header.e_phnum.into()) };
        let is_dynamic = |header: &libc::Elf64_Phdr| {
            header.p_type == libc::PT_DYNAMIC
                && self.base.wrapping_add(header.p_vaddr as usize) == self.dynamic as usize
        };
        all.iter()
            .any(is_dynamic)
            .then_some((headers, header.e_phnum))
    }
}

const PAGE: usize = 4096;

/// Where a filter refuses the question everything counts as mapped. Without `errno`, which may be what is looked for.
fn is_mapped(address: usize) -> bool {
    let is_refused = |address: usize| {
        let page = address & !(PAGE - 1);
        let mut resident = 0_u8;
        // SAFETY: asks about one page, whatever lies there; the answer is one byte.
        unsafe { libc::mincore(page as *mut c_void, 1, &raw mut resident) != 0 }
    };
    address >= PAGE && (!is_refused(address) || is_refused((&raw const UNKNOWN) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null;

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn the_list_for_debuggers_has_the_modules_that_the_linker_names() {
        let (mut asked, mut followed) = (Vec::new(), Vec::new());
        let note = |modules: &mut Vec<_>, info: &libc::dl_phdr_info| {
            modules.push((
                info.dlpi_addr,
                info.dlpi_name,
                info.dlpi_phdr,
                info.dlpi_phnum,
            ));
            false
        };
        ask_linker(&mut |info| note(&mut asked, info));
        follow(first_entry().unwrap(), &mut |info| {
            note(&mut followed, info)
        });
        assert!(asked.len() > 2);
        assert_eq!(asked, followed);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the loader")]
    fn what_is_not_mapped_or_no_module_is_left_out() {
        let entry = |base, dynamic: usize| Entry {
            base,
            path: null(),
            dynamic: dynamic as *const [usize; 2],
            next: null(),
            previous: null(),
        };
        assert!(!is_mapped(PAGE) && is_mapped((&raw const UNKNOWN) as usize));
        let zeros = vec![0_u8; 3 * PAGE];
        let page = zeros.as_ptr() as usize & !(PAGE - 1);
        assert!(entry(page + PAGE, page + PAGE).headers().is_none());
        assert!(entry(PAGE, PAGE).headers().is_none());
        let real = first_entry().unwrap().next;
        // SAFETY: the linker's next entry.
        let vdso_or_library = unsafe { &*real };
        assert!(vdso_or_library.headers().is_some());
        assert!(entry(vdso_or_library.base, page).headers().is_none());
    }
}
