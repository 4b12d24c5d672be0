//! Starts a program under mapperd: `mapper-launch --qos 0.85 -- ./app args…`.
//!
//! The launcher forks a child that waits, requests CPUs for it from the daemon, sets the child's environment and lets
//! it exec. Then it stays, as the program's parent, and shall be unnoticed: the caller sees the program's exit status,
//! the program sees the caller's signals, descriptors and terminal.
//!
//! Modules, in order of time:
//! - [`started_with`] keeps what the process was started with, before anything can change it;
//! - [`arguments`] reads the command line, [`program`] finds the program;
//! - [`launch`] runs the sequence, with [`child`] (fork, wait, exec), [`environment`] (variables for the program),
//!   [`waiting`] (how long its threads spin at barriers) and [`signal_state`] (what the program inherits);
//! - [`supervise`] stays with the program; [`forwarding`] decides which signals to pass on, using [`witness`].
//!
//! Apart from that, [`check_teams`] finds out which team modes a program tolerates, and [`catalogue`] keeps the
//! results, by the program's [`identity`].
//!
//! The program itself, `src/main.rs`, has no `main` of Rust's: its runtime would ignore SIGPIPE and open descriptors
//! that were closed, and the program would inherit both.

mod arguments;
mod catalogue;
mod check_teams;
mod child;
mod descriptors;
mod environment;
mod failure;
mod forwarding;
mod identity;
mod launch;
mod linkage;
mod memory;
mod program;
mod report;
mod shim;
mod signal_state;
mod started_with;
mod supervise;
mod waiting;
mod witness;

pub use launch::run;
pub use started_with::StartedWith;
