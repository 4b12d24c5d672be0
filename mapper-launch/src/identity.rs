//! The identity of a program, so that results about it are not applied to another: the build ids of its ELF file and of
//! the libraries that glibc's loader lists; where there is none, a checksum of the contents.
//!
//! *Interpreters.* A program that does not itself load an OpenMP runtime (Python, a shell script) only runs the program
//! proper. Its arguments then are part of the identity, and so are the contents of small files that they name.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mapper_abi::stand_in::Running;
use object::{Object, ReadCache};
use serde::{Deserialize, Serialize};

use crate::loader::Loader;
use crate::{descriptors, linkage};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct FileId(String);

impl FileId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn named(id: &str) -> Self {
        Self(id.to_owned())
    }

    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let read = || format!("read {}", path.display());
        // Only where the id is, as each launch of a checked program asks for several.
        let parts = ReadCache::new(fs::File::open(path).with_context(read)?);
        let build_id = object::File::parse(&parts)
            .ok()
            .and_then(|file| file.build_id().ok()?.map(<[u8]>::to_owned));
        if let Some(id) = build_id {
            return Ok(Self(id.iter().map(|byte| format!("{byte:02x}")).collect()));
        }
        let bytes = fs::read(path).with_context(read)?;
        Ok(Self(format!(
            "sum-{:016x}-{}",
            checksum(&bytes),
            bytes.len()
        )))
    }
}

/// FNV-1a. Only distinguishes versions of one's own files.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Larger files among the arguments of an interpreter are data rather than programs.
const LARGEST_SCRIPT: u64 = 1 << 20;

/// How long the loader may take to list libraries; a file system may not answer.
const LONGEST_LIST: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) program: FileId,
    libraries: Vec<FileId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scripts: Vec<FileId>,
}

impl Identity {
    pub(crate) fn of(path: &Path, arguments: &[OsString]) -> anyhow::Result<Self> {
        let program = FileId::of(path)?;
        let listed = libraries(path);
        let has_runtime = listed.iter().any(|library| is_openmp(library));
        let files = listed.iter().map(|library| match library.is_absolute() {
            true => FileId::of(library),
            false => Ok(FileId(library.display().to_string())),
        });
        let mut libraries = files.collect::<anyhow::Result<Vec<_>>>()?;
        libraries.sort();
        let words = arguments.iter().map(|word| word.to_string_lossy());
        let (arguments, scripts) = match has_runtime {
            true => (None, Vec::new()),
            false => (
                Some(words.map(Cow::into_owned).collect()),
                scripts(arguments),
            ),
        };
        Ok(Self {
            program,
            libraries,
            arguments,
            scripts,
        })
    }
}

/// The files that an interpreter's arguments name, as far as they may be programs.
fn scripts(arguments: &[OsString]) -> Vec<FileId> {
    let is_script = |path: &&Path| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= LARGEST_SCRIPT)
    };
    let files = arguments.iter().map(Path::new).filter(is_script);
    files.filter_map(|path| FileId::of(path).ok()).collect()
}

fn is_openmp(library: &Path) -> bool {
    let name = library.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let mut runtimes = ["libgomp", "libomp", "libiomp5"].iter();
    runtimes.any(|runtime| name.starts_with(runtime.as_bytes()))
}

/// What the loader lists, or the names in the file where it cannot be asked: another loader would execute the program.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Some(interpreter) = linkage::interpreter(program) else {
        return Vec::new();
    };
    let listed = Loader::that_lists(&interpreter)
        .and_then(|loader| list(loader, program, LONGEST_LIST).ok());
    listed.unwrap_or_else(|| linkage::needed(program))
}

fn list(loader: &str, program: &Path, limit: Duration) -> anyhow::Result<Vec<PathBuf>> {
    let mut output = descriptors::memory_file()?;
    let mut command = Command::new(loader);
    command.arg("--list").arg(program).stdin(Stdio::null());
    // With these it loads or runs more, or prints other lines.
    for name in ["PRELOAD", "AUDIT", "BIND_NOW", "WARN", "VERBOSE", "DEBUG"] {
        command.env_remove(format!("LD_{name}"));
    }
    command.stdout(output.try_clone()?).stderr(Stdio::null());
    let (mut running, begun) = (Running::start(&mut command)?, Instant::now());
    while !running.has_ended()? {
        ensure!(begun.elapsed() < limit, "{loader} takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
    ensure!(running.finish()?.success(), "{loader} cannot list them");
    let mut listed = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut listed)?;
    // Lines of the form `libm.so.6 => /lib/libm.so.6 (0x…)` or `/lib64/ld-linux.so.2 (0x…)`.
    let path_in = |line: &str| {
        let named = line.rsplit_once(" => ").map_or(line, |(_, path)| path);
        let (path, _) = named.trim().rsplit_once(" (")?;
        Some(PathBuf::from(path)).filter(|path| path.is_absolute())
    };
    let listed = String::from_utf8_lossy(&listed);
    Ok(listed.lines().filter_map(path_in).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(arguments: &[OsString]) -> Identity {
        Identity::of(Path::new("/bin/sh"), arguments).unwrap()
    }

    #[test]
    fn a_program_is_itself_and_no_other() {
        assert_eq!(shell(&[]), shell(&[]));
        assert_ne!(shell(&[]), Identity::of(Path::new("/bin/ls"), &[]).unwrap());
        assert!(!shell(&[]).libraries.is_empty());
    }

    #[test]
    fn a_loader_that_does_not_answer_is_ended() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let loader = folder.path().join("loader");
        fs::write(&loader, "#!/bin/sh\nsleep 60\n").unwrap();
        fs::set_permissions(&loader, fs::Permissions::from_mode(0o755)).unwrap();
        let limit = Duration::from_millis(50);
        let listed = list(loader.to_str().unwrap(), Path::new("/bin/sh"), limit);
        assert!(listed.unwrap_err().to_string().contains("takes too long"));
    }

    #[test]
    fn of_an_interpreter_the_arguments_and_the_contents_of_its_script_count() {
        assert_ne!(shell(&["a.sh".into()]), shell(&["b.sh".into()]));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("fit.py");
        let written = |text: &str| {
            fs::write(&script, text).unwrap();
            shell(&[script.clone().into()])
        };
        let before = written("fit()\n");
        assert_eq!(before, written("fit()\n"));
        assert_ne!(before, written("fit(2)\n"));
    }

    #[test]
    fn a_script_is_known_by_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("s");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let before = Identity::of(&script, &[]).unwrap();
        assert!(before.program.as_str().starts_with("sum-"));
        fs::write(&script, "#!/bin/sh\nexit\n").unwrap();
        assert_ne!(before, Identity::of(&script, &[]).unwrap());
    }
}
