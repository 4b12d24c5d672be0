//! Installs the Debian packages that building, testing and measuring need.
//!
//! Each task calls [`require`] before it starts. Nothing is installed without [`Consent`]; without a terminal to
//! ask on, the command is printed and the task stops. Without dpkg the packages are named and the task continues.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;

use crate::workspace;

/// What packages are needed for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(crate) enum Purpose {
    /// Look at pages as a browser shows them.
    Browser,
    /// Compile mapper and the demonstration programs with gcc.
    Build,
    /// Compile programs against LLVM's OpenMP runtime.
    Clang,
    /// Check a Debian package.
    Lint,
    /// Make a Debian package.
    Package,
    /// Install Python packages into a folder of the build.
    Python,
    /// Run real programs side by side (2 GB; only when named).
    Real,
    /// Compile test programs in C++ and Fortran, for 32 bits, with musl and with sanitizers, look processes up, and run
    /// with a newer libomp.
    Tests,
    /// Run the guest tests in a virtual machine.
    Vm,
    /// Make a wheel or a tarball, with an hwloc of its own.
    Wheel,
}

impl Purpose {
    /// What building and starting the guest needs.
    pub(crate) const GUEST: &[Self] = &[Self::Build, Self::Clang, Self::Package, Self::Vm];

    fn packages(self) -> Vec<&'static str> {
        let names = match self {
            Self::Browser => "chromium",
            Self::Build => "gcc libc6-dev libhwloc-dev pkg-config",
            Self::Clang => "clang libomp-dev",
            Self::Lint => "lintian",
            Self::Package => "binutils dpkg-dev",
            Self::Python => "python3-torch python3-venv",
            Self::Real => return packages_of(REAL).collect(),
            Self::Tests => {
                "g++ gcc-multilib gfortran gpg gpg-agent libclang-rt-dev musl-tools procps strace"
            }
            Self::Vm => "e2fsprogs fakeroot mmdebstrap qemu-system-x86 uidmap",
            Self::Wheel => "bzip2 make python3-venv",
        };
        names.split(' ').collect()
    }
}

/// The catalogue of real programs.
const REAL: &str = include_str!("../../lab/bench/real.toml");

/// What its lines `packages = ["…", …]` name.
fn packages_of(catalogue: &'static str) -> impl Iterator<Item = &'static str> {
    let lists = catalogue.lines();
    let lists = lists.filter_map(|line| line.strip_prefix("packages = ["));
    lists.flat_map(|list| list.split('"').skip(1).step_by(2))
}

/// Whether missing packages may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Given,
    /// The user has to be asked on the terminal.
    Ask,
    /// There is nobody to ask.
    Missing,
}

impl Consent {
    /// From `--yes`, the variable `CI` and whether a user sits at a terminal.
    pub(crate) fn of_user(yes: bool) -> Self {
        let ci = std::env::var("CI").unwrap_or_default();
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        Self::from_parts(yes, &ci, is_terminal)
    }

    fn from_parts(yes: bool, ci: &str, is_terminal: bool) -> Self {
        match (yes || !["", "0", "false"].contains(&ci), is_terminal) {
            (true, _) => Self::Given,
            (false, true) => Self::Ask,
            (false, false) => Self::Missing,
        }
    }

    fn obtain(self, line: &str) -> anyhow::Result<()> {
        match self {
            Self::Given => Ok(()),
            Self::Ask => {
                eprint!("packages are missing; run this?\n    {line}\n[y/N] ");
                std::io::stderr().flush().context("write to the terminal")?;
                let mut answer = String::new();
                let read = std::io::stdin().read_line(&mut answer);
                read.context("read from the terminal")?;
                let is_yes = ["y", "Y", "yes"].contains(&answer.trim());
                ensure!(is_yes, "nothing was installed");
                Ok(())
            }
            Self::Missing => bail!(
                "packages are missing; run this, or repeat with --yes (or CI=true) to install \
                 them:\n    {line}"
            ),
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to install packages for; everything but for real programs when left out
    #[arg(value_name = "PURPOSE")]
    purposes: Vec<Purpose>,
    /// Only say what is missing, and fail if anything is
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let mut purposes = args.purposes.clone();
    if purposes.is_empty() {
        let all = Purpose::value_variants().iter().copied();
        purposes.extend(all.filter(|of| *of != Purpose::Real));
    }
    let purposes = &*purposes;
    if !args.check {
        require(purposes, consent)?;
        println!("everything needed is installed");
        return Ok(());
    }
    let missing = missing(purposes).with_context(|| without_dpkg(purposes))?;
    ensure!(
        missing.is_empty(),
        "missing; install with: {}",
        install_line(&missing)
    );
    let libomp = libomp_folder();
    ensure!(
        !purposes.contains(&Purpose::Tests) || libomp.exists(),
        "missing: {}; `cargo xtask setup tests` fetches it",
        libomp.display()
    );
    println!("nothing is missing");
    Ok(())
}

/// Makes sure that the packages of `purposes` are installed, and installs what is missing with the
/// user's consent.
pub(crate) fn require(purposes: &[Purpose], consent: Consent) -> anyhow::Result<()> {
    match missing(purposes) {
        None => eprintln!("note: {}", without_dpkg(purposes)),
        Some(names) if names.is_empty() => {}
        Some(names) => install(&names, consent)?,
    }
    if purposes.contains(&Purpose::Tests) {
        fetch_libomp();
    }
    Ok(())
}

fn install(names: &Names, consent: Consent) -> anyhow::Result<()> {
    let line = install_line(names);
    consent.obtain(&line)?;
    let Some(sudo) = sudo(consent) else {
        bail!(
            "packages are missing and installing them needs a password; run this and try again:\n    {line}"
        );
    };
    let names: Vec<&str> = names.iter().copied().collect();
    eprintln!("installing {}", names.join(" "));
    // The package lists of a fresh machine are often absent or stale.
    let is_installed = apt_get(sudo, &[&INSTALL, &names[..]].concat())?
        || (apt_get(sudo, &["update"])? && apt_get(sudo, &[&INSTALL, &names[..]].concat())?)
        || one_by_one(sudo, &names)?;
    ensure!(
        is_installed,
        "apt-get failed; run this and try again:\n    {line}"
    );
    Ok(())
}

/// One package that cannot be had keeps no other from being installed.
fn one_by_one(sudo: &[&str], names: &[&str]) -> anyhow::Result<bool> {
    let mut all = true;
    for name in names {
        all &= apt_get(sudo, &[&INSTALL[..], &[name]].concat())?;
    }
    Ok(all)
}

type Names = BTreeSet<&'static str>;

/// What is not installed; nothing on a system without dpkg.
fn missing(purposes: &[Purpose]) -> Option<Names> {
    let wanted = wanted(purposes);
    // Names that dpkg does not know make it fail, yet it still lists the others.
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${db:Status-Status} ${binary:Package}\n"]);
    let output = query.args(&wanted).stderr(Stdio::null()).output();
    let listing = output.ok()?.stdout;
    Some(not_installed(&wanted, &String::from_utf8_lossy(&listing)))
}

fn wanted(purposes: &[Purpose]) -> Names {
    let purposes = purposes.iter();
    purposes.flat_map(|of| of.packages()).collect()
}

/// Those of `wanted` that `listing` (lines `<status> <package>[:<architecture>]`) does not show
/// as installed.
fn not_installed(wanted: &Names, listing: &str) -> Names {
    let names = listing
        .lines()
        .filter_map(|line| line.strip_prefix("installed "));
    let installed: BTreeSet<&str> = names.filter_map(|name| name.split(':').next()).collect();
    let missing = wanted.iter().filter(|name| !installed.contains(*name));
    missing.copied().collect()
}

const INSTALL: [&str; 3] = ["install", "--yes", "--no-install-recommends"];

fn install_line(names: &Names) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    format!("sudo apt-get {} {}", INSTALL.join(" "), names.join(" "))
}

fn without_dpkg(purposes: &[Purpose]) -> String {
    let names: Vec<_> = wanted(purposes).into_iter().collect();
    format!(
        "this system has no dpkg, so nothing was checked; needed are its equivalents of the \
         Debian packages {}",
        names.join(" ")
    )
}

/// The words before a command of root's, if there is a way: none for root itself, else `sudo`, which may ask a
/// user at the terminal for a password.
fn sudo(consent: Consent) -> Option<&'static [&'static str]> {
    if nix::unistd::geteuid().is_root() {
        return Some(&[]);
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"]).stdin(Stdio::null());
    let status = sudo.stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Some(&["sudo", "-n"]),
        Ok(_) if consent == Consent::Ask => Some(&["sudo"]),
        _ => None,
    }
}

fn apt_get(sudo: &[&str], arguments: &[&str]) -> anyhow::Result<bool> {
    let env = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let words = [sudo, &env, arguments].concat();
    let mut command = Command::new(words[0]);
    if sudo != ["sudo"] {
        command.stdin(Stdio::null());
    }
    let status = command.args(&words[1..]).status();
    Ok(status.context("start apt-get")?.success())
}

/// A newer libomp than clang's own, for the shim's tests: the newest that Debian 12 has. Its packages of two libomps
/// exclude each other, so this one is not installed: its files are unpacked below the build folder, once.
const NEWER_LIBOMP: &str = "libomp5-19";

/// Unpacks the package `$0` beside its place `$1`, then moves it there whole.
const FETCH: &str = "mkdir -p \"${1%/*}\"
scratch=$(mktemp -d \"$1.XXXXXX\")
trap 'rm -rf \"$scratch\"' EXIT
cd \"$scratch\"
apt-get download \"$0\"
dpkg-deb -x ./*.deb files
mv files \"$1\"";

fn libomp_folder() -> PathBuf {
    workspace::target_dir().join("runtimes").join(NEWER_LIBOMP)
}

/// Fetches it if it is not there yet. Where that fails the test that needs it fails, and says what to do.
fn fetch_libomp() {
    let folder = libomp_folder();
    if folder.exists() {
        return;
    }
    eprintln!("fetching {NEWER_LIBOMP}");
    let mut shell = Command::new("sh");
    shell.args(["-ec", FETCH, NEWER_LIBOMP]).arg(&folder);
    if let Err(error) = workspace::output(&mut shell) {
        eprintln!(
            "note: {NEWER_LIBOMP} is missing, tests with a newer libomp will fail: {error:#}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_counts_as_installed_whatever_its_architecture() {
        let wanted = BTreeSet::from(["gcc", "libudev-dev", "clang"]);
        let listing = "installed gcc\ninstalled libudev-dev:amd64\nconfig-files clang\n";
        assert_eq!(not_installed(&wanted, listing), BTreeSet::from(["clang"]));
    }

    #[test]
    fn a_package_that_dpkg_does_not_know_is_missing() {
        let wanted = BTreeSet::from(["mmdebstrap"]);
        assert_eq!(not_installed(&wanted, ""), wanted);
    }

    #[test]
    fn nothing_is_installed_without_consent() {
        let parts = Consent::from_parts;
        assert_eq!(parts(false, "", true), Consent::Ask);
        assert_eq!(parts(false, "false", false), Consent::Missing);
        assert_eq!(parts(false, "true", false), Consent::Given);
        assert_eq!(parts(true, "", true), Consent::Given);
        let line = "sudo apt-get install x";
        let error = Consent::Missing.obtain(line).unwrap_err().to_string();
        assert!(error.ends_with(line), "{error}");
    }

    #[test]
    fn real_programs_need_the_packages_of_their_catalogue() {
        let names: Vec<&str> = packages_of("packages = [\"a\", \"b-c\"]\nx = [\"d\"]\n").collect();
        assert_eq!(names, ["a", "b-c"]);
        assert!(wanted(&[Purpose::Real]).contains("gromacs"));
    }

    #[test]
    fn purposes_share_one_install_line() {
        let names = wanted(&[Purpose::Clang, Purpose::Vm]);
        assert_eq!(
            install_line(&names),
            "sudo apt-get install --yes --no-install-recommends clang e2fsprogs fakeroot libomp-dev \
             mmdebstrap qemu-system-x86 uidmap"
        );
    }
}
