//! `cargo xtask dist`: a Debian package out of what `cargo xtask install` puts in place, a Python [`wheel`], or a
//! [`tarball`].
//!
//! The files are laid out below `tree`; `cargo deb` packs that folder as `deploy/debian/Cargo.toml` says, and `cargo
//! about` lists crates and licences. The same source and toolchain shall give the same package in any folder (a nightly
//! job compares two): every time in it is `SOURCE_DATE_EPOCH`, or that of the last commit.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use crate::task_install::{self, Folders, SONAME};
use crate::task_setup::{self, Consent, Purpose};
use crate::workspace::{self, output, run as run_shown, tool};

pub(crate) mod contents;
mod old_glibc;
mod relocatable;
pub(crate) mod tarball;
pub(crate) mod wheel;

pub(crate) use contents::Use;
use contents::{
    LICENCES, SBOM, VERSION, install_book, install_crates, install_documents, source_date, strip,
    write,
};

/// What of `deploy/debian` lies beside the tree when it is packed.
const BESIDE: [&str; 6] = [
    "Cargo.toml",
    "copyright",
    "postinst",
    "postrm",
    "prerm",
    "triggers",
];

/// Makes a Debian package, a Python wheel, or a tarball
///
/// Builds everything and packs programs, libraries, units, configuration, manual pages and completions.
/// Installed, it is enabled and started; purged, nothing is left.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make a Python wheel, which users without root install with pip or pipx
    #[arg(long, conflicts_with_all = ["lint", "revision"])]
    wheel: bool,
    /// Make a tarball with an installer, for users without root and without Python
    #[arg(long, conflicts_with_all = ["lint", "revision", "wheel"])]
    tarball: bool,
    /// Put the package here [default: dist in cargo's folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Leave out the lists of crates and their licences, for a package that is tested and not passed on
    #[arg(long, conflicts_with_all = ["lint", "sign"])]
    for_tests: bool,
    /// How often this version has been packed: the part of the package's version after the hyphen
    #[arg(long, value_name = "N", default_value = "1")]
    revision: NonZeroU32,
    /// Take what was built from this folder, such as target/release, and build nothing
    #[arg(long, value_name = "FOLDER")]
    built: Option<PathBuf>,
    /// Check the package with lintian, and fail if it finds anything
    #[arg(long)]
    lint: bool,
    /// Sign the package with this key of gpg; the signature lies beside it, in a file that ends in .asc
    #[arg(long, value_name = "KEY")]
    sign: Option<String>,
}

pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let mut purposes = vec![Purpose::Build, Purpose::Package];
    purposes.extend(args.lint.then_some(Purpose::Lint));
    purposes.extend((args.wheel || args.tarball).then_some(Purpose::Wheel));
    task_setup::require(&purposes, consent)?;
    let target = workspace::target_dir();
    let built = match &args.built {
        Some(built) => built.clone(),
        None => {
            eprintln!("building (minutes, the first time)");
            match args.wheel || args.tarball {
                true => old_glibc::build()?,
                false => {
                    task_install::build()?;
                    target.join("release")
                }
            }
        }
    };
    // The loader takes it, too, and from another folder.
    let built = std::path::absolute(built)?;
    let out = args.out.clone().unwrap_or_else(|| target.join("dist"));
    let use_of = match args.for_tests {
        true => Use::Tests,
        false => Use::Anybody,
    };
    let (package, installer) = match (args.wheel, args.tarball) {
        (true, _) => (wheel::pack(&built, use_of, &out)?, "pipx install"),
        (_, true) => (tarball::pack(&built, use_of, &out)?, "tar -xf"),
        _ => (
            pack(&built, use_of, args.revision, &out)?,
            "sudo apt install",
        ),
    };
    if args.lint {
        eprintln!("checking with lintian");
        let mut lintian = Command::new("lintian");
        lintian.args(["--fail-on", "error,warning,info"]);
        lintian.args(["--display-info", "--allow-root"]);
        lintian.arg(&package);
        run_shown(&mut lintian)
            .with_context(|| format!("lintian rejects {}; see above", package.display()))?;
    }
    if let Some(key) = &args.sign {
        run_shown(&mut signing(&package, key))
            .with_context(|| format!("no signature by --sign {key}; see gpg --list-secret-keys"))?;
    }
    let content = fs::read(&package)?;
    println!("{}", package.display());
    eprintln!(
        "{:.1} MB, SHA-256 {:x}; install it with: {} {}",
        content.len() as f64 / 1e6,
        Sha256::digest(&content),
        installer,
        std::path::absolute(&package)?.display()
    );
    Ok(())
}

/// What writes a signature beside the package.
fn signing(package: &Path, key: &str) -> Command {
    let mut gpg = Command::new("gpg");
    gpg.args(["--yes", "--armor", "--detach-sign", "--local-user", key]);
    gpg.arg(package);
    gpg
}

/// Packs what was built in the folder `built` into the folder `out`; gives the package's path.
fn pack(built: &Path, use_of: Use, revision: NonZeroU32, out: &Path) -> anyhow::Result<PathBuf> {
    let line = |command: &mut Command| anyhow::Ok(output(command)?.trim().to_owned());
    let said = |program: &str, arguments: &[&str]| line(Command::new(program).args(arguments));
    let date = source_date()?;
    fs::create_dir_all(out)?;
    let work =
        tempfile::tempdir_in(out).with_context(|| format!("make a folder in {}", out.display()))?;
    let (work, shipped) = (work.path(), workspace::root().join("deploy/debian"));
    let copy = |from: &Path, to: &Path| fs::copy(from, to);
    for name in BESIDE {
        copy(&shipped.join(name), &work.join(name))?;
    }
    write(&work.join("lib.rs"), "")?;

    let multiarch = said("dpkg-architecture", &["-qDEB_HOST_MULTIARCH"])?;
    let libraries = PathBuf::from(format!("/usr/lib/{multiarch}"));
    let (tree, version) = (work.join("tree"), format!("{VERSION}-{revision}"));
    for path in Folders::new("/usr".into(), Some(libraries), None)?.install(built, &tree)? {
        strip(&path)?;
    }
    let share = tree.join("usr/share");
    let mut texts = install_documents(built, &share)?;
    texts.retain(|path| path.starts_with(share.join("man")));
    install_book(&share)?;
    let doc = share.join("doc/mapper");
    let changelog = doc.join("changelog.Debian");
    let mailed = said("date", &["-u", "-R", "-d", &format!("@{date}")])?;
    write(
        &changelog,
        &format!(
            "mapper ({version}) unstable; urgency=medium\n\n  * Packed from version {VERSION} of the \
             source; see CHANGELOG.md there.\n\n -- The developers of mapper \
             <mapper@mapper.invalid>  {mailed}\n"
        ),
    )?;
    texts.push(changelog);
    texts.extend(install_crates(LICENCES, use_of, &doc)?);
    install_crates(SBOM, use_of, &doc)?;
    output(Command::new("gzip").args(["-9", "-n"]).args(texts))?;
    let overrides = shipped.join("lintian-overrides");
    let overrides = fs::read_to_string(&overrides)?;
    let overrides = overrides.replace("@MULTIARCH@", &multiarch);
    write(&share.join("lintian/overrides/mapper"), &overrides)?;

    let architecture = said("dpkg", &["--print-architecture"])?;
    let package = out.join(format!("mapper_{version}_{architecture}.deb"));
    eprintln!("packing (half a minute)");
    let mut deb = Command::new(tool("cargo-deb", "3.8.0", &[])?);
    deb.current_dir(work).env("SOURCE_DATE_EPOCH", &date);
    deb.args(["--no-build", "--no-strip", "--no-dbgsym", "--fast"]);
    deb.args(["--deb-version", &version]);
    deb.arg("--output").arg(work.join("package.deb"));
    output(&mut deb)?;
    complete(work, use_of, &date, &package)?;
    Ok(package)
}

/// Adds what `cargo deb` does not write: checksums, and the file by which packages of programs that are linked
/// with the library come to depend on this one.
fn complete(work: &Path, use_of: Use, date: &str, package: &Path) -> anyhow::Result<()> {
    let (unpacked, packed) = (work.join("unpacked"), work.join("package.deb"));
    let mut deb = Command::new("dpkg-deb");
    output(deb.arg("-R").arg(packed).arg(&unpacked))?;
    let name = SONAME.split_once(".so.");
    let (library, version) = name.context("the library's name has no version")?;
    let line = format!("{library} {version} mapper (>= {VERSION})\n");
    write(&unpacked.join("DEBIAN/shlibs"), &line)?;
    let checksums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums";
    let mut shell = Command::new("sh");
    output(shell.args(["-ec", checksums]).current_dir(&unpacked))?;
    let mut deb = Command::new("dpkg-deb");
    deb.env("SOURCE_DATE_EPOCH", date);
    deb.args(match use_of {
        Use::Anybody => &["-Zxz"][..],
        // Packed in a second, not in half a minute.
        Use::Tests => &["-Zgzip", "-z1"],
    });
    deb.args(["--root-owner-group", "--build"]);
    output(deb.arg(unpacked).arg(package)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_the_package_that_was_signed_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (home, package) = (folder.path(), folder.path().join("mapper.deb"));
        let gpg = |arguments: &[&str]| {
            let mut gpg = Command::new("gpg");
            gpg.args(["--batch", "--quiet", "--passphrase", ""]);
            gpg.env("GNUPGHOME", home).args(arguments);
            gpg
        };
        let key = ["--quick-generate-key", "operator@example.org"];
        output(&mut gpg(&key)).unwrap();
        let verify = || {
            let signed = package.to_str().unwrap();
            output(&mut gpg(&["--verify", &format!("{signed}.asc"), signed]))
        };
        fs::write(&package, "packed").unwrap();
        for round in 0..2 {
            let mut signing = signing(&package, "operator@example.org");
            output(signing.env("GNUPGHOME", home)).unwrap();
            verify().unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        }
        fs::write(&package, "changed").unwrap();
        verify().unwrap_err();
        let mut unknown = signing(&package, "nobody@example.org");
        output(unknown.env("GNUPGHOME", home)).unwrap_err();
        output(
            Command::new("gpgconf")
                .env("GNUPGHOME", home)
                .args(["--kill", "all"]),
        )
        .unwrap();
    }
}
