//! The machine profile on disk: what `mapperd calibrate` measured.
//!
//! A profile is valid only for the machine it was measured on. One at the usual path may have come with a disk or an
//! image: if it is another machine's, that is logged and the defaults are used. One that was named by
//! `--machine-profile` has to be valid, or the daemon does not start. `[expert.machine]` overrides what was measured.

use crate::config::args::Args;
use crate::config::settings::Settings;
use crate::config::types::ProfilePlace;
use crate::machine::selection;
use anyhow::{Context, bail};
use mapper_host::calibrate::{self, Calibration, FORMAT, Fingerprint};
use mapper_host::cpus::{UsableCpus, own_affinity};
use mapper_model::{CpuSet, MachineProfile, Topology};
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// The longest file that is read: a point for each pair of nodes.
const LONGEST: u64 = 4 << 20;

/// The thresholds for this machine: `configured`, with what was measured where it has the defaults. An error if a
/// profile that was named cannot be read or is another machine's.
pub(crate) fn thresholds(
    place: &ProfilePlace,
    configured: &MachineProfile,
    topology: &Topology,
) -> anyhow::Result<MachineProfile> {
    let measured = |path: &Path| {
        let found = read(path)?;
        let this = Fingerprint::of_this_machine(topology).context("identify this machine")?;
        refuse_others(path, &found, &this)?;
        Ok::<_, anyhow::Error>(found.machine.applied_to(configured))
    };
    match place {
        ProfilePlace::Named(path) => measured(path),
        ProfilePlace::Usual(path) if path.try_exists().unwrap_or(false) => match measured(path) {
            Ok(thresholds) => {
                tracing::info!(path = %path.display(), "using the thresholds measured on this machine");
                Ok(thresholds)
            }
            Err(error) => {
                tracing::warn!("{error:#}; using the default thresholds");
                Ok(configured.clone())
            }
        },
        ProfilePlace::Usual(_) | ProfilePlace::Nowhere => Ok(configured.clone()),
    }
}

fn refuse_others(path: &Path, found: &Calibration, this: &Fingerprint) -> anyhow::Result<()> {
    if let Some(difference) = found.fingerprint.differs_from(this) {
        bail!(
            "{} is the profile of another machine (this one: {difference}); measure this one with \
             `mapperd calibrate`, or remove the file",
            path.display()
        );
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Calibration> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        .with_context(|| format!("read the machine profile {}", path.display()))?;
    parse(&text).with_context(|| {
        format!(
            "machine profile {}: not used; measure again with `mapperd calibrate`",
            path.display()
        )
    })
}

fn parse(text: &str) -> anyhow::Result<Calibration> {
    let found: Calibration = toml::from_str(text)?;
    if found.format != FORMAT {
        bail!("format {}, and this mapperd knows {FORMAT}", found.format);
    }
    if let Some((key, value)) = found.machine.first_wrong() {
        bail!("{key} = {value}: must be a number above 0");
    }
    Ok(found)
}

/// Measures this machine and writes the profile; reports progress on standard error, and the result on
/// standard output.
pub(crate) fn calibrate(args: &Args, out: Option<&Path>) -> anyhow::Result<()> {
    let place = ProfilePlace::find(args.machine_profile.clone(), args.audience());
    let path = match (out, &place) {
        (Some(path), _) => path,
        (None, ProfilePlace::Named(path) | ProfilePlace::Usual(path)) => path,
        (None, ProfilePlace::Nowhere) => {
            bail!("no place for the profile: set HOME, or name one with --out")
        }
    };
    let topology = selection::topology()?;
    let usable = usable(Settings::reserve(args)?, &topology)?;
    warn_of_other_work(usable.len());
    // An error is reported before the measurement.
    let file = beside(path)?;
    let found = calibrate::calibrate(&topology, &usable, &mut |progress| {
        eprintln!("{} of {}: {}", progress.step, progress.of, progress.what);
    })?;
    put(file, path, &written(&found)?)?;
    print!("{}", in_words(&found));
    println!(
        "written to {}; used from the next start of mapperd on",
        path.display()
    );
    Ok(())
}

fn usable(reserve: CpuSet, topology: &Topology) -> anyhow::Result<CpuSet> {
    let allowed = own_affinity()?.intersection(topology.cpus());
    let usable = UsableCpus::system(reserve).read(&allowed, &CpuSet::new())?;
    Ok(usable.cpus)
}

/// With other programs running the machine seems slower than it is.
fn warn_of_other_work(cpus: u32) {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Option<f64> = text.split(' ').next().and_then(|word| word.parse().ok());
    if let Some(load) = load.filter(|load| *load > 0.1 * f64::from(cpus)) {
        eprintln!(
            "mapperd: other programs are running (load {load}); the results will be too low; \
             calibrate when the machine is idle"
        );
    }
}

/// A file in the same directory, which is put in place as a whole.
fn beside(to: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let name = to.file_name().context("the profile has no file name")?;
    let mut file = tempfile::Builder::new();
    // Other users may read it, as far as the umask permits.
    file.permissions(Permissions::from_mode(0o666)).prefix(name);
    let created = file.suffix(".new").tempfile_in(folder);
    created.with_context(|| {
        format!(
            "create a file in {}; name another place with --out",
            folder.display()
        )
    })
}

fn put(mut file: NamedTempFile, to: &Path, text: &str) -> anyhow::Result<()> {
    file.write_all(text.as_bytes())
        .and_then(|()| file.as_file().sync_all())
        .and_then(|()| file.persist(to).map(drop).map_err(|error| error.error))
        .with_context(|| format!("write {}", to.display()))
}

fn written(found: &Calibration) -> anyhow::Result<String> {
    let body = toml::to_string_pretty(found).context("write the profile as TOML")?;
    Ok(format!(
        "# Measured by `mapperd calibrate` on this machine, and used by mapperd on no other.\n\
         # [expert.machine] of mapper.toml comes before it.\n\n{body}"
    ))
}

/// The thresholds for people: how they were measured, or why they were not.
fn in_words(found: &Calibration) -> String {
    let mut text = String::new();
    let keys = calibrate::Thresholds::KEYS.into_iter();
    for (key, value) in keys.zip(found.machine.values()) {
        let reasons = match value {
            Some(_) => &found.how,
            None => &found.kept,
        };
        let why = reasons.get(key).cloned().unwrap_or_default();
        let _ = match value {
            Some(value) => writeln!(text, "{key} = {value:.4e}: {why}"),
            None => writeln!(text, "{key} keeps its default: {why}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;
    use mapper_host::calibrate::Thresholds;
    use mapper_model::topology::Shape;
    use std::path::PathBuf;

    fn topology() -> Topology {
        Topology::regular(Shape {
            sockets: 1,
            cores_per_socket: 2,
            threads_per_core: 1,
        })
    }

    /// The profile of this machine with one measured threshold.
    fn profile() -> Calibration {
        Calibration {
            format: FORMAT,
            fingerprint: Fingerprint::of_this_machine(&topology()).unwrap(),
            machine: Thresholds {
                ipc_high: Some(1.75),
                ..Thresholds::default()
            },
            how: [("ipc_high".to_owned(), "measured".to_owned())].into(),
            kept: [].into(),
            bandwidth: vec![],
            coherence: vec![],
            pipeline: vec![],
        }
    }

    fn file(profile: &Calibration) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/machine.toml");
        put(beside(&path).unwrap(), &path, &written(profile).unwrap()).unwrap();
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1);
        (folder, path)
    }

    fn other() -> Calibration {
        let mut other = profile();
        other.fingerprint.processor = "Another 9000".into();
        other
    }

    #[test]
    fn what_was_measured_is_used_at_the_next_start() {
        let (_folder, path) = file(&profile());
        for place in [ProfilePlace::Named(path.clone()), ProfilePlace::Usual(path)] {
            let used = thresholds(&place, &MachineProfile::default(), &topology()).unwrap();
            assert_eq!(used.ipc_high, 1.75);
            assert_eq!(used.clock_hz, MachineProfile::default().clock_hz);
        }
    }

    #[test]
    fn the_profile_of_another_machine_is_refused_by_name_and_left_alone_at_its_usual_place() {
        let (_folder, path) = file(&other());
        let default = MachineProfile::default();
        let error =
            thresholds(&ProfilePlace::Named(path.clone()), &default, &topology()).unwrap_err();
        assert_says(
            error,
            &[
                "machine.toml",
                "another machine",
                "not Another 9000",
                "mapperd calibrate",
            ],
        );
        let used = thresholds(&ProfilePlace::Usual(path), &default, &topology()).unwrap();
        assert_eq!(used, default);
    }

    #[test]
    fn without_a_profile_the_configured_thresholds_are_used() {
        let configured = MachineProfile {
            ipc_high: 1.1,
            ..MachineProfile::default()
        };
        let nowhere = PathBuf::from("/no/such/machine.toml");
        for place in [ProfilePlace::Nowhere, ProfilePlace::Usual(nowhere.clone())] {
            let used = thresholds(&place, &configured, &topology()).unwrap();
            assert_eq!(used, configured);
        }
        let named = ProfilePlace::Named(nowhere);
        let error = thresholds(&named, &configured, &topology()).unwrap_err();
        assert_says(error, &["/no/such/machine.toml"]);
    }

    #[test]
    fn a_damaged_profile_is_refused_with_the_cause() {
        let good = written(&profile()).unwrap();
        for (text, says) in [
            (good.replace("1.75", "-1.75"), "ipc_high = -1.75"),
            (good.replace("1.75", "nan"), "ipc_high = NaN"),
            (good.replace("format = 1", "format = 9"), "format 9"),
            (
                good.replace("ipc_high = 1.75", "ipc_hihg = 1.75"),
                "ipc_hihg",
            ),
            (good.replace("[fingerprint]", "[thumbprint]"), "thumbprint"),
            (good[..good.len() / 2].to_owned(), "TOML parse error"),
        ] {
            assert_says(parse(&text).unwrap_err(), &[says]);
        }
    }
}
