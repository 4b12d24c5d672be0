//! What is known about each parallel region of the program: an identity for the daemon that is the same in every run,
//! wherever modules are loaded, and what was learnt of its team sizes ([`crate::degree`]).
//!
//! *Approach.* A table of a fixed size, hashed by the address of the outlined function, that only ever grows. The
//! identity is a hash of the module's file name and of the function's place in the module.
//!
//! *Invariants.* Finding a known region takes no lock and no call. Regions that find no room have their bare address
//! for identity and no history. A function loaded later at the same address is taken for the old one.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::degree::Degree;
use mapper_shim_core::elf;
use mapper_shim_core::shield::shielded;

/// Most regions that are remembered; a power of two.
const ROOM: usize = 1024;
const PROBES: usize = 8;

#[derive(Debug)]
pub(crate) struct Entry {
    function: AtomicUsize,
    /// See [`identity`](Self::identity); 0 while it is being found out.
    identity: AtomicU64,
    pub(crate) degree: Degree,
}

static TABLE: [Entry; ROOM] = [const {
    Entry {
        function: AtomicUsize::new(0),
        identity: AtomicU64::new(0),
        degree: Degree::new(),
    }
}; ROOM];

impl Entry {
    pub(crate) fn is_identified(&self) -> bool {
        self.identity.load(Ordering::Relaxed) != 0
    }

    /// The same in every run of the program, never 0.
    #[inline(always)]
    pub(crate) fn identity(&self) -> u64 {
        match self.identity.load(Ordering::Relaxed) {
            0 => self.function.load(Ordering::Relaxed) as u64,
            identity => identity,
        }
    }
}

#[inline(always)]
pub(crate) fn find(function: usize) -> Option<&'static Entry> {
    let entry = TABLE.get(place(function))?;
    if entry.function.load(Ordering::Relaxed) == function {
        return Some(entry);
    }
    search(function)
}

#[inline(always)]
pub(crate) fn identity(function: usize) -> u64 {
    find(function).map_or(function as u64, Entry::identity)
}

pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    TABLE
        .iter()
        .filter(|entry| entry.function.load(Ordering::Relaxed) != 0)
}

/// Where to look first: Fibonacci hashing.
#[inline(always)]
const fn place(function: usize) -> usize {
    (function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (64 - ROOM.ilog2())
}

#[cold]
#[inline(never)]
fn search(function: usize) -> Option<&'static Entry> {
    (0..PROBES).find_map(|probe| {
        let entry = TABLE.get((place(function) + probe) % ROOM)?;
        let found =
            entry
                .function
                .compare_exchange(0, function, Ordering::Relaxed, Ordering::Relaxed);
        match found {
            Ok(_) => {
                let identity = shielded(|| stable_identity(function));
                entry
                    .identity
                    .store(identity.unwrap_or(function as u64), Ordering::Relaxed);
                Some(entry)
            }
            Err(other) => (other == function).then_some(entry),
        }
    })
}

fn stable_identity(function: usize) -> Option<u64> {
    let module = elf::module_containing(function)?;
    let path = module.path.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    Some(identity_of(name, function.wrapping_sub(module.start)))
}

/// FNV-1a over the module's name and the function's offset, never 0.
fn identity_of(module: &[u8], offset: usize) -> u64 {
    let offset = offset.to_le_bytes();
    let hash = module
        .iter()
        .chain(&offset)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_found_again_and_is_not_another() {
        let functions = [0x1000, 0x1040, 0x7fff_1234_5678, 0x1000 + ROOM * 64];
        let entries = functions.map(|function| find(function).unwrap());
        for (function, entry) in functions.into_iter().zip(entries) {
            assert!(core::ptr::eq(find(function).unwrap(), entry));
            assert_ne!(entry.identity(), 0);
        }
        let mut distinct = entries.map(|entry| core::ptr::from_ref(entry) as usize);
        distinct.sort_unstable();
        assert!(distinct.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn an_identity_depends_on_the_module_and_the_place_in_it() {
        let own = identity_of(b"app", 0x1234);
        assert_eq!(own, identity_of(b"app", 0x1234));
        assert_ne!(own, identity_of(b"app", 0x1238));
        assert_ne!(own, identity_of(b"libapp.so", 0x1234));
    }

    #[test]
    fn a_function_of_this_program_has_the_identity_of_its_place() {
        let function = identity_of as *const () as usize;
        let module = elf::module_containing(function).unwrap();
        assert_ne!(identity(function), function as u64);
        let offset = function - module.start;
        assert_eq!(
            identity(function),
            stable_identity(module.start + offset).unwrap()
        );
    }
}
