//! A shim and programs that check themselves: `--sanitizer address`, `address-of-shim` or `undefined`.
//!
//! The shim is built by the nightly compiler, with the standard library. `address`: both it and the programs are
//! instrumented for AddressSanitizer, whose runtime the programs bring; their teams are real. `address-of-shim`: only
//! the shim is, so that teams are virtual. `undefined`: Rust has no such sanitizer, so that the
//! shim is built with checks of the preconditions of unsafe functions, of overflow and with debug assertions; programs trap
//! at undefined behaviour, and need no runtime by which the shim would know them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use mapper_report::workspace;

/// What shim and programs are built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sanitizer {
    /// Memory that is used after its end or beyond its bounds
    Address,
    /// The same of the shim alone, whose teams are virtual then
    AddressOfShim,
    /// Undefined behaviour that can be checked where it happens
    Undefined,
}

/// How the programs of a compiler are built and run.
#[derive(Default)]
pub(crate) struct Programs {
    /// For the compiler, beyond the usual ones.
    pub(crate) flags: Vec<String>,
    /// What to preload before the shim, with the sanitizer's runtime, which also children need that are not instrumented.
    /// AddressSanitizer begins by `dlsym`, and an instrumented one cannot run before it has begun.
    pub(crate) before_shim: Option<PathBuf>,
}

const CLANGS_RUNTIME: &str = "libclang_rt.asan-x86_64.so";

/// The architecture and system that the shim is for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

impl Sanitizer {
    /// As `--sanitizer` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::AddressOfShim => "address-of-shim",
            Self::Undefined => "undefined",
        }
    }

    /// For the programs of a compiler; what it makes goes to `scratch`.
    pub(crate) fn programs_of(self, compiler: &str, scratch: &Path) -> anyhow::Result<Programs> {
        if self == Self::Undefined {
            let flags = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"];
            return Ok(Programs {
                flags: flags.map(str::to_owned).into(),
                before_shim: None,
            });
        }
        let mut flags = vec!["-fsanitize=address".to_owned()];
        if compiler.contains("clang") {
            // By itself it links the runtime into the program, whose children then have none.
            let mut asked = Command::new(compiler);
            asked.arg(format!("-print-file-name={CLANGS_RUNTIME}"));
            let output = asked
                .output()
                .with_context(|| format!("start {compiler}"))?;
            let runtime = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            ensure!(
                runtime.is_absolute(),
                "{compiler} has no {CLANGS_RUNTIME}; install it (Debian: libclang-rt-14-dev) or leave {compiler} out by --cc"
            );
            let folder = runtime.parent().unwrap_or(Path::new("/")).display();
            flags.extend(["-shared-libasan".to_owned(), format!("-Wl,-rpath,{folder}")]);
        }
        let source = workspace::root().join("tests/conformance/src/before_sanitized_shim.c");
        let library = scratch.join(format!("before_shim-{}.so", compiler.replace('/', "-")));
        let object = library.with_extension("o");
        let make = |arguments: &[&str], output: &Path, input: &Path| {
            let mut command = Command::new(compiler);
            command.args(arguments).arg("-o").args([output, input]);
            let status = command
                .status()
                .with_context(|| format!("start {compiler}"))?;
            ensure!(status.success(), "{} does not compile", source.display());
            anyhow::Ok(())
        };
        let own = ["-c", "-fPIC", "-O1", "-Wall", "-Werror"];
        make(&own, &object, &source)?;
        // Linked with the runtime, but not instrumented.
        let mut linked = vec!["-shared", "-Wl,--no-as-needed"];
        linked.extend(flags.iter().map(String::as_str));
        make(&linked, &library, &object)?;
        if self == Self::AddressOfShim {
            flags.clear();
        }
        Ok(Programs {
            flags,
            before_shim: Some(library),
        })
    }

    /// Builds the shim of this checkout.
    pub(crate) fn build_shim(self) -> anyhow::Result<PathBuf> {
        let flags = match self {
            Self::Address => "-Zsanitizer=address",
            Self::AddressOfShim => "-Zsanitizer=address --cfg mapper_beside_sanitizer",
            Self::Undefined => "-Zub-checks=yes -Cdebug-assertions=yes -Coverflow-checks=yes",
        };
        let folder = workspace::target_dir().join(format!("sanitizer-{}", self.name()));
        let status = Command::new("cargo")
            .args(["build", "--quiet", "--locked", "-p", "mapper-omp-shim"])
            .args(["--target", TARGET, "-Zbuild-std=std,panic_unwind"])
            .current_dir(workspace::root())
            .env("RUSTUP_TOOLCHAIN", "nightly")
            .env("CARGO_TARGET_DIR", &folder)
            // The nightly compiler warns of what the product's own does not.
            .env("RUSTFLAGS", format!("{flags} -Awarnings"))
            .status()
            .context("start cargo")?;
        ensure!(
            status.success(),
            "the shim could not be built for --sanitizer {}; it needs this: rustup toolchain install nightly --profile \
             minimal --component rust-src",
            self.name()
        );
        Ok(folder.join(TARGET).join("debug/libmapper_omp.so"))
    }

    /// What a program says that found something. The process that finds it may be a child whose status nobody reads.
    pub(crate) fn found(self, said: &str) -> Option<&str> {
        let marks = match self {
            Self::Address | Self::AddressOfShim => &["ERROR: AddressSanitizer", "panicked at "][..],
            Self::Undefined => &["unsafe precondition", "panicked at "],
        };
        let is_mark = |line: &&str| marks.iter().any(|mark| line.contains(mark));
        said.lines().find(is_mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_a_child_whose_status_nobody_reads_is_found() {
        let report = "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x6";
        let panic = "thread '<unnamed>' panicked at omp-shim/core/src/lib.rs:1:2:";
        for (sanitizer, line, is_found) in [
            (Sanitizer::Address, report, true),
            (Sanitizer::AddressOfShim, report, true),
            (Sanitizer::Address, panic, true),
            (Sanitizer::Undefined, panic, true),
            (Sanitizer::Undefined, "right", false),
        ] {
            let said = format!("before\n{line}\nafter");
            assert_eq!(sanitizer.found(&said), is_found.then_some(line), "{line}");
        }
    }
}
