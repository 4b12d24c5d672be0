//! What a user without root gets: programs, libraries and documents that run below any prefix.
//!
//! Libraries that a system may lack lie beside the shim, and programs find them by their RUNPATH. The oldest glibc that
//! all of it runs with is read from the symbols of every file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use fs_err as fs;

use super::contents::{
    LICENCES, PROGRAMS, SBOM, Use, install_crates, install_documents, put, strip, write,
};
use super::old_glibc::{HWLOC_LICENCE, HWLOC_SOURCE};
use crate::environment;
use crate::task_install::SONAME;
use crate::workspace::{self, output};

/// The folder of libraries, as the launcher and the Python package search it.
pub(super) const LIBRARIES: &str = "lib/mapper";

/// What every system of the manylinux policy has: glibc, by the name of each part, and gcc's support library.
const OF_THE_SYSTEM: [&str; 9] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "linux-vdso.so.1",
];

/// The folders of a package, before it is packed.
pub(super) struct Folders {
    pub(super) programs: PathBuf,
    /// What becomes `PREFIX`.
    pub(super) prefix: PathBuf,
    pub(super) licences: PathBuf,
    /// Of the list of crates.
    pub(super) sbom: PathBuf,
}

/// Puts everything that was built in the folder `built` in its place, ready to run; gives the oldest glibc that will do.
pub(super) fn lay_out(built: &Path, use_of: Use, folders: &Folders) -> anyhow::Result<Glibc> {
    let root = workspace::root();
    let tools = environment::with("requirements-wheel.txt")?;
    let libraries = folders.prefix.join(LIBRARIES);
    let mut files = Vec::new();
    for program in PROGRAMS {
        let to = folders.programs.join(program);
        put(&built.join(program), &to, 0o755)?;
        files.push(to);
    }
    for (from, name) in [
        ("libmapper_omp.so", "libmapper_omp.so"),
        ("libmapper.so", SONAME),
    ] {
        let to = libraries.join(name);
        put(&built.join(from), &to, 0o644)?;
        files.push(to);
    }
    install_documents(built, &folders.prefix.join("share"))?;

    let licences = &folders.licences;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        put(&root.join(name), &licences.join(name), 0o644)?;
    }
    install_crates(LICENCES, use_of, licences)?;
    install_crates(SBOM, use_of, &folders.sbom)?;
    let mut bundled = String::new();
    for library in needed(&files, built)? {
        let origin = match library.path.starts_with(built) {
            true => Origin::built(built),
            false => Origin::debian(&library.path)?,
        };
        put(&library.path, &libraries.join(&library.name), 0o644)?;
        let licence = format!("{}-copyright.txt", origin.package);
        put(&origin.licence, &licences.join(licence), 0o644)?;
        bundled += &format!(
            "{}: {} Debian's package {}; source: {}\n",
            library.name, origin.made, origin.package, origin.source
        );
        files.push(libraries.join(library.name));
    }
    write(&licences.join("bundled-libraries.txt"), &bundled)?;

    let mut oldest = Glibc { minor: 0 };
    for path in &files {
        strip(path)?;
        let rpath = match path.starts_with(&folders.programs) {
            true => format!("$ORIGIN/../{LIBRARIES}"),
            false => "$ORIGIN".to_owned(),
        };
        output(
            Command::new(tools.join("bin/patchelf"))
                .args(["--set-rpath", &rpath])
                .arg(path),
        )?;
        oldest = oldest.max(Glibc::needed_by(path)?);
    }
    Ok(oldest)
}

/// A library as the loader finds it here.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Library {
    name: String,
    path: PathBuf,
}

/// The libraries that these files need, directly or not, and a system may lack; those in the folder `built` come first.
fn needed(files: &[PathBuf], built: &Path) -> anyhow::Result<BTreeSet<Library>> {
    let mut found = BTreeSet::new();
    for file in files {
        let mut ldd = Command::new("ldd");
        let listed = output(ldd.arg(file).env("LD_LIBRARY_PATH", built))?;
        for line in listed.lines() {
            found.extend(library(line).with_context(|| format!("ldd {}", file.display()))?);
        }
    }
    Ok(found)
}

/// A line of ldd's, unless it is of a library that every system has.
fn library(line: &str) -> anyhow::Result<Option<Library>> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let file_name = Path::new(name).file_name().unwrap_or_default();
    if OF_THE_SYSTEM.iter().any(|known| file_name == *known) || line.contains("statically linked") {
        return Ok(None);
    }
    match (words.next(), words.next()) {
        (Some("=>"), Some(path)) if path.starts_with('/') => Ok(Some(Library {
            name: name.to_owned(),
            path: path.into(),
        })),
        _ => bail!("{line:?} names no file; install the library"),
    }
}

/// Where a library is from.
struct Origin {
    /// How it was made from that.
    made: &'static str,
    /// The Debian package.
    package: String,
    licence: PathBuf,
    /// Where its source is.
    source: String,
}

impl Origin {
    /// Of the hwloc that was built with everything else.
    fn built(folder: &Path) -> Self {
        Self {
            made: "built from the source of",
            package: "hwloc".to_owned(),
            licence: folder.join(HWLOC_LICENCE),
            source: HWLOC_SOURCE.to_owned(),
        }
    }

    fn debian(library: &Path) -> anyhow::Result<Self> {
        let file = fs::canonicalize(library)?;
        let file_name = file.file_name().unwrap_or_default().to_string_lossy();
        let owner = output(Command::new("dpkg").args(["-S", &format!("*/{file_name}")]))
            .with_context(|| format!("{}: its licence is not known", library.display()))?;
        let package = owner
            .split([':', ','])
            .next()
            .unwrap_or_default()
            .to_owned();
        let format = "https://snapshot.debian.org/package/${source:Package}/${source:Version}/";
        let source = output(Command::new("dpkg-query").args(["-W", "-f", format, &package]))?;
        // One line for each architecture that is installed.
        let source = source
            .split_inclusive("/ ")
            .next()
            .unwrap_or_default()
            .to_owned();
        let licence = format!("/usr/share/doc/{package}/copyright").into();
        Ok(Self {
            made: "unchanged but for its RUNPATH, from",
            package,
            licence,
            source,
        })
    }
}

/// A version of glibc, 2.`minor`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Glibc {
    pub(super) minor: u32,
}

impl Glibc {
    fn needed_by(file: &Path) -> anyhow::Result<Self> {
        let symbols = output(Command::new("objdump").arg("-T").arg(file))?;
        Ok(Self::newest_in(&symbols))
    }

    /// The newest version that a listing of symbols names, such as `GLIBC_2.34` or `GLIBC_2.2.5`.
    fn newest_in(symbols: &str) -> Self {
        let versions = symbols.split("GLIBC_2.").skip(1);
        let minors = versions.filter_map(|rest| {
            let digits = rest.find(|next: char| !next.is_ascii_digit());
            rest[..digits.unwrap_or(rest.len())].parse().ok()
        });
        Self {
            minor: minors.max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_newest_glibc_that_any_symbol_needs() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) free\n0 DF *UND* 0 (GLIBC_2.34) dlsym\n\
                       0 DF *UND* 0 (GLIBC_2.9) pipe2\n0 DF *UND* 0 (GLIBC_PRIVATE) x\n";
        assert_eq!(Glibc::newest_in(symbols), Glibc { minor: 34 });
    }

    #[test]
    fn a_library_that_a_system_may_lack_is_packed_and_a_missing_one_is_named() {
        for of_the_system in [
            "linux-vdso.so.1 (0x1)",
            "libc.so.6 => /lib/libc.so.6 (0x1)",
            "/lib64/ld-linux-x86-64.so.2 (0x1)",
            "statically linked",
        ] {
            assert_eq!(library(of_the_system).unwrap(), None);
        }
        let found = library("\tlibhwloc.so.15 => /l/libhwloc.so.15 (0x1)")
            .unwrap()
            .unwrap();
        assert_eq!(
            (&*found.name, &*found.path),
            ("libhwloc.so.15", Path::new("/l/libhwloc.so.15"))
        );
        let error = library("\tlibhwloc.so.15 => not found").unwrap_err();
        assert!(error.to_string().contains("libhwloc.so.15"), "{error}");
    }
}
