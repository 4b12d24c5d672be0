//! A log line, or a value in one.

use mapper_model::text::is_deceptive;

/// A text in one line that shows what it contains: users chose a part of it.
pub(crate) fn escaped(text: &str, keep: Option<char>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) && Some(c) != keep {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The beginning of a text, of at most so many bytes.
pub(crate) fn cut(text: &str, longest: usize) -> &str {
    let fits = (0..=longest.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..fits.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_chose_begins_no_line_and_steers_no_terminal() {
        for (text, keep, shown) in [
            ("a\n2026 ERROR b\r", None, "a\\n2026 ERROR b\\r"),
            ("\u{1b}[2J\u{9b}é", None, "\\u{1b}[2J\\u{9b}é"),
            ("\u{1b}[2J", Some('\u{1b}'), "\u{1b}[2J"),
            ("\u{202e}toor\u{2028}", None, "\\u{202e}toor\\u{2028}"),
        ] {
            assert_eq!(escaped(text, keep), shown);
        }
        assert_eq!((cut("éé", 3), cut("éé", 4)), ("é", "éé"));
    }
}
