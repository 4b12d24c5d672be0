//! The rule that no file of a package imports, through others, itself.
//!
//! A file imports another where a `use` or a path of it names something that the other defines. That a
//! parent declares its children, or passes their names on, is no import.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::modules::{Crate, Target, mentions, paths};

/// Which files each file imports.
type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// A finding for every file that stands in a circle, with the shortest circle through it.
pub(super) fn check(tree: &Crate) -> Vec<String> {
    let imports = imports(tree);
    let in_circle = |file: &PathBuf| {
        let circle = shortest_circle(&imports, file)?;
        let circle: Vec<String> = circle.iter().map(|file| short(file)).collect();
        let (place, circle) = (file.display(), circle.join(" → "));
        Some(format!(
            "{place}: in an import circle: {circle}; move down what both need"
        ))
    };
    imports.keys().filter_map(in_circle).collect()
}

/// A file's name with its folder.
fn short(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    parts[parts.len().saturating_sub(2)..].join("/")
}

fn imports(tree: &Crate) -> Imports {
    let mut imports = Imports::new();
    for (id, module) in tree.iter() {
        let from = imports.entry(module.file.clone()).or_default();
        let mut add = |target: &Target| {
            let file = tree.file(target);
            if file != module.file {
                from.insert(file.to_owned());
            }
        };
        for import in &module.imports {
            let Some(target) = tree.resolve(id, &import.path) else {
                continue;
            };
            let is_mentioned = |name: &String| module.body.iter().any(|body| mentions(body, name));
            let is_used = !import.is_reexport || import.name.as_ref().is_some_and(is_mentioned);
            // An imported module counts where something is taken out of it.
            let is_module = import.name.is_some() && matches!(target, Target::Module(_));
            if is_used && !is_module {
                add(&target);
            }
        }
        for (path, follows_in) in module.body.iter().flat_map(paths) {
            match tree.resolve(id, &path) {
                // `pub(in crate::…)` says who may see, and uses nothing.
                Some(Target::Module(_)) if follows_in => {}
                Some(target) => add(&target),
                None => {}
            }
        }
    }
    imports
}

/// The shortest way from a file back to itself, both ends named.
fn shortest_circle(imports: &Imports, start: &Path) -> Option<Vec<PathBuf>> {
    let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in imports.get(file).into_iter().flatten() {
            if next == start {
                let before = |at: &&Path| came_from.get(at).copied();
                let mut circle: Vec<PathBuf> = std::iter::successors(Some(file), before)
                    .map(Path::to_owned)
                    .collect();
                circle.insert(0, start.to_owned());
                circle.reverse();
                return Some(circle);
            }
            if !came_from.contains_key(&**next) {
                came_from.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Crate::read(&Sources::of(files), Path::new("src/lib.rs"));
        let findings = check(&tree).into_iter();
        let places =
            findings.filter_map(|f| Some(f.split_once(": in an import circle: ")?.0.to_owned()));
        places.collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let found = circles(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "use crate::b::B; pub struct A;"),
            ("src/b.rs", "pub struct B; fn f() { drop(super::a::A) }"),
            ("src/c.rs", "use crate::a::A;"),
        ]);
        assert_eq!(found, ["src/a.rs", "src/b.rs"]);
    }

    #[test]
    fn a_path_inside_a_macro_counts() {
        let found = circles(&[
            ("src/lib.rs", "mod a; mod b;"),
            (
                "src/a.rs",
                "use super::b; fn f() { println!(\"{}\", b::g()) }",
            ),
            ("src/b.rs", "pub fn g() {} fn h() { crate::a::f() }"),
        ]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_parent_that_declares_and_passes_on_its_children_imports_nothing() {
        let found = circles(&[
            ("src/lib.rs", "mod a; pub use a::A; pub struct Own;"),
            ("src/a.rs", "use crate::Own; pub struct A;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_parent_that_uses_what_it_passes_on_imports_it() {
        let found = circles(&[
            ("src/lib.rs", "mod a; pub use a::A; pub struct Own(A);"),
            ("src/a.rs", "use crate::Own; pub struct A;"),
        ]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_name_is_followed_through_a_folder_to_its_file() {
        let found = circles(&[
            ("src/lib.rs", "mod a; mod f;"),
            ("src/a.rs", "use crate::f::X; pub struct A;"),
            ("src/f/mod.rs", "mod x; mod y; pub use x::X;"),
            ("src/f/x.rs", "pub struct X;"),
            ("src/f/y.rs", "use crate::a::A;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn tests_and_visibilities_do_not_count() {
        let found = circles(&[
            ("src/lib.rs", "mod a; mod b;"),
            (
                "src/a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            ("src/b.rs", "use crate::a::A; pub struct B;"),
            (
                "src/b.rs",
                "pub(in crate::a) struct C; use crate::a::A; pub struct B;",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
