//! The rule that users read plain English: no word of `xtask/tidy.toml` in strings, in the help of
//! programs, in documents and in the names of tests.
//!
//! A string counts if it has a space in it: users read it, now or later. Strings of tests do not count, nor
//! does code in documents.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::Item;

use super::documents::Document;
use super::sources::{Sources, attributes, is_for_tests};

/// The parts of words that may not be used, in small letters, with what to use instead.
pub(super) struct Words(Vec<(Vec<String>, String)>);

impl Words {
    /// From words to what to use instead.
    pub(super) fn of(list: &BTreeMap<String, String>) -> Self {
        let list = list.iter();
        let list = list.map(|(word, instead)| (parts(word), instead.clone()));
        Self(list.collect())
    }

    fn check(&self, text: &str, place: &Path, line: usize, what: &str) -> Vec<String> {
        let (place, text) = (place.display(), parts(text));
        let occurs = |word: &[String]| text.windows(word.len()).any(|window| window == word);
        let found = self.0.iter().filter(|(word, _)| occurs(word));
        let findings = found.map(|(word, instead)| {
            let word = word.join(" ");
            format!("{place}:{line}: \"{word}\" in {what}; use: {instead}")
        });
        findings.collect()
    }
}

/// The words of a text in small letters; hyphens and apostrophes belong to words.
fn parts(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && !"-'".contains(c));
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(str::to_lowercase).collect()
}

pub(super) fn check(words: &Words, sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in &sources.documents {
        for (line, prose) in Document::read(text).prose {
            findings.extend(words.check(&prose, path, line, "a document"));
        }
    }
    for (path, source) in &sources.rust {
        let mut parts = path.iter();
        let is_test = parts.any(|part| part == "tests" || part == "tests.rs");
        let mut reader = Reader {
            words,
            path,
            findings: &mut findings,
        };
        for attribute in &source.syntax.attrs {
            reader.tokens(attribute.to_token_stream(), is_test, false);
        }
        reader.items(&source.syntax.items, is_test);
    }
    findings
}

/// Goes through a file. Of tests only the names count, and comments where `clap` makes help out of them.
struct Reader<'a> {
    words: &'a Words,
    path: &'a Path,
    findings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn check(&mut self, text: &str, at: Span, what: &str) {
        let findings = self.words.check(text, self.path, at.start().line, what);
        self.findings.extend(findings);
    }

    fn items(&mut self, items: &[Item], is_test: bool) {
        for item in items {
            let attributes = attributes(item);
            let has_scope = matches!(item, Item::Fn(_) | Item::Mod(_) | Item::Impl(_));
            let is_test = is_test || (has_scope && is_for_tests(attributes));
            match item {
                Item::Mod(module) => {
                    let content = module.content.as_ref();
                    self.items(content.map_or(&[], |(_, items)| items), is_test);
                }
                Item::Fn(function) if attributes.iter().any(is_test_attribute) => {
                    self.test_name(&function.sig.ident);
                }
                _ => {
                    let is_help = attributes.iter().any(is_for_help);
                    self.tokens(item.to_token_stream(), is_test, is_help);
                }
            }
        }
    }

    fn test_name(&mut self, name: &syn::Ident) {
        let text = name.to_string().replace('_', " ");
        self.check(&text, name.span(), "the name of a test");
    }

    /// Strings, and the names of `#[test]` functions.
    fn tokens(&mut self, tokens: TokenStream, is_test: bool, is_help: bool) {
        let (mut follows_test, mut follows_fn) = (false, false);
        for token in tokens {
            match token {
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal)
                        && !is_test
                        && text.value().contains(' ')
                    {
                        self.check(&text.value(), text.span(), "a string");
                    }
                }
                TokenTree::Ident(ident) => {
                    if follows_test && follows_fn {
                        self.test_name(&ident);
                        follows_test = false;
                    }
                    follows_fn = ident == "fn";
                }
                TokenTree::Group(group) => {
                    let begin = group.stream().into_iter().take(2);
                    let begin: Vec<String> = begin.map(|token| token.to_string()).collect();
                    follows_test |= begin == ["test"];
                    if is_help || begin != ["doc", "="] {
                        self.tokens(group.stream(), is_test, is_help);
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|last| last.ident == "test")
}

/// Whether `clap` makes help out of the comments of what is derived.
fn is_for_help(attribute: &syn::Attribute) -> bool {
    let derived = attribute.meta.to_token_stream().to_string();
    let makers = ["Parser", "Args", "Subcommand", "ValueEnum"];
    attribute.path().is_ident("derive") && makers.iter().any(|name| derived.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let list = ["told", "mend", "gone on with", "stand-in"];
        let list = list.map(|word| (word.to_owned(), "another".to_owned()));
        let words = Words::of(&list.into());
        let findings = check(&words, &Sources::of(&[(path, text)])).into_iter();
        let found = findings.filter_map(|line| Some(line.split('"').nth(1)?.to_owned()));
        found.collect()
    }

    #[test]
    fn words_count_whole_and_in_any_case() {
        let found = found(
            "a.md",
            "Told. untold, retold; stand in, a stand-in; gone\non with `mend`",
        );
        assert_eq!(found, ["stand-in", "told"]);
        assert_eq!(self::found("a.md", "gone on with"), ["gone on with"]);
    }

    #[test]
    fn strings_of_macros_attributes_and_constants_are_read() {
        assert_eq!(
            found("a.rs", "fn f() { bail!(\"was told {}\", g(\"mend it\")) }"),
            ["told", "mend"]
        );
        assert_eq!(found("a.rs", "#[error(\"mend {0}\")] struct E;"), ["mend"]);
        assert_eq!(found("a.rs", "const C: &str = \"was told\";"), ["told"]);
        assert_eq!(found("a.rs", "const C: &str = \"told\";"), [""; 0]);
    }

    #[test]
    fn comments_are_read_only_where_they_are_help() {
        let text = "/// Told\n struct A { /** mend */ a: u8 }";
        assert_eq!(found("a.rs", text), [""; 0]);
        assert_eq!(
            found("a.rs", &format!("#[derive(clap::Args)] {text}")),
            ["told", "mend"]
        );
    }

    #[test]
    fn of_tests_only_the_names_are_read() {
        let text = "#[cfg(test)] mod tests { const A: &str = \"was told\"; #[test] fn it_is_told() {} \
                    proptest! { #[test] fn one_can_mend(a in 0..1) { f(\"was told\") } } }";
        assert_eq!(found("a.rs", text), ["told", "mend"]);
    }
}
