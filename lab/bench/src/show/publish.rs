//! Where results go: first into files, then onto the terminal.
//!
//! What took minutes to measure is not lost to a file that cannot be written, a run that failed later or a reader
//! that went away: every output that can be made is made, and what was wrong is reported at the end.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use mapper_report::output::{OutputFile, check_writable, tell};
use mapper_report::stopped::Stopped;

use super::{markdown, page, terminal};
use crate::data::experiment::Missed;
use crate::result::report::Results;
use crate::run::schedule::Ended;

/// Where results are to go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paths<'a> {
    pub(crate) json: Option<&'a Path>,
    pub(crate) page: Option<&'a Path>,
    /// A document whose measured part is replaced.
    pub(crate) markdown: Option<&'a Path>,
    /// Gets `live.json` and `live.html`.
    pub(crate) folder: Option<&'a Path>,
}

/// The files that results go to, claimed before anything takes time.
#[derive(Default)]
pub(crate) struct Outputs {
    json: Option<OutputFile>,
    page: Option<OutputFile>,
    markdown: Option<OutputFile>,
    folder: Option<PathBuf>,
}

impl Outputs {
    /// Opens every file.
    ///
    /// # Errors
    /// One cannot be written, or would lose its text.
    pub(crate) fn claim(paths: Paths<'_>) -> anyhow::Result<Self> {
        if let Some(file) = paths.markdown.filter(|file| file.exists()) {
            markdown::check_document(&read_document(file)?)
                .with_context(|| format!("--markdown {}", file.display()))?;
        }
        if let Some(folder) = paths.folder {
            check_writable(folder)?;
        }
        let claim = |path: Option<&Path>| path.map(OutputFile::claim).transpose();
        Ok(Self {
            json: claim(paths.json)?,
            page: claim(paths.page)?,
            markdown: claim(paths.markdown)?,
            folder: paths.folder.map(Path::to_owned),
        })
    }

    /// Writes every output; gives a line for each and the first failure.
    fn write(self, results: &Results) -> anyhow::Result<Written> {
        let json =
            serde_json::to_string_pretty(results).context("write the results as JSON")? + "\n";
        let mut written = Vec::new();
        if let Some(file) = self.json {
            written.push(("JSON", file.write(&json)));
        }
        if let Some(file) = self.page {
            written.push((
                "report",
                page::page(results).and_then(|text| file.write(&text)),
            ));
        }
        if let Some(file) = self.markdown {
            let document = read_document(file.path())
                .and_then(|before| markdown::document(&before, results))
                .with_context(|| format!("write {}", file.path().display()));
            written.push(("Markdown", document.and_then(|text| file.write(&text))));
        }
        if let Some(folder) = self.folder {
            let write = |name: &str, text: &str| OutputFile::claim(&folder.join(name))?.write(text);
            written.push(("data", write("live.json", &json)));
            written.push((
                "report",
                page::page(results).and_then(|text| write("live.html", &text)),
            ));
        }
        let mut of = Written {
            lines: String::new(),
            failed: None,
        };
        for (what, path) in written {
            match path {
                Ok(path) => drop(writeln!(of.lines, "{what}: {}", path.display())),
                Err(error) => of.failed = of.failed.or(Some(error)),
            }
        }
        Ok(of)
    }
}

struct Written {
    lines: String,
    failed: Option<anyhow::Error>,
}

/// A document as it was before.
fn read_document(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
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
    let written = outputs.write(results)?;
    tell(
        out,
        &format!("{}{}", terminal::text(results), written.lines),
    )?;
    if let Some(error) = failed.or(written.failed) {
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
    use mapper_report::interrupt::Interrupt;

    use super::*;
    use crate::evaluate::results::tests::{example, of_runs};
    use crate::run::schedule::tests::{made_up, small};

    fn json_in(folder: &tempfile::TempDir) -> (Outputs, PathBuf) {
        let json = folder.path().join("live.json");
        let paths = Paths {
            json: Some(&json),
            ..Paths::default()
        };
        (Outputs::claim(paths).unwrap(), json)
    }

    #[test]
    fn a_failure_is_reported_after_what_was_measured_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (outputs, json) = json_in(&folder);
        let measured = made_up(&small(), &Interrupt::default(), 5, || bail!("no daemon"));
        let results = of_runs(&small(), &measured);
        let mut out = Vec::new();
        let error =
            publish(outputs, &results, measured.ended, Missed::Shown, &mut out).unwrap_err();
        assert!(format!("{error:#}").contains("no daemon"), "{error:#}");
        assert!(std::fs::read_to_string(&json).unwrap().contains("md+cg"));
        assert!(String::from_utf8(out).unwrap().contains("plain Linux"));
    }

    #[test]
    fn a_stop_is_a_failure_that_says_how_much_is_done_after_everything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (outputs, json) = json_in(&folder);
        let interrupt = Interrupt::default();
        let measured = made_up(&small(), &interrupt, 4, || {
            interrupt.raise();
            bail!("interrupted")
        });
        let results = of_runs(&small(), &measured);
        let mut out = Vec::new();
        let error =
            publish(outputs, &results, measured.ended, Missed::Shown, &mut out).unwrap_err();
        assert!(error.downcast_ref::<Stopped>().is_some(), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("4 of 6 runs done") && text.contains("begins anew"),
            "{text}"
        );
        assert!(json.exists() && String::from_utf8(out).unwrap().contains("plain Linux"));
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

    /// A pipe that nothing reads from any more.
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
    fn the_files_are_written_though_nothing_reads_what_is_printed() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = example();
        results.wrong_results = 0;
        let paths = Paths {
            folder: Some(folder.path()),
            ..Paths::default()
        };
        let outputs = Outputs::claim(paths).unwrap();
        publish(outputs, &results, Ended::Done, Missed::Shown, &mut Closed).unwrap();
        assert!(
            folder.path().join("live.html").exists() && folder.path().join("live.json").exists()
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_or_would_lose_its_text_is_refused_at_once() {
        let refusal = |paths: Paths<'_>| match Outputs::claim(paths) {
            Ok(_) => panic!("{paths:?} was accepted"),
            Err(error) => format!("{error:#}"),
        };
        let nowhere = Some(Path::new("/nonexistent/folder/file"));
        let none = Paths::default();
        for paths in [
            Paths {
                json: nowhere,
                ..none
            },
            Paths {
                page: nowhere,
                ..none
            },
            Paths {
                markdown: nowhere,
                ..none
            },
        ] {
            let error = refusal(paths);
            assert!(error.contains("/nonexistent/folder/file"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.md");
        std::fs::write(&path, "my notes\n").unwrap();
        let error = refusal(Paths {
            markdown: Some(&path),
            ..none
        });
        assert!(
            error.contains("notes.md") && error.contains("measured: begin"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
    }
}
