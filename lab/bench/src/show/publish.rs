//! Where results go: first into files, then onto the terminal.
//!
//! What took minutes to measure is not lost to a file that cannot be written, a run that failed later or a reader
//! that went away: every output that can be made is made, and what was wrong is reported at the end.

use std::io::Write;
use std::path::Path;

use anyhow::{anyhow, bail, ensure};
use mapper_report::output::{OutputFile, check_writable, tell};
use mapper_report::stopped::Stopped;

use super::{page, tables};
use crate::data::experiment::Missed;
use crate::result::report::Results;
use crate::run::schedule::Ended;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paths<'a> {
    pub(crate) json: Option<&'a Path>,
    pub(crate) page: Option<&'a Path>,
    pub(crate) markdown: Option<&'a Path>,
    /// Gets `live.json` and `live.html`.
    pub(crate) folder: Option<&'a Path>,
}

#[derive(Clone, Copy)]
enum Content {
    Json,
    Page,
    Markdown,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Page => "report",
            Self::Markdown => "Markdown",
        }
    }

    fn of(self, results: &Results) -> anyhow::Result<String> {
        match self {
            Self::Json => Ok(serde_json::to_string_pretty(results)? + "\n"),
            Self::Page => page::page(results),
            Self::Markdown => Ok(markdown(results)),
        }
    }
}

struct Output {
    content: Content,
    file: OutputFile,
}

/// The files that results go to, claimed before anything takes time.
#[derive(Default)]
pub(crate) struct Outputs(Vec<Output>);

impl Outputs {
    /// A file for JSON, if one is wanted.
    pub(crate) fn claim_json(json: Option<&Path>) -> anyhow::Result<Self> {
        let paths = Paths {
            json,
            ..Paths::default()
        };
        Self::claim(paths)
    }

    /// Opens every file.
    pub(crate) fn claim(paths: Paths<'_>) -> anyhow::Result<Self> {
        if let Some(file) = paths.markdown.filter(|file| file.exists()) {
            let text = fs_err::read_to_string(file)?;
            ensure!(
                text.trim().is_empty() || text.starts_with(MEASURED),
                "--markdown {}: the file has text of its own, which would be lost; give a new file",
                file.display()
            );
        }
        if let Some(folder) = paths.folder {
            check_writable(folder)?;
        }
        let in_folder = |name| paths.folder.map(|folder| folder.join(name));
        let mut outputs = Self::default();
        for (content, path) in [
            (Content::Json, paths.json.map(Path::to_owned)),
            (Content::Page, paths.page.map(Path::to_owned)),
            (Content::Markdown, paths.markdown.map(Path::to_owned)),
            (Content::Json, in_folder("live.json")),
            (Content::Page, in_folder("live.html")),
        ] {
            if let Some(path) = path {
                let file = OutputFile::claim(&path)?;
                outputs.0.push(Output { content, file });
            }
        }
        Ok(outputs)
    }

    /// Writes every output, with a line in `lines` for each.
    fn write(self, results: &Results, lines: &mut String) -> anyhow::Result<()> {
        let mut failed = None;
        for Output { content, file } in self.0 {
            let text = content.of(results);
            match text.and_then(|text| file.write(&text)) {
                Ok(path) => *lines += &format!("{}: {}\n", content.name(), path.display()),
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
) -> anyhow::Result<()> {
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
    if results.wrong_results > 0 {
        bail!("wrong results: {}", results.wrong_results);
    }
    match (missed, results.missed()) {
        (Missed::Fails, 1..) => {
            bail!(
                "{} of {} expectations missed",
                results.missed(),
                results.expectations.len()
            )
        }
        _ => Ok(()),
    }
}

/// Writes and prints single figures; fails when an expectation is missed.
pub(crate) fn publish_figures(outputs: Outputs, results: &Results) -> anyhow::Result<()> {
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
    use std::path::PathBuf;

    use mapper_report::interrupt::Interrupt;
    use tempfile::TempDir;

    use super::*;
    use crate::evaluate::results::of_runs;
    use crate::evaluate::results::tests::{example, known};
    use crate::result::run::Run;
    use crate::run::schedule::tests::{made_up, small};

    fn json_in(folder: &TempDir) -> (Outputs, PathBuf) {
        let json = folder.path().join("live.json");
        (Outputs::claim_json(Some(&json)).unwrap(), json)
    }

    #[test]
    fn the_terminal_shows_every_group_mix_setting_and_missed_expectation() {
        let results = example();
        let text = text(&results);
        let mut names: Vec<&String> = results.settings.iter().map(|of| &of.title).collect();
        names.extend(results.groups.iter().map(|of| &of.title));
        names.extend(results.mixes.iter().map(|of| &of.name));
        for name in names {
            assert!(text.contains(name.as_str()), "{name} is not in\n{text}");
        }
        assert_eq!(text.matches("MISSED").count(), 1, "{text}");
    }

    #[test]
    fn a_document_has_the_tables_and_the_command_that_repeats_them_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.md");
        std::fs::write(&path, markdown(&example()) + "old").unwrap();
        let paths = Paths {
            markdown: Some(&path),
            ..Paths::default()
        };
        let outputs = Outputs::claim(paths).unwrap();
        outputs.write(&example(), &mut String::new()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\n    cargo xtask eval --live\n"), "{text}");
        assert!(text.contains("\n### md+cg\n\n| setting "), "{text}");
        assert!(!text.contains("old"), "{text}");
    }

    /// Publishes the runs that are made until `then`; everything is written before the failure.
    fn failure(
        interrupt: &Interrupt,
        runs: usize,
        then: impl Fn() -> anyhow::Result<Run>,
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
    fn a_failure_is_reported_after_what_was_measured_before_it_is_written() {
        let error = failure(&Interrupt::default(), 5, || bail!("no daemon"));
        assert!(format!("{error:#}").contains("no daemon"), "{error:#}");
    }

    #[test]
    fn a_stop_is_a_failure_that_says_how_much_is_done_after_everything_is_written() {
        let interrupt = Interrupt::default();
        let error = failure(&interrupt, 4, || {
            interrupt.raise();
            bail!("interrupted")
        });
        assert!(error.downcast_ref::<Stopped>().is_some(), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("4 of 6 runs done") && text.contains("begins anew"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_result_fails_and_a_missed_expectation_only_where_it_has_to_hold() {
        let mut results = example();
        let published = |results: &Results, missed| {
            let folder = tempfile::tempdir().unwrap();
            let (outputs, json) = json_in(&folder);
            let done = publish(outputs, results, Ended::Done, missed, &mut Vec::new());
            assert!(json.exists());
            done
        };
        let error = published(&results, Missed::Shown).unwrap_err();
        assert_eq!(error.to_string(), "wrong results: 1");
        results.wrong_results = 0;
        published(&results, Missed::Shown).unwrap();
        let error = published(&results, Missed::Fails).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 expectations missed");
    }

    #[test]
    fn the_files_are_written_though_nothing_reads_what_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = example();
        results.wrong_results = 0;
        let paths = Paths {
            folder: Some(folder.path()),
            ..Paths::default()
        };
        let outputs = Outputs::claim(paths).unwrap();
        let (reader, mut closed) = std::io::pipe().unwrap();
        drop(reader);
        publish(outputs, &results, Ended::Done, Missed::Shown, &mut closed).unwrap();
        for name in ["live.html", "live.json"] {
            assert!(folder.path().join(name).metadata().unwrap().len() > 0);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_or_would_lose_its_text_is_refused_before_anything_runs() {
        let refusal = |json, page, markdown| {
            let paths = Paths {
                json,
                page,
                markdown,
                folder: None,
            };
            let claimed = Outputs::claim(paths);
            format!("{:#}", claimed.err().expect("a refusal"))
        };
        let nowhere = Some(Path::new("/nonexistent/folder/file"));
        for error in [
            refusal(nowhere, None, None),
            refusal(None, nowhere, None),
            refusal(None, None, nowhere),
        ] {
            assert!(error.contains("/nonexistent/folder/file"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.md");
        fs_err::write(&path, "my notes\n").unwrap();
        let error = refusal(None, None, Some(&path));
        assert!(
            error.contains("notes.md") && error.contains("a new file"),
            "{error}"
        );
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "my notes\n");
    }
}
