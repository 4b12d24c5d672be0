//! Programs in C, C++ and Fortran are compiled against the library as it would be installed, by
//! pkg-config, with either form of it, and run with and without a page.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mapper_abi::{Allocation, CpuMask, OwnProgress, PageWriter};
use tempfile::TempDir;

/// The library in a folder of its own, as an installation lays it out.
struct Installed {
    prefix: TempDir,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Shared,
    Static,
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn succeed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; is it installed?"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

impl Installed {
    fn new() -> Self {
        let prefix = tempfile::tempdir().unwrap();
        let installed = Self { prefix };
        let built = std::env::current_exe().unwrap();
        let built = built.parent().unwrap();
        for (from, to) in [
            (crate_dir().join("include/mapper.h"), "include/mapper.h"),
            (crate_dir().join("fortran/mapper.f90"), "include/mapper.f90"),
            (crate_dir().join("mapper.pc"), "lib/pkgconfig/mapper.pc"),
            (built.join("libmapper.so"), "lib/libmapper.so"),
            (
                built.join("libmapper.so"),
                concat!("lib/", include_str!("../soname")).trim_ascii_end(),
            ),
            (built.join("libmapper.a"), "lib/libmapper.a"),
        ] {
            let to = installed.prefix.path().join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&from, &to).unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; run `cargo build -p mapper-client-c`",
                    from.display()
                )
            });
        }
        installed
    }

    fn pkg_config(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("mapper");
        command.env("PKG_CONFIG_PATH", self.prefix.path().join("lib/pkgconfig"));
        succeed(&mut command)
            .split_whitespace()
            .map(Into::into)
            .collect()
    }

    fn compile(&self, compiler: &str, form: Form, sources: &[&Path]) -> PathBuf {
        let name = format!("{compiler}-{form:?}");
        let program = self.prefix.path().join(name);
        let mut command = Command::new(compiler);
        command.current_dir(self.prefix.path());
        command
            .args(["-Wall", "-Werror", "-pthread", "-o"])
            .arg(&program);
        command.args(self.pkg_config(&["--cflags"])).args(sources);
        match form {
            Form::Shared => command
                .args(self.pkg_config(&["--libs"]))
                .arg(format!("-Wl,-rpath,{}/lib", self.prefix.path().display())),
            Form::Static => command
                .arg("-static")
                .args(self.pkg_config(&["--static", "--libs"])),
        };
        succeed(&mut command);
        program
    }
}

fn publish(writer: &mut PageWriter, cpu_count: u32) {
    writer.publish(&Allocation {
        cpu_count,
        cpus: CpuMask::from_cpus((0..cpu_count).map(|cpu| cpu * 3)).unwrap(),
        node_mask: 0b11,
        ..Allocation::default()
    });
}

fn managed(program: &Path, writer: &PageWriter) -> Command {
    let mut command = Command::new(program);
    let descriptor = writer.as_fd().as_raw_fd();
    let page = format!("/proc/{}/fd/{descriptor}", std::process::id());
    command
        .env(mapper_abi::PAGE_ENV, page)
        .env(mapper_abi::TOKEN_ENV, writer.token().to_string());
    command
}

fn work(writer: &PageWriter) -> f64 {
    match writer.reader().unwrap().own_report(u64::MAX).progress {
        Some(OwnProgress::Work { done, .. }) => done,
        other => panic!("no work reported but {other:?}"),
    }
}

#[test]
fn c_and_cpp_programs_call_every_function_with_and_without_mapper() {
    let installed = Installed::new();
    let calls = crate_dir().join("tests/calls.c");
    let cpp = installed.prefix.path().join("calls.cpp");
    fs::copy(&calls, &cpp).unwrap();
    for (compiler, source) in [("gcc", calls.as_path()), ("g++", cpp.as_path())] {
        for form in [Form::Shared, Form::Static] {
            let program = installed.compile(compiler, form, &[source]);
            let alone = succeed(Command::new(&program).env_remove(mapper_abi::PAGE_ENV));
            assert_eq!(alone, "managed 0, 0 cpus, wait 0\n", "{compiler} {form:?}");
            let mut writer = PageWriter::create().unwrap();
            publish(&mut writer, 3);
            let said = succeed(&mut managed(&program, &writer));
            assert_eq!(
                said, "managed 1, 3 cpus, generation 1, nodes 3, cpu 6, wait 0\n",
                "{compiler} {form:?}"
            );
            assert_eq!(work(&writer), 4.5);
            let report = writer.reader().unwrap().own_report(u64::MAX);
            assert!(report.serial);
            assert_eq!(report.cpus.unwrap().most.get(), 7);
        }
    }
}

#[test]
fn a_fortran_program_uses_the_module() {
    let installed = Installed::new();
    // As docs/book/src/code/README.md says.
    let include = installed.pkg_config(&["--variable=includedir"]).concat();
    let module = Path::new(&include).join("mapper.f90");
    let program = crate_dir().join("tests/calls.f90");
    let program = installed.compile("gfortran", Form::Shared, &[&module, &program]);
    let mut writer = PageWriter::create().unwrap();
    publish(&mut writer, 2);
    let said = succeed(&mut managed(&program, &writer));
    assert_eq!(
        said.split_whitespace().collect::<Vec<_>>(),
        ["1", "2", "2", "3", "2", "1", "2"]
    );
    assert_eq!(work(&writer), 8.0);
    let alone = succeed(Command::new(&program).env_remove(mapper_abi::PAGE_ENV));
    assert_eq!(
        alone.split_whitespace().collect::<Vec<_>>(),
        ["0", "0", "0", "0", "0", "0", "0"]
    );
}

#[test]
fn a_latency_said_in_c_reaches_the_daemon_in_nanoseconds() {
    let installed = Installed::new();
    let source = installed.prefix.path().join("latency.c");
    let text = "#include <mapper.h>\nint main(void) { mapper_latency(0.004); return 0; }\n";
    fs::write(&source, text).unwrap();
    let program = installed.compile("gcc", Form::Shared, &[&source]);
    let writer = PageWriter::create().unwrap();
    succeed(&mut managed(&program, &writer));
    let report = writer.reader().unwrap().own_report(u64::MAX);
    let Some(OwnProgress::Latency { latency_ns, .. }) = report.progress else {
        panic!("no latency reported but {report:?}");
    };
    assert!((latency_ns - 4e6).abs() < 1.0, "{latency_ns}");
}

#[test]
fn the_pool_example_keeps_as_many_threads_busy_as_it_has_cpus() {
    let installed = Installed::new();
    let source = crate_dir().join("examples/pool.c");
    let program = installed.compile("gcc", Form::Shared, &[&source]);
    let mut writer = PageWriter::create().unwrap();
    publish(&mut writer, 3);
    let mut child = managed(&program, &writer)
        // So many that even on a busy machine there are some left when the allocation changes.
        .args(["4000", "4"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "3 threads");
    publish(&mut writer, 1);
    assert_eq!(line(), "1 threads");
    publish(&mut writer, 4);
    assert_eq!(line(), "4 threads");
    publish(&mut writer, 1);
    assert_eq!(line(), "1 threads");
    assert_eq!(line(), "done, 1 at a time");
    assert!(child.wait().unwrap().success());
    assert_eq!(work(&writer), 4000.0);
    // Without mapper all threads work.
    let alone = succeed(
        Command::new(&program)
            .args(["40", "2"])
            .env_remove(mapper_abi::PAGE_ENV),
    );
    assert!(alone.starts_with("2 threads\ndone, "), "{alone}");
}

#[test]
fn the_version_that_pkg_config_tells_is_the_crates() {
    let version = Installed::new().pkg_config(&["--modversion"]);
    assert_eq!(version, [env!("CARGO_PKG_VERSION")]);
}
