//! The file of a program that a user starts.

#![no_main]

use std::io::Write;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut file = memfd::MemfdOptions::default()
        .create("program")
        .expect("a file in memory")
        .into_file();
    file.write_all(data).expect("write to memory");
    mapper_launch::fuzzing::look_at(file);
});
