//! The DLB library of the Barcelona Supercomputing Center, if it is installed.
//!
//! DLB's LeWI lends the CPUs of a process that waits to others of the same node. It learns of waiting
//! by OMPT, which libomp has and libgomp has not. So that the programs are the same to the instruction,
//! they stay compiled by gcc, and libomp, which has gcc's entry points too, is loaded in place of
//! libgomp. Programs with threads of their own would have to call DLB, which these do not. Source:
//! Garcia, Corbalan, Labarta, *LeWI: A Runtime Balancing Algorithm for Nested Parallelism*, ICPP 2009,
//! and the user guide of DLB 3.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::output;
use crate::data::Threads;

const LIBRARY: &str = "libdlb.so";

/// DLB's options: lend CPUs when idle, and watch the runtime by OMPT. The key keeps it apart from
/// other uses of DLB on the machine.
const ARGUMENTS: &str = "--lewi --ompt --shm-key=mapper-eval";

/// Asks pkg-config for the library, then the dynamic loader's cache.
pub(crate) fn library() -> Option<PathBuf> {
    let run = |words: &[&str]| output(Command::new(words[0]).args(&words[1..])).ok();
    let by_pkg_config = run(&["pkg-config", "--variable=libdir", "dlb"]);
    let by_pkg_config = by_pkg_config.map(|folder| Path::new(folder.trim()).join(LIBRARY));
    let by_loader = || {
        let cache = run(&["ldconfig", "-p"]).or_else(|| run(&["/sbin/ldconfig", "-p"]))?;
        in_cache(&cache)
    };
    let by_pkg_config = by_pkg_config.filter(|library| library.exists());
    by_pkg_config.or_else(by_loader)
}

/// The library, and the OpenMP runtime that speaks to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Loaded {
    library: PathBuf,
    libomp: PathBuf,
}

impl Loaded {
    /// The library with the runtime.
    pub(crate) fn find() -> anyhow::Result<Self> {
        Self::with_libomp(library().context("the DLB library was not found")?)
    }

    /// Asks clang where its OpenMP runtime is.
    fn with_libomp(library: PathBuf) -> anyhow::Result<Self> {
        // clang repeats the bare name of what it does not find; Debian's packages have the second.
        for name in ["libomp.so", "libomp.so.5"] {
            let mut clang = Command::new("clang");
            let path = output(clang.arg(format!("-print-file-name={name}")))
                .context("ask clang for its OpenMP runtime")?;
            let libomp = PathBuf::from(path.trim());
            if libomp.is_absolute() && libomp.exists() {
                return Ok(Self { library, libomp });
            }
        }
        bail!(
            "clang has no OpenMP runtime (libomp.so), which DLB needs: install it, or leave --setting dlb out"
        )
    }

    /// Has a program run under it.
    pub(crate) fn preload(&self, command: &mut Command, threads: Threads) {
        let mut libraries = self.library.clone().into_os_string();
        if threads == Threads::OpenMp {
            libraries.push(":");
            libraries.push(&self.libomp);
        }
        command.env("LD_PRELOAD", libraries);
        command.env("DLB_ARGS", ARGUMENTS);
    }
}

/// The library in what `ldconfig -p` prints: `\tlibdlb.so (libc6,x86-64) => /opt/lib/libdlb.so`.
fn in_cache(cache: &str) -> Option<PathBuf> {
    let lines = cache.lines();
    let mut entries = lines.filter_map(|line| line.trim().split_once(" => "));
    let found = entries.find(|(entry, _)| entry.split(' ').next() == Some(LIBRARY));
    found.map(|(_, path)| PathBuf::from(path))
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
        let relative = "\tlibdlb_mpi.so (libc6) => /lib/libdlb_mpi.so\n";
        assert_eq!(in_cache(relative), None);
    }

    #[test]
    fn openmp_programs_get_the_runtime_that_speaks_to_it_and_others_do_not() {
        let [library, libomp] = ["/opt/libdlb.so", "/opt/libomp.so"].map(PathBuf::from);
        let loaded = Loaded { library, libomp };
        let preloaded = |threads| {
            let mut command = Command::new("md");
            loaded.preload(&mut command, threads);
            let mut set = command.get_envs();
            let (_, value) = set.find(|(name, _)| *name == "LD_PRELOAD").unwrap();
            value.unwrap().to_owned()
        };
        let both = "/opt/libdlb.so:/opt/libomp.so";
        assert_eq!(preloaded(Threads::OpenMp), both);
        assert_eq!(preloaded(Threads::Own), "/opt/libdlb.so");
    }

    #[test]
    fn a_program_of_gcc_runs_the_same_on_the_runtime_that_speaks_to_it() {
        use crate::build::workloads::{compile, source_folder};
        let folder = tempfile::tempdir().unwrap();
        let (library, program) = (folder.path().join(LIBRARY), folder.path().join("kmeans"));
        let empty = folder.path().join("empty.c");
        std::fs::write(&empty, "int stands_for_dlb;\n").unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC"]).arg(empty);
        compile(&mut gcc, &library).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.arg("-fopenmp").arg(source_folder().join("kmeans.c"));
        compile(gcc.arg("-lm"), &program).unwrap();
        let loaded = Loaded::with_libomp(library).unwrap();
        let mut command = Command::new(&program);
        command.args(["--size", "4", "--steps", "20"]);
        // Only libomp heeds this, and says so.
        command.env("KMP_VERSION", "1");
        loaded.preload(&mut command, Threads::OpenMp);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("LLVM"), "{said}");
    }
}
