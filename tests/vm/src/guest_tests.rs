//! The payload that tests mapper in the guest as an installed service.
//!
//! Everything is built here and packed; the guest installs the package and runs `guest-tests` (package
//! `mapper-guest-tests`, in `tests/guest`), which prints a line for each rule that it checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::image::{self, output, write};
use super::machine::{Machine, STARTED_AGAIN};
use super::scratch::Scratch;
use mapper_report::workspace;

/// The test programs: source, compiler, mode and installed name. All are linked with `libmapper`.
const PROGRAMS: [(&str, &str, &str, &str); 10] = [
    ("tick.c", "gcc", "755", "tick-libgomp"),
    ("tick.c", "clang", "755", "tick-libomp"),
    ("closer.c", "gcc", "755", "closer"),
    ("threads.c", "gcc", "755", "threads"),
    ("speaks.c", "gcc", "755", "speaks"),
    ("hangs.c", "gcc", "755", "hangs"),
    ("hung.c", "gcc", "755", "hung"),
    ("sums.c", "gcc", "755", "sums"),
    ("whoami.c", "gcc", "755", "whoami"),
    ("whoami.c", "gcc", "4755", "whoami-setuid"),
];

/// Of programs that compute: without a build, what the daemon has learned of one counts for its name only. Where few
/// processors emulate many, more CPUs make it slower, and no test is to know that of another one.
const NO_BUILD: &str = "-Wl,--build-id=none";

/// Tests of the daemon that are run in the guest, too, as programs of the same name.
const DAEMON_TESTS: [&str; 4] = ["crowd", "flood", "many_crashes", "reused_number"];

/// Variables that begin so set the size of a test, and go into the guest.
const SIZES: [&str; 6] = [
    "MAPPER_FLOOD_",
    "MAPPER_INJECTED",
    "MAPPER_KILLS",
    "MAPPER_PROGRAMS",
    "MAPPER_RESTARTS",
    "MAPPER_TEST_APPS",
];

/// Lists every file that a package could leave behind, without dpkg's own records and what the system writes as it runs.
const LIST_FILES: &str = include_str!("guest_tests/list-files.sh");

// Which tests are run, and for how long; the comments of its fields are help.
#[derive(clap::Args)]
pub(crate) struct Chosen {
    /// Run only the tests whose name contains this, or one of several parts with commas between.
    #[arg(long, default_value = "")]
    filter: String,
    /// How long the test that nothing grows keeps the daemon busy [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(30..))]
    soak_seconds: Option<u64>,
}

/// Builds everything, runs the chosen tests, and shows each line of output to `on_line`.
pub(crate) fn run_guest_tests(
    machine: &Machine,
    chosen: &Chosen,
    mut on_line: impl FnMut(&str),
) -> Result<Report> {
    let image = image::ensure(&machine.kernel, false)?;
    let payload = staged(chosen)?;
    let mut report = Report::default();
    let started = Instant::now();
    let status = machine.run(&image, payload.path(), None, |line| {
        on_line(line.text);
        report.read(line.text);
    })?;
    on_line(&format!("guest ran for {:.0?}", started.elapsed()));
    report.complete(status)
}

/// The result of the tests, read from their output line by line.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// The names of failed tests.
    pub(crate) failed: Vec<String>,
    /// From the line `1..N` that ends the output.
    planned: Option<usize>,
}

impl Report {
    fn read(&mut self, line: &str) {
        if line == STARTED_AGAIN {
            *self = Self::default();
        } else if line.starts_with("ok ") {
            self.passed += 1;
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            let name = rest.split(':').next().unwrap_or(rest);
            self.failed.push(name.to_owned());
        } else if let Some(count) = line.strip_prefix("1..") {
            self.planned = count.parse().ok();
        }
    }

    /// The report, if it is that of a complete run.
    fn complete(self, status: u8) -> Result<Self> {
        let seen = self.passed + self.failed.len();
        match self.planned {
            Some(0) => bail!("no guest test has such a name"),
            Some(planned) if planned == seen && (status == 0) == self.failed.is_empty() => Ok(self),
            _ => bail!("the guest tests broke off after {seen} tests with exit status {status}"),
        }
    }
}

/// Packs what was built, as `cargo xtask dist` does; returns the package.
fn pack(built: &Path, revision: &str, out: &Path) -> Result<PathBuf> {
    let mut dist = workspace::cargo();
    dist.args([
        "xtask",
        "dist",
        "--for-tests",
        "--revision",
        revision,
        "--built",
    ])
    .arg(built)
    .arg("--out")
    .arg(out);
    Ok(PathBuf::from(output(&mut dist)?.trim_end()))
}

/// The folder that goes into the guest.
fn staged(chosen: &Chosen) -> Result<Scratch> {
    let payload = Scratch::create("payload")?;
    let target = workspace::build_product()?;
    let packages = payload.file("packages");
    for (revision, name) in [("1", "first.deb"), ("2", "next.deb")] {
        let package = pack(&target, revision, &packages)?;
        fs::rename(&package, packages.join(name))
            .with_context(|| format!("rename {}", package.display()))?;
    }
    let installed = payload.file("tree/usr/lib/mapper-tests");
    let tests = workspace::build_program("guest-tests")?;
    install(&tests, &installed.join("guest-tests"), "755")?;
    for (name, built) in built_daemon_tests()? {
        install(&built, &installed.join(name), "755")?;
    }
    let programs = Scratch::create("programs")?;
    for (source, compiler, mode, name) in PROGRAMS {
        let built = programs.file(name);
        output(
            Command::new(compiler)
                .args(["-O2", "-fopenmp", "-Wall", "-Werror"])
                .args((source == "tick.c").then_some(NO_BUILD))
                .arg("-o")
                .arg(&built)
                .arg(workspace::root().join("tests/guest/programs").join(source))
                .arg("-I")
                .arg(workspace::root().join("crates/client-c/include"))
                .arg(target.join("libmapper.a"))
                .args(["-pthread", "-ldl", "-lm"]),
        )?;
        install(&built, &installed.join(name), mode)?;
    }
    let filter = &chosen.filter;
    let soak = chosen.soak_seconds.map_or_else(String::new, |seconds| {
        format!("export MAPPER_SOAK_SECONDS={seconds}\n")
    });
    let sizes = std::env::vars().filter(|(name, _)| SIZES.iter().any(|s| name.starts_with(s)));
    let sizes: String = sizes
        .map(|(name, value)| format!("export {name}='{value}'\n"))
        .collect();
    let script = format!(
        "#!/bin/sh\n{soak}{sizes}cp -r --preserve=mode tree/. / && sh list-files.sh >files-before &&\n\
         dpkg --install packages/first.deb &&\n\
         exec /usr/lib/mapper-tests/guest-tests '{filter}'\n"
    );
    write(&payload.file("list-files.sh"), LIST_FILES)?;
    let run = payload.file("run.sh");
    write(&run, &script)?;
    output(Command::new("chmod").arg("755").arg(run))?;
    Ok(payload)
}

/// Builds those tests; each with its program. Of the whole workspace, as they are built for all tests.
fn built_daemon_tests() -> Result<Vec<(&'static str, PathBuf)>> {
    let mut build = workspace::cargo();
    build.args(["test", "--release", "--locked", "--no-run", "--quiet"]);
    build.args(["--workspace", "--message-format", "json"]);
    build.args(DAEMON_TESTS.iter().flat_map(|test| ["--test", test]));
    let messages = output(&mut build)?;
    let built = |test: &&str| {
        let named = format!("/{test}-");
        let mut programs = messages.lines().filter_map(|line| {
            let (_, program) = line.split_once("\"executable\":\"")?;
            program.split('"').next()
        });
        let program = programs.find(|program| program.contains(&named));
        program.map(PathBuf::from)
    };
    let programs = DAEMON_TESTS.iter().map(|test| {
        let program = built(test).with_context(|| format!("cargo built no test {test}"))?;
        Ok((*test, program))
    });
    programs.collect()
}

fn install(from: &Path, to: &Path, mode: &str) -> Result<()> {
    // `install` strips nothing here: a backtrace from the guest should name lines.
    let mut install = Command::new("install");
    output(install.args(["-D", "-m", mode]).arg(from).arg(to))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> Report {
        let mut report = Report::default();
        for line in lines {
            report.read(line);
        }
        report
    }

    #[test]
    fn passed_and_failed_are_counted_by_their_lines() {
        let lines = [
            "# note",
            "ok a (0.1 s)",
            "not ok b: it broke: badly",
            "ok c (2 s)",
            "1..3",
        ];
        let counts = report(&lines).complete(1).unwrap();
        assert_eq!(counts.passed, 2);
        assert_eq!(counts.failed, ["b"]);
    }

    #[test]
    fn a_run_without_its_plan_or_a_test_or_against_its_exit_status_does_not_count() {
        for (lines, status) in [
            (&["ok a (0.1 s)"][..], 0),
            (&["ok a (0.1 s)", "1..2"], 0),
            (&["ok a (0.1 s)", "1..1"], 1),
            (&["not ok a: no", "1..1"], 0),
        ] {
            assert!(report(lines).complete(status).is_err(), "{lines:?}");
        }
    }
}
