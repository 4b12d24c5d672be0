//! The module tree of a crate, and which file defines what a path names.
//!
//! Test modules are left out. Names are followed through imports and re-exports to the file that defines
//! them, so a folder's `mod.rs` that only passes on the names of its children is not in the way. What
//! macros generate is not seen; a path to it counts as one to the module that it names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Item, UseTree, Visibility};

use super::sources::{Sources, attributes, is_for_tests, name};

/// A place in [`Crate::modules`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ModuleId(usize);

/// How far re-exports of re-exports are followed.
const MAX_DEPTH: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Module(ModuleId),
    /// Something that this file defines.
    Item(PathBuf),
}

/// What a name in a module stands for.
enum Name {
    Is(Target),
    Import(Vec<String>),
}

/// One name of a `use` declaration.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name in this module; nothing for a glob.
    pub(super) name: Option<String>,
    pub(super) is_reexport: bool,
}

/// A module, in a file of its own or inside of one.
pub(super) struct Module {
    pub(super) file: PathBuf,
    pub(super) imports: Vec<Import>,
    /// Everything but `use` declarations, modules and tests.
    pub(super) body: Vec<TokenStream>,
    /// Inherent `impl` blocks: the path of the type.
    pub(super) inherent_impls: Vec<syn::TypePath>,
    parent: Option<ModuleId>,
    names: HashMap<String, Name>,
}

/// The modules of one library or program.
pub(super) struct Crate {
    modules: Vec<Module>,
}

/// Where a module is read from.
#[derive(Clone, Copy)]
struct Place<'a> {
    sources: &'a Sources,
    file: &'a Path,
    /// The folder of its children.
    children: &'a Path,
    parent: Option<ModuleId>,
}

impl Crate {
    /// Reads the module tree that starts at `root`.
    pub(super) fn read(sources: &Sources, root: &Path) -> Self {
        let mut tree = Self {
            modules: Vec::new(),
        };
        let place = Place {
            sources,
            file: root,
            children: root.parent().unwrap_or(Path::new("")),
            parent: None,
        };
        let items = sources.rust.get(root).map(|source| &source.syntax.items);
        tree.add(place, items.map_or(&[], Vec::as_slice));
        tree
    }

    fn add(&mut self, place: Place<'_>, items: &[Item]) -> ModuleId {
        let id = ModuleId(self.modules.len());
        self.modules.push(Module {
            file: place.file.to_owned(),
            imports: Vec::new(),
            body: Vec::new(),
            inherent_impls: Vec::new(),
            parent: place.parent,
            names: HashMap::new(),
        });
        let place = Place {
            parent: Some(id),
            ..place
        };
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Mod(module) => {
                    if let Some(child) = self.add_child(place, module) {
                        let names = &mut self.modules[id.0].names;
                        let name = names.entry(plain(&module.ident));
                        name.or_insert(Name::Is(Target::Module(child)));
                    }
                }
                Item::Use(declaration) => {
                    let is_reexport = !matches!(declaration.vis, Visibility::Inherited);
                    self.add_imports(id, &declaration.tree, &mut Vec::new(), is_reexport);
                }
                _ => self.add_item(id, item),
            }
        }
        id
    }

    fn add_child(&mut self, parent: Place<'_>, module: &syn::ItemMod) -> Option<ModuleId> {
        let name = plain(&module.ident);
        let own = parent.children.join(&name);
        let place = Place {
            children: &own,
            ..parent
        };
        if let Some((_, items)) = &module.content {
            return Some(self.add(place, items));
        }
        let mut files = vec![
            parent.children.join(format!("{name}.rs")),
            own.join("mod.rs"),
        ];
        files.extend(path_attribute(module).map(|path| parent.file.with_file_name(path)));
        let rust = &parent.sources.rust;
        let file = files.iter().rev().find(|file| rust.contains_key(*file))?;
        Some(self.add(Place { file, ..place }, &rust[file].syntax.items))
    }

    fn add_imports(
        &mut self,
        id: ModuleId,
        tree: &UseTree,
        path: &mut Vec<String>,
        is_reexport: bool,
    ) {
        let (last, name) = match tree {
            UseTree::Path(part) => {
                path.push(plain(&part.ident));
                self.add_imports(id, &part.tree, path, is_reexport);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_imports(id, tree, path, is_reexport);
                }
                return;
            }
            UseTree::Name(name) => (Some(plain(&name.ident)), Some(plain(&name.ident))),
            UseTree::Rename(rename) => (Some(plain(&rename.ident)), Some(plain(&rename.rename))),
            UseTree::Glob(_) => (None, None),
        };
        let mut path = path.clone();
        let mut name = name;
        if last.as_deref() == Some("self") {
            name = name.filter(|name| name != "self").or(path.last().cloned());
        } else {
            path.extend(last);
        }
        let module = &mut self.modules[id.0];
        if let Some(name) = &name {
            let names = module.names.entry(name.clone());
            names.or_insert_with(|| Name::Import(path.clone()));
        }
        module.imports.push(Import {
            path,
            name,
            is_reexport,
        });
    }

    fn add_item(&mut self, id: ModuleId, item: &Item) {
        let own = Target::Item(self.modules[id.0].file.clone());
        let exported = |a: &syn::Attribute| a.path().is_ident("macro_export");
        if let Some(ident) = name(item) {
            if attributes(item).iter().any(exported) {
                let root = &mut self.modules[0].names;
                root.insert(plain(ident), Name::Is(own.clone()));
            }
            let names = &mut self.modules[id.0].names;
            // A definition wins over an import, and a module over a function of the same name.
            if !matches!(names.get(&plain(ident)), Some(Name::Is(Target::Module(_)))) {
                names.insert(plain(ident), Name::Is(own));
            }
        }
        let module = &mut self.modules[id.0];
        if let Item::Impl(item) = item
            && let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty)
        {
            module.inherent_impls.push(path.clone());
        }
        module.body.push(item.to_token_stream());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        let modules = self.modules.iter().enumerate();
        modules.map(|(id, module)| (ModuleId(id), module))
    }

    pub(super) fn file<'a>(&'a self, target: &'a Target) -> &'a Path {
        match target {
            Target::Module(id) => &self.modules[id.0].file,
            Target::Item(file) => file,
        }
    }

    /// What `path`, read in `module`, names; nothing for what is not of this crate.
    pub(super) fn resolve(&self, module: ModuleId, path: &[String]) -> Option<Target> {
        self.resolve_within(module, path, 0)
    }

    fn resolve_within(&self, module: ModuleId, path: &[String], depth: usize) -> Option<Target> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" | "$crate" => ModuleId(0),
            "self" => module,
            "super" => self.modules[module.0].parent?,
            name => match self.lookup(module, name, path, depth)? {
                Target::Module(id) => id,
                item @ Target::Item(_) => return Some(item),
            },
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at = self.modules[at.0].parent?;
            } else {
                match self.lookup(at, name, path, depth) {
                    Some(Target::Module(id)) => at = id,
                    Some(item) => return Some(item),
                    None => return Some(Target::Item(self.modules[at.0].file.clone())),
                }
            }
            rest = after;
        }
        Some(Target::Module(at))
    }

    fn lookup(
        &self,
        module: ModuleId,
        name: &str,
        path: &[String],
        depth: usize,
    ) -> Option<Target> {
        match self.modules[module.0].names.get(name) {
            Some(Name::Is(target)) => Some(target.clone()),
            // `use serde::serde` names no child of its own.
            Some(Name::Import(import)) if import.first().is_some_and(|first| first == name) => None,
            Some(Name::Import(import)) if import == path && depth > 0 => None,
            Some(Name::Import(import)) => self.resolve_within(module, import, depth + 1),
            None => {
                let globs = self.modules[module.0].imports.iter();
                let mut globs = globs.filter(|import| import.name.is_none());
                globs.find_map(|glob| {
                    let target = self.resolve_within(module, &glob.path, depth + 1)?;
                    let Target::Module(id) = target else {
                        return None;
                    };
                    let is_other = id != module && depth < 4;
                    is_other.then(|| self.lookup(id, name, path, depth + 1))?
                })
            }
        }
    }
}

/// The paths of two and more parts in a stream of tokens, and whether `in` stands before.
pub(super) fn paths(tokens: &TokenStream) -> Vec<(Vec<String>, bool)> {
    let mut found = Vec::new();
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_colons = |at: usize| {
        let is_colon =
            |at| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        is_colon(at) && is_colon(at + 1)
    };
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => found.extend(paths(&group.stream())),
            TokenTree::Ident(first) if at < 2 || !is_colons(at - 2) => {
                let mut path = vec![plain(first)];
                let follows_in = matches!(at.checked_sub(1).map(|at| &tokens[at]), Some(TokenTree::Ident(i)) if i == "in");
                while is_colons(at + 1) {
                    let Some(TokenTree::Ident(part)) = tokens.get(at + 3) else {
                        break;
                    };
                    path.push(plain(part));
                    at += 3;
                }
                if path.len() > 1 || is_colons(at + 1) {
                    found.push((path, follows_in));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Whether a stream of tokens holds a name.
pub(super) fn mentions(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(&group.stream(), name),
        TokenTree::Ident(ident) => ident == name,
        _ => false,
    })
}

fn plain(ident: &syn::Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

fn path_attribute(module: &syn::ItemMod) -> Option<String> {
    let attributes = module.attrs.iter();
    let mut pairs = attributes.filter_map(|of| of.meta.require_name_value().ok());
    let path = &pairs.find(|pair| pair.path.is_ident("path"))?.value;
    let path = path.to_token_stream().to_string();
    Some(path.trim_matches('"').to_owned())
}
