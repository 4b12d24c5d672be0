//! Where the results go: first into files, then onto the terminal.
//!
//! What took ten minutes to measure is not lost to a file that cannot be written, a run that failed later or
//! a reader that went away: every output that can be made is made, and what was wrong is told at the end.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};

use super::plan::Plan;
use super::results::Results;
use super::{Ended, html, tables};
use mapper_report::output::{OutputFile, tell};
use mapper_report::stopped::Stopped;

/// A document as it was before.
pub(super) fn read_document(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Writes and then prints the results, every one that can be; fails when nothing was finished, something
/// could not be measured or written, or a result was wrong.
pub(super) fn publish(
    plan: Plan,
    results: &Results,
    ended: Ended,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let failed = match ended {
        Ended::Failed(error) => Some(error),
        Ended::Stopped => Some(stopped(&plan, results).into()),
        Ended::Done => None,
    };
    if results.mixes.is_empty() {
        let what = "ended before any mix had run under all settings: nothing to report";
        return Err(failed.map_or_else(|| anyhow!(what), |error| error.context(what)));
    }
    let json = serde_json::to_string_pretty(results).context("write the results as JSON")? + "\n";
    let mut written = Vec::new();
    if let Some(file) = plan.json {
        written.push(("JSON", file.write(&json)));
    }
    if let Some(file) = plan.markdown {
        let document = read_document(file.path())
            .and_then(|before| tables::document(&before, results))
            .with_context(|| format!("write {}", file.path().display()));
        written.push(("Markdown", document.and_then(|text| file.write(&text))));
    }
    if let Some(folder) = plan.out {
        let write = |name: &str, text: &str| OutputFile::claim(&folder.join(name))?.write(text);
        written.push(("data", write("live.json", &json)));
        written.push(("report", write("live.html", &html::page(results))));
    }
    let mut text = tables::terminal(results) + "\n";
    let mut unwritten = None;
    for (what, path) in written {
        match path {
            Ok(path) => drop(writeln!(text, "{what}: {}", path.display())),
            Err(error) => unwritten = unwritten.or(Some(error)),
        }
    }
    tell(out, &text)?;
    if let Some(error) = failed.or(unwritten) {
        return Err(error);
    }
    if results.wrong_results > 0 {
        bail!("wrong results: {}", results.wrong_results);
    }
    Ok(())
}

/// What a stop left. Runs beside each other on a machine that has changed since are not comparable, so none are
/// kept for the next time.
fn stopped(plan: &Plan, results: &Results) -> Stopped {
    let wanted = plan.runs();
    Stopped {
        done: wanted.saturating_sub(results.method.left_out),
        wanted,
        go_on: "measuring again begins anew; --reps, --mix and --setting make it shorter",
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::super::results::tests::results as results_of;
    use super::super::tests::{SMALL, made_up, runs_of};
    use super::*;
    use mapper_report::interrupt::Interrupt;

    #[test]
    fn a_failure_is_told_after_what_was_measured_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("live.json");
        let mut arguments = SMALL.to_vec();
        arguments.extend(["--json", json.to_str().unwrap()]);
        let plan = plan(&arguments).unwrap();
        let measured = made_up(&plan, &Interrupt::default(), 5, || bail!("no daemon"));
        assert_eq!(runs_of(&measured), 5);
        let results = results_of(&measured.mixes, 1);
        let mut out = Vec::new();
        let error = publish(plan, &results, measured.ended, &mut out).unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("md+cg") && error.contains("no daemon"),
            "{error}"
        );
        assert!(std::fs::read_to_string(&json).unwrap().contains("md+cg"));
        assert!(String::from_utf8(out).unwrap().contains("plain Linux"));
    }

    #[test]
    fn a_stop_is_a_failure_that_tells_how_much_is_done_after_everything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("live.json");
        let mut arguments = SMALL.to_vec();
        arguments.extend(["--json", json.to_str().unwrap()]);
        let plan = plan(&arguments).unwrap();
        let interrupt = Interrupt::default();
        let measured = made_up(&plan, &interrupt, 4, || {
            interrupt.raise();
            bail!("interrupted")
        });
        let results = results_of(&measured.mixes, 2);
        let mut out = Vec::new();
        let error = publish(plan, &results, measured.ended, &mut out).unwrap_err();
        assert!(error.downcast_ref::<Stopped>().is_some(), "{error:?}");
        let told = error.to_string();
        assert!(
            told.contains("4 of 6 runs done") && told.contains("begins anew"),
            "{told}"
        );
        assert!(json.exists() && String::from_utf8(out).unwrap().contains("plain Linux"));
    }

    /// A pipe that nobody reads from any more.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_files_are_written_though_nobody_reads_what_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        let mut arguments = SMALL.to_vec();
        arguments.extend(["--out", folder.path().to_str().unwrap()]);
        let plan = plan(&arguments).unwrap();
        let results = made_up(&plan, &Interrupt::default(), 6, || bail!("too many runs"));
        let results = results_of(&results.mixes, 0);
        publish(plan, &results, Ended::Done, &mut Closed).unwrap();
        assert!(folder.path().join("live.html").exists());
    }
}
