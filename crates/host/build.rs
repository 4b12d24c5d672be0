//! Finds hwloc by pkg-config, and says what to install where it is missing. (`.cargo/config.toml` keeps the build script
//! of hwlocality-sys from doing that, which panics.)

use std::process::Command;

/// The oldest with every function that is used, and the first with another interface.
const VERSIONS: [&str; 2] = ["hwloc >= 2.8.0", "hwloc < 3.0.0"];

fn main() {
    for name in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let mut asked = Command::new(&program);
    asked
        .args(["--print-errors", "--libs-only-L"])
        .args(VERSIONS);
    let problem = match asked.output() {
        Ok(answer) if answer.status.success() => {
            let folders = String::from_utf8_lossy(&answer.stdout).into_owned();
            let folders = folders.split_whitespace();
            for folder in folders.filter_map(|word| word.strip_prefix("-L")) {
                println!("cargo::rustc-link-search=native={folder}");
            }
            return;
        }
        Ok(answer) => String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
        Err(error) => format!("{program}: {error}"),
    };
    for line in problem.lines() {
        println!("cargo::warning={line}");
    }
    println!(
        "cargo::error=mapper needs hwloc 2.8 or newer with its headers, and pkg-config to find it. Debian and Ubuntu: sudo \
         apt install libhwloc-dev pkg-config; Fedora: sudo dnf install hwloc-devel pkgconf; elsewhere: set PKG_CONFIG_PATH \
         to the folder of hwloc.pc"
    );
}
