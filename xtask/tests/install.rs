//! `cargo xtask install`, seen from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue should say where"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The developer tasks.
const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A program that writes one page when it is asked for its documents.
fn write_program(path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let text = format!("#!/bin/sh\nmkdir \"$2\" && echo \"$1\" >\"$2/{name}.1\"\n");
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What cargo made of the library for programs, with all of the product, as other tests have it built; the programs of mapper
/// are replaced by others.
fn built() -> tempfile::TempDir {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(checkout());
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    succeed(cargo.args(["build", "--quiet", "--locked", "--profile", profile]));
    let built = Path::new(XTASK).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for library in ["libmapper.so", "libmapper.a"] {
        fs::copy(built.join(library), folder.path().join(library)).unwrap();
    }
    fs::write(folder.path().join("libmapper_omp.so"), "shim").unwrap();
    fs::write(folder.path().join("libmapper_spank.so"), "plugin").unwrap();
    for program in ["mapper", "mapperd", "mapper-launch", "mapperctl"] {
        write_program(&folder.path().join(program));
    }
    folder
}

fn install(prefix: &Path, built: &Path, destdir: Option<&Path>) -> Command {
    let mut task = Command::new(XTASK);
    task.arg("install")
        .arg("--prefix")
        .arg(prefix)
        .arg("--built")
        .arg(built);
    if let Some(destdir) = destdir {
        task.arg("--destdir").arg(destdir);
    }
    task
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_program_compiles_against_the_installed_tree_in_both_forms() {
    let (built, place) = (built(), tempfile::tempdir().unwrap());
    let prefix = place.path().join("opt");
    succeed(&mut install(&prefix, built.path(), None));
    let source = checkout().join("crates/client-c/tests/calls.c");
    for form in [&["--libs"][..], &["--static", "--libs"]] {
        let flags = succeed(
            Command::new("pkg-config")
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
                .args(form)
                .args(["--cflags", "mapper"]),
        );
        let program = place.path().join("program");
        let mut compiler = Command::new("gcc");
        compiler.arg("-pthread").arg("-o").arg(&program);
        if form.contains(&"--static") {
            compiler.arg("-static");
        }
        compiler.arg(&source).args(flags.split_whitespace());
        succeed(&mut compiler);
        let printed = succeed(
            Command::new(&program)
                .env("LD_LIBRARY_PATH", prefix.join("lib"))
                .env_remove("MAPPER_PAGE"),
        );
        assert_eq!(printed, "managed 0, 0 cpus, wait 0\n");
    }
}

#[test]
fn a_32_bit_program_finds_an_empty_library_where_a_64_bit_one_finds_the_shim() {
    let (built, place) = (built(), tempfile::tempdir().unwrap());
    fs::copy(
        built.path().join("libmapper.so"),
        built.path().join("libmapper_omp.so"),
    )
    .unwrap();
    succeed(&mut install(place.path(), built.path(), None));
    let preload = place.path().join("lib/mapper/$LIB/libmapper_omp.so");
    let source = place.path().join("p.c");
    fs::write(&source, "#include <dlfcn.h>\n#include <stddef.h>\nint main(void) { return dlsym(NULL, \"mapper_cpu_count\") != NULL; }\n").unwrap();
    for (word, status) in [("-m64", 1), ("-m32", 0)] {
        let program = place.path().join("program");
        let mut compiler = Command::new("gcc");
        succeed(compiler.args([word, "-o"]).arg(&program).arg(&source));
        let output = Command::new(&program)
            .env("LD_PRELOAD", &preload)
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), &*output.stderr),
            (Some(status), &b""[..]),
            "{word}"
        );
    }
}

#[test]
fn texts_name_the_prefix_and_not_the_folder_of_the_package() {
    let (built, package) = (built(), tempfile::tempdir().unwrap());
    let root = package.path();
    for (prefix, sysconf) in [("/usr", "/etc"), ("/opt/mapper", "/opt/mapper/etc")] {
        let written = succeed(&mut install(Path::new(prefix), built.path(), Some(root)));
        let text = |path: &str| fs::read_to_string(below(root, path)).unwrap();
        let unit = text(&format!("{prefix}/lib/systemd/system/mapperd.service"));
        let started = unit.lines().filter(|line| line.starts_with("Exec"));
        let (shell, own): (Vec<_>, Vec<_>) =
            started.partition(|line| line.starts_with("ExecStartPre=+-/bin/sh "));
        assert_eq!((shell.len(), own.len()), (1, 2), "{unit}");
        for start in own {
            assert!(start.contains(&format!("={prefix}/bin/")), "{start}");
        }
        assert_eq!(unit.contains("--config"), sysconf != "/etc", "{unit}");
        let pc = text(&format!("{prefix}/lib/pkgconfig/mapper.pc"));
        assert!(pc.contains(&format!("prefix={prefix}\n")), "{pc}");
        let config = below(root, &format!("{sysconf}/mapper/mapper.toml"));
        assert!(
            written.lines().any(|line| Path::new(line) == config),
            "{written}"
        );
        for text in [unit, pc] {
            assert!(!text.contains(root.to_str().unwrap()), "{text}");
        }
    }
}

#[test]
fn an_existing_configuration_stays_and_programs_are_replaced() {
    let (built, place) = (built(), tempfile::tempdir().unwrap());
    let mut again = install(Path::new("/usr"), built.path(), Some(place.path()));
    succeed(&mut again);
    let config = place.path().join("etc/mapper/mapper.toml");
    fs::write(&config, "interval = \"2s\"\n").unwrap();
    let newer = built.path().join("mapperd");
    let text = fs::read_to_string(&newer).unwrap() + "# newer\n";
    fs::write(&newer, &text).unwrap();
    succeed(&mut again);
    assert_eq!(fs::read_to_string(&config).unwrap(), "interval = \"2s\"\n");
    let daemon = place.path().join("usr/bin/mapperd");
    assert_eq!(fs::read_to_string(&daemon).unwrap(), text);
    assert_eq!(mode(&daemon), 0o755);
}

#[test]
fn every_program_has_its_manual_page_installed() {
    let (built, place) = (built(), tempfile::tempdir().unwrap());
    let prefix = place.path().join("opt");
    let written = succeed(&mut install(&prefix, built.path(), None));
    for program in ["mapper", "mapperd", "mapper-launch", "mapperctl"] {
        let page = prefix.join(format!("share/man/man1/{program}.1"));
        assert_eq!(fs::read_to_string(&page).unwrap(), "--write-manual\n");
        assert_eq!(mode(&page), 0o644);
        assert!(written.lines().any(|line| Path::new(line) == page));
    }
}

#[test]
fn new_folders_are_readable_whatever_the_umask_and_existing_ones_stay() {
    let (built, place) = (built(), tempfile::tempdir().unwrap());
    let kept = place.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o750)).unwrap();
    let task = install(Path::new("/usr"), built.path(), Some(&kept));
    succeed(
        Command::new("sh")
            .args(["-c", "umask 077; exec \"$0\" \"$@\"", XTASK])
            .args(task.get_args()),
    );
    let modes = ["usr", "usr/share/mapper", "usr/share/mapper/mapper.toml"];
    assert_eq!(
        modes.map(|path| mode(&kept.join(path))),
        [0o755, 0o755, 0o644]
    );
    assert_eq!(mode(&kept), 0o750);
}

#[test]
fn a_folder_that_units_cannot_name_is_refused() {
    for prefix in ["usr", "/opt/my mapper", "/opt/100%"] {
        let output = install(Path::new(prefix), Path::new("/"), None)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains("--prefix"),
            "{error}"
        );
    }
}
