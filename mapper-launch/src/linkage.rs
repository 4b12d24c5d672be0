//! Which OpenMP runtime a program brings along, as its file says.
//!
//! The shim comes between a program and a runtime that is a library. Where the runtime is part of the
//! program it cannot, and virtual teams serve only libgomp. Both are better told at the start than found
//! out by waiting. Looked at are the libraries that the file names itself (not those that these name in
//! turn), the symbols it defines, and where it was stripped of symbols, a name in its constants. Only
//! what is needed is read, so that this costs little with large programs. A program that names no
//! runtime may load one later, as Python does.
//!
//! The file is data: whatever cannot be read counts as not known.

use std::fs::File;
use std::path::Path;

use mapper_control::schema::{LinkedOpenMp, Program};
use object::read::elf::{Dyn as _, ElfFile, FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache};

/// Each runtime has this in its constants.
const GOMP_MARK: &[u8] = b"GOMP_SPINCOUNT";
const KMP_MARK: &[u8] = b"KMP_BLOCKTIME";

/// Bytes of the longest build id that is told.
const LONGEST_BUILD_ID: usize = 64;

/// What is known of the file at `path`; `None` if it cannot be looked at.
pub(crate) fn look_at(path: &Path) -> Option<Program> {
    let path = path.canonicalize().ok()?;
    let name = path.to_str()?.to_owned();
    let mut program = Program {
        path: name,
        ..Program::default()
    };
    let file = File::open(&path).ok()?;
    let cache = ReadCache::new(file);
    match FileKind::parse(&cache) {
        Ok(FileKind::Elf64) => read::<object::elf::FileHeader64<Endianness>>(&cache, &mut program),
        Ok(FileKind::Elf32) => read::<object::elf::FileHeader32<Endianness>>(&cache, &mut program),
        // A script, whose interpreter may load a runtime.
        _ => {}
    }
    Some(program)
}

fn read<Elf: FileHeader<Endian = Endianness>>(cache: &ReadCache<File>, program: &mut Program) {
    let Ok(file) = ElfFile::<Elf, _>::parse(cache) else {
        return;
    };
    // A linker puts in any that it is told to; the daemon takes those of usual length.
    let build_id = file.build_id().ok().flatten();
    let build_id = build_id.filter(|id| id.len() <= LONGEST_BUILD_ID);
    program.build_id = build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    program.openmp = linked(&file);
}

fn linked<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'d, Elf, &'d ReadCache<File>>,
) -> LinkedOpenMp {
    let needed = needed_libraries(file);
    let needs = |runtime: &[u8]| needed.iter().any(|name| name.starts_with(runtime));
    if needs(b"libgomp") {
        return LinkedOpenMp::Libgomp;
    }
    if needs(b"libomp") || needs(b"libiomp5") {
        return LinkedOpenMp::Libomp;
    }
    let mut symbols = file.symbols().peekable();
    let stripped = symbols.peek().is_none();
    for symbol in symbols.filter(object::ObjectSymbol::is_definition) {
        match symbol.name_bytes() {
            Ok(b"GOMP_parallel") => return LinkedOpenMp::StaticLibgomp,
            Ok(b"__kmpc_fork_call") => return LinkedOpenMp::StaticLibomp,
            _ => {}
        }
    }
    if stripped {
        let constants = file
            .section_by_name(".rodata")
            .and_then(|section| section.data().ok());
        let holds = |mark| constants.is_some_and(|data| contains(data, mark));
        if holds(GOMP_MARK) {
            return LinkedOpenMp::StaticLibgomp;
        }
        if holds(KMP_MARK) {
            return LinkedOpenMp::StaticLibomp;
        }
    }
    let interpreted = file
        .elf_program_headers()
        .iter()
        .any(|header| header.p_type(file.endian()) == object::elf::PT_INTERP);
    if interpreted {
        LinkedOpenMp::NotAtStart
    } else {
        LinkedOpenMp::StaticProgram
    }
}

/// Whether `data` holds `mark`, by Horspool's method: most of the data is skipped, so that megabytes of
/// constants do not delay a launch.
fn contains(data: &[u8], mark: &[u8]) -> bool {
    let Some(last) = mark.len().checked_sub(1) else {
        return true;
    };
    let mut skips = [mark.len(); 256];
    for (place, &byte) in mark[..last].iter().enumerate() {
        skips[usize::from(byte)] = last - place;
    }
    let mut end = last;
    while let Some(&byte) = data.get(end) {
        if byte == mark[last] && data[end - last..=end] == *mark {
            return true;
        }
        end += skips[usize::from(byte)];
    }
    false
}

/// The names in the file's own list of libraries (`DT_NEEDED`).
fn needed_libraries<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'d, Elf, &'d ReadCache<File>>,
) -> Vec<&'d [u8]> {
    let (endian, data) = (file.endian(), file.data());
    let names = || {
        let (entries, link) = file
            .elf_section_table()
            .dynamic(endian, data)
            .ok()
            .flatten()?;
        let strings = file.elf_section_table().strings(endian, data, link).ok()?;
        Some(
            entries
                .iter()
                .filter(|entry| entry.tag32(endian) == Some(object::elf::DT_NEEDED))
                .filter_map(|entry| {
                    let offset: u64 = entry.d_val(endian).into();
                    strings.get(u32::try_from(offset).ok()?).ok()
                })
                .collect::<Vec<_>>(),
        )
    };
    names().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const PARALLEL: &str = "#include <stdlib.h>\nint main(void){int n=0;\n\
        #pragma omp parallel reduction(+:n)\nn++;\nreturn n<1;}\n";

    fn compiled(compiler: &str, source: &str, flags: &[&str]) -> LinkedOpenMp {
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("p.c"), folder.path().join("p"));
        std::fs::write(&text, source).unwrap();
        let status = Command::new(compiler)
            .arg("-o")
            .arg(&program)
            .arg(&text)
            .args(flags)
            .status()
            .unwrap();
        assert!(status.success(), "{compiler} {flags:?}");
        assert!(Command::new(&program).status().unwrap().success());
        let found = look_at(&program).unwrap();
        assert_eq!(
            found.path,
            program.canonicalize().unwrap().to_str().unwrap()
        );
        assert!(
            found
                .build_id
                .is_some_and(|id| id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()))
        );
        found.openmp
    }

    #[test]
    fn the_runtime_is_told_by_how_the_program_was_linked() {
        let build_id = "-Wl,--build-id=sha1";
        for (compiler, source, flags, openmp) in [
            ("gcc", PARALLEL, &["-fopenmp"][..], LinkedOpenMp::Libgomp),
            ("clang", PARALLEL, &["-fopenmp"], LinkedOpenMp::Libomp),
            (
                "gcc",
                PARALLEL,
                &["-fopenmp", "-static"],
                LinkedOpenMp::StaticLibgomp,
            ),
            (
                "gcc",
                PARALLEL,
                &["-fopenmp", "-static", "-s"],
                LinkedOpenMp::StaticLibgomp,
            ),
            (
                "gcc",
                "int main(void){return 0;}\n",
                &[],
                LinkedOpenMp::NotAtStart,
            ),
            (
                "gcc",
                "int main(void){return 0;}\n",
                &["-static"],
                LinkedOpenMp::StaticProgram,
            ),
        ] {
            let flags: Vec<_> = flags.iter().copied().chain([build_id]).collect();
            assert_eq!(compiled(compiler, source, &flags), openmp, "{flags:?}");
        }
    }

    #[test]
    fn a_build_id_of_unusual_length_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("p.c"), folder.path().join("p"));
        std::fs::write(&text, "int main(void){return 0;}\n").unwrap();
        let mut compile = Command::new("gcc");
        compile.arg(format!("-Wl,--build-id=0x{}", "ab".repeat(65)));
        compile.arg("-o").args([&program, &text]);
        assert!(compile.status().unwrap().success());
        assert_eq!(look_at(&program).unwrap().build_id, None);
    }

    #[test]
    fn libgomp_within_an_otherwise_dynamic_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (text, object) = (folder.path().join("p.c"), folder.path().join("p.o"));
        std::fs::write(&text, PARALLEL).unwrap();
        let mut compile = Command::new("gcc");
        compile
            .args(["-fopenmp", "-c", "-o"])
            .arg(&object)
            .arg(&text);
        assert!(compile.status().unwrap().success());
        for strip in [&[][..], &["-s"]] {
            let program = folder.path().join("p");
            let mut link = Command::new("gcc");
            link.arg("-o").arg(&program).arg(&object);
            link.args(["-static-libgcc", "-l:libgomp.a", "-lpthread", "-ldl"]);
            assert!(link.args(strip).status().unwrap().success());
            let found = look_at(&program).unwrap();
            assert_eq!(found.openmp, LinkedOpenMp::StaticLibgomp, "{strip:?}");
        }
    }

    #[test]
    fn a_mark_is_found_wherever_it_is() {
        let mark = GOMP_MARK;
        for before in 0..40 {
            let mut data = b"GOMP_SPINGOMP_SPIN".repeat(3)[..before].to_vec();
            assert!(!contains(&data, mark));
            data.extend_from_slice(mark);
            assert!(contains(&data, mark), "{before}");
            data.pop();
            assert!(!contains(&data, mark), "{before}");
            data.extend_from_slice(b"X more");
            assert!(!contains(&data, mark), "{before}");
        }
        assert!(contains(b"", b"") && !contains(b"", b"a") && contains(b"ba", b"a"));
    }

    #[test]
    fn what_is_no_program_of_this_kind_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("s");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(look_at(&script).unwrap().openmp, LinkedOpenMp::NotAtStart);
        assert_eq!(look_at(&folder.path().join("none")), None);
        let damaged = folder.path().join("d");
        let mut bytes = std::fs::read("/bin/sh").unwrap();
        bytes.truncate(500);
        std::fs::write(&damaged, bytes).unwrap();
        let _ = look_at(&damaged).unwrap();
    }
}
