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

use super::sources::{Sources, is_for_tests};

/// A place in [`Crate::modules`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ModuleId(usize);

/// How far re-exports of re-exports are followed.
const MAX_DEPTH: usize = 16;

/// What a name in a module stands for.
#[derive(Clone)]
enum Name {
    Module(ModuleId),
    /// Something that this file defines.
    Item(PathBuf),
    Import(Vec<String>),
}

/// What a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Module(ModuleId),
    /// Something that this file defines.
    Item(PathBuf),
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
    pub(super) modules: Vec<Module>,
}

impl Crate {
    /// Reads the module tree that starts at `root`.
    pub(super) fn read(sources: &Sources, root: &Path) -> Self {
        let mut tree = Self {
            modules: Vec::new(),
        };
        if let Some(source) = sources.rust.get(root) {
            let children = root.parent().unwrap_or(Path::new("")).to_owned();
            tree.add(sources, root, &children, None, &source.syntax.items);
        }
        tree
    }

    fn add(
        &mut self,
        sources: &Sources,
        file: &Path,
        children: &Path,
        parent: Option<ModuleId>,
        items: &[Item],
    ) -> ModuleId {
        let id = ModuleId(self.modules.len());
        self.modules.push(Module {
            file: file.to_owned(),
            imports: Vec::new(),
            body: Vec::new(),
            inherent_impls: Vec::new(),
            parent,
            names: HashMap::new(),
        });
        for item in items {
            if is_for_tests(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => self.add_child(sources, file, children, id, module),
                Item::Use(declaration) => {
                    let is_reexport = !matches!(declaration.vis, Visibility::Inherited);
                    self.add_imports(id, &declaration.tree, &mut Vec::new(), is_reexport);
                }
                _ => self.add_item(id, item),
            }
        }
        id
    }

    fn add_child(
        &mut self,
        sources: &Sources,
        file: &Path,
        children: &Path,
        parent: ModuleId,
        module: &syn::ItemMod,
    ) {
        let name = plain(&module.ident);
        let own = children.join(&name);
        let id = if let Some((_, items)) = &module.content {
            self.add(sources, file, &own, Some(parent), items)
        } else {
            let named = path_attribute(module)
                .map(|path| file.parent().unwrap_or(Path::new("")).join(path));
            let candidates = [
                Some(children.join(format!("{name}.rs"))),
                Some(own.join("mod.rs")),
            ];
            let found = std::iter::once(named)
                .chain(candidates)
                .flatten()
                .find_map(|path| Some((sources.rust.get(&path)?, path)));
            let Some((source, path)) = found else { return };
            self.add(sources, &path, &own, Some(parent), &source.syntax.items)
        };
        let names = &mut self.modules[parent.0].names;
        names.entry(name).or_insert(Name::Module(id));
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
        let name = if last.as_deref() == Some("self") {
            name.filter(|name| name != "self")
                .or_else(|| path.last().cloned())
        } else {
            path.extend(last);
            name
        };
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
        let file = self.modules[id.0].file.clone();
        let mut name = |name: &syn::Ident| {
            let names = &mut self.modules[id.0].names;
            // A definition wins over an import, and a module over a function of the same name.
            if !matches!(names.get(&plain(name)), Some(Name::Module(_))) {
                names.insert(plain(name), Name::Item(file.clone()));
            }
        };
        match item {
            Item::Const(item) => name(&item.ident),
            Item::Enum(item) => name(&item.ident),
            Item::Fn(item) => name(&item.sig.ident),
            Item::Static(item) => name(&item.ident),
            Item::Struct(item) => name(&item.ident),
            Item::Trait(item) => name(&item.ident),
            Item::Type(item) => name(&item.ident),
            Item::Union(item) => name(&item.ident),
            Item::Macro(item) => {
                if let Some(ident) = &item.ident {
                    name(ident);
                    let exported = |a: &syn::Attribute| a.path().is_ident("macro_export");
                    if item.attrs.iter().any(exported) {
                        let root = &mut self.modules[0].names;
                        root.insert(plain(ident), Name::Item(file));
                    }
                }
            }
            Item::Impl(item) if item.trait_.is_none() => {
                if let syn::Type::Path(path) = &*item.self_ty {
                    self.modules[id.0].inherent_impls.push(path.clone());
                }
            }
            _ => {}
        }
        self.modules[id.0].body.push(item.to_token_stream());
    }

    /// All modules with their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        self.modules
            .iter()
            .enumerate()
            .map(|(id, module)| (ModuleId(id), module))
    }

    /// The file of a target.
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
            Some(Name::Module(id)) => Some(Target::Module(*id)),
            Some(Name::Item(file)) => Some(Target::Item(file.clone())),
            // `use serde::serde` names no child of its own.
            Some(Name::Import(import)) if import.first().is_some_and(|first| first == name) => None,
            Some(Name::Import(import)) if import == path && depth > 0 => None,
            Some(Name::Import(import)) => self.resolve_within(module, import, depth + 1),
            None => {
                let globs = self.modules[module.0].imports.iter();
                let mut globs = globs.filter(|import| import.name.is_none());
                globs.find_map(
                    |glob| match self.resolve_within(module, &glob.path, depth + 1)? {
                        Target::Module(id) if id != module && depth < 4 => {
                            self.lookup(id, name, path, depth + 1)
                        }
                        _ => None,
                    },
                )
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
    module
        .attrs
        .iter()
        .find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(path),
                    ..
                }) => Some(path.value()),
                _ => None,
            },
            _ => None,
        })
}

fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
