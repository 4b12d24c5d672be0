//! `cargo xtask install`: everything that an installation consists of, where it belongs.
//!
//! What goes where is one table, [`FILES`]. Two texts name folders and get those of this
//! installation: the daemon's unit and `mapper.pc`. A package is made by `--destdir`, which is put before every path without being told
//! to anybody. An existing configuration stays as it is, and the default one lies beside it.

mod next_steps;

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
                next_steps::privileged_line(args, &built)
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

/// Where a file comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Out of cargo's folder.
    Built(&'static str),
    /// Out of the checkout.
    Checkout(&'static str),
    /// Out of the checkout, with the folders of this installation.
    Filled(&'static str, fn(&Folders, &str) -> String),
    /// A symbolic link to this name.
    Link(&'static str),
}

/// The folder a file goes to.
#[derive(Clone, Copy)]
enum Folder {
    /// `PREFIX`.
    Prefix,
    /// `PREFIX/lib`, or wherever libraries go.
    Lib,
    /// `/etc`.
    Sysconf,
}

/// Everything that is installed: what, into which folder, under which name, with which mode.
const FILES: [(Source, Folder, &str, u32); 19] = [
    (
        Source::Built("mapperd"),
        Folder::Prefix,
        "bin/mapperd",
        0o755,
    ),
    (
        Source::Built("mapper-launch"),
        Folder::Prefix,
        "bin/mapper-launch",
        0o755,
    ),
    (
        Source::Built("mapperctl"),
        Folder::Prefix,
        "bin/mapperctl",
        0o755,
    ),
    // The launcher looks for it here, beside its own folder.
    (
        Source::Built("libmapper_omp.so"),
        Folder::Prefix,
        "lib/mapper/libmapper_omp.so",
        0o644,
    ),
    (
        Source::Built("libmapper.so"),
        Folder::Lib,
        concat!("libmapper.so.", env!("CARGO_PKG_VERSION")),
        0o644,
    ),
    (
        Source::Link(concat!("libmapper.so.", env!("CARGO_PKG_VERSION"))),
        Folder::Lib,
        SONAME,
        0o644,
    ),
    (Source::Link(SONAME), Folder::Lib, "libmapper.so", 0o644),
    (
        Source::Built("libmapper.a"),
        Folder::Lib,
        "libmapper.a",
        0o644,
    ),
    (
        Source::Filled("crates/client-c/mapper.pc", Folders::fill_pkg_config),
        Folder::Lib,
        "pkgconfig/mapper.pc",
        0o644,
    ),
    (
        Source::Checkout("crates/client-c/include/mapper.h"),
        Folder::Prefix,
        "include/mapper.h",
        0o644,
    ),
    (
        Source::Checkout("crates/client-c/fortran/mapper.f90"),
        Folder::Prefix,
        "include/mapper.f90",
        0o644,
    ),
    (
        Source::Checkout("deploy/mapper.slice"),
        Folder::Prefix,
        "lib/systemd/system/mapper.slice",
        0o644,
    ),
    (
        Source::Checkout("deploy/mapper-apps.service"),
        Folder::Prefix,
        "lib/systemd/system/mapper-apps.service",
        0o644,
    ),
    (
        Source::Filled("deploy/mapperd.service", Folders::fill_unit),
        Folder::Prefix,
        "lib/systemd/system/mapperd.service",
        0o644,
    ),
    (
        Source::Checkout("deploy/adopt.conf"),
        Folder::Prefix,
        "share/mapper/adopt.conf",
        0o644,
    ),
    (
        Source::Checkout("deploy/partitions.conf"),
        Folder::Prefix,
        "share/mapper/partitions.conf",
        0o644,
    ),
    (
        Source::Checkout("deploy/mapper.schema.json"),
        Folder::Prefix,
        "share/mapper/mapper.schema.json",
        0o644,
    ),
    (
        Source::Checkout("deploy/status.schema.json"),
        Folder::Prefix,
        "share/mapper/status.schema.json",
        0o644,
    ),
    (
        Source::Checkout("deploy/mapper.toml"),
        Folder::Prefix,
        "share/mapper/mapper.toml",
        0o644,
    ),
];

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

    fn of(&self, folder: Folder) -> &Path {
        match folder {
            Folder::Prefix => &self.prefix,
            Folder::Lib => &self.lib,
            Folder::Sysconf => &self.sysconf,
        }
    }

    /// Puts everything in its place below `root` (empty for the system itself); returns the paths
    /// that were written.
    pub(crate) fn install(&self, built: &Path, root: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for (source, folder, name, mode) in FILES {
            let to = below(root, &self.of(folder).join(name));
            match source {
                Source::Built(name) => put(&read(&built.join(name))?, &to, mode)?,
                Source::Checkout(name) => put(&read(&workspace::root().join(name))?, &to, mode)?,
                Source::Filled(name, fill) => {
                    let text = String::from_utf8(read(&workspace::root().join(name))?)
                        .with_context(|| format!("read {name}"))?;
                    put(fill(self, &text).as_bytes(), &to, mode)?;
                }
                Source::Link(target) => link(target, &to)?,
            }
            written.push(to);
        }
        let (source, name) = CONFIGURATION;
        let to = below(root, &self.of(Folder::Sysconf).join(name));
        if to.try_exists().with_context(|| to.display().to_string())? {
            eprintln!("kept {}", to.display());
        } else {
            put(&read(&workspace::root().join(source))?, &to, 0o644)?;
            written.push(to);
        }
        Ok(written)
    }

    /// `mapper.pc` with the folders filled in.
    fn fill_pkg_config(&self, text: &str) -> String {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| match line.split_once('=') {
                Some(("prefix", _)) => format!("prefix={}\n", self.prefix.display()),
                Some(("libdir", _)) => format!("libdir={}\n", self.lib.display()),
                _ => format!("{line}\n"),
            })
            .collect()
    }

    /// The daemon's unit with the folders filled in.
    fn fill_unit(&self, text: &str) -> String {
        let bin = format!("{}/bin/", self.prefix.display());
        let text = text.replace("/usr/bin/", &bin);
        if self.sysconf == Path::new("/etc") {
            return text;
        }
        // The daemon looks into /etc by itself.
        let config = self.sysconf.join(CONFIGURATION.1);
        let start = format!("ExecStart={bin}mapperd ");
        text.replace(&start, &format!("{start}--config {} ", config.display()))
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

/// Makes a folder and those above it that are missing. Everybody may look into what is made here, whatever the
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What cargo made of the library for programs; the programs of mapper are stood in for.
    fn built() -> tempfile::TempDir {
        let status = workspace::cargo()
            .args(["build", "--quiet", "--package", "mapper-client-c"])
            .status()
            .unwrap();
        assert!(status.success());
        let folder = tempfile::tempdir().unwrap();
        for library in ["libmapper.so", "libmapper.a"] {
            let from = workspace::target_dir().join("debug").join(library);
            fs::copy(from, folder.path().join(library)).unwrap();
        }
        for program in ["mapperd", "mapper-launch", "mapperctl", "libmapper_omp.so"] {
            fs::write(folder.path().join(program), program).unwrap();
        }
        folder
    }

    fn folders(prefix: impl Into<PathBuf>) -> Folders {
        Folders::new(prefix.into(), None, None).unwrap()
    }

    fn succeed(command: &mut Command) -> String {
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_program_compiles_against_the_installed_tree_in_both_forms() {
        let (built, place) = (built(), tempfile::tempdir().unwrap());
        let prefix = place.path().join("opt");
        folders(&prefix)
            .install(built.path(), Path::new(""))
            .unwrap();
        let source = workspace::root().join("crates/client-c/tests/calls.c");
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
            let said = succeed(
                Command::new(&program)
                    .env("LD_LIBRARY_PATH", prefix.join("lib"))
                    .env_remove("MAPPER_PAGE"),
            );
            assert_eq!(said, "managed 0, 0 cpus, wait 0\n");
        }
    }

    #[test]
    fn texts_name_the_prefix_and_not_the_folder_of_the_package() {
        let (built, package) = (built(), tempfile::tempdir().unwrap());
        for (prefix, sysconf) in [("/usr", "/etc"), ("/opt/mapper", "/opt/mapper/etc")] {
            let root = package.path();
            let written = folders(prefix).install(built.path(), root).unwrap();
            let text = |path: &str| fs::read_to_string(below(root, Path::new(path))).unwrap();
            let unit = text(&format!("{prefix}/lib/systemd/system/mapperd.service"));
            let starts = unit.lines().filter(|line| line.starts_with("Exec"));
            for start in starts {
                assert!(start.contains(&format!("={prefix}/bin/")), "{start}");
            }
            assert_eq!(unit.contains("--config"), sysconf != "/etc", "{unit}");
            let pc = text(&format!("{prefix}/lib/pkgconfig/mapper.pc"));
            assert!(pc.starts_with(&format!("prefix={prefix}\n")), "{pc}");
            let config = below(root, &Path::new(sysconf).join("mapper/mapper.toml"));
            assert!(written.contains(&config), "{written:?}");
            for path in written.iter().filter(|path| {
                path.extension()
                    .is_some_and(|kind| kind == "pc" || kind == "service")
            }) {
                let text = fs::read_to_string(path).unwrap();
                assert!(!text.contains(root.to_str().unwrap()), "{text}");
            }
        }
    }

    #[test]
    fn a_configuration_that_is_there_stays_and_programs_are_replaced() {
        let (built, place) = (built(), tempfile::tempdir().unwrap());
        let folders = folders("/usr");
        folders.install(built.path(), place.path()).unwrap();
        let config = place.path().join("etc/mapper/mapper.toml");
        fs::write(&config, "interval = \"2s\"\n").unwrap();
        fs::write(built.path().join("mapperd"), "newer").unwrap();
        folders.install(built.path(), place.path()).unwrap();
        assert_eq!(fs::read_to_string(&config).unwrap(), "interval = \"2s\"\n");
        let daemon = place.path().join("usr/bin/mapperd");
        assert_eq!(fs::read_to_string(&daemon).unwrap(), "newer");
        let mode = fs::metadata(&daemon).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn what_is_made_can_be_looked_into_whatever_the_umask_and_what_was_there_stays() {
        // The umask is the process's, so this process does it that a test of its own makes.
        let tests = std::env::current_exe().unwrap();
        let place = tempfile::tempdir().unwrap();
        let marker = "MAPPER_TEST_MAKES_FOLDER_IN";
        if let Some(folder) = std::env::var_os(marker) {
            return put(b"x", &Path::new(&folder).join("a/b/c"), 0o644).unwrap();
        }
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o750)).unwrap();
        succeed(
            Command::new("sh")
                .args(["-c", "umask 077; exec \"$0\" \"$@\""])
                .arg(tests)
                .args(["--exact", "task_install::tests::what_is_made_can_be_looked_into_whatever_the_umask_and_what_was_there_stays"])
                .env(marker, &kept),
        );
        let mode = |path: &str| {
            let found = fs::metadata(kept.join(path)).unwrap();
            found.permissions().mode() & 0o777
        };
        assert_eq!(
            [mode("a"), mode("a/b"), mode("a/b/c")],
            [0o755, 0o755, 0o644]
        );
        assert_eq!(mode("."), 0o750);
    }

    #[test]
    fn a_folder_that_units_cannot_name_is_refused() {
        for prefix in ["usr", "/opt/my mapper", "/opt/100%"] {
            let error = Folders::new(prefix.into(), None, None).unwrap_err();
            assert!(error.to_string().contains("--prefix"), "{error}");
        }
    }
}
