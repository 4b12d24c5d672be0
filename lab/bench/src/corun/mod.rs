//! Programs run side by side: what `cargo xtask demo`, `teams` and `eval --live` have in common.
//!
//! One file does one thing: [`build`] compiles mapper and the programs, [`shares`] splits CPUs and
//! work, [`processes`] starts and ends programs, [`workload_line`] judges what they say,
//! [`calibration`] chooses their work, [`statistics`] averages, [`bootstrap`] says how sure a figure
//! is, [`machine`] describes the machine and what else it was doing,
//! [`progress`] tells how far it is, [`output`] are the files that results go to.

pub(crate) mod build;
pub(crate) mod calibration;
pub(crate) mod machine;
pub(crate) mod processes;
pub(crate) mod shares;
pub(crate) mod workload_line;

/// Exit status of mapper-launch when it, and not the program, failed.
pub(crate) const LAUNCHER_FAILED: i32 = 125;
