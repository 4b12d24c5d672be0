//! The configuration file.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = mapperd::fuzzing::accepts_configuration(text);
});
