//! `cargo xtask dist --tarball`: what the wheel has, without Python, with an installer that needs no root.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use super::contents::{Use, VERSION, install_book, put, source_date, write};
use super::relocatable::{Folders, LIBRARIES, lay_out};
use crate::task_install::SONAME;
use crate::workspace::{self, output};

/// Files of the checkout, and where they lie in the tarball. `install.sh` fills in `PREFIX` in the units.
const FILES: [(&str, &str, u32); 8] = [
    (
        "crates/client-c/include/mapper.h",
        "include/mapper.h",
        0o644,
    ),
    (
        "crates/client-c/fortran/mapper.f90",
        "include/mapper.f90",
        0o644,
    ),
    (
        "crates/client-c/mapper.pc",
        "lib/pkgconfig/mapper.pc",
        0o644,
    ),
    ("deploy/mapper.toml", "share/mapper/mapper.toml", 0o644),
    (
        "deploy/user/mapperd.socket",
        "share/systemd/user/mapperd.socket",
        0o644,
    ),
    (
        "deploy/user/mapperd.service",
        "share/systemd/user/mapperd.service",
        0o644,
    ),
    ("deploy/tarball/README", "README", 0o644),
    ("deploy/tarball/install.sh", "install.sh", 0o755),
];

/// Packs what was built in the folder `built` into the folder `out`; gives the tarball's path.
pub(crate) fn pack(built: &Path, use_of: Use, out: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(out)?;
    let work = tempfile::tempdir_in(out)?;
    let name = format!("mapper-{VERSION}-linux-{}", std::env::consts::ARCH);
    let tree = work.path().join(&name);
    let documents = tree.join("share/doc/mapper");
    let folders = Folders {
        programs: tree.join("bin"),
        prefix: tree.clone(),
        licences: documents.clone(),
        sbom: documents,
    };
    let glibc = lay_out(built, use_of, &folders)?.minor;
    write(&tree.join("share/mapper/glibc"), &format!("2.{glibc}\n"))?;
    install_book(&tree.join("share"))?;
    for (from, to, mode) in FILES {
        put(&workspace::root().join(from), &tree.join(to), mode)?;
    }
    let library = Path::new(LIBRARIES).strip_prefix("lib")?.join(SONAME);
    for link in [SONAME, "libmapper.so"] {
        fs::os::unix::fs::symlink(&library, tree.join("lib").join(link))?;
    }
    let tarball = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", source_date()?));
    tar.args(["--mode=go=u-w", "--use-compress-program=gzip -9n", "-cf"]);
    tar.arg(&tarball).arg("-C").arg(work.path()).arg(&name);
    output(&mut tar)?;
    Ok(tarball)
}
