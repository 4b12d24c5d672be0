//! The page about a configuration file, out of the commented file itself.
//!
//! What is recognised: `# ---- Title ----` begins a section; `[table]` and `# [[table]]` a part of it; `#key = value` and
//! `# key = value  # meaning` describe a key, by the comment beside it or else above it; other comments are paragraphs.

use clap_mangen::roff::{Roff, bold, roman};

/// What a line of the file is.
#[derive(Debug, PartialEq, Eq)]
enum Line<'t> {
    Title(&'t str),
    Table(&'t str),
    Key {
        text: &'t str,
        meaning: Option<&'t str>,
    },
    Comment(&'t str),
    Blank,
}

fn line(text: &str) -> Line<'_> {
    let comment = text.strip_prefix('#').map(str::trim_start);
    let inner = comment.unwrap_or(text).trim_end();
    if inner.is_empty() {
        return Line::Blank;
    }
    if let Some(title) = inner.strip_prefix("---- ") {
        return Line::Title(title.trim_end_matches('-').trim_end());
    }
    if inner.starts_with('[') && inner.ends_with(']') {
        return Line::Table(inner);
    }
    let is_key = inner.split_once(" = ").is_some_and(|(name, _)| {
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    });
    if is_key {
        let (text, meaning) = match inner.split_once("  # ").or_else(|| inner.split_once(" # ")) {
            Some((text, meaning)) => (text.trim_end(), Some(meaning)),
            None => (inner, None),
        };
        return Line::Key { text, meaning };
    }
    Line::Comment(inner)
}

/// Adds what has been read of a paragraph, which the first one after a title needs no macro for.
fn paragraph(roff: &mut Roff, text: &mut Vec<&str>, after_title: &mut bool) {
    if text.is_empty() {
        return;
    }
    if !std::mem::take(after_title) {
        roff.control("PP", []);
    }
    roff.text([roman(text.join(" "))]);
    text.clear();
}

/// The page `name`(5) in roff, out of the text of the file.
pub(crate) fn page(name: &str, version: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    let source = format!("mapper {version}");
    roff.control(
        "TH",
        [&*name.to_uppercase(), "5", "", &*source, "File Formats"],
    );
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - the configuration of mapperd"))]);
    roff.control("SH", ["DESCRIPTION"]);
    let mut above: Vec<&str> = Vec::new();
    let mut after_title = true;
    for text in text.lines() {
        match line(text) {
            Line::Comment(text) => above.push(text),
            Line::Blank => paragraph(&mut roff, &mut above, &mut after_title),
            Line::Title(title) => {
                paragraph(&mut roff, &mut above, &mut after_title);
                roff.control("SH", [&*title.to_uppercase()]);
                after_title = true;
            }
            Line::Table(table) => {
                let before = std::mem::take(&mut above);
                roff.control("SS", [table]);
                after_title = before.is_empty();
                if !before.is_empty() {
                    roff.text([roman(before.join(" "))]);
                }
            }
            Line::Key { text, meaning } => {
                let meaning = meaning.map_or_else(|| above.join(" "), str::to_owned);
                above.clear();
                after_title = false;
                roff.control("TP", []);
                roff.text([bold(text)]);
                roff.text([roman(meaning)]);
            }
        }
    }
    paragraph(&mut roff, &mut above, &mut after_title);
    roff.control("SH", ["FILES"]);
    for (file, meaning) in [
        ("/etc/mapper/mapper.toml", "Of the system's daemon."),
        (
            "~/.config/mapper/mapper.toml",
            "Of a user's own daemon ($XDG_CONFIG_HOME/mapper/mapper.toml).",
        ),
        (
            "/usr/share/mapper/mapper.schema.json",
            "The JSON schema, for editors; mapperd --config-schema prints it.",
        ),
    ] {
        roff.control("TP", []);
        roff.text([bold(file)]);
        roff.text([roman(meaning)]);
    }
    roff.control("SH", ["EXAMPLES"]);
    roff.control("TP", []);
    roff.text([bold("mapperd --check-config --config FILE")]);
    roff.text([roman("Checks a file.")]);
    roff.control("TP", []);
    roff.text([bold("systemctl reload mapperd")]);
    roff.text([roman("Applies it, without touching applications.")]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("mapperd"),
        roman("(8), "),
        bold("mapper"),
        roman("(7)"),
    ]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_described_by_the_comment_beside_or_above_them() {
        let text = "# What this is.\n#\n# Time between two decisions.\n#interval = \"1s\"\n\n\
                    # ---- Rules ------\n# For all.\n# [[access]]\n# users = []  # by name\n[metrics]\n# tcp = \"a\"\n";
        let page = page("x.toml", "1", text).to_roff();
        let page = page.replace('\\', "");
        for part in [
            ".SH DESCRIPTIONnWhat this is.n.TPnfBinterval = \"1s\"fRnTime between two decisions.n",
            ".SH RULESn.SS [[access]]nFor all.n.TPnfBusers = []fRnby namen.SS [metrics]n.TPnfBtcp",
        ] {
            let flat = page.replace('\n', "n");
            assert!(flat.contains(part), "{part}: {flat}");
        }
    }

    #[test]
    fn a_sentence_with_a_sign_of_equality_is_no_key() {
        assert_eq!(line("# one a = b"), Line::Comment("one a = b"));
        assert_eq!(line("#"), Line::Blank);
        let (text, meaning) = ("launch = true", Some("may launch"));
        assert_eq!(
            line("# launch = true   # may launch"),
            Line::Key { text, meaning }
        );
    }
}
