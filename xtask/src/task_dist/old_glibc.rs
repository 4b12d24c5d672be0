//! Builds for an old glibc, so that a wheel or a tarball runs on older systems than this one.
//!
//! The compiler and linker is Zig from PyPI, which has the interfaces of every glibc. This system's hwloc needs this
//! system's glibc, so one is built from the source of Debian's package. `.cargo/config.toml` and `crates/host/build.rs`
//! find it as they find any other.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::environment;
use crate::task_install;
use crate::workspace::{self, output};

/// The oldest for which manylinux has a name that pip knows since 2020.
const GLIBC: &str = "2.28";

const HWLOC: &str = "2.9.0";
pub(super) const HWLOC_SOURCE: &str =
    "https://deb.debian.org/debian/pool/main/h/hwloc/hwloc_2.9.0.orig.tar.bz2";
const HWLOC_SHA256: &str = "b3fb1a43a14d8fbcd8e976de5ede2ea7ce1d768ed173adb33c7ceaaf098dc970";
/// The licence of that hwloc, beside what was built.
pub(super) const HWLOC_LICENCE: &str = "hwloc-licence.txt";

/// What of hwloc is built: what it knows of processors and memory, without devices and other formats.
const CONFIGURED: &str = "--disable-static --enable-shared --disable-readme --disable-io --disable-pci --disable-opencl \
                          --disable-cuda --disable-nvml --disable-rsmi --disable-levelzero --disable-gl --disable-cairo \
                          --disable-libxml2 --disable-libudev --disable-plugins --localstatedir=/var";

/// Builds everything optimised; gives the folder that has it, with the hwloc that it needs.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    let tools = std::path::absolute(environment::with("requirements-wheel.txt")?)?;
    let place = tools.with_extension(format!("glibc-{GLIBC}"));
    fs::create_dir_all(&place)?;
    let compiler = script(&place, "cc", &compiler(&tools))?;
    let hwloc = hwloc(&tools, &place, &compiler)?;

    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let linker = format!(
        "CARGO_TARGET_{}_LINKER",
        target.replace('-', "_").to_uppercase()
    );
    let mut cargo = task_install::building();
    cargo.args(["--target", &target]).env(linker, &compiler);
    cargo.env("PKG_CONFIG_PATH", hwloc.join("lib/pkgconfig"));
    workspace::run(&mut cargo).context("build mapper for an old glibc")?;

    let built = workspace::target_dir().join(target).join("release");
    let library = "libhwloc.so.15";
    fs::copy(hwloc.join("lib").join(library), built.join(library))?;
    fs::copy(hwloc.join(HWLOC_LICENCE), built.join(HWLOC_LICENCE))?;
    Ok(built)
}

/// A compiler and linker for the old glibc. Rust asks for gcc's support library, which is on every system, where Zig
/// would put an unwinder of its own into each file: exceptions of a program could then not pass the shim.
fn compiler(tools: &Path) -> String {
    let (python, arch) = (tools.join("bin/python"), std::env::consts::ARCH);
    format!(
        "for word; do\n    shift\n    case $word in\n    -lgcc_s) set -- \"$@\" \"$(gcc -print-file-name=libgcc_s.so.1)\" ;;\n    \
         -lgcc_eh | -lgcc | -m64 | -fuse-ld=* | -B*) ;;\n    *) set -- \"$@\" \"$word\" ;;\n    esac\ndone\n\
         exec {} -m ziglang cc -target {arch}-linux-gnu.{GLIBC} \"$@\"\n",
        python.display()
    )
}

/// A program for the shell in the folder `place`.
fn script(place: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = place.join(name);
    let cache = place.join("cache");
    let head = format!(
        "#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR={}\n",
        cache.display()
    );
    fs::write(&path, head + text)?;
    fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The folder of an hwloc for the old glibc, built once.
fn hwloc(tools: &Path, place: &Path, compiler: &Path) -> anyhow::Result<PathBuf> {
    let folder = place.join(format!("hwloc-{HWLOC}"));
    if folder.join(HWLOC_LICENCE).exists() {
        return Ok(folder);
    }
    eprintln!("building hwloc {HWLOC} (a few minutes, once)");
    let archive = place.join("hwloc.tar.bz2");
    let fetch = "import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])";
    let mut python = Command::new(tools.join("bin/python"));
    output(python.args(["-c", fetch, HWLOC_SOURCE]).arg(&archive))
        .with_context(|| format!("fetch {HWLOC_SOURCE}"))?;
    let sum = format!("{:x}", Sha256::digest(fs::read(&archive)?));
    ensure!(
        sum == HWLOC_SHA256,
        "{HWLOC_SOURCE} has the SHA-256 {sum} and not {HWLOC_SHA256}; nothing was built from it"
    );
    let source = tempfile::tempdir_in(place)?;
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xf"]).arg(&archive);
    output(tar.arg("-C").arg(source.path()))?;
    let zig = |tool: &str| {
        let python = tools.join("bin/python");
        let text = format!("exec {} -m ziglang {tool} \"$@\"\n", python.display());
        script(place, tool, &text)
    };
    let mut configure = Command::new("./configure");
    configure.args(CONFIGURED.split_whitespace());
    configure.arg(format!("--prefix={}", folder.display()));
    for (name, program) in [
        ("CC", compiler.to_owned()),
        ("AR", zig("ar")?),
        ("RANLIB", zig("ranlib")?),
    ] {
        configure.arg(format!("{name}={}", program.display()));
    }
    output(configure.current_dir(source.path()))?;
    for part in ["include", "hwloc"] {
        let mut make = Command::new("make");
        output(
            make.args(["-C", part, "install"])
                .current_dir(source.path()),
        )?;
    }
    let described = format!(
        "Name: hwloc\nDescription: hwloc\nVersion: {HWLOC}\nLibs: -L{0}/lib -lhwloc\nCflags: -I{0}/include\n",
        folder.display()
    );
    fs::create_dir_all(folder.join("lib/pkgconfig"))?;
    fs::write(folder.join("lib/pkgconfig/hwloc.pc"), described)?;
    // Last, as it tells that all is there.
    fs::copy(source.path().join("COPYING"), folder.join(HWLOC_LICENCE))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_takes_the_old_glibc_and_the_unwinder_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        script(&folder.path().join("bin"), "python", "echo \"$@\"\n").unwrap();
        let linker = script(folder.path(), "cc", &compiler(folder.path())).unwrap();
        let words = ["-m64", "a.o", "-lgcc_s", "-lc"];
        let asked = output(Command::new(linker).args(words)).unwrap();
        let (head, libraries) = asked.split_once(" a.o ").unwrap();
        assert!(head.ends_with("-linux-gnu.2.28"), "{asked}");
        assert!(libraries.ends_with("/libgcc_s.so.1 -lc\n"), "{asked}");
    }
}
