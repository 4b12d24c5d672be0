//! The files of the checkout, read and parsed once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A Rust file.
pub(super) struct Source {
    pub(super) text: String,
    pub(super) syntax: syn::File,
}

/// The Rust files and the documents of a checkout, by their path below its root.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) rust: BTreeMap<PathBuf, Source>,
    pub(super) documents: BTreeMap<PathBuf, String>,
}

impl Sources {
    /// Reads all files below `root`, without what is built and what is hidden.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut sources = Self::default();
        sources.collect(root, root)?;
        Ok(sources)
    }

    fn collect(&mut self, root: &Path, folder: &Path) -> anyhow::Result<()> {
        let reading = || format!("read {}", folder.display());
        for entry in fs::read_dir(folder).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().with_context(reading)?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    self.collect(root, &path)?;
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("read {}", path.display()))?;
                self.add(path.strip_prefix(root).unwrap_or(&path), text)?;
            }
        }
        Ok(())
    }

    /// Adds a file; Rust is parsed.
    pub(super) fn add(&mut self, path: &Path, text: String) -> anyhow::Result<()> {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let syntax =
                syn::parse_file(&text).with_context(|| format!("parse {}", path.display()))?;
            self.rust.insert(path.to_owned(), Source { text, syntax });
        } else {
            self.documents.insert(path.to_owned(), text);
        }
        Ok(())
    }

    /// Sources made of paths and their text.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut sources = Self::default();
        for (path, text) in files {
            sources.add(Path::new(path), (*text).to_owned()).unwrap();
        }
        sources
    }
}

/// Whether an attribute is `#[cfg(test)]` or `#[cfg(all(test, …))]`.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all (test"))
    })
}
