//! Installs the Debian packages that building, testing and measuring need.
//!
//! Each task asks for the [`Purpose`]s it has with [`require`] before it starts, so that on a
//! fresh machine no separate step is needed. Packages are installed when that needs no password
//! (as root, or `sudo -n`); otherwise the exact command is printed and the task stops. On a
//! system without dpkg nothing can be known: the packages are named and the task goes on.

mod newer_libomp;

use std::collections::BTreeSet;
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
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
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
    require(purposes)?;
    println!("everything needed is installed");
    Ok(())
}

/// Makes sure that the packages of `purposes` are installed, and installs what is missing when
/// that needs no password.
pub(crate) fn require(purposes: &[Purpose]) -> anyhow::Result<()> {
    require_packages(purposes)?;
    if purposes.contains(&Purpose::Tests) {
        newer_libomp::fetch();
    }
    Ok(())
}

fn require_packages(purposes: &[Purpose]) -> anyhow::Result<()> {
    let names = match missing(purposes) {
        Found::NoDpkg => {
            eprintln!("note: {}", without_dpkg(purposes));
            return Ok(());
        }
        Found::Missing(names) if names.is_empty() => return Ok(()),
        Found::Missing(names) => names,
    };
    let Some(privilege) = Privilege::of_this_process() else {
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

/// How apt-get can be run without asking for a password.
#[derive(Clone, Copy)]
enum Privilege {
    Root,
    Sudo,
}

impl Privilege {
    fn of_this_process() -> Option<Self> {
        if nix::unistd::geteuid().is_root() {
            return Some(Self::Root);
        }
        let sudo = Command::new("sudo")
            .args(["-n", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        sudo.is_ok_and(|status| status.success())
            .then_some(Self::Sudo)
    }

    fn apt_get(self, arguments: &[&str]) -> anyhow::Result<bool> {
        let mut command = match self {
            Self::Root => Command::new("env"),
            Self::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.args(["-n", "env"]);
                sudo
            }
        };
        let status = command
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(arguments)
            .stdin(Stdio::null())
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
    fn purposes_share_one_install_line() {
        let names = wanted(&[Purpose::Clang, Purpose::Vm]);
        assert_eq!(
            install_line(&names),
            "sudo apt-get install --yes --no-install-recommends clang e2fsprogs fakeroot libomp-dev \
             mmdebstrap qemu-system-x86 uidmap"
        );
    }
}
