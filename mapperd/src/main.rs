//! The daemon: observes, decides and enforces every interval.

fn main() {}
