//! The files of the checkout, read and parsed once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quote::ToTokens as _;
use syn::Item;
use walkdir::{DirEntry, WalkDir};

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
        let is_read = |entry: &DirEntry| {
            let name = entry.file_name().to_string_lossy();
            let is_left_out = name == "target" || name.starts_with('.');
            entry.depth() == 0 || !(entry.file_type().is_dir() && is_left_out)
        };
        for entry in WalkDir::new(root).into_iter().filter_entry(is_read) {
            let entry = entry?;
            let path = entry.path();
            let kind = path.extension().unwrap_or_default();
            if !entry.file_type().is_dir() && (kind == "rs" || kind == "md") {
                let text = fs::read_to_string(path);
                let text = text.with_context(|| format!("read {}", path.display()))?;
                sources.add(path.strip_prefix(root).unwrap_or(path), text)?;
            }
        }
        Ok(sources)
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
        let condition = attribute.meta.to_token_stream().to_string();
        condition == "cfg (test)" || condition.starts_with("cfg (all (test")
    })
}

pub(super) fn attributes(item: &Item) -> &[syn::Attribute] {
    head(item).map_or(&[], |(attributes, _)| attributes)
}

/// The name that an item defines.
pub(super) fn name(item: &Item) -> Option<&syn::Ident> {
    head(item)?.1
}

fn head(item: &Item) -> Option<(&Vec<syn::Attribute>, Option<&syn::Ident>)> {
    Some(match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => return None,
    })
}
