//! Text for a terminal: of bounded width, and never able to steer it. Characters in names and command lines that a
//! terminal would obey, and those that change the direction of text, are shown as `?`.

use mapper_model::text::is_deceptive;
use std::fmt::Write;

/// Columns of text in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width(usize);

impl Width {
    const DEFAULT: Self = Self(80);
    /// Tables are not made narrower, and not wider.
    const RANGE: std::ops::RangeInclusive<usize> = 40..=160;

    /// As many columns, within bounds.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self(columns.clamp(*Self::RANGE.start(), *Self::RANGE.end()))
    }

    /// `COLUMNS`, or what the terminal says.
    #[must_use]
    pub fn of_terminal() -> Self {
        let output = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok());
        let measured = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        output.or_else(measured).map_or(Self::DEFAULT, Self::new)
    }

    pub(crate) const fn columns(self) -> usize {
        self.0
    }
}

/// How many columns a text takes: one for each character, which holds for what mapper writes.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// What could steer a terminal or reverse the direction of text becomes `?`.
#[must_use]
pub fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if is_deceptive(c) { '?' } else { c })
        .collect()
}

/// The same JSON, which no terminal takes for more than text: serde_json leaves what reverses the direction of text as it
/// is, since JSON may hold it. Outside of strings JSON has no such character but the end of a line.
pub(crate) fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if is_deceptive(c) && c != '\n' => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

pub(crate) fn cut(text: &str, limit: usize) -> String {
    if columns(text) <= limit {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Breaks between words; a word that is longer than a line is broken where it must be.
#[must_use]
pub fn wrapped(first: &str, text: &str, width: Width) -> String {
    let indent = columns(first);
    let room = width.columns().saturating_sub(indent).max(10);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let word = harmless(word);
        let mut word = word.as_str();
        loop {
            let used = lines.last().map_or(0, |line| columns(line));
            let gap = usize::from(used > 0);
            let Some(line) = lines.last_mut() else { break };
            if used + gap + columns(word) <= room {
                line.extend(std::iter::repeat_n(' ', gap));
                line.push_str(word);
                break;
            }
            if used > 0 {
                lines.push(String::new());
                continue;
            }
            let end = word
                .char_indices()
                .nth(room)
                .map_or(word.len(), |(end, _)| end);
            line.push_str(&word[..end]);
            word = &word[end..];
            lines.push(String::new());
        }
    }
    let mut out = String::new();
    for (place, line) in lines.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = if place == 0 {
            writeln!(out, "{}", format!("{first}{line}").trim_end())
        } else {
            writeln!(out, "{:indent$}{line}", "")
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_line_is_wider_than_allowed_and_no_word_is_lost(
            text in "[a-zäé→ \n\u{1b}\u{7}\u{202e}\u{2066}]{0,300}",
            columns_wanted in 0usize..200,
        ) {
            let width = Width::new(columns_wanted);
            let out = wrapped("label  ", &text, width);
            for line in out.lines() {
                prop_assert!(columns(line) <= width.columns(), "{line:?}");
                prop_assert!(!line.contains(is_deceptive));
            }
            let letters = |text: &str| -> String {
                text.chars().filter(|c| !c.is_whitespace()).collect()
            };
            prop_assert_eq!(letters(&out), harmless(&letters(&format!("label{text}"))));
        }

        #[test]
        fn json_means_the_same_and_cannot_steer_the_terminal(text in ".*", more in "[\u{1b}\u{7f}\u{9b}\u{202e}\n]*") {
            let value = serde_json::json!({ "name": [text, more] });
            let shown = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
            prop_assert!(!shown.replace('\n', "").contains(is_deceptive));
        }

        #[test]
        fn a_cut_text_fits(text in ".{0,50}", limit in 1usize..40) {
            prop_assert!(columns(&cut(&text, limit)) <= limit);
        }
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\u{9b}1m"), "a?[2Jb?1m");
        assert_eq!(harmless("\u{202e}toor\u{2069}\u{2028}é→"), "?toor??é→");
    }
}
