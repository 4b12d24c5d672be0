//! The comparison as a page: what came of it, and every run as a point.

use super::program::Setting;
use super::verdict::{Compared, Comparison, PerSetting, median};
use super::view::{note, output, sentences, time, times};
use crate::document::Document;
use anyhow::Context;
use maud::{Markup, html};
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::NamedTempFile;

/// Where the page goes. That it can be written there is known before anything is measured.
#[derive(Debug)]
pub(crate) struct PageFile {
    path: PathBuf,
    begun: NamedTempFile,
}

impl PageFile {
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let begun = tempfile::Builder::new()
            // As any new file, within what the umask allows.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .with_context(|| format!("write {}", path.display()))?;
        let path = path.to_owned();
        Ok(Self { path, begun })
    }

    pub(crate) fn write(mut self, comparison: &Comparison) -> anyhow::Result<()> {
        let page = Document {
            title: "mapper compare".to_owned(),
            script: "",
            content: content(comparison, &circumstances()),
        };
        let context = || format!("write {}", self.path.display());
        self.begun
            .write_all(page.file().as_bytes())
            .with_context(context)?;
        self.begun.persist(&self.path).with_context(context)?;
        Ok(())
    }
}

/// By which mapper, where and when.
fn circumstances() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "mapper {}, {}, {}",
        env!("CARGO_PKG_VERSION"),
        mapperctl::counted(cpus as u64, "CPU"),
        humantime::format_rfc3339_seconds(SystemTime::now())
    )
}

fn content(comparison: &Comparison, circumstances: &str) -> Markup {
    let [verdict, others @ ..] = sentences(comparison);
    let most = comparison.programs.iter().flat_map(|program| {
        let PerSetting {
            plain,
            passive,
            mapper,
        } = &program.seconds;
        plain.iter().chain(passive).chain(mapper)
    });
    let most = most.copied().fold(0.0, f64::max);
    html! {
        header {
            p.eyebrow { "mapper compare" }
            h1 { (verdict) }
            @for sentence in others { p { (sentence) } }
        }
        section aria-label="Times" {
            h2 { "Times" }
            (table(comparison))
            p.soft { (note(comparison)) }
        }
        section aria-label="Runs" {
            h2 { "All runs" }
            p.soft { "A point is one run, on a scale from 0; the line is the median." }
            @for program in &comparison.programs { (runs(program, most)) }
        }
        footer { p.soft { (circumstances) } }
    }
}

fn table(comparison: &Comparison) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Times" {
            table {
                thead {
                    tr {
                        th { "program" } th { "plain Linux" } th { "passive waiting" } th { "mapper" }
                        th { "over plain" } th { "over passive" } th { "output" }
                    }
                }
                tbody { @for program in &comparison.programs { (row(program)) } }
            }
        }
    }
}

fn row(program: &Compared) -> Markup {
    let seconds = &program.seconds;
    let over = |other: &[f64]| times(median(other) / median(&seconds.mapper));
    html! {
        tr {
            td { b { (program.name) } }
            td { (time(&seconds.plain)) }
            td { (time(&seconds.passive)) }
            td { (time(&seconds.mapper)) }
            td { (over(&seconds.plain)) "×" }
            td { (over(&seconds.passive)) "×" }
            td { (output(program.output)) }
        }
    }
}

/// Each run of a program as a point; `most` seconds is the end of the scale.
fn runs(program: &Compared, most: f64) -> Markup {
    let PerSetting {
        plain,
        passive,
        mapper,
    } = &program.seconds;
    let settings = [
        (Setting::Plain, plain, "c4"),
        (Setting::Passive, passive, "c1"),
        (Setting::Mapper, mapper, "c0"),
    ];
    let at = |seconds: f64| format!("{:.2}%", seconds / most * 98.0);
    html! {
        article.panel {
            h3 { (program.name) }
            @for (setting, seconds, class) in settings {
                div.run {
                    span { (setting.name()) }
                    svg width="100%" height="28" role="img" aria-label={ "times " (setting.with_preposition()) } {
                        line x1="0" x2="100%" y1="14" y2="14" {}
                        line.median x1=(at(median(seconds))) x2=(at(median(seconds))) y1="3" y2="25" {}
                        @for second in seconds { circle.(class) cx=(at(*second)) cy="14" r="5" {} }
                    }
                    span { (time(seconds)) " s" }
                }
            }
            p.soft { code { (program.command.join(" ")) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::verdict::tests::comparison;

    #[test]
    fn the_page_has_the_verdict_the_table_and_a_point_for_each_run() {
        let compared = comparison(
            [[3.0, 3.1, 2.9], [1.2, 1.3, 1.2], [1.0, 1.05, 1.0]],
            ["1", "1", "1"],
        );
        let text = content(&compared, "here and now").into_string();
        assert!(
            text.contains("<h1>Together 3.0 times as fast as plain Linux (2.9 to 3.0).</h1>"),
            "{text}"
        );
        assert_eq!(text.matches("<circle").count(), 2 * 3 * 3);
        for part in [
            "All outputs are equal.",
            "./fit-a --deep",
            "3.00 (2.90-3.10)",
            "here and now",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_page_is_written_whole_or_not_at_all_and_replaces_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        std::fs::write(&path, "earlier").unwrap();
        let page = PageFile::new(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "earlier");
        page.write(&comparison([[1.0; 3]; 3], ["", "", ""]))
            .unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("</html>"));
        let nowhere = PageFile::new(Path::new("/no/such/page.html")).unwrap_err();
        assert_eq!(nowhere.to_string(), "write /no/such/page.html");
    }
}
