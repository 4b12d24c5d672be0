//! `cargo xtask install`: everything that an installation consists of, where it belongs.
//!
//! What goes where is one table, `deploy/installed-files.txt`. Two texts name folders and get those of this
//! installation: the daemon's unit and `mapper.pc`. `--destdir` is put before every path and stands in no
//! file. An existing configuration stays as it is, and the default one lies in `share/mapper`.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::task_setup::{self, Consent, Purpose};
use crate::workspace;

/// The name by which programs ask for the library at run time.
pub(crate) const SONAME: &str = include_str!("../../crates/client-c/soname").trim_ascii_end();

/// The packages that are built for an installation.
pub(crate) const PACKAGES: [&str; 5] = [
    "mapperd",
    "mapper-launch",
    "mapperctl",
    "mapper-omp-shim",
    "mapper-client-c",
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

/// Runs `cargo xtask install`.
pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let folders = Folders::new(
        args.prefix.clone(),
        args.libdir.clone(),
        args.sysconfdir.clone(),
    )?;
    let built = match &args.built {
        Some(folder) => folder.clone(),
        None => {
            task_setup::require(&[Purpose::Build], consent)?;
            build()?;
            workspace::target_dir().join("release")
        }
    };
    let root = args.destdir.clone().unwrap_or_default();
    let installed = folders.install(&built, &root).map_err(|error| {
        let denied = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if denied {
            error.context(format!(
                "no right to write there; run this: {}",
                privileged_line(args, &built)
            ))
        } else {
            error
        }
    })?;
    for path in &installed {
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
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release"]);
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    let status = cargo.status().context("run cargo")?;
    if !status.success() {
        bail!("cargo build failed ({status})");
    }
    Ok(())
}

/// Everything that is installed, a line each.
const FILES: &str = include_str!("../../deploy/installed-files.txt");

/// A line of [`FILES`].
struct Installed {
    /// `built`, `file`, `filled` or `link`.
    kind: &'static str,
    from: String,
    /// `prefix` or `lib`.
    folder: &'static str,
    name: String,
    mode: u32,
}

impl Installed {
    /// All lines.
    fn all() -> anyhow::Result<Vec<Self>> {
        let lines = FILES.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| Self::read(line).with_context(|| format!("installed-files.txt: {line:?}")))
            .collect()
    }

    fn read(line: &'static str) -> Option<Self> {
        let filled = |text: &str| {
            let version = env!("CARGO_PKG_VERSION");
            text.replace("@VERSION@", version)
                .replace("@SONAME@", SONAME)
        };
        let mut words = line.split_whitespace();
        Some(Self {
            kind: words.next()?,
            from: filled(words.next()?),
            folder: words.next()?,
            name: filled(words.next()?),
            mode: u32::from_str_radix(words.next()?, 8).ok()?,
        })
    }
}

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
        let sysconf = sysconf.unwrap_or_else(|| {
            if system.contains(&prefix.as_path()) {
                "/etc".into()
            } else {
                prefix.join("etc")
            }
        });
        let lib = lib.unwrap_or_else(|| prefix.join("lib"));
        for (flag, folder) in [
            ("prefix", &prefix),
            ("libdir", &lib),
            ("sysconfdir", &sysconf),
        ] {
            let Some(text) = folder.to_str() else {
                bail!("--{flag} {}: give a name in UTF-8", folder.display());
            };
            // Units and pkg-config files take apart what has blanks in it.
            if !folder.is_absolute() || text.contains([' ', '\t', '\n', '%', '"', '\\']) {
                bail!("--{flag} {text:?}: give an absolute path without blanks, % or quotes");
            }
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
        let mut written = Vec::new();
        for Installed {
            kind,
            from,
            folder,
            name,
            mode,
        } in Installed::all()?
        {
            let folder = match folder {
                "prefix" => &self.prefix,
                "lib" => &self.lib,
                other => bail!("installed-files.txt: {other} is no folder"),
            };
            let to = below(root, &folder.join(name));
            let checkout = workspace::root().join(&from);
            match kind {
                "built" => put(&read(&built.join(&from))?, &to, mode)?,
                "file" => put(&read(&checkout)?, &to, mode)?,
                "filled" => {
                    let text = String::from_utf8(read(&checkout)?)
                        .with_context(|| format!("read {}", checkout.display()))?;
                    put(self.fill(&text).as_bytes(), &to, mode)?;
                }
                "link" => link(&from, &to)?,
                other => bail!("installed-files.txt: {other} is no kind of file"),
            }
            written.push(to);
        }
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

    /// A text, `mapper.pc` or the daemon's unit, with the folders filled in.
    fn fill(&self, text: &str) -> String {
        let bin = format!("{}/bin/", self.prefix.display());
        let config = self.sysconf.join(CONFIGURATION.1);
        // The daemon looks into /etc by itself.
        let options = match self.sysconf == Path::new("/etc") {
            true => String::new(),
            false => format!("--config {} ", config.display()),
        };
        let mut filled = String::new();
        for line in text
            .lines()
            .filter(|line| !line.starts_with("# `cargo xtask install`"))
        {
            filled += &match line.split_once('=') {
                Some(("prefix", _)) => format!("prefix={}", self.prefix.display()),
                Some(("libdir", _)) => format!("libdir={}", self.lib.display()),
                _ => line
                    .replace("/usr/bin/", &bin)
                    .replace("/bin/mapperd ", &format!("/bin/mapperd {options}")),
            };
            filled.push('\n');
        }
        filled
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    if root.as_os_str().is_empty() {
        return path.to_owned();
    }
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| {
        format!(
            "read {}; without --built everything is built first",
            path.display()
        )
    })
}

/// Puts a file in place by a rename, since a program that runs cannot be written to.
fn put(content: &[u8], to: &Path, mode: u32) -> anyhow::Result<()> {
    let aside = aside(to)?;
    fs::write(&aside, content)
        .and_then(|()| fs::set_permissions(&aside, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&aside, to))
        .with_context(|| format!("write {}", to.display()))
}

fn link(target: &str, to: &Path) -> anyhow::Result<()> {
    let aside = aside(to)?;
    symlink(target, &aside)
        .and_then(|()| fs::rename(&aside, to))
        .with_context(|| format!("link {}", to.display()))
}

/// The name under which a file is made before it is put in place. Its folder exists.
fn aside(to: &Path) -> anyhow::Result<PathBuf> {
    let (Some(folder), Some(name)) = (to.parent(), to.file_name()) else {
        bail!("{}: not the path of a file", to.display());
    };
    make_folder(folder).with_context(|| format!("make {}", folder.display()))?;
    let aside = folder.join(format!(".{}.new", name.to_string_lossy()));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", aside.display()))
        }
        _ => Ok(aside),
    }
}

/// Makes a folder and those above it that are missing. All users may read what is made here, whatever the
/// umask; a folder that was there stays as it is.
fn make_folder(folder: &Path) -> io::Result<()> {
    const MODE: u32 = 0o755;
    match fs::DirBuilder::new().mode(MODE).create(folder) {
        Ok(()) => fs::set_permissions(folder, fs::Permissions::from_mode(MODE)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = folder.parent().ok_or(error)?;
            make_folder(above)?;
            make_folder(folder)
        }
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The command that does the rest as root, without building anything as root.
fn privileged_line(args: &Args, built: &Path) -> String {
    let task = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut line = format!(
        "sudo {} install --prefix {} --built {}",
        quoted(&task),
        quoted(&args.prefix),
        quoted(built)
    );
    for (flag, value) in [
        ("--destdir", &args.destdir),
        ("--libdir", &args.libdir),
        ("--sysconfdir", &args.sysconfdir),
    ] {
        if let Some(value) = value {
            line += &format!(" {flag} {}", quoted(value));
        }
    }
    line
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
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
        if !["/usr", "/usr/local"]
            .map(Path::new)
            .contains(&&*self.prefix)
        {
            let names = FILES.split_whitespace();
            let names = names.filter_map(|word| word.strip_prefix("lib/systemd/system/"));
            let names: Vec<_> = names
                .map(|name| units.join(name).display().to_string())
                .collect();
            hints.push(format!(
                "systemd does not look into {}; run this as root: systemctl link {}",
                units.display(),
                names.join(" ")
            ));
        }
        let hidden = ["/home", "/root", "/run/user"];
        let is_hidden = |folder: &Path| hidden.iter().any(|home| folder.starts_with(home));
        if is_hidden(&self.prefix) || is_hidden(&self.sysconf) {
            hints.push(
                "mapperd.service sees nothing below /home, /root and /run/user: install elsewhere, or \
                 give it a drop-in with ProtectHome=read-only"
                    .to_owned(),
            );
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_line_for_root_keeps_paths_with_blanks_in_one_word() {
        assert_eq!(quoted(Path::new("/usr/local")), "/usr/local");
        let odd = "/home/a b/it's $HOME";
        let word = quoted(Path::new(odd));
        let mut shell = Command::new("sh");
        let said = shell
            .args(["-c", &format!("printf %s {word}")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), odd);
    }

    #[test]
    fn next_steps_are_named_for_each_prefix() {
        let hints_for = |prefix: &str| {
            Folders::new(prefix.into(), None, None)
                .unwrap()
                .hints()
                .join("\n")
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
