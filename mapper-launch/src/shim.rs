//! Where the OpenMP shim is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "libmapper_omp.so";

/// Where to search, in order: beside the launcher, in the lib folder beside its own, and in the system's.
fn places(launcher: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(folder) = launcher.and_then(Path::parent) {
        places.push(folder.join(FILE));
        places.push(folder.join("../lib/mapper").join(FILE));
    }
    places.push(Path::new("/usr/lib/mapper").join(FILE));
    places
}

/// `flag` and `variable` are `--shim` and `MAPPER_SHIM`, `launcher` the path of this program.
pub(crate) fn find(
    flag: Option<&Path>,
    variable: Option<&OsStr>,
    launcher: Option<&Path>,
) -> Result<PathBuf, String> {
    let variable = variable.filter(|path| !path.is_empty()).map(Path::new);
    let wanted = flag.or(variable);
    let found = match wanted {
        Some(path) => path.exists().then(|| path.to_owned()),
        None => places(launcher).into_iter().find(|path| path.exists()),
    };
    let Some(found) = found else {
        return Err(match wanted {
            Some(path) => format!("shim {}: no such file", path.display()),
            None => format!("{FILE} is not installed; give it with --shim"),
        });
    };
    let refused = |path: &Path, what: &str| format!("shim {}: {what}", path.display());
    if let Some(what) = not_a_library(&found) {
        return Err(refused(&found, &format!("{what}; give {FILE} with --shim")));
    }
    let absolute =
        std::path::absolute(&found).map_err(|error| refused(&found, &error.to_string()))?;
    // The loader takes both for separators.
    let mut bytes = absolute.as_os_str().as_bytes().iter();
    if bytes.any(|byte| b" :".contains(byte)) {
        let what = "a path with a space or colon cannot be preloaded";
        return Err(refused(&absolute, what));
    }
    Ok(absolute)
}

/// What a file is instead of a shared object: the loader would only warn, and the program run without the shim.
fn not_a_library(path: &Path) -> Option<String> {
    /// ELF's mark, and where it says of what type the file is and how it writes numbers.
    const MARK: &[u8] = b"\x7fELF";
    const BYTE_ORDER: usize = 5;
    const TYPE: usize = 16;
    const SHARED_OBJECT: u16 = 3;
    let mut start = [0u8; TYPE + 2];
    let read = File::open(path).and_then(|mut file| match file.metadata()?.is_file() {
        true => file.read_exact(&mut start).map(Some),
        false => Ok(None),
    });
    match read {
        Ok(Some(())) => {}
        Ok(None) => return Some("not a regular file".to_owned()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        Err(error) => return Some(error.to_string()),
    }
    let kind = [start[TYPE], start[TYPE + 1]];
    let kind = match start[BYTE_ORDER] {
        2 => u16::from_be_bytes(kind),
        _ => u16::from_le_bytes(kind),
    };
    let fine = start.starts_with(MARK) && kind == SHARED_OBJECT;
    (!fine).then(|| "not a shared object".to_owned())
}

/// Whether this is a shim of mapper's, of this installation or another's: two at a time would count everything twice.
fn is_shim(path: &[u8], shim: &Path) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    path.file_name() == Some(OsStr::new(FILE))
        || path == shim
        || identity(path).is_some_and(|file| identity(shim) == Some(file))
}

pub(crate) fn preload(shim: &Path, users: Option<&OsStr>) -> OsString {
    let mut value = shim.as_os_str().to_owned();
    let listed = users.map_or(&b""[..], OsStr::as_bytes);
    for other in listed.split(|byte| b" :".contains(byte)) {
        if !other.is_empty() && !is_shim(other, shim) {
            value.push(":");
            value.push(OsStr::from_bytes(other));
        }
    }
    value
}

/// The value of `OMP_TOOL_LIBRARIES`: the user's, with this shim in the place of another installation's.
pub(crate) fn tools(shim: &Path, users: Option<&OsStr>) -> Option<OsString> {
    let Some(users) = users else {
        return Some(shim.as_os_str().to_owned());
    };
    let listed = || users.as_bytes().split(|byte| *byte == b':');
    if !listed().any(|tool| is_shim(tool, shim)) {
        return None;
    }
    let mut tools: Vec<&[u8]> = Vec::new();
    for tool in listed() {
        let tool = match is_shim(tool, shim) {
            true => shim.as_os_str().as_bytes(),
            false => tool,
        };
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    Some(OsString::from_vec(tools.join(&b':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0";

    #[test]
    fn what_cannot_be_preloaded_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "root:x:0:0:root:/root:/bin/bash\n").unwrap();
        for (path, says) in [
            (folder.path(), "not a regular file"),
            (&text, "not a shared object"),
            (Path::new("/dev/null"), "not a regular file"),
        ] {
            let error = find(Some(path), None, None).unwrap_err();
            for says in [says, &path.display().to_string()] {
                assert!(error.contains(says), "{error}");
            }
        }
    }

    #[test]
    fn the_users_option_comes_before_the_places_of_an_installation() {
        let folder = tempfile::tempdir().unwrap();
        let (bin, lib) = (folder.path().join("bin"), folder.path().join("lib/mapper"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        let launcher = bin.join("mapper-launch");
        let installed = lib.join(FILE);
        std::fs::write(&installed, LIBRARY).unwrap();
        let found = find(None, None, Some(&launcher)).unwrap();
        assert_eq!(found.canonicalize().unwrap(), installed);

        let own = folder.path().join("own.so");
        let missing = find(Some(&own), None, Some(&launcher)).unwrap_err();
        assert!(missing.contains("own.so: no such file"), "{missing}");
        std::fs::write(&own, LIBRARY).unwrap();
        assert_eq!(find(Some(&own), None, Some(&launcher)).unwrap(), own);
        let variable = Some(own.as_os_str());
        assert_eq!(find(None, variable, Some(&launcher)).unwrap(), own);
        let empty = find(None, Some(OsStr::new("")), Some(&launcher)).unwrap();
        assert_eq!(empty.canonicalize().unwrap(), installed);
    }

    #[test]
    fn a_path_the_loader_would_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a b.so");
        std::fs::write(&odd, LIBRARY).unwrap();
        let error = find(Some(&odd), None, None).unwrap_err();
        assert!(error.contains("space or colon"), "{error}");
    }

    #[test]
    fn what_the_user_preloads_stays_and_the_shim_is_there_once() {
        let shim = Path::new("/l/s.so");
        assert_eq!(preload(shim, None), "/l/s.so");
        for (users, value) in [
            ("", "/l/s.so"),
            ("/a.so b.so", "/l/s.so:/a.so:b.so"),
            ("/a.so:/l/s.so", "/l/s.so:/a.so"),
        ] {
            assert_eq!(preload(shim, Some(OsStr::new(users))), value);
        }
    }

    #[test]
    fn the_shim_of_another_installation_gives_way_to_this_one() {
        let ours = "/l/libmapper_omp.so";
        let shim = Path::new(ours);
        for (users, value) in [
            ("/outer/libmapper_omp.so", ours),
            ("/outer/libmapper_omp.so /a.so", "/l/libmapper_omp.so:/a.so"),
        ] {
            assert_eq!(preload(shim, Some(OsStr::new(users))), value);
        }
        assert_eq!(tools(shim, None).unwrap(), ours);
        let outer = "/u/tool.so:/outer/libmapper_omp.so";
        for (users, value) in [
            ("/outer/libmapper_omp.so", Some(ours)),
            (outer, Some("/u/tool.so:/l/libmapper_omp.so")),
            ("/l/libmapper_omp.so:/outer/libmapper_omp.so", Some(ours)),
            ("/u/tool.so", None),
            ("/u/not-libmapper_omp.so", None),
            ("", None),
        ] {
            let found = tools(shim, Some(OsStr::new(users)));
            assert_eq!(found.as_deref(), value.map(OsStr::new), "{users:?}");
        }
    }

    #[test]
    fn a_shim_under_another_name_is_known_as_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let (shim, link) = (folder.path().join("own.so"), folder.path().join("link.so"));
        std::fs::write(&shim, LIBRARY).unwrap();
        std::os::unix::fs::symlink(&shim, &link).unwrap();
        assert_eq!(preload(&shim, Some(link.as_os_str())), shim.as_os_str());
        assert_eq!(tools(&shim, Some(link.as_os_str())).unwrap(), shim);
    }
}
