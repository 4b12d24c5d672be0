//! The guest's image: disk, kernel and initrd, made once and kept.
//!
//! `mmdebstrap` installs the packages from the host's own Debian sources, so that binaries built here find the same libraries
//! there. The hash of the recipe (the scripts in `image/`, the packages, the sources) is part of the name of the image's
//! folder, so a changed recipe makes a new image. No step mounts anything on the host or needs root (`mmdebstrap
//! --mode=unshare` and `fakeroot`).

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::scratch::{Scratch, folder};

/// The files of the recipe that go into the guest or work on it.
const RECIPE: [(&str, &str); 4] = [
    ("customize.sh", include_str!("image/customize.sh")),
    ("init", include_str!("image/init")),
    ("payload.service", include_str!("image/payload.service")),
    ("run-payload.sh", include_str!("image/run-payload.sh")),
];

/// The guest's packages beyond Debian's essential ones, without clang's OpenMP runtime: its name contains the version, and it is
/// added as the host has it.
const PACKAGES: [&str; 21] = [
    "busybox-static",
    "criu",
    "crun",
    "dbus",
    "hwloc-nox",
    "kmod",
    "libgomp1",
    "libhwloc15",
    "libudev1",
    "munge",
    "numactl",
    "podman",
    "procps",
    "slurm-client",
    "slurmctld",
    "slurmd",
    "strace",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux",
];

/// Room on the guest's disk; the file is sparse.
const DISK_SIZE: &str = "3G";

/// The disk in the folder of an image.
pub(super) fn disk(image: &Path) -> PathBuf {
    image.join("disk.img")
}

/// Which kernel the guest has; the comments of its fields are help.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Kernel {
    /// Take the kernel of this suite of Debian, such as trixie-backports [default: backports of this machine's release,
    /// or the release itself].
    #[arg(long = "kernel", value_name = "SUITE")]
    suite: Option<String>,
}

/// The folder with the image for the present recipe; made if there is none, or `fresh`.
pub(super) fn ensure(kernel: &Kernel, fresh: bool) -> Result<PathBuf> {
    let inputs = Inputs::of_this_host(kernel)?;
    let image = folder().join(format!("image-{:016x}", inputs.key()));
    if fresh && image.exists() {
        fs::remove_dir_all(&image).with_context(|| format!("remove {}", image.display()))?;
    }
    if !disk(&image).exists() {
        build(&inputs, &image)?;
    }
    Ok(image)
}

/// What the image depends on beside the recipe.
#[derive(Hash)]
struct Inputs {
    codename: String,
    sources: Vec<String>,
    /// The source that has the kernel.
    kernel: String,
    /// Whether that source was asked for.
    kernel_wanted: bool,
    packages: Vec<String>,
}

impl Inputs {
    fn of_this_host(kernel: &Kernel) -> Result<Self> {
        let sources = apt_sources()?;
        let main = sources.iter().find(|[_, codename]| !codename.contains('-'));
        let Some([uri, codename]) = main else {
            bail!(
                "no Debian release among this machine's apt sources; the guest is made from them: \
                 add one to /etc/apt/sources.list.d and run `apt-get update`"
            );
        };
        let mut packages: Vec<String> = PACKAGES.map(str::to_owned).into();
        packages.extend(installed_libomp()?);
        let backports = || format!("{codename}-backports");
        let suite = kernel.suite.clone().unwrap_or_else(backports);
        Ok(Self {
            codename: codename.clone(),
            kernel: format!("deb {uri} {suite} main"),
            kernel_wanted: kernel.suite.is_some(),
            sources: sources
                .iter()
                .map(|[uri, codename]| format!("deb {uri} {codename} main"))
                .collect(),
            packages,
        })
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (RECIPE, self, DISK_SIZE).hash(&mut hasher);
        hasher.finish()
    }
}

/// Address and code name of Debian's own suites, in the order of the host's apt configuration.
fn apt_sources() -> Result<Vec<[String; 2]>> {
    let format = "$(ORIGIN) $(REPO_URI) $(CODENAME)";
    let targets = ["indextargets", "--format", format, "Created-By: Packages"];
    let listing = output(Command::new("apt-get").args(targets))?;
    let mut sources = Vec::new();
    for line in listing.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let &["Debian", uri, codename, ..] = &*fields {
            let source = [uri, codename].map(str::to_owned);
            if !codename.ends_with("-backports") && !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    Ok(sources)
}

/// The package of clang's OpenMP runtime that programs built on this host are linked with.
fn installed_libomp() -> Result<Vec<String>> {
    let format = "${Package} ${db:Status-Status}\n";
    let listing = Command::new("dpkg-query")
        .args(["--show", "--showformat", format, "libomp5*"])
        .output()
        .context("run dpkg-query")?;
    let listing = String::from_utf8_lossy(&listing.stdout);
    let lines = listing.lines();
    let installed = lines.filter_map(|line| Some(line.strip_suffix(" installed")?.to_owned()));
    Ok(installed.collect())
}

fn build(inputs: &Inputs, image: &Path) -> Result<()> {
    let started = Instant::now();
    eprintln!("building the guest image (about a minute, once)");
    // Another process may be building the same image: each in its own folder; the first to finish wins.
    let work = Scratch::create("build")?;
    let recipe = work.file("recipe");
    fs::create_dir_all(&recipe).with_context(|| format!("create {}", recipe.display()))?;
    for (name, text) in RECIPE {
        write(&recipe.join(name), text)?;
    }
    build_in(work.path(), &recipe, inputs)?;
    fs::remove_dir_all(&recipe).with_context(|| format!("remove {}", recipe.display()))?;
    let renamed = fs::rename(work.path(), image);
    if !disk(image).exists() {
        renamed.with_context(|| format!("create {}", image.display()))?;
    }
    eprintln!("guest image built in {:.0?}", started.elapsed());
    Ok(())
}

fn build_in(work: &Path, recipe: &Path, inputs: &Inputs) -> Result<()> {
    let archive = work.join("root.tar");
    let root_user = output(Command::new("id").arg("-u"))?.trim() == "0";
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap
        .args(["--quiet", "--variant=minbase", "--format=tar"])
        .arg(["--mode=unshare", "--mode=root"][usize::from(root_user)])
        .arg(format!("--include={}", inputs.packages.join(",")))
        .arg(format!(
            "--customize-hook=sh {}/customize.sh \"$1\"",
            recipe.display()
        ))
        .env("MAPPER_VM_RECIPE", recipe)
        .env("MAPPER_VM_KERNEL", &inputs.kernel)
        .env(
            "MAPPER_VM_KERNEL_WANTED",
            ["", "1"][usize::from(inputs.kernel_wanted)],
        )
        .arg(&inputs.codename)
        .arg(&archive)
        .args(&inputs.sources);
    output(&mut mmdebstrap)?;

    // `mke2fs -d` reads owners and modes from a folder; there fakeroot acts as root.
    let script = r#"
        set -eu
        cd "$1"
        mkdir root
        tar -xf root.tar -C root --exclude=./dev/*
        mv root/boot/vmlinuz root/boot/initrd root/boot/version .
        PATH=$PATH:/sbin:/usr/sbin
        mke2fs -q -F -t ext4 -O ^has_journal -L root -d root disk.img "$2"
        rm -rf root root.tar
    "#;
    let mut shell = Command::new(if root_user { "sh" } else { "fakeroot" });
    if !root_user {
        shell.args(["--", "sh"]);
    }
    shell.args(["-c", script, "sh"]).arg(work);
    output(shell.arg(DISK_SIZE))?;
    Ok(())
}

/// Writes a file; an error names it.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Runs a command and returns its standard output; an error contains the end of its standard error.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("run {name}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = stderr.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("{name} failed ({}):\n{tail}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
