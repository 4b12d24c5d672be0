//! Where results go: first into files, then onto the terminal.
//!
//! What took minutes to measure is not lost to a file that cannot be written, a run that failed later or a reader
//! that went away: every output that can be made is made, and what was wrong is reported at the end.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use mapper_report::output::{OutputFile, tell};
use mapper_report::stopped::Stopped;

use super::{page, tables};
use crate::data::Missed;
use crate::result::Results;
use crate::run::schedule::Ended;

/// A kind of output: its name, and what it contains.
type Kind = (&'static str, fn(&Results) -> Result<String>);

pub(crate) const JSON: Kind = ("JSON", |of| Ok(serde_json::to_string_pretty(of)? + "\n"));
pub(crate) const PAGE: Kind = ("report", page::page);
pub(crate) const MARKDOWN: Kind = ("Markdown", |of| Ok(markdown(of)));

/// The files that results go to, claimed before anything takes time.
#[derive(Default)]
pub(crate) struct Outputs(Vec<(Kind, OutputFile)>);

impl Outputs {
    /// Opens every file that is wanted.
    pub(crate) fn claim<const N: usize>(wanted: [(Kind, Option<PathBuf>); N]) -> Result<Self> {
        let mut outputs = Self::default();
        for (kind, path) in wanted {
            let Some(path) = path else { continue };
            if kind.0 == MARKDOWN.0 && path.exists() {
                let text = fs_err::read_to_string(&path)?;
                ensure!(
                    text.trim().is_empty() || text.starts_with(MEASURED),
                    "--markdown {}: the file has text of its own, which would be lost; give a new file",
                    path.display()
                );
            }
            outputs.0.push((kind, OutputFile::claim(&path)?));
        }
        Ok(outputs)
    }

    /// Writes every output, with a line in `lines` for each.
    fn write(self, results: &Results, lines: &mut String) -> Result<()> {
        let mut failed = None;
        for ((name, content), file) in self.0 {
            match content(results).and_then(|text| file.write(&text)) {
                Ok(path) => *lines += &format!("{name}: {}\n", path.display()),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// How a document begins that has nothing but results.
const MEASURED: &str = "<!-- measured -->\n";

/// All tables as a document, and the notes below them.
fn markdown(results: &Results) -> String {
    let mut text = format!("{MEASURED}\n    {}\n", results.command);
    for table in tables::all(results) {
        text += &format!("\n### {}\n\n{}", table.title, table.markdown());
    }
    for line in tables::notes(results) {
        text += &format!("\n- {line}");
    }
    text + "\n"
}

/// All tables as text for a terminal, and the notes below them.
fn text(results: &Results) -> String {
    let mut text = format!("{}, measured on this machine\n", results.title);
    for table in tables::all(results) {
        text += &format!("\n{}", table.terminal());
    }
    text.push('\n');
    for line in tables::notes(results) {
        text += &format!("{line}\n");
    }
    text
}

/// Writes and then prints the results, every one that can be; fails when nothing was finished, something could not
/// be measured or written, a result was wrong, or an expectation that has to hold was missed.
pub(crate) fn publish(
    outputs: Outputs,
    results: &Results,
    ended: Ended,
    missed: Missed,
    out: &mut dyn Write,
) -> Result<()> {
    let failed = match ended {
        Ended::Failed(error) => Some(error),
        Ended::Stopped => Some(stopped(results).into()),
        Ended::Done => None,
    };
    if results.mixes.is_empty() && results.figures.is_empty() && results.not_measured.is_empty() {
        let what = "ended before any mix had run under all settings: nothing to report";
        return Err(failed.map_or_else(|| anyhow!(what), |error| error.context(what)));
    }
    let mut text = text(results);
    let written = outputs.write(results, &mut text);
    tell(out, &text)?;
    if let Some(error) = failed.or(written.err()) {
        return Err(error);
    }
    let wrong = results.wrong_results;
    ensure!(wrong == 0, "wrong results: {wrong}");
    let (broken, all) = (results.missed(), results.expectations.len());
    let is_kept = missed == Missed::Shown || broken == 0;
    ensure!(is_kept, "{broken} of {all} expectations missed");
    Ok(())
}

/// Writes and prints single figures; fails when an expectation is missed.
pub(crate) fn publish_figures(outputs: Outputs, results: &Results) -> Result<()> {
    let out = &mut std::io::stdout().lock();
    publish(outputs, results, Ended::Done, Missed::Fails, out)
}

/// What a stop left. Runs beside each other on a machine that has changed since are not comparable, so none are
/// kept for the next time.
fn stopped(results: &Results) -> Stopped {
    let runs = results.mixes.iter().flat_map(|mix| &mix.settings);
    let done: usize = runs.map(|of| of.runs.len()).sum();
    Stopped {
        done,
        wanted: done + results.left_out,
        next: "measuring again begins anew; fewer repetitions, mixes and settings make it shorter",
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use mapper_report::interrupt::Interrupt;
    use tempfile::TempDir;

    use super::*;
    use crate::evaluate::results::of_runs;
    use crate::evaluate::results::tests::{example, known};
    use crate::result::Run;
    use crate::run::schedule::tests::{made_up, small};

    fn json_in(folder: &TempDir) -> (Outputs, PathBuf) {
        let json = folder.path().join("live.json");
        let outputs = Outputs::claim([(JSON, Some(json.clone()))]);
        (outputs.unwrap(), json)
    }

    #[test]
    fn the_terminal_shows_every_group_mix_setting_and_missed_expectation() {
        let results = example();
        let text = text(&results);
        let settings = results.settings.iter().map(|of| &of.title);
        let groups = results.groups.iter().map(|of| &of.title);
        let mixes = results.mixes.iter().map(|of| &of.name);
        for name in settings.chain(groups).chain(mixes) {
            assert!(text.contains(name), "{name} is not in\n{text}");
        }
        assert_eq!(text.matches("MISSED").count(), 1, "{text}");
    }

    #[test]
    fn a_document_has_the_tables_and_the_command_that_repeats_them_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.md");
        std::fs::write(&path, markdown(&example()) + "old").unwrap();
        let outputs = Outputs::claim([(MARKDOWN, Some(path.clone()))]).unwrap();
        outputs.write(&example(), &mut String::new()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let command = "\n    cargo xtask eval --live\n";
        for part in [command, "\n### md+cg\n\n| setting "] {
            assert!(text.contains(part) && !text.contains("old"), "{text}");
        }
    }

    /// Publishes the runs that are made until `then`; everything is written before the failure.
    fn failure(
        interrupt: &Interrupt,
        runs: usize,
        then: impl Fn() -> Result<Run>,
    ) -> anyhow::Error {
        let folder = tempfile::tempdir().unwrap();
        let (outputs, json) = json_in(&folder);
        let measured = made_up(&small(), interrupt, runs, then);
        let results = of_runs(&small(), &measured, known());
        let mut out = Vec::new();
        let done = publish(outputs, &results, measured.ended, Missed::Shown, &mut out);
        assert!(fs_err::read_to_string(&json).unwrap().contains("md+cg"));
        assert!(String::from_utf8(out).unwrap().contains("plain Linux"));
        done.unwrap_err()
    }

    #[test]
    fn a_stop_or_failure_is_reported_after_what_was_measured_before_it_is_written() {
        let interrupt = Interrupt::default();
        let error = failure(&interrupt, 5, || bail!("no daemon"));
        assert!(format!("{error:#}").contains("no daemon"), "{error:#}");
        let error = failure(&interrupt, 4, || {
            interrupt.raise();
            bail!("interrupted")
        });
        assert!(error.downcast_ref::<Stopped>().is_some(), "{error:?}");
        for part in ["4 of 6 runs done", "begins anew"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_wrong_result_fails_and_a_missed_expectation_only_where_it_has_to_hold() {
        let mut results = example();
        let published = |results: &Results, missed| {
            let folder = tempfile::tempdir().unwrap();
            let (outputs, json) = json_in(&folder);
            let done = publish(outputs, results, Ended::Done, missed, &mut Vec::new());
            assert!(json.exists());
            done.err().map(|error| error.to_string())
        };
        let failed = |text: &str| Some(text.to_owned());
        let wrong = failed("wrong results: 1");
        assert_eq!(published(&results, Missed::Shown), wrong);
        results.wrong_results = 0;
        assert_eq!(published(&results, Missed::Shown), None);
        let missed = failed("1 of 2 expectations missed");
        assert_eq!(published(&results, Missed::Fails), missed);
    }

    #[test]
    fn the_files_are_written_though_nothing_reads_what_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = example();
        results.wrong_results = 0;
        let paths = ["live.html", "live.json"].map(|name| folder.path().join(name));
        let [page, json] = paths.clone().map(Some);
        let outputs = Outputs::claim([(PAGE, page), (JSON, json)]).unwrap();
        let (reader, mut closed) = std::io::pipe().unwrap();
        drop(reader);
        publish(outputs, &results, Ended::Done, Missed::Shown, &mut closed).unwrap();
        assert!(paths.iter().all(|path| path.metadata().unwrap().len() > 0));
    }

    #[test]
    fn a_file_that_cannot_be_written_or_would_lose_its_text_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes.md");
        fs_err::write(&notes, "my notes\n").unwrap();
        let nowhere = PathBuf::from("/nonexistent/folder/file");
        for (kind, path, wanted) in [
            (JSON, &nowhere, "cannot write"),
            (PAGE, &nowhere, "cannot write"),
            (MARKDOWN, &nowhere, "cannot write"),
            (MARKDOWN, &notes, "a new file"),
        ] {
            let claimed = Outputs::claim([(kind, Some(path.clone()))]);
            let error = format!("{:#}", claimed.err().expect("a refusal"));
            for part in [&*path.to_string_lossy(), wanted] {
                assert!(error.contains(part), "{error}");
            }
        }
        assert_eq!(fs_err::read_to_string(&notes).unwrap(), "my notes\n");
    }
}
