//! Which dynamic loader the kernel starts for a program, and so by which path the shim can be preloaded.
//!
//! The shim is a library of 64-bit glibc: musl's loader ends a program with it, a 32-bit one prints an error. In an
//! installation it has a second path with `$LIB`, for which each loader of glibc puts its own folder of libraries
//! (ld.so(8)): the 64-bit one finds the shim there, the 32-bit one an empty library. musl takes `$LIB` as it is written
//! and ignores what is not there. So programs that the program starts are served too, whatever their loaders.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::linkage;

/// The loaders of the system's glibc, for 64 and 32 bits.
const LOADERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2"];

/// As many scripts as the kernel follows from one to the next.
const MOST_SCRIPTS: usize = 5;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Loader {
    /// None that is known: the program is static, or the file says nothing of it.
    None,
    /// That of the system's 64-bit glibc.
    Glibc,
    /// That of its 32-bit glibc.
    Glibc32,
    /// That of another glibc for 64 bits.
    OtherGlibc,
    Musl,
    Unknown,
}

impl Loader {
    /// That of a program, or of the interpreter of a script.
    pub(crate) fn of(program: &Path) -> Self {
        let mut file = program.to_owned();
        for _ in 0..MOST_SCRIPTS {
            match interpreter_of_script(&file) {
                Some(interpreter) => file = interpreter,
                None => break,
            }
        }
        linkage::interpreter(&file).map_or(Self::None, |path| Self::named(&path))
    }

    fn named(path: &Path) -> Self {
        let canonical = path.canonicalize().ok();
        let is =
            |known: &str| canonical.is_some() && canonical == Path::new(known).canonicalize().ok();
        let name = path.file_name().unwrap_or_default().as_bytes();
        match LOADERS.map(is) {
            [true, _] => Self::Glibc,
            [_, true] => Self::Glibc32,
            _ if name == b"ld-linux-x86-64.so.2" => Self::OtherGlibc,
            _ if name.starts_with(b"ld-musl-") => Self::Musl,
            _ => Self::Unknown,
        }
    }

    /// Whether it can load a shim for the program itself.
    pub(crate) const fn loads_shims(&self) -> bool {
        matches!(self, Self::None | Self::Glibc | Self::OtherGlibc)
    }

    /// The path of the loader, if it is one of the system's glibc, which lists libraries and executes nothing.
    pub(crate) fn that_lists(interpreter: &Path) -> Option<&'static str> {
        match Self::named(interpreter) {
            Self::Glibc => Some(LOADERS[0]),
            Self::Glibc32 => Some(LOADERS[1]),
            _ => None,
        }
    }

    /// The path by which the shim is preloaded; `None` where that would do harm.
    pub(crate) fn preloads(&self, shim: &Path) -> Option<PathBuf> {
        let (folder, file) = (shim.parent()?, shim.file_name()?);
        let found =
            |loader: &str| std::fs::metadata(folder.join(folder_of(loader)?).join(file)).ok();
        let identity = |file: std::fs::Metadata| (file.dev(), file.ino());
        let has_paths = found(LOADERS[0]).map(identity) == shim.metadata().ok().map(identity);
        let by_loader = || has_paths.then(|| folder.join("$LIB").join(file));
        match self {
            Self::None | Self::Glibc => by_loader().or_else(|| Some(shim.to_owned())),
            Self::OtherGlibc => Some(shim.to_owned()),
            Self::Glibc32 => by_loader().filter(|_| found(LOADERS[1]).is_some()),
            Self::Musl => by_loader(),
            Self::Unknown => None,
        }
    }
}

/// What a loader of glibc puts for `$LIB`: its own folder, below `/` or `/usr`.
fn folder_of(loader: &str) -> Option<PathBuf> {
    let loader = Path::new(loader).canonicalize().ok()?;
    let folder = loader.parent()?;
    let below = folder
        .strip_prefix("/usr")
        .or_else(|_| folder.strip_prefix("/"));
    below.ok().map(Path::to_owned)
}

fn interpreter_of_script(file: &Path) -> Option<PathBuf> {
    // As much as the kernel reads.
    let mut start = Vec::new();
    let file = File::open(file).ok()?;
    file.take(256).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let mut words = line.split(|byte| b" \t".contains(byte));
    let path = words.find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}
