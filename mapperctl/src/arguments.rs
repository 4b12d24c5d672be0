//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Shows and explains what mapperd does.
#[derive(Debug, Parser)]
#[command(name = "mapperctl", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The daemon's socket [default: MAPPER_SOCKET, the system's daemon, the user's daemon]
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) socket: Option<PathBuf>,

    /// What to ask.
    #[command(subcommand)]
    pub(crate) question: Question,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// The daemon, the machine and the applications, with the reason of each allocation
    Status {
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// One application: its performance by CPU count, its promise, its last decisions
    Explain {
        /// The application's name or id
        name: String,
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// The policies the daemon can be told to use
    Policies {
        /// Print the daemon's reply as JSON
        #[arg(long)]
        json: bool,
    },
    /// What this machine offers to mapper, what is missing, why, and what would mend it
    Doctor {
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have the daemon read its configuration again, without touching applications
    Reload,
}

/// How an answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl From<bool> for Form {
    /// From the flag `--json`.
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Table }
    }
}
