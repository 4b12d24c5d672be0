//! `cargo xtask install`: everything that an installation consists of, where it belongs.
//!
//! What goes where is one table, `deploy/installed-files.txt`. Texts that name folders get those of this
//! installation. `--destdir` is put before every path and stands in no
//! file. An existing configuration stays as it is, and the default one lies in `share/mapper`.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use fs_err as fs;
use nix::sys::stat::Mode;
use tempfile::NamedTempFile;

use crate::task_dist::contents;
use crate::task_setup::{self, Consent, Purpose};
use crate::workspace;

/// The name by which programs ask for the library at run time.
pub(crate) const SONAME: &str = include_str!("../../crates/client-c/soname").trim_ascii_end();

/// The packages that are built for an installation.
pub(crate) const PACKAGES: [&str; 7] = [
    "mapper",
    "mapperd",
    "mapper-launch",
    "mapperctl",
    "mapper-omp-shim",
    "mapper-client-c",
    "mapper-spank",
];

/// Installs mapper
///
/// Builds everything and puts programs, libraries, units and the default configuration below a prefix.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install below this folder
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put this before every path, to make a package
    #[arg(long, value_name = "FOLDER")]
    destdir: Option<PathBuf>,
    /// Where libraries go [default: PREFIX/lib]
    #[arg(long, value_name = "FOLDER")]
    libdir: Option<PathBuf>,
    /// Where the configuration goes [default: /etc for /usr and /usr/local, else PREFIX/etc]
    #[arg(long, value_name = "FOLDER")]
    sysconfdir: Option<PathBuf>,
    /// Take what was built from this folder, such as target/release, and build nothing
    #[arg(long, value_name = "FOLDER")]
    built: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let (lib, sysconf) = (args.libdir.clone(), args.sysconfdir.clone());
    let folders = Folders::new(args.prefix.clone(), lib, sysconf)?;
    if args.built.is_none() {
        task_setup::require(&[Purpose::Build], consent)?;
        build()?;
    }
    let usual = workspace::target_dir().join("release");
    let built = args.built.clone().unwrap_or(usual);
    let root = args.destdir.clone().unwrap_or_default();
    let mut installed = folders.install(&built, &root);
    if let Err(error) = &installed
        && let Some(cause) = error.root_cause().downcast_ref::<io::Error>()
        && cause.kind() == io::ErrorKind::PermissionDenied
    {
        let line = privileged_line(args, &built)?;
        installed = installed.context(format!("no right to write there; run this: {line}"));
    }
    for path in installed? {
        println!("{}", path.display());
    }
    if args.destdir.is_none() {
        for hint in folders.hints() {
            eprintln!("{hint}");
        }
    }
    Ok(())
}

/// Builds what is installed, optimised.
pub(crate) fn build() -> anyhow::Result<()> {
    workspace::run(&mut building()).context("build mapper")
}

/// The command that does. What it builds names no folder of this machine, and so is the same in any.
pub(crate) fn building() -> Command {
    let home = std::env::home_dir().unwrap_or_default().join(".cargo");
    let home = std::env::var_os("CARGO_HOME").map_or(home, PathBuf::from);
    let target = workspace::target_dir();
    let target = std::path::absolute(&target).unwrap_or(target);
    let folders = [
        (workspace::root(), "/mapper"),
        (&target, "/target"),
        (&home, "/cargo"),
    ];
    let flag = |(from, to): (&Path, _)| format!("--remap-path-prefix={}={to}", from.display());
    let mut cargo = workspace::cargo();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", folders.map(flag).join("\x1f"));
    cargo.args(["build", "--release", "--locked"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo
}

/// Everything that is installed: `built`, `file`, `filled`, `link` or `stub`, from where, below `prefix` or `lib`, the
/// name there, and the mode.
const FILES: &str = include_str!("../../deploy/installed-files.txt");

/// The configuration, which is the operator's once it is there.
const CONFIGURATION: (&str, &str) = ("deploy/mapper.toml", "mapper/mapper.toml");

/// The folders of an installation, as its own texts name them.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    prefix: PathBuf,
    lib: PathBuf,
    sysconf: PathBuf,
}

impl Folders {
    /// The folders for a prefix, with those that do not follow from it.
    pub(crate) fn new(
        prefix: PathBuf,
        lib: Option<PathBuf>,
        sysconf: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let system = ["/usr", "/usr/local"].map(Path::new);
        let usual = match system.contains(&&*prefix) {
            true => "/etc".into(),
            false => prefix.join("etc"),
        };
        let sysconf = sysconf.unwrap_or(usual);
        let lib = lib.unwrap_or_else(|| prefix.join("lib"));
        for (flag, folder) in [
            ("prefix", &prefix),
            ("libdir", &lib),
            ("sysconfdir", &sysconf),
        ] {
            let text = folder.to_str();
            let text =
                text.with_context(|| format!("--{flag} {folder:?}: give a name in UTF-8"))?;
            // Units and pkg-config files take apart what has blanks in it.
            ensure!(
                folder.is_absolute() && !text.contains([' ', '\t', '\n', '%', '"', '\\']),
                "--{flag} {text:?}: give an absolute path without blanks, % or quotes"
            );
        }
        Ok(Self {
            prefix,
            lib,
            sysconf,
        })
    }

    /// Puts everything in its place below `root` (empty for the system itself); returns the paths
    /// that were written.
    pub(crate) fn install(&self, built: &Path, root: &Path) -> anyhow::Result<Vec<PathBuf>> {
        // All users may read what is made, whatever the umask.
        nix::sys::stat::umask(Mode::S_IWGRP | Mode::S_IWOTH);
        let mut written = Vec::new();
        let files = FILES.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        let files = files.replace("@SONAME@", SONAME);
        for line in files.lines().filter(|line| !line.starts_with('#')) {
            let bad = || format!("installed-files.txt: {line:?}");
            let words: Vec<&str> = line.split_whitespace().collect();
            let [kind, from, folder, name, mode] = words[..] else {
                bail!(bad());
            };
            let folder = match folder {
                "prefix" => &self.prefix,
                "lib" => &self.lib,
                _ => bail!(bad()),
            };
            let to = below(root, &folder.join(name));
            let checkout = workspace::root().join(from);
            let mode = u32::from_str_radix(mode, 8).with_context(bad)?;
            match kind {
                "built" => put(&read(&built.join(from))?, &to, mode)?,
                "file" => put(&read(&checkout)?, &to, mode)?,
                "filled" => {
                    let text = String::from_utf8(read(&checkout)?).with_context(bad)?;
                    put(self.fill(&text).as_bytes(), &to, mode)?;
                }
                "link" => link(from, &to)?,
                "stub" => put(&empty_library(from)?, &to, mode)?,
                _ => bail!(bad()),
            }
            written.push(to);
        }
        let share = below(root, &self.prefix.join("share"));
        written.extend(contents::install_documents(built, &share)?);
        let (source, name) = CONFIGURATION;
        let to = below(root, &self.sysconf.join(name));
        if to.try_exists().with_context(|| to.display().to_string())? {
            eprintln!("kept {}", to.display());
        } else {
            put(&read(&workspace::root().join(source))?, &to, 0o644)?;
            written.push(to);
        }
        Ok(written)
    }

    /// A text with the folders filled in.
    fn fill(&self, text: &str) -> String {
        let bin = format!("{}/bin/", self.prefix.display());
        let libexec = format!("{}/libexec/", self.prefix.display());
        let config = self.sysconf.join(CONFIGURATION.1);
        // The daemon looks into /etc by itself.
        let options = match self.sysconf == Path::new("/etc") {
            true => String::new(),
            false => format!("--config {} ", config.display()),
        };
        let lines = text.lines();
        let lines = lines.filter(|line| !line.starts_with("# `cargo xtask install`"));
        let daemon = "/bin/mapperd ";
        let started = format!("{daemon}{options}");
        let filled = lines.map(|line| match line.split_once('=') {
            Some(("prefix", _)) => format!("prefix={}\n", self.prefix.display()),
            Some(("libdir", _)) => format!("libdir={}\n", self.lib.display()),
            _ => {
                let line = line.replace("/usr/libexec/", &libexec);
                line.replace("/usr/bin/", &bin).replace(daemon, &started) + "\n"
            }
        });
        filled.collect()
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    if root.as_os_str().is_empty() {
        return path.to_owned();
    }
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let hint = "without --built everything is built first";
    fs::read(path).with_context(|| format!("read {}; {hint}", path.display()))
}

/// Puts a file in place by a rename, since a program that runs cannot be written to.
fn put(content: &[u8], to: &Path, mode: u32) -> anyhow::Result<()> {
    let mut aside = NamedTempFile::new_in(folder_of(to)?)?;
    aside
        .write_all(content)
        .and_then(|()| fs::set_permissions(aside.path(), Permissions::from_mode(mode)))
        .and_then(|()| Ok(aside.persist(to)?))
        .with_context(|| format!("write {}", to.display()))?;
    Ok(())
}

/// An ELF file that a loader of this kind takes, with nothing in it.
fn empty_library(kind: &str) -> anyhow::Result<Vec<u8>> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let make = "as --32 -o empty.o /dev/null; ld -m \"$0\" -shared -s -z noseparate-code -o library empty.o";
    let mut shell = Command::new("sh");
    shell.args(["-ec", make, kind]).current_dir(&folder);
    workspace::output(&mut shell).context("make the library for 32 bits with binutils")?;
    read(&folder.path().join("library"))
}

fn link(target: &str, to: &Path) -> anyhow::Result<()> {
    tempfile::Builder::new()
        .make_in(folder_of(to)?, |aside| symlink(target, aside))
        .and_then(|aside| Ok(aside.persist(to)?))
        .with_context(|| format!("link {}", to.display()))?;
    Ok(())
}

/// The folder of a file, which is made if it is missing.
fn folder_of(to: &Path) -> anyhow::Result<&Path> {
    let folder = to.parent().context("a file without a folder")?;
    fs::create_dir_all(folder)?;
    Ok(folder)
}

/// The command that does the rest as root, without building anything as root.
fn privileged_line(args: &Args, built: &Path) -> anyhow::Result<String> {
    let mut words = vec!["sudo".into(), std::env::current_exe()?, "install".into()];
    let built = Some(built.to_owned());
    for (flag, value) in [
        ("--prefix", &Some(args.prefix.clone())),
        ("--built", &built),
        ("--destdir", &args.destdir),
        ("--libdir", &args.libdir),
        ("--sysconfdir", &args.sysconfdir),
    ] {
        if let Some(value) = value {
            words.extend([flag.into(), value.clone()]);
        }
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Ok(shlex::try_join(words.iter().map(|word| &**word))?)
}

impl Folders {
    /// What is left to be done for a prefix on this system.
    fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        let lib = self.lib.display();
        // The loader's own folders are read without its cache; Debian lists the last one in ld.so.conf.d.
        if self.lib == Path::new("/usr/local/lib") {
            hints.push(format!(
                "run `ldconfig` as root, so that programs find {lib}/{SONAME}"
            ));
        } else if !self.lib.starts_with("/usr/lib") && !self.lib.starts_with("/lib") {
            hints.push(format!(
                "programs find {SONAME} with LD_LIBRARY_PATH={lib}, or when that folder stands in \
                 /etc/ld.so.conf.d and `ldconfig` has been run"
            ));
        }
        let units = self.prefix.join("lib/systemd/system");
        let system = ["/usr", "/usr/local"].map(Path::new);
        if !system.contains(&&*self.prefix) {
            let folder = units.display();
            let mut hint =
                format!("systemd does not look into {folder}; run this as root: systemctl link");
            let names = FILES.split_whitespace();
            for name in names.filter_map(|word| word.strip_prefix("lib/systemd/system/")) {
                hint += &format!(" {}", units.join(name).display());
            }
            hints.push(hint);
        }
        let hidden = ["/home", "/root", "/run/user"];
        let is_hidden = |folder: &Path| hidden.iter().any(|home| folder.starts_with(home));
        if is_hidden(&self.prefix) || is_hidden(&self.sysconf) {
            let hint = "mapperd.service sees nothing below /home, /root and /run/user: install \
                        elsewhere, or give it a drop-in with ProtectHome=read-only";
            hints.push(hint.to_owned());
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_root_keeps_paths_with_blanks_in_one_word() {
        let odd = "/home/a b/it's $HOME";
        let args = Args {
            prefix: "/usr/local".into(),
            destdir: None,
            libdir: None,
            sysconfdir: Some(odd.into()),
            built: None,
        };
        let line = privileged_line(&args, Path::new("/built")).unwrap();
        let words = shlex::split(&line).unwrap();
        assert_eq!(words[2..5], ["install", "--prefix", "/usr/local"]);
        assert_eq!(words[5..], ["--built", "/built", "--sysconfdir", odd]);
    }

    #[test]
    fn next_steps_are_named_for_each_prefix() {
        let hints_for = |prefix: &str| {
            let folders = Folders::new(prefix.into(), None, None);
            folders.unwrap().hints().join("\n")
        };
        assert_eq!(hints_for("/usr"), "");
        let local = hints_for("/usr/local");
        assert!(
            local.contains("run `ldconfig`") && !local.contains("systemctl"),
            "{local}"
        );
        let opt = hints_for("/opt/mapper");
        let link = "systemctl link /opt/mapper/lib/systemd/system/mapper.slice";
        assert!(
            opt.contains(link) && opt.contains("LD_LIBRARY_PATH=/opt/mapper/lib"),
            "{opt}"
        );
        assert!(!opt.contains("ProtectHome"), "{opt}");
        assert!(hints_for("/home/u/mapper").contains("ProtectHome=read-only"));
    }
}
