//! One package: the tree as Debian's policy wants it, its control files, and the archive.

use std::fmt::{self, Write as _};
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, bail};

use super::{copyright, documents};
use crate::task_install::{Folders, SONAME};
use crate::workspace;

/// How often one version of the source has been packed, from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Revision(NonZeroU32);

impl Revision {
    /// The first package of a version.
    pub(crate) const FIRST: Self = Self(NonZeroU32::MIN);
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Revision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|_| format!("{text:?} is no revision: give a whole number from 1"))
    }
}

/// The version of the source.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who answers for the package, where the environment does not say it: nobody reads mail there.
const MAINTAINER: [&str; 2] = ["The developers of mapper", "mapper@mapper.invalid"];

/// What runs when the package comes and goes.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The configuration, which is the operator's once it is installed.
const CONFIGURATION: &str = "/etc/mapper/mapper.toml";

const DESCRIPTION: &str = "\
resource manager for parallel applications on one machine
 Several parallel programs share one machine. The daemon mapperd watches each of
 them, by hardware counters or by the progress that its OpenMP runtime reports,
 decides how many CPUs and which ones it may use, and changes that every second,
 so that each keeps a promised share of its fair-share performance.
 .
 Contained are the daemon, mapper-launch (starts a program under it), mapperctl
 (tells what it does and why), the library that is preloaded into OpenMP
 programs, and libmapper with its header and Fortran interface, by which a
 program can read its allocation and report its progress.
";

/// Packs what was built in the folder `built` into the folder `out`; gives the package's path.
pub(crate) fn pack(built: &Path, revision: Revision, out: &Path) -> anyhow::Result<PathBuf> {
    let date = source_date()?;
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    let work = tempfile::Builder::new()
        .prefix(".tree-")
        .tempdir_in(out)
        .with_context(|| format!("make a folder in {}", out.display()))?;
    let debian = Debian {
        tree: work.path().join("tree"),
        architecture: asked("dpkg", &["--print-architecture"])?,
        multiarch: asked("dpkg-architecture", &["-qDEB_HOST_MULTIARCH"])?,
        version: format!("{VERSION}-{revision}"),
        date,
        maintainer: maintainer(),
    };
    debian.lay_out(built)?;
    debian.write_control(work.path())?;
    debian.settle_modes_and_times()?;
    let package = out.join(format!(
        "mapper_{}_{}.deb",
        debian.version, debian.architecture
    ));
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&debian.tree)
        .arg(&package)
        .env("SOURCE_DATE_EPOCH", date.to_string()))?;
    Ok(package)
}

/// The package being made.
struct Debian {
    /// The files as they will be installed, and `DEBIAN` with the control files.
    tree: PathBuf,
    architecture: String,
    /// The folder of libraries below `/usr/lib`.
    multiarch: String,
    version: String,
    /// Seconds since 1970 that every file gets.
    date: u64,
    /// Name and address.
    maintainer: String,
}

impl Debian {
    fn lay_out(&self, built: &Path) -> anyhow::Result<()> {
        let libraries = PathBuf::from(format!("/usr/lib/{}", self.multiarch));
        let folders = Folders::new("/usr".into(), Some(libraries.clone()), None)?;
        let linked = copyright::linked()?;
        for path in folders.install(built, &self.tree)? {
            copyright::check(&path, &linked)?;
            strip(&path)?;
        }
        let share = self.tree.join("usr/share");
        for path in documents::install(built, &share)? {
            if path.starts_with(share.join("man")) {
                run(Command::new("gzip").args(["-9", "-n"]).arg(path))?;
            }
        }
        let doc = share.join("doc/mapper");
        let whose = copyright::file(&shipped("copyright")?, &linked)?;
        write(&doc.join("copyright"), &whose)?;
        let changelog = doc.join("changelog.Debian");
        write(&changelog, &self.changelog()?)?;
        run(Command::new("gzip").args(["-9", "-n"]).arg(changelog))?;
        let overrides = shipped("lintian-overrides")?.replace("@MULTIARCH@", &self.multiarch);
        write(&share.join("lintian/overrides/mapper"), &overrides)
    }

    fn changelog(&self) -> anyhow::Result<String> {
        let date = asked("date", &["-u", "-R", "-d", &format!("@{}", self.date)])?;
        Ok(format!(
            "mapper ({}) unstable; urgency=medium\n\n  * Packed from version {VERSION} of the \
             source; what changed is in its history.\n\n -- {}  {date}\n",
            self.version, self.maintainer
        ))
    }

    /// Writes `DEBIAN`. `work` is a folder for what the tools want to have there.
    fn write_control(&self, work: &Path) -> anyhow::Result<()> {
        let control = self.tree.join("DEBIAN");
        let mut text = format!(
            "Package: mapper\nVersion: {}\nArchitecture: {}\nMaintainer: {}\n\
             Installed-Size: {}\n",
            self.version,
            self.architecture,
            self.maintainer,
            installed_kib(&self.tree)?
        );
        let _ = writeln!(text, "Depends: {}", self.dependencies(work)?);
        text.push_str("Recommends: systemd\nSection: admin\nPriority: optional\n");
        let _ = write!(text, "Description: {DESCRIPTION}");
        write(&control.join("control"), &text)?;
        write(&control.join("conffiles"), &format!("{CONFIGURATION}\n"))?;
        // Programs that are linked with the library find it, and their packages depend on this one.
        write(&control.join("triggers"), "activate-noawait ldconfig\n")?;
        let Some((library, version)) = SONAME.split_once(".so.") else {
            bail!("the library's name {SONAME:?} has no version");
        };
        write(
            &control.join("shlibs"),
            &format!("{library} {version} mapper (>= {VERSION})\n"),
        )?;
        write(&control.join("md5sums"), &self.checksums()?)?;
        for script in SCRIPTS {
            let path = control.join(script);
            write(&path, &shipped(script)?)?;
            set_mode(&path, 0o755)?;
        }
        Ok(())
    }

    /// The packages whose libraries the programs load, with the versions they need.
    fn dependencies(&self, work: &Path) -> anyhow::Result<String> {
        // dpkg-shlibdeps looks for the control file of a source package below where it runs.
        write(
            &work.join("debian/control"),
            "Source: mapper\n\nPackage: mapper\nArchitecture: any\n",
        )?;
        let mut command = Command::new("dpkg-shlibdeps");
        command.current_dir(work).arg("-O");
        for path in files(&self.tree)? {
            if is_elf(&path)? {
                command.arg("-e").arg(path);
            }
        }
        let said = output(&mut command)?;
        said.lines()
            .find_map(|line| line.strip_prefix("shlibs:Depends="))
            .map(str::to_owned)
            .with_context(|| format!("dpkg-shlibdeps told no dependencies: {said:?}"))
    }

    fn checksums(&self) -> anyhow::Result<String> {
        let control = self.tree.join("DEBIAN");
        let mut command = Command::new("md5sum");
        command.current_dir(&self.tree).arg("--");
        let mut paths = files(&self.tree)?;
        paths
            .retain(|path| !path.starts_with(&control) && !path.starts_with(self.tree.join("etc")));
        for path in paths {
            command.arg(path.strip_prefix(&self.tree)?);
        }
        output(&mut command)
    }

    /// Modes that do not depend on the umask, and the date of the source for everything.
    fn settle_modes_and_times(&self) -> anyhow::Result<()> {
        run(Command::new("chmod")
            .args(["-R", "u=rwX,go=rX"])
            .arg(&self.tree))?;
        let date = format!("--date=@{}", self.date);
        run(Command::new("find").arg(&self.tree).args([
            "-exec",
            "touch",
            "--no-dereference",
            &date,
            "{}",
            "+",
        ]))
    }
}

/// The time that stands in the package: `SOURCE_DATE_EPOCH`, else that of the last commit.
fn source_date() -> anyhow::Result<u64> {
    let name = "SOURCE_DATE_EPOCH";
    if let Some(given) = std::env::var_os(name) {
        let text = given.to_string_lossy();
        return text
            .parse()
            .with_context(|| format!("{name}={text}: give whole seconds since 1970"));
    }
    let root = workspace::root().display().to_string();
    let text = asked("git", &["-C", &root, "log", "-1", "--format=%ct"])
        .with_context(|| format!("no commit to take the time from: set {name}"))?;
    text.parse()
        .with_context(|| format!("the last commit's time {text:?}"))
}

/// Name and address as Debian's other tools take them: `DEBFULLNAME` and `DEBEMAIL`.
fn maintainer() -> String {
    let [name, address] = MAINTAINER;
    let asked = |variable, default: &str| std::env::var(variable).unwrap_or(default.to_owned());
    format!(
        "{} <{}>",
        asked("DEBFULLNAME", name),
        asked("DEBEMAIL", address)
    )
}

/// A file of `deploy/debian`.
fn shipped(name: &str) -> anyhow::Result<String> {
    let path = workspace::root().join("deploy/debian").join(name);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// Takes away what only a debugger needs; from an archive no more than that.
fn strip(path: &Path) -> anyhow::Result<()> {
    let archive = path.extension().is_some_and(|kind| kind == "a");
    if path.is_symlink() || !(archive || is_elf(path)?) {
        return Ok(());
    }
    let how = if archive {
        "--strip-debug"
    } else {
        "--strip-unneeded"
    };
    run(Command::new("strip")
        .args([
            "--enable-deterministic-archives",
            "--remove-section=.comment",
            "--remove-section=.note",
            how,
        ])
        .arg(path))
}

fn is_elf(path: &Path) -> anyhow::Result<bool> {
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(content.starts_with(b"\x7fELF"))
}

/// All files below a folder but the links, in order of their names.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn installed_kib(tree: &Path) -> anyhow::Result<u64> {
    let mut kib = 0;
    for path in files(tree)? {
        kib += fs::metadata(path)?.len().div_ceil(1024);
    }
    Ok(kib)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {}", path.display()))
}

fn asked(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    Ok(output(Command::new(program).args(arguments))?
        .trim()
        .to_owned())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    output(command).map(drop)
}

/// Runs a command; gives what it printed.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("start {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("what {name} printed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_a_whole_number_from_1() {
        assert_eq!(
            "2".parse().map(|revision: Revision| revision.to_string()),
            Ok("2".to_owned())
        );
        for text in ["0", "", "x", "-1", "1.5"] {
            let error = text.parse::<Revision>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    /// A folder as cargo leaves it: small programs that write manuals as mapper's do, and a library.
    fn built() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("empty.c");
        // Something of the C library's, so that there is a dependency to find.
        fs::write(
            &source,
            "#include <stdio.h>\nint told(void) { return puts(\"x\"); }\n",
        )
        .unwrap();
        for library in ["libmapper.so", "libmapper_omp.so"] {
            let to = folder.path().join(library);
            run(Command::new("gcc")
                .args(["-shared", "-fPIC", "-g", "-o"])
                .arg(to)
                .arg(&source))
            .unwrap();
        }
        run(Command::new("gcc")
            .args(["-c", "-g", "-o"])
            .arg(folder.path().join("libmapper.o"))
            .arg(&source))
        .unwrap();
        run(Command::new("ar").current_dir(folder.path()).args([
            "rc",
            "libmapper.a",
            "libmapper.o",
        ]))
        .unwrap();
        for program in ["mapperd", "mapper-launch", "mapperctl"] {
            let path = folder.path().join(program);
            let script = format!("#!/bin/sh\nmkdir \"$2\" && echo .TH >\"$2/{program}.1\"\n");
            fs::write(&path, script).unwrap();
            set_mode(&path, 0o755).unwrap();
        }
        folder
    }

    #[test]
    fn the_same_input_makes_the_same_package() {
        let built = built();
        let outs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let packages = [0, 1].map(|i: usize| {
            let package = pack(built.path(), Revision::FIRST, outs[i].path()).unwrap();
            fs::read(package).unwrap()
        });
        assert_eq!(packages[0], packages[1]);
        // Nothing of the work is left.
        assert_eq!(fs::read_dir(outs[0].path()).unwrap().count(), 1);
    }

    #[test]
    fn a_package_says_what_it_needs_and_whose_the_configuration_is() {
        let (built, out) = (built(), tempfile::tempdir().unwrap());
        let package = pack(built.path(), "2".parse().unwrap(), out.path()).unwrap();
        let told = |arguments: &[&str]| {
            output(Command::new("dpkg-deb").args(arguments).arg(&package)).unwrap()
        };
        let control = told(&["--field"]);
        for line in ["Package: mapper", &format!("Version: {VERSION}-2")] {
            assert!(
                control.lines().any(|found| found == line),
                "{line}: {control}"
            );
        }
        assert!(control.contains("Depends: libc6"), "{control}");
        let files = told(&["--contents"]);
        for name in [
            "-rw-r--r-- root/root",
            "./etc/mapper/mapper.toml",
            "./usr/lib/systemd/system/mapperd.service",
            "./usr/share/man/man1/mapperctl.1.gz",
            "./usr/include/mapper.f90",
            "/pkgconfig/mapper.pc",
            "libmapper.so.0 -> libmapper.so",
        ] {
            assert!(files.contains(name), "{name}: {files}");
        }
        let control = tempfile::tempdir().unwrap();
        run(Command::new("dpkg-deb")
            .arg("--control")
            .arg(&package)
            .arg(control.path()))
        .unwrap();
        let text = |name: &str| fs::read_to_string(control.path().join(name)).unwrap();
        assert_eq!(text("conffiles"), "/etc/mapper/mapper.toml\n");
        assert!(text("shlibs").starts_with("libmapper 0 mapper (>= "));
        for script in SCRIPTS {
            run(Command::new("sh")
                .arg("-n")
                .arg(control.path().join(script)))
            .unwrap();
        }
    }
}
