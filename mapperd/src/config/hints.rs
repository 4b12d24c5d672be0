//! What to write instead, for mistakes that are often made in the configuration file.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Names that are this similar are taken for one another.
const SIMILAR: f64 = 0.8;

/// The hint for an error of parsing `text`, where there is one.
pub(super) fn hint(text: &str, error: &toml::de::Error) -> Option<String> {
    let unknown = similar_key(error.message()).map(|key| format!("did you mean `{key}`?"));
    unknown
        .or_else(|| key_of_a_rule(error.message()))
        .or_else(|| other_type(text, error.span()?))
}

/// Where an unknown key belongs that is one of a rule.
fn key_of_a_rule(message: &str) -> Option<String> {
    let key = message.strip_prefix("unknown field `")?.split('`').next()?;
    matches!(key, "users" | "groups").then(|| {
        format!("write {key} = [...] below a line [[access]] or [[program]], for the rule to be theirs alone")
    })
}

/// The key that an unknown one resembles, by the message of serde: ``unknown field `a`, expected one of `b`, `c` ``.
fn similar_key(message: &str) -> Option<&str> {
    let mut quoted = message
        .strip_prefix("unknown field ")?
        .split('`')
        .skip(1)
        .step_by(2);
    let given = quoted.next()?;
    let likeness = |known: &str| strsim::jaro_winkler(given, known);
    let best = quoted.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.filter(|known| likeness(known) >= SIMILAR)
}

/// What is written for the value at `place` of the text, by its key and its type.
fn other_type(text: &str, place: Range<usize>) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let is_there =
        |span: Range<usize>| span.start < place.end.max(place.start + 1) && place.start < span.end;
    for (name, value) in document.get_ref() {
        let name: &str = name.get_ref();
        match (name, value.get_ref()) {
            ("access" | "program", DeValue::Table(_)) if is_there(value.span()) => {
                return Some(format!(
                    "write [[{name}]], with two brackets: there may be several such rules"
                ));
            }
            ("access" | "program", DeValue::Array(rules)) => {
                for rule in rules.iter().filter_map(|rule| rule.get_ref().as_table()) {
                    for (name, value) in rule {
                        if let ("users" | "groups", DeValue::String(one)) =
                            (&**name.get_ref(), value.get_ref())
                            && is_there(value.span())
                        {
                            let name = name.get_ref();
                            return Some(format!("give a list: {name} = [{one:?}]"));
                        }
                    }
                }
            }
            ("interval", DeValue::Integer(_) | DeValue::Float(_)) if is_there(value.span()) => {
                let number = &text[value.span()];
                return Some(format!(
                    "give the unit, in quotes: interval = \"{number}s\" or \"{number}ms\""
                ));
            }
            ("reserve", DeValue::Integer(_) | DeValue::Array(_)) if is_there(value.span()) => {
                let given = text[value.span()].chars();
                let list: String = given.filter(|c| c.is_ascii_digit() || *c == ',').collect();
                return Some(format!(
                    "give the CPUs as text: reserve = {list:?}, or a range such as \"0-1\""
                ));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::config::file::ConfigFile;
    use crate::fake::assert_says;

    #[test]
    fn what_is_often_written_wrongly_is_answered_with_what_is_right() {
        for (text, says) in [
            (
                "intervall = \"1s\"",
                &["line 1", "did you mean `interval`?"][..],
            ),
            (
                "[[access]]\nmax_quos = 0.5",
                &["line 2", "did you mean `max_qos`?"],
            ),
            ("users = \"ana\"", &["line 1", "[[access]]"]),
            ("interval = 1", &["line 1", "interval = \"1s\""]),
            ("interval = 0.5", &["line 1", "interval = \"0.5s\""]),
            ("reserve = [0, 1]", &["line 1", "reserve = \"0,1\""]),
            ("reserve = 0", &["line 1", "reserve = \"0\""]),
            ("[access]\nmax_qos = 0.5", &["line 1", "[[access]]"]),
            ("[program]\nqos = 0.5", &["line 1", "[[program]]"]),
            (
                "[[access]]\n[[access]]\nusers = \"ana\"",
                &["line 3", "users = [\"ana\"]"],
            ),
            (
                "[[program]]\nqos = 0.5\ngroups = \"hpc\"",
                &["line 3", "groups = [\"hpc\"]"],
            ),
        ] {
            assert_says(ConfigFile::parse(text).unwrap_err(), says);
        }
    }

    #[test]
    fn where_there_is_nothing_similar_there_is_no_hint() {
        for text in ["colour = 3", "counters = 7", "[metrics]\ntcp = 9"] {
            let error = format!("{:#}", ConfigFile::parse(text).unwrap_err());
            assert!(!error.contains("hint:"), "{error}");
        }
    }
}
