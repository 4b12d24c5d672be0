//! The command line.

use clap::{Parser, Subcommand, ValueHint};
use mapper_command::{compare, page};
use mapper_launch::CommandLine;
use mapperctl::Question;
use std::path::PathBuf;

const FIRST_STEPS: &str = "\
First steps:
  mapper run -- ./program &
  mapper status";

/// Runs parallel programs side by side, each with a performance promise.
///
/// `mapper run -- PROGRAM` starts a program, and a daemon where none runs; `mapper status` shows what it does.
#[derive(Debug, Parser)]
#[command(name = "mapper", version, max_term_width = 100, after_help = FIRST_STEPS)]
pub(crate) struct Arguments {
    /// The daemon's socket [default: MAPPER_SOCKET, the system's daemon, the user's daemon]
    #[arg(long, value_name = "PATH", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Start a program, which gets CPUs of its own
    ///
    /// The exit status is the program's; 128 + n if signal n ended it, 127 if it was not found, 126 if
    /// it could not be executed, 125 if it was not started for another reason.
    #[command(disable_version_flag = true)]
    Run(Box<CommandLine>),

    /// Compare your own programs side by side under plain Linux and under mapper
    ///
    /// All programs start at once, under plain Linux, with passive waiting and under mapper in turn, several times: `mapper compare -- ./a :: ./b`.
    /// Their standard output is compared, not shown.
    Compare(compare::Options),

    /// Show the machine and its programs as a page in a browser, until Ctrl-C
    ///
    /// Prints the page's address on 127.0.0.1, which contains a secret: who does not know it sees nothing. The page shows which program has
    /// which CPUs, the speed of each against its promise over time, decisions with their reasons, and programs that have ended.
    Page(page::Options),

    #[command(flatten)]
    Question(Question),

    /// Start a daemon of your own, as `run` does where none runs
    Start,

    /// Stop your own daemon; programs continue, with all CPUs
    Stop,
}
