//! The daemon's saved state.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| mapperd::fuzzing::read_saved_state(text));
