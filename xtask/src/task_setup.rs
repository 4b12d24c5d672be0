//! Installs the Debian packages that building, testing and measuring need.
//!
//! Each task asks for the [`Purpose`]s it has with [`require`] before it starts, so that on a
//! fresh machine no separate step is needed. Nothing is installed without [`Consent`]: the user is asked,
//! unless `--yes` was given or `CI` is set. Without a terminal to ask on, the exact command is printed and
//! the task stops. On a system without dpkg the packages are named and the task continues.

mod newer_libomp;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

/// What packages are needed for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(crate) enum Purpose {
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
    /// Compile test programs in C++ and Fortran, look processes up, and run with a newer libomp.
    Tests,
    /// Run the guest tests in a virtual machine.
    Vm,
}

impl Purpose {
    /// The Debian packages of this purpose.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Build => &[
                "gcc",
                "libc6-dev",
                "libhwloc-dev",
                "libudev-dev",
                "pkg-config",
            ],
            Self::Clang => &["clang", "libomp-dev"],
            Self::Lint => &["lintian"],
            Self::Package => &["binutils", "dpkg-dev"],
            Self::Python => &["python3-venv"],
            Self::Tests => &["g++", "gfortran", "procps"],
            Self::Vm => &[
                "e2fsprogs",
                "fakeroot",
                "mmdebstrap",
                "qemu-system-x86",
                "uidmap",
            ],
        }
    }
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

    /// Asks where that is needed.
    fn obtain(self, line: &str) -> anyhow::Result<()> {
        match self {
            Self::Given => Ok(()),
            Self::Ask => {
                eprint!("packages are missing; run this?\n    {line}\n[y/N] ");
                std::io::stderr().flush().context("write to the terminal")?;
                let mut answer = String::new();
                let read = std::io::stdin().read_line(&mut answer);
                read.context("read from the terminal")?;
                match answer.trim() {
                    "y" | "Y" | "yes" => Ok(()),
                    _ => bail!("nothing was installed"),
                }
            }
            Self::Missing => bail!(
                "packages are missing; run this, or repeat with --yes (or CI=true) to install \
                 them:\n    {line}"
            ),
        }
    }
}

/// Arguments of `cargo xtask setup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to install packages for; everything when left out
    #[arg(value_name = "PURPOSE")]
    purposes: Vec<Purpose>,
    /// Only say what is missing, and fail if anything is
    #[arg(long)]
    check: bool,
}

/// Runs `cargo xtask setup`.
pub(crate) fn run(args: &Args, consent: Consent) -> anyhow::Result<()> {
    let purposes: &[Purpose] = if args.purposes.is_empty() {
        Purpose::value_variants()
    } else {
        &args.purposes
    };
    if args.check {
        return match missing(purposes) {
            Found::NoDpkg => bail!("{}", without_dpkg(purposes)),
            Found::Missing(names) if names.is_empty() => {
                let libomp = newer_libomp::folder();
                if purposes.contains(&Purpose::Tests) && !libomp.exists() {
                    bail!(
                        "missing: {}; `cargo xtask setup tests` fetches it",
                        libomp.display()
                    );
                }
                println!("nothing is missing");
                Ok(())
            }
            Found::Missing(names) => bail!("missing; install with: {}", install_line(&names)),
        };
    }
    require(purposes, consent)?;
    println!("everything needed is installed");
    Ok(())
}

/// Makes sure that the packages of `purposes` are installed, and installs what is missing with the
/// user's consent.
pub(crate) fn require(purposes: &[Purpose], consent: Consent) -> anyhow::Result<()> {
    require_packages(purposes, consent)?;
    if purposes.contains(&Purpose::Tests) {
        newer_libomp::fetch();
    }
    Ok(())
}

fn require_packages(purposes: &[Purpose], consent: Consent) -> anyhow::Result<()> {
    let names = match missing(purposes) {
        Found::NoDpkg => {
            eprintln!("note: {}", without_dpkg(purposes));
            return Ok(());
        }
        Found::Missing(names) if names.is_empty() => return Ok(()),
        Found::Missing(names) => names,
    };
    consent.obtain(&install_line(&names))?;
    let Some(privilege) = Privilege::of_this_process(consent) else {
        bail!(
            "packages are missing and installing them needs a password; run this and try again:\n    {}",
            install_line(&names)
        );
    };
    eprintln!(
        "installing {}",
        names.iter().copied().collect::<Vec<_>>().join(" ")
    );
    if privilege.apt_get(&install_arguments(&names))? {
        return Ok(());
    }
    // The package lists of a fresh machine are often absent or stale.
    privilege.apt_get(&["update"])?;
    if privilege.apt_get(&install_arguments(&names))? {
        return Ok(());
    }
    bail!(
        "apt-get failed; run this and try again:\n    {}",
        install_line(&names)
    )
}

enum Found {
    NoDpkg,
    Missing(BTreeSet<&'static str>),
}

fn missing(purposes: &[Purpose]) -> Found {
    let wanted = wanted(purposes);
    // Names dpkg has never heard of make it fail, yet it still lists the others.
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status} ${binary:Package}\n"])
        .args(&wanted)
        .stderr(Stdio::null())
        .output();
    match output {
        Err(_) => Found::NoDpkg,
        Ok(output) => Found::Missing(not_installed(
            &wanted,
            &String::from_utf8_lossy(&output.stdout),
        )),
    }
}

fn wanted(purposes: &[Purpose]) -> BTreeSet<&'static str> {
    purposes
        .iter()
        .flat_map(|purpose| purpose.packages())
        .copied()
        .collect()
}

/// Those of `wanted` that `listing` (lines `<status> <package>[:<architecture>]`) does not show
/// as installed.
fn not_installed(wanted: &BTreeSet<&'static str>, listing: &str) -> BTreeSet<&'static str> {
    let installed: BTreeSet<&str> = listing
        .lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .map(|name| {
            name.split_once(':')
                .map_or(name, |(name, _architecture)| name)
        })
        .collect();
    wanted
        .iter()
        .copied()
        .filter(|name| !installed.contains(name))
        .collect()
}

fn install_arguments(names: &BTreeSet<&'static str>) -> Vec<&'static str> {
    ["install", "--yes", "--no-install-recommends"]
        .into_iter()
        .chain(names.iter().copied())
        .collect()
}

fn install_line(names: &BTreeSet<&'static str>) -> String {
    format!("sudo apt-get {}", install_arguments(names).join(" "))
}

fn without_dpkg(purposes: &[Purpose]) -> String {
    let names: Vec<_> = wanted(purposes).into_iter().collect();
    format!(
        "this system has no dpkg, so nothing was checked; needed are its equivalents of the \
         Debian packages {}",
        names.join(" ")
    )
}

/// How apt-get can be run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Privilege {
    Root,
    /// `sudo` without a password.
    Sudo,
    /// `sudo` that may ask the user at the terminal.
    AskingSudo,
}

impl Privilege {
    fn of_this_process(consent: Consent) -> Option<Self> {
        if nix::unistd::geteuid().is_root() {
            return Some(Self::Root);
        }
        let sudo = Command::new("sudo")
            .args(["-n", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match sudo {
            Ok(status) if status.success() => Some(Self::Sudo),
            Ok(_) if consent == Consent::Ask => Some(Self::AskingSudo),
            _ => None,
        }
    }

    fn apt_get(self, arguments: &[&str]) -> anyhow::Result<bool> {
        let mut command = match self {
            Self::Root => Command::new("env"),
            Self::Sudo | Self::AskingSudo => {
                let mut sudo = Command::new("sudo");
                sudo.args((self == Self::Sudo).then_some("-n")).arg("env");
                sudo
            }
        };
        let status = command
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(arguments)
            .stdin(match self {
                Self::AskingSudo => Stdio::inherit(),
                Self::Root | Self::Sudo => Stdio::null(),
            })
            .status()
            .context("start apt-get")?;
        Ok(status.success())
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
        let error = Consent::Missing
            .obtain("sudo apt-get install x")
            .unwrap_err();
        assert!(
            error.to_string().ends_with("sudo apt-get install x"),
            "{error}"
        );
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
