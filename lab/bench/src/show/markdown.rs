//! The tables as a part of a document in Markdown.

use std::fmt::Write as _;

use anyhow::ensure;

use super::tables;
use crate::result::report::Results;

/// What encloses the measured part of a document.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->";

/// What stands before and after the measured part of a document; nothing of a document without text.
struct Frame<'a> {
    head: &'a str,
    tail: &'a str,
}

fn frame(document: &str) -> anyhow::Result<Option<Frame<'_>>> {
    if document.trim().is_empty() {
        return Ok(None);
    }
    let [begin, end] = [BEGIN, END].map(|mark| document.matches(mark).count());
    let around = document.split_once(BEGIN).and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(END)?;
        Some(Frame { head, tail })
    });
    ensure!(
        (begin, end) == (1, 1) && around.is_some(),
        "the document has text, and {begin} lines \"{}\" and {end} \"{END}\": the tables go \
         between one of each, so write both where they belong, or give a new file",
        BEGIN.trim_end()
    );
    Ok(around)
}

/// Whether the tables can go into a document.
///
/// # Errors
/// A document with text and without exactly one measured part that is marked: its text would be lost.
pub(super) fn check_document(before: &str) -> anyhow::Result<()> {
    frame(before).map(drop)
}

/// A document with these results in place of its measured part, or these alone if it is empty.
///
/// # Errors
/// See [`check_document`].
pub(super) fn document(before: &str, results: &Results) -> anyhow::Result<String> {
    let new = markdown(results);
    Ok(match frame(before)? {
        Some(Frame { head, tail }) => format!("{head}{BEGIN}{new}{END}{tail}"),
        None => new,
    })
}

fn markdown(results: &Results) -> String {
    let mut text = format!("    {}\n", results.command);
    for table in tables::all(results) {
        let _ = write!(text, "\n### {}\n\n{}", table.title, table.markdown());
    }
    text.push('\n');
    for line in tables::notes(results) {
        let _ = writeln!(text, "- {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::results::tests::example;

    #[test]
    fn a_document_gets_the_tables_and_keeps_what_stands_around_its_measured_part() {
        let results = example();
        let whole = document("\n", &results).unwrap();
        assert!(
            whole.starts_with("    cargo xtask eval --live\n"),
            "{whole}"
        );
        assert!(whole.contains("\n### md+cg\n\n| setting "), "{whole}");
        let marked = format!("# Title\n{BEGIN}old tables\n{END}\nMore.\n");
        let found = document(&marked, &results).unwrap();
        assert_eq!(found, format!("# Title\n{BEGIN}{whole}{END}\nMore.\n"));
        assert_eq!(document(&found, &results).unwrap(), found);
    }

    #[test]
    fn a_document_without_one_measured_part_is_refused() {
        for text in [
            "an old text\n".to_owned(),
            format!("text {BEGIN}"),
            format!("{END} text {BEGIN}"),
            format!("{BEGIN}{END}{BEGIN}{END}"),
        ] {
            let error = check_document(&text).unwrap_err().to_string();
            assert!(error.contains("measured: begin"), "{text}: {error}");
        }
    }
}
