//! What messages call the programs: by the one command `mapper`, or by the programs that are its parts, as the user did.

use std::sync::atomic::{AtomicBool, Ordering};

static ONE_COMMAND: AtomicBool = AtomicBool::new(false);

/// From here on messages name `mapper`: to be called first, by the program of that name.
pub fn one_command() {
    ONE_COMMAND.store(true, Ordering::Relaxed);
}

/// Whether they do.
pub fn is_one_command() -> bool {
    ONE_COMMAND.load(Ordering::Relaxed)
}

/// The program that starts others, as the speaker of a message.
pub fn launcher() -> &'static str {
    if is_one_command() {
        "mapper"
    } else {
        "mapper-launch"
    }
}

/// What to type in order to start a program.
pub fn launch() -> &'static str {
    if is_one_command() {
        "mapper run"
    } else {
        "mapper-launch"
    }
}

/// What to type in order to ask the daemon, and the speaker of messages about that.
pub fn ask() -> &'static str {
    if is_one_command() {
        "mapper"
    } else {
        "mapperctl"
    }
}
