//! Which OpenMP runtime a program contains or is linked with, according to its file.
//!
//! The shim cannot serve a runtime that is part of the program, and virtual teams serve only libgomp: the user shall
//! know that at the start. Read are the libraries that the file names itself, the symbols it defines, and if it was
//! stripped of symbols, names in its constants, up to a bound. A program that names no runtime may load one later, as
//! Python does. The file is data: whatever cannot be read counts as unknown.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mapper_control::schema::{LinkedOpenMp, Program};
use memchr::memmem;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{Dyn as _, ElfFile, FileHeader, ProgramHeader as _, Sym as _};
use object::{Endianness, FileKind, Object as _, ObjectSection as _, ReadCache, ReadRef};
use std::collections::BTreeMap;
use std::ops::Range;

/// Each runtime has this in its constants, and so may programs that set or read the variable.
const GOMP_MARK: &[u8] = b"GOMP_SPINCOUNT";
const KMP_MARK: &[u8] = b"KMP_BLOCKTIME";

/// The beginning of each runtime's messages, written backwards, so that the launcher does not hold it.
const GOMP_SAYS_BACKWARDS: &[u8] = b" :pmogbil";
const KMP_SAYS_BACKWARDS: &[u8] = b"# rorrE :PMO";

/// A function of each runtime, with the zero byte that ends the name in the string table.
const GOMP_FUNCTION: &[u8] = b"GOMP_parallel\0";
const KMP_FUNCTION: &[u8] = b"__kmpc_fork_call\0";

const LONGEST_BUILD_ID: usize = 64;
const LONGEST_PATH: usize = 4096;

/// Bytes that are read of a file at most. Sections may claim any size, and in a sparse file they have it.
const MOST_READ: u64 = 256 << 20;

/// Calls a function for the class of an ELF file, 64 or 32 bits; `None` of any other.
macro_rules! of_class {
    ($file:expr, $read:ident $(, $argument:expr)?) => {{
        let file = &$file;
        match FileKind::parse(file) {
            Ok(FileKind::Elf64) => Some($read::<FileHeader64<Endianness>>(file $(, $argument)?)),
            Ok(FileKind::Elf32) => Some($read::<FileHeader32<Endianness>>(file $(, $argument)?)),
            _ => None,
        }
    }};
}

/// `None` if it does not exist. Of a file that may be executed and not read only the path is known.
pub(crate) fn look_at(path: &Path) -> Option<Program> {
    let path = path.canonicalize().ok()?;
    known_of(&path, File::open(&path))
}

/// The loader that a program names, or none if it is not linked with libraries, or cannot be read.
pub(crate) fn interpreter(program: &Path) -> Option<PathBuf> {
    of_class!(Bounded::open(program)?, named_interpreter).flatten()
}

fn named_interpreter<Elf: FileHeader<Endian = Endianness>>(bounded: &Bounded) -> Option<PathBuf> {
    let header = Elf::parse(bounded).ok()?;
    let endian = header.endian().ok()?;
    let mut headers = header.program_headers(endian, bounded).ok()?.iter();
    let path = headers.find_map(|header| header.interpreter(endian, bounded).ok().flatten())?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// The names of the libraries that a program names itself.
pub(crate) fn needed(program: &Path) -> Vec<PathBuf> {
    let names = Bounded::open(program).and_then(|file| of_class!(file, named_libraries));
    names.unwrap_or_default()
}

fn named_libraries<Elf: FileHeader<Endian = Endianness>>(bounded: &Bounded) -> Vec<PathBuf> {
    let file = ElfFile::<Elf, _>::parse(bounded);
    let names = file.map(|file| needed_libraries(&file)).unwrap_or_default();
    let path = |name: &&[u8]| PathBuf::from(OsStr::from_bytes(name));
    names.iter().map(path).collect()
}

pub(crate) fn known_of(path: &Path, file: io::Result<File>) -> Option<Program> {
    let mut program = Program {
        path: path.to_string_lossy().into_owned(),
        ..Program::default()
    };
    // Replacement characters are longer than what they replace.
    if program.path.len() > LONGEST_PATH {
        return None;
    }
    let Ok(file) = file else {
        return Some(program);
    };
    of_class!(Bounded::new(file), read, &mut program);
    Some(program)
}

#[derive(Debug)]
struct Bounded {
    cache: ReadCache<File>,
    left: Cell<u64>,
}

impl Bounded {
    fn new(file: File) -> Self {
        Self {
            cache: ReadCache::new(file),
            left: Cell::new(MOST_READ),
        }
    }

    fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self::new)
    }

    fn spend(&self, size: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for &'a Bounded {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.spend(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // The cache reads 4 KiB of a text at most.
        self.spend((range.end.saturating_sub(range.start)).min(4096))?;
        self.cache.read_bytes_at_until(range, delimiter)
    }
}

fn read<Elf: FileHeader<Endian = Endianness>>(bounded: &Bounded, program: &mut Program) {
    let Ok(file) = ElfFile::<Elf, _>::parse(bounded) else {
        return;
    };
    // A linker writes any that it is given; the daemon takes those of usual length.
    let build_id = file.build_id().ok().flatten();
    let build_id = build_id.filter(|id| id.len() <= LONGEST_BUILD_ID);
    program.build_id = build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    program.openmp = linked(&file);
}

fn linked<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'d, Elf, &'d Bounded>,
) -> LinkedOpenMp {
    let needed = needed_libraries(file);
    let needs = |runtime: &[u8]| needed.iter().any(|name| name.starts_with(runtime));
    if needs(b"libgomp") {
        return LinkedOpenMp::Libgomp;
    }
    if needs(b"libomp") || needs(b"libiomp5") {
        return LinkedOpenMp::Libomp;
    }
    let mut headers = file.elf_program_headers().iter();
    let interpreted = headers.any(|header| header.p_type(file.endian()) == object::elf::PT_INTERP);
    let within = match file.elf_symbol_table().is_empty() {
        true => runtime_by_constants(file, interpreted),
        false => runtime_by_symbols(file),
    };
    within.unwrap_or(match interpreted {
        true => LinkedOpenMp::NotAtStart,
        false => LinkedOpenMp::StaticProgram,
    })
}

/// The names are searched in the whole string table first, where most programs have neither.
fn runtime_by_symbols<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'d, Elf, &'d Bounded>,
) -> Option<LinkedOpenMp> {
    use object::read::elf::SectionHeader as _;
    let (endian, table) = (file.endian(), file.elf_symbol_table());
    let section = file.elf_section_table().section(table.string_section());
    let names = section.ok()?.data(endian, file.data()).ok()?;
    let mut wanted = BTreeMap::new();
    for (function, runtime) in [
        (GOMP_FUNCTION, LinkedOpenMp::StaticLibgomp),
        (KMP_FUNCTION, LinkedOpenMp::StaticLibomp),
    ] {
        // A name may be the end of another one, so that it is there more than once.
        for place in memmem::find_iter(names, function) {
            wanted.insert(place, runtime);
        }
    }
    if wanted.is_empty() {
        return None;
    }
    let mut defined = table.iter().filter(|symbol| symbol.is_definition(endian));
    defined.find_map(|symbol| {
        let name = usize::try_from(symbol.st_name(endian)).ok()?;
        wanted.get(&name).copied()
    })
}

/// A program linked with libraries may set a runtime's variable: there the runtime's messages decide.
fn runtime_by_constants<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'d, Elf, &'d Bounded>,
    interpreted: bool,
) -> Option<LinkedOpenMp> {
    let constants = file.section_by_name(".rodata")?.data().ok()?;
    let holds = |mark: &[u8], says_backwards: &[u8]| {
        let holds = |text: &[u8]| memmem::find(constants, text).is_some();
        holds(mark) && (!interpreted || holds(&forwards(says_backwards)))
    };
    if holds(GOMP_MARK, GOMP_SAYS_BACKWARDS) {
        return Some(LinkedOpenMp::StaticLibgomp);
    }
    holds(KMP_MARK, KMP_SAYS_BACKWARDS).then_some(LinkedOpenMp::StaticLibomp)
}

fn forwards(backwards: &[u8]) -> Vec<u8> {
    black_box(backwards).iter().rev().copied().collect()
}

fn needed_libraries<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'d, Elf, &'d Bounded>,
) -> Vec<&'d [u8]> {
    let (endian, data) = (file.endian(), file.data());
    let names = || {
        let sections = file.elf_section_table();
        let (entries, link) = sections.dynamic(endian, data).ok().flatten()?;
        let strings = sections.strings(endian, data, link).ok()?;
        let needed = entries
            .iter()
            .filter(|entry| entry.tag32(endian) == Some(object::elf::DT_NEEDED));
        let names = needed.filter_map(|entry| {
            let offset: u64 = entry.d_val(endian).into();
            strings.get(u32::try_from(offset).ok()?).ok()
        });
        Some(names.collect::<Vec<_>>())
    };
    names().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const PARALLEL: &str = "#include <stdlib.h>\nint main(void){int n=0;\n\
        #pragma omp parallel reduction(+:n)\nn++;\nreturn n<1;}\n";

    const NOTHING: &str = "int main(void){return 0;}\n";

    fn program(compiler: &str, source: &str, flags: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (text, program) = (folder.path().join("p.c"), folder.path().join("p"));
        std::fs::write(&text, source).unwrap();
        let mut compile = Command::new(compiler);
        compile.arg("-o").args([&program, &text]).args(flags);
        let status = compile.status().unwrap();
        assert!(status.success(), "{compiler} {flags:?}");
        (folder, program)
    }

    fn compiled(compiler: &str, source: &str, flags: &[&str]) -> LinkedOpenMp {
        let (_folder, program) = program(compiler, source, flags);
        assert!(Command::new(&program).status().unwrap().success());
        let found = look_at(&program).unwrap();
        let path = program.canonicalize().unwrap();
        assert_eq!(found.path, path.to_str().unwrap());
        let id = found.build_id.unwrap();
        assert!(id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit()));
        found.openmp
    }

    #[test]
    fn the_runtime_is_known_from_how_the_program_was_linked() {
        use LinkedOpenMp::{Libgomp, Libomp, NotAtStart, StaticLibgomp, StaticProgram};
        for (compiler, source, flags, openmp) in [
            ("gcc", PARALLEL, &["-fopenmp"][..], Libgomp),
            ("clang", PARALLEL, &["-fopenmp"], Libomp),
            ("gcc", PARALLEL, &["-fopenmp", "-static"], StaticLibgomp),
            (
                "gcc",
                PARALLEL,
                &["-fopenmp", "-static", "-s"],
                StaticLibgomp,
            ),
            ("gcc", NOTHING, &[], NotAtStart),
            ("gcc", NOTHING, &["-static"], StaticProgram),
        ] {
            let build_id = "-Wl,--build-id=sha1";
            let flags: Vec<_> = flags.iter().copied().chain([build_id]).collect();
            assert_eq!(compiled(compiler, source, &flags), openmp, "{flags:?}");
        }
    }

    #[test]
    fn a_build_id_of_unusual_length_is_not_sent() {
        let build_id = format!("-Wl,--build-id=0x{}", "ab".repeat(65));
        let (_folder, program) = program("gcc", NOTHING, &[&build_id]);
        assert_eq!(look_at(&program).unwrap().build_id, None);
    }

    #[test]
    fn libgomp_within_an_otherwise_dynamic_program_is_found() {
        let (folder, object) = program("gcc", PARALLEL, &["-fopenmp", "-c"]);
        for strip in [&[][..], &["-s"]] {
            let program = folder.path().join("linked");
            let mut link = Command::new("gcc");
            link.arg("-o").arg(&program).arg(&object);
            link.args(["-static-libgcc", "-l:libgomp.a", "-lpthread", "-ldl"]);
            assert!(link.args(strip).status().unwrap().success());
            let found = look_at(&program).unwrap();
            assert_eq!(found.openmp, LinkedOpenMp::StaticLibgomp, "{strip:?}");
        }
    }

    #[test]
    fn a_stripped_program_that_names_a_variable_of_a_runtime_has_no_runtime_for_that() {
        let source = "#include <stdlib.h>\nint main(void){return setenv(\"GOMP_SPINCOUNT\",\"1\",0)\
            +setenv(\"KMP_BLOCKTIME\",\"1\",0);}\n";
        let flags = ["-s", "-Wl,--build-id=sha1"];
        assert_eq!(compiled("gcc", source, &flags), LinkedOpenMp::NotAtStart);
    }

    #[test]
    fn the_end_of_a_longer_name_and_a_function_that_is_only_called_are_distinguished() {
        let shared =
            "int my_GOMP_parallel(void){return 0;}\nint main(void){return my_GOMP_parallel();}\n";
        let flags = ["-Wl,--build-id=sha1"];
        assert_eq!(compiled("gcc", shared, &flags), LinkedOpenMp::NotAtStart);
        let own = "int my_GOMP_parallel(void){return 0;}\nint GOMP_parallel(void){return 0;}\n\
            int main(void){return my_GOMP_parallel()+GOMP_parallel();}\n";
        assert_eq!(compiled("gcc", own, &flags), LinkedOpenMp::StaticLibgomp);
    }

    #[test]
    fn of_a_file_that_cannot_be_read_the_path_is_known() {
        use std::os::unix::ffi::OsStrExt as _;
        let denied = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let known = known_of(Path::new("/opt/p"), denied()).unwrap();
        assert_eq!((known.path.as_str(), known.build_id), ("/opt/p", None));
        let odd = std::ffi::OsStr::from_bytes(b"/opt/\xff/p");
        let known = known_of(Path::new(odd), denied()).unwrap();
        assert_eq!(known.path, "/opt/\u{fffd}/p");
        // The daemon would refuse the launch for it.
        let long = [b"/".as_slice(), &[0xff; 4000]].concat();
        let long = std::ffi::OsStr::from_bytes(&long);
        assert_eq!(known_of(Path::new(long), denied()), None);
    }

    #[test]
    fn sections_of_any_size_are_read_up_to_a_bound_only() {
        for (flags, section) in [
            (&["-s"][..], ".rodata"),
            (&[][..], ".strtab"),
            (&[][..], ".symtab"),
        ] {
            let (_folder, program) = program("gcc", NOTHING, flags);
            let size = 100_u64 << 30;
            claim(&program, section, size);
            let file = File::options().write(true).open(&program).unwrap();
            file.set_len(2 * size).unwrap();
            let found = look_at(&program).unwrap().openmp;
            assert_eq!(found, LinkedOpenMp::NotAtStart, "{section}");
        }
    }

    fn claim(program: &Path, section: &str, size: u64) {
        use object::read::elf::SectionHeader as _;
        let mut bytes = std::fs::read(program).unwrap();
        let header = object::elf::FileHeader64::<Endianness>::parse(&*bytes).unwrap();
        let endian = header.endian().unwrap();
        let sections = header.sections(endian, &*bytes).unwrap();
        let found = sections.section_by_name(endian, section.as_bytes());
        let (index, found) = found.unwrap();
        let mut old = found.sh_offset(endian).to_le_bytes().to_vec();
        old.extend(found.sh_size(endian).to_le_bytes());
        let table = usize::try_from(header.e_shoff(endian)).unwrap();
        let place = table + index.0 * 64 + 24;
        assert_eq!(bytes[place..place + 16], old);
        bytes[place + 8..place + 16].copy_from_slice(&size.to_le_bytes());
        std::fs::write(program, bytes).unwrap();
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
