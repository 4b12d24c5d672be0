//! `cargo xtask replay`: takes the decisions of a recording again.
//!
//! Without options every plan must come out as it was recorded, byte for byte; the first that does
//! not is shown with the place where it differs, and the task fails. With another policy it prints
//! what that one would have decided in each recorded situation.

use anyhow::{Context as _, bail};
use mapper_pipeline::{Changes, Comparison, Decided, Replay};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A file written by `mapperd --record`
    file: PathBuf,
    /// Decide with this allocation policy instead of the recorded one
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Decide with this placement policy instead of the recorded one
    #[arg(long, value_name = "NAME")]
    mapping: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("open {path}"))?;
    let mut lines = Lines {
        file: BufReader::new(file),
        line: String::new(),
        cut_off: false,
    };
    let header = lines.next().with_context(|| format!("read {path}"))?;
    let Some(header) = header.map(str::to_owned) else {
        bail!("{path} holds no whole line; give a file written by mapperd --record");
    };
    let changes = Changes {
        allocation: args.policy.clone(),
        mapping: args.mapping.clone(),
    };
    let place = || format!("replay {path}");
    let mut replay = Replay::start(&header, &changes).with_context(place)?;
    let mut out = std::io::stdout().lock();
    let (mut same, mut different) = (0u64, 0u64);
    while let Some(line) = lines.next().with_context(|| format!("read {path}"))? {
        let decided = replay.next(line).with_context(place)?;
        let differs = match &decided.comparison {
            Comparison::Same => false,
            Comparison::Different(difference) if !changes.any() => {
                let at = match &*difference.at {
                    "" => "/",
                    at => at,
                };
                bail!(
                    "decision {} differs from the recorded one at {at}: recorded {}, now {} ({same} before it are \
                     the same)",
                    decided.observation.tick,
                    difference.recorded,
                    difference.now,
                )
            }
            Comparison::Different(_) => tell(&mut out, &decided)?,
        };
        different += u64::from(differs);
        same += u64::from(!differs);
    }
    if lines.cut_off {
        writeln!(
            out,
            "the last line was cut off while it was written; left out"
        )?;
    }
    if changes.any() {
        let all = same + different;
        writeln!(
            out,
            "in {different} of {all} decisions an application would have got other CPUs"
        )?;
    } else {
        writeln!(out, "{same} decisions reproduced byte for byte")?;
    }
    Ok(())
}

/// The whole lines of a file. A last line without its end was cut off when the writer was killed.
struct Lines {
    file: BufReader<File>,
    line: String,
    cut_off: bool,
}

impl Lines {
    fn next(&mut self) -> std::io::Result<Option<&str>> {
        self.line.clear();
        self.file.read_line(&mut self.line)?;
        match self.line.strip_suffix('\n') {
            Some(line) => Ok(Some(line)),
            None => {
                self.cut_off = !self.line.is_empty();
                Ok(None)
            }
        }
    }
}

/// Prints what is decided otherwise, a line for each application whose CPUs differ. Returns whether
/// there is any.
fn tell(out: &mut impl std::io::Write, decided: &Decided) -> std::io::Result<bool> {
    let mut output = false;
    let before = &decided.recorded.apps;
    for (recorded, now) in before.iter().zip(&decided.plan.apps) {
        if recorded.cpus != now.cpus {
            output = true;
            writeln!(
                out,
                "{:>6}  {}: {} CPUs ({}) instead of {} ({}): {}",
                decided.observation.tick,
                now.name,
                now.cpus.len(),
                now.cpus,
                recorded.cpus.len(),
                recorded.cpus,
                now.sentence,
            )?;
        }
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::topology::Shape;
    use mapper_model::{
        AppId, AppName, AppObservation, AppSpec, CpuSet, Observation, Reading, Topology, Trigger,
    };
    use mapper_pipeline::{Controller, Header, PipelineConfig, record};

    /// A recording of two applications on four CPUs, three decisions.
    fn recording() -> Vec<String> {
        let topology = Topology::regular(Shape {
            sockets: 1,
            cores_per_socket: 4,
            threads_per_core: 1,
        });
        let mut controller = Controller::new(PipelineConfig::default(), topology).unwrap();
        let mut lines = vec![Header::of(&controller).line().unwrap()];
        let mut effective = [CpuSet::new(), CpuSet::new()];
        for tick in 1..=3 {
            let apps = effective
                .iter()
                .zip(1..)
                .map(|(effective, id)| AppObservation {
                    app: AppId(id),
                    spec: AppSpec::named(AppName::new(&format!("app{id}")).unwrap()),
                    effective: effective.clone(),
                    allowed: None,
                    fixed: None,
                    reading: Reading::default(),
                });
            let observation = Observation {
                tick,
                now_ns: tick * 1_000_000_000,
                trigger: Trigger::Interval,
                usable: CpuSet::first(4),
                apps: apps.collect(),
            };
            let plan = controller.step(&observation);
            lines.push(record::line(&observation, &plan).unwrap());
            for (set, app) in effective.iter_mut().zip(&plan.apps) {
                set.clone_from(&app.cpus);
            }
        }
        lines
    }

    fn replayed(text: &str, policy: Option<&str>) -> Result<(), String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let args = Args {
            file: file.path().to_owned(),
            policy: policy.map(str::to_owned),
            mapping: None,
        };
        run(&args).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_recording_gives_the_same_plans_again() {
        let text = recording().join("\n") + "\n";
        assert_eq!(replayed(&text, None), Ok(()));
        assert_eq!(replayed(&text, Some("fair")), Ok(()));
        // Killed while writing the last line.
        assert_eq!(replayed(&text[..text.len() - 40], None), Ok(()));
    }

    #[test]
    fn the_first_plan_that_differs_is_named_with_the_place() {
        let mut lines = recording();
        lines[2] = lines[2].replacen("\"cpus\":\"0-1\"", "\"cpus\":\"0,2\"", 1);
        let error = replayed(&(lines.join("\n") + "\n"), None).unwrap_err();
        for part in ["decision 2", "/apps/0/cpus"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for text in ["", "{}\n", "hello\nworld\n"] {
            let error = replayed(text, None).unwrap_err();
            assert!(error.contains("mapperd --record"), "{error}");
        }
        let error = replayed(&(recording().join("\n") + "\n"), Some("robin")).unwrap_err();
        assert!(error.contains("robin") && error.contains("fair"), "{error}");
    }
}
