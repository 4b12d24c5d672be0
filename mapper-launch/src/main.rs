//! Starts a program under mapperd.

fn main() {}
