//! What the fuzzer calls of this package: readers of untrusted text that are private otherwise.

use crate::config::file::ConfigFile;
use crate::store::directory;

/// Reads a configuration file; whether it was accepted.
#[must_use]
pub fn accepts_configuration(text: &str) -> bool {
    ConfigFile::parse(text).is_ok()
}

/// Reads saved state, and once more what it would save; panics if that differs.
pub fn read_saved_state(text: &str) {
    let Ok(saved) = directory::parse(text) else {
        return;
    };
    let text = |saved| {
        let mut text = std::io::Cursor::new(Vec::new());
        directory::write_within(&mut text, saved, u64::MAX).expect("what was read can be written");
        text.into_inner()
    };
    let written = String::from_utf8(text(saved)).expect("JSON is text");
    let again = directory::parse(&written).expect("what was written can be read");
    let again = text(again);
    assert_eq!(
        written.as_bytes(),
        again,
        "the state changes by being saved"
    );
}
