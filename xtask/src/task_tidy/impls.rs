//! The rule that an inherent `impl` stands in the folder that defines its type.
//!
//! A file `name.rs` beside a folder `name` counts with that folder as well. Trait implementations are free.

use std::path::{Path, PathBuf};

use super::modules::Crate;
use super::sources::Sources;

/// A finding for every inherent `impl` in another folder than its type.
pub(super) fn check(sources: &Sources, tree: &Crate) -> Vec<String> {
    let mut findings = Vec::new();
    for (id, module) in tree.iter() {
        for implemented in &module.inherent_impls {
            let segments = implemented.path.segments.iter();
            let path: Vec<String> = segments.map(|part| part.ident.to_string()).collect();
            let Some(target) = tree.resolve(id, &path) else {
                continue;
            };
            let defined = tree.file(&target);
            let own = folders(sources, &module.file);
            let mut theirs = folders(sources, defined).into_iter();
            if !theirs.any(|folder| own.contains(&folder)) {
                findings.push(format!(
                    "{}: implements {}, which {} defines; put it there, or make it a function of what \
                     it needs",
                    module.file.display(),
                    path.join("::"),
                    defined.display()
                ));
            }
        }
    }
    findings
}

/// The folders that a file belongs to.
fn folders(sources: &Sources, file: &Path) -> Vec<PathBuf> {
    let mut folders = vec![file.parent().unwrap_or(Path::new("")).to_owned()];
    let own = file.with_extension("");
    let mut files = sources.rust.keys();
    if files.any(|path| path.starts_with(&own) && path != file) {
        folders.push(own);
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources = Sources::of(files);
        let tree = Crate::read(&sources, Path::new("src/lib.rs"));
        let findings = check(&sources, &tree).into_iter();
        let what = findings.filter_map(|f| Some(f.split_once(", which")?.0.to_owned()));
        what.collect()
    }

    #[test]
    fn an_impl_in_another_folder_than_its_type_is_found() {
        let found = found(&[
            ("src/lib.rs", "mod a; mod f; pub struct Own;"),
            (
                "src/a.rs",
                "pub struct A; impl A {} impl crate::f::X {} impl super::Own {}",
            ),
            (
                "src/f/mod.rs",
                "mod x; pub use x::X; use crate::a::A; impl A {} impl Drop for A {}",
            ),
            ("src/f/x.rs", "pub struct X; impl X {}"),
        ]);
        let [a, f] = [
            "src/a.rs: implements crate::f::X",
            "src/f/mod.rs: implements A",
        ];
        assert_eq!(found, [a, f]);
    }

    #[test]
    fn a_file_beside_its_folder_counts_with_it() {
        let found = found(&[
            ("src/lib.rs", "mod f;"),
            ("src/f.rs", "mod x; pub struct F;"),
            ("src/f/x.rs", "use super::F; impl F {}"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
