//! Patterns for paths and names in rules.

use serde::Deserialize;

/// A pattern for paths and names.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(String);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Err("pattern \"\": give a path or name; leave it out to fit all".to_owned());
        }
        if text.contains('[') {
            return Err(format!(
                "pattern {text:?}: `[` is not supported; use ? for one character, * for some"
            ));
        }
        Ok(Self(text))
    }
}

impl Pattern {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches the whole of a text. Time: at most the product of their lengths.
    pub(crate) fn fits(&self, text: &str) -> bool {
        let (mut rest, text) = (self.0.as_bytes(), text.as_bytes());
        // The places in the text up to which the pattern read so far matches.
        let mut ends = vec![false; text.len() + 1];
        ends[0] = true;
        while let [first, after @ ..] = rest {
            let any = rest.starts_with(b"**");
            rest = if any { &rest[2..] } else { after };
            if *first == b'*' {
                for (place, &byte) in text.iter().enumerate() {
                    ends[place + 1] |= ends[place] && (any || byte != b'/');
                }
                continue;
            }
            for (place, &byte) in text.iter().enumerate().rev() {
                let same = *first == byte || (*first == b'?' && byte != b'/');
                ends[place + 1] = ends[place] && same;
            }
            ends[0] = false;
            if !ends.contains(&true) {
                return false;
            }
        }
        ends[text.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pattern_without_wildcards_fits_itself_alone(a in "[a-z/]{1,8}", b in "[a-z/]{1,8}") {
            let pattern = Pattern::try_from(a.clone()).unwrap();
            prop_assert!(pattern.fits(&a));
            prop_assert_eq!(pattern.fits(&b), a == b);
        }

        #[test]
        fn one_asterisk_stops_at_a_slash_and_two_do_not(a in "[a-z]{0,4}", b in "[a-z]{0,4}", c in "[a-z]{0,4}") {
            let one = Pattern::try_from(format!("/{a}*{c}")).unwrap();
            let two = Pattern::try_from(format!("/{a}**{c}")).unwrap();
            let flat = format!("/{a}{b}{c}");
            let deep = format!("/{a}{b}/{c}");
            prop_assert!(one.fits(&flat) && two.fits(&flat) && two.fits(&deep));
            prop_assert!(!one.fits(&deep));
        }
    }
}
