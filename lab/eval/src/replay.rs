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

    /// Two applications on eight CPUs, 45 decisions.
    const RECORDING: &str = include_str!("../../../crates/pipeline/tests/data/version_1.jsonl");

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
        assert_eq!(replayed(RECORDING, None), Ok(()));
        assert_eq!(replayed(RECORDING, Some("fair")), Ok(()));
        // Killed while writing the last line.
        assert_eq!(replayed(&RECORDING[..RECORDING.len() - 40], None), Ok(()));
    }

    #[test]
    fn the_first_plan_that_differs_is_named_with_the_place_and_what_is_no_recording_refused() {
        let decisions = RECORDING.find("\"tick\":2,").unwrap();
        let (same, rest) = RECORDING.split_at(decisions);
        let changed = rest.replacen("\"cpus\":\"0-3\"", "\"cpus\":\"0-2,4\"", 1);
        let changed = format!("{same}{changed}");
        for (text, policy, parts) in [
            (&*changed, None, ["decision 2", "/apps/0/cpus"]),
            ("", None, ["give a file", "mapperd --record"]),
            ("{}\n", None, ["first line", "mapperd --record"]),
            ("hello\nworld\n", None, ["first line", "mapperd --record"]),
            (RECORDING, Some("robin"), ["robin", "fair"]),
        ] {
            let error = replayed(text, policy).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
