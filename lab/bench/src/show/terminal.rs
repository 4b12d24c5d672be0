//! The results as text for a terminal.

use std::fmt::Write as _;

use super::tables;
use crate::result::report::Results;

/// All tables, and the notes below them.
pub(crate) fn text(results: &Results) -> String {
    let mut text = format!("{}, measured on this machine\n", results.title);
    for table in tables::all(results) {
        let _ = write!(text, "\n{}", table.terminal());
    }
    text.push('\n');
    for line in tables::notes(results) {
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::results::tests::example;

    #[test]
    fn the_terminal_shows_every_group_mix_setting_and_missed_expectation() {
        let results = example();
        let text = text(&results);
        let settings = results.settings.iter().map(|of| &of.title);
        let groups = results.groups.iter().map(|of| &of.title);
        for name in results
            .mixes
            .iter()
            .map(|of| &of.name)
            .chain(settings)
            .chain(groups)
        {
            assert!(text.contains(name.as_str()), "{name} is not in\n{text}");
        }
        assert_eq!(text.matches("MISSED").count(), 1, "{text}");
    }
}
