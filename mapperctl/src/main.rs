//! Shows and explains what mapperd does.

fn main() {}
