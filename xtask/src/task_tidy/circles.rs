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
                let mut circle = VecDeque::from([file.to_owned(), start.to_owned()]);
                let mut at = file;
                while let Some(before) = came_from.get(at) {
                    circle.push_front((*before).to_owned());
                    at = before;
                }
                return Some(circle.into());
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

    /// A rule with the files that are found, and the files that it is about.
    const CASES: &str = "\
# two files that use each other are a circle = src/a.rs src/b.rs
src/lib.rs: mod a; mod b; mod c;
src/a.rs: use crate::b::B; pub struct A;
src/b.rs: pub struct B; fn f() { drop(super::a::A) }
src/c.rs: use crate::a::A;
# a path inside a macro counts = src/a.rs src/b.rs
src/lib.rs: mod a; mod b;
src/a.rs: use super::b; fn f() { println!(\"{}\", b::g()) }
src/b.rs: pub fn g() {} fn h() { crate::a::f() }
# a parent that declares and passes on its children imports nothing =
src/lib.rs: mod a; pub use a::A; pub struct Own;
src/a.rs: use crate::Own; pub struct A;
# a parent that uses what it passes on imports it = src/a.rs src/lib.rs
src/lib.rs: mod a; pub use a::A; pub struct Own(A);
src/a.rs: use crate::Own; pub struct A;
# a name is followed through a folder to its file =
src/lib.rs: mod a; mod f;
src/a.rs: use crate::f::X; pub struct A;
src/f/mod.rs: mod x; mod y; pub use x::X;
src/f/x.rs: pub struct X;
src/f/y.rs: use crate::a::A;
# tests and visibilities do not count =
src/lib.rs: mod a; mod b;
src/a.rs: pub struct A; #[cfg(test)] mod tests { use crate::b::B; }
src/b.rs: pub(in crate::a) struct C; use crate::a::A; pub struct B;";

    #[test]
    fn files_that_import_each_other_are_found_and_no_others() {
        for case in CASES.split("# ").skip(1) {
            let (rule, files) = case.split_once('\n').unwrap();
            let (rule, wanted) = rule.split_once(" =").unwrap();
            let files = files.lines().filter_map(|line| line.split_once(": "));
            let sources = Sources::of(&files.collect::<Vec<_>>());
            let findings = check(&Crate::read(&sources, Path::new("src/lib.rs")));
            let place = |of: &String| Some(of.split_once(": in an import circle")?.0.to_owned());
            let found: Vec<String> = findings.iter().filter_map(place).collect();
            assert_eq!(
                found,
                wanted.split_whitespace().collect::<Vec<_>>(),
                "{rule}"
            );
        }
    }
}
