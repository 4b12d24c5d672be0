//! Starts a program under mapperd: `mapper-launch --qos 0.85 -- ./app args…`.
//!
//! The launcher forks a child that waits, requests CPUs for it from the daemon, sets the child's environment and lets
//! it exec ([`launch`]). Then it stays, as the program's parent ([`supervise`]), and shall be unnoticed: the caller
//! sees the program's exit status, the program sees the caller's signals, descriptors and terminal.
//!
//! `mapper run` is the same ([`run_line`]). The program itself, `src/main.rs`, has no `main` of Rust's: its runtime would ignore SIGPIPE and open descriptors
//! that were closed, and the program would inherit both.

mod arguments;
mod catalogue;
mod check_teams;
mod child;
mod daemon_watch;
mod descriptors;
mod environment;
mod failure;
mod forwarding;
#[cfg(fuzzing)]
pub mod fuzzing;
mod identity;
mod launch;
mod linkage;
mod loader;
mod memory;
mod naming;
mod own_daemon;
mod program;
mod report;
mod shim;
mod signal_state;
mod started_with;
mod supervise;
mod waiting;
mod witness;

pub use arguments::CommandLine;
pub use launch::{reserve_standard_streams, run, run_line, start_own_daemon};
pub use naming::name_of;
pub use started_with::StartedWith;
