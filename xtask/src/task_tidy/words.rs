//! The rule that users read plain English: no word of `xtask/tidy-words.toml` in strings, in the help of
//! programs, in documents and in the names of tests.
//!
//! A string counts if it has a space in it: users read it, now or later. Strings of tests do not count, nor
//! does code in documents.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::documents::Document;
use super::finding::Finding;
use super::sources::{Sources, is_for_tests};

/// Words that may not be used, with what to use instead.
pub(super) struct Words {
    /// By the parts of the word, in small letters.
    instead: Vec<(Vec<String>, String)>,
}

impl Words {
    /// Reads the list: `word = "what to use instead"`.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let list: BTreeMap<String, String> =
            toml::from_str(text).context("read xtask/tidy-words.toml")?;
        let list = list
            .into_iter()
            .map(|(word, instead)| (parts(&word), instead));
        Ok(Self {
            instead: list.collect(),
        })
    }

    /// The words of a text that may not be used, with what to use instead.
    fn in_text<'a>(&'a self, text: &str) -> Vec<(String, &'a str)> {
        let text = parts(text);
        let occurs = |word: &[String]| text.windows(word.len()).any(|window| window == word);
        let found = self.instead.iter().filter(|(word, _)| occurs(word));
        found
            .map(|(word, instead)| (word.join(" "), &**instead))
            .collect()
    }

    fn check(
        &self,
        text: &str,
        place: &Path,
        line: usize,
        what: &str,
        findings: &mut Vec<Finding>,
    ) {
        for (word, instead) in self.in_text(text) {
            let place = place.display();
            findings.push(Finding::with_exception(
                format!("{place}:{line}: \"{word}\" in {what}; use: {instead}"),
                format!("word {place} {word}"),
            ));
        }
    }
}

/// The words of a text in small letters; hyphens and apostrophes belong to words.
fn parts(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && !"-'".contains(c));
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// A finding for every forbidden word.
pub(super) fn check(words: &Words, sources: &Sources, findings: &mut Vec<Finding>) {
    for (path, text) in &sources.documents {
        for (line, prose) in Document::read(text).prose {
            words.check(&prose, path, line, "a document", findings);
        }
    }
    for (path, source) in &sources.rust {
        let is_test = path
            .iter()
            .any(|part| part == "tests" || part == "tests.rs");
        let mut reader = Reader {
            words,
            path,
            is_test,
            is_help: false,
            findings,
        };
        reader.visit_file(&source.syntax);
    }
}

/// Goes through a file.
struct Reader<'a> {
    words: &'a Words,
    path: &'a Path,
    /// Within tests, where only names count.
    is_test: bool,
    /// Within a type out of whose comments `clap` makes help.
    is_help: bool,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_> {
    fn string(&mut self, text: &syn::LitStr) {
        let value = text.value();
        if !self.is_test && value.contains(' ') {
            let line = text.span().start().line;
            self.words
                .check(&value, self.path, line, "a string", self.findings);
        }
    }

    fn test_name(&mut self, name: &syn::Ident) {
        let line = name.span().start().line;
        let text = name.to_string().replace('_', " ");
        self.words
            .check(&text, self.path, line, "the name of a test", self.findings);
    }

    /// Strings and `#[test]` functions in the arguments of a macro.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut is_test = false;
        let mut after_fn = false;
        for token in tokens.clone() {
            match token {
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.string(&text);
                    }
                }
                TokenTree::Ident(ident) => {
                    if is_test && after_fn {
                        self.test_name(&ident);
                        is_test = false;
                    }
                    after_fn = ident == "fn";
                }
                TokenTree::Group(group) => {
                    is_test |= group.stream().to_string() == "test";
                    self.tokens(&group.stream());
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    fn within_tests(&mut self, is_test: bool, visit: impl FnOnce(&mut Self)) {
        let before = self.is_test;
        self.is_test |= is_test;
        visit(self);
        self.is_test = before;
    }

    fn within_help(&mut self, attributes: &[syn::Attribute], visit: impl FnOnce(&mut Self)) {
        let derives = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("derive") => {
                let derived = list.tokens.to_string();
                ["Parser", "Args", "Subcommand", "ValueEnum"]
                    .iter()
                    .any(|name| derived.contains(name))
            }
            _ => false,
        };
        let before = self.is_help;
        self.is_help = attributes.iter().any(derives);
        visit(self);
        self.is_help = before;
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_test = item.attrs.iter().any(|attribute| {
            attribute
                .path()
                .segments
                .last()
                .is_some_and(|last| last.ident == "test")
        });
        if is_test {
            self.test_name(&item.sig.ident);
        }
        self.within_tests(is_test || is_for_tests(&item.attrs), |reader| {
            visit::visit_item_fn(reader, item);
        });
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within_tests(is_for_tests(&item.attrs), |reader| {
            visit::visit_item_mod(reader, item);
        });
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.within_tests(is_for_tests(&item.attrs), |reader| {
            visit::visit_item_impl(reader, item);
        });
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.within_help(&item.attrs, |reader| {
            visit::visit_item_struct(reader, item);
        });
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.within_help(&item.attrs, |reader| {
            visit::visit_item_enum(reader, item);
        });
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            syn::Meta::NameValue(pair) if !pair.path.is_ident("doc") || self.is_help => {
                visit::visit_expr(self, &pair.value);
            }
            syn::Meta::List(list) => self.tokens(&list.tokens),
            _ => {}
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(&called.tokens);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.string(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "told = \"reported\"\nmend = \"fix\"\n\"gone on with\" = \"continued\"\nstand-in = \"fake\"\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let words = Words::read(WORDS).unwrap();
        check(&words, &Sources::of(&[(path, text)]), &mut findings);
        let place = format!("word {path} ");
        let found = findings.into_iter().filter_map(|finding| finding.exception);
        found
            .map(|line| line.trim_start_matches(&place).to_owned())
            .collect()
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
