//! The DLB library of the Barcelona Supercomputing Center, if it is installed.
//!
//! DLB's LeWI lends the CPUs of a process that waits to others of the same node. It learns of waiting
//! by OMPT, which libomp has and libgomp has not, so OpenMP programs are compiled by clang for it.
//! Programs with threads of their own would have to call it, which these do not. Source: Garcia,
//! Corbalan, Labarta, *LeWI: A Runtime Balancing Algorithm for Nested Parallelism*, ICPP 2009, and
//! the user guide of DLB 3.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::settings::DlbIs;

/// The name of the library that is loaded into programs.
const LIBRARY: &str = "libdlb.so";

/// What DLB is told: lend CPUs when idle, and watch the runtime by OMPT. The key keeps it apart from
/// other uses of DLB on the machine.
const ARGUMENTS: &str = "--lewi --ompt --shm-key=mapper-eval";

/// The library as installed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Dlb {
    library: PathBuf,
}

impl Dlb {
    /// Asks pkg-config, then the dynamic loader's cache.
    pub(super) fn find() -> Option<Self> {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then_some(text)
        };
        let by_pkg_config = said("pkg-config", &["--variable=libdir", "dlb"])
            .map(|folder| Path::new(folder.trim()).join(LIBRARY));
        let by_loader = || {
            let cache = said("ldconfig", &["-p"]).or_else(|| said("/sbin/ldconfig", &["-p"]))?;
            in_cache(&cache)
        };
        let library = by_pkg_config
            .filter(|library| library.exists())
            .or_else(by_loader)?;
        Some(Self { library })
    }

    /// Has a program run under it.
    pub(super) fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        command.env("DLB_ARGS", ARGUMENTS);
    }
}

/// Whether there is one.
pub(super) fn is(found: Option<&Dlb>) -> DlbIs {
    found.map_or(DlbIs::Missing, |_| DlbIs::Installed)
}

/// The library in what `ldconfig -p` prints: `\tlibdlb.so (libc6,x86-64) => /opt/lib/libdlb.so`.
fn in_cache(cache: &str) -> Option<PathBuf> {
    cache
        .lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .find(|(entry, _)| entry.split(' ').next() == Some(LIBRARY))
        .map(|(_, path)| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_the_cache_and_its_relatives_are_not_taken_for_it() {
        let cache = "2 libs found in cache\n\
                     \tlibdlb_mpi.so (libc6,x86-64) => /opt/dlb/lib/libdlb_mpi.so\n\
                     \tlibdlb.so (libc6,x86-64) => /opt/dlb/lib/libdlb.so\n";
        assert_eq!(in_cache(cache), Some("/opt/dlb/lib/libdlb.so".into()));
        assert_eq!(
            in_cache("\tlibdlb_mpi.so (libc6) => /lib/libdlb_mpi.so\n"),
            None
        );
    }

    #[test]
    fn a_program_is_told_of_it_by_its_environment() {
        let mut command = Command::new("md");
        let dlb = Dlb {
            library: "/opt/libdlb.so".into(),
        };
        dlb.preload(&mut command);
        let set: Vec<_> = command
            .get_envs()
            .filter_map(|(name, _)| name.to_str())
            .collect();
        assert_eq!(set, ["DLB_ARGS", "LD_PRELOAD"]);
    }
}
