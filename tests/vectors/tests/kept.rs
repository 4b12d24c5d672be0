//! The golden tests kept in this folder.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use std::path::Path;

#[test]
fn every_vector_kept_in_the_repository_passes() {
    let folder = mapper_vectors::check_folder(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(
        (folder.failed, folder.unreadable),
        (0, 0),
        "{:#?}",
        folder.lines
    );
    assert!(folder.passed >= 28, "{:#?}", folder.lines);
    let unknown = folder.lines.iter().find(|line| line.contains("unknown"));
    assert_eq!(unknown, None);
}
