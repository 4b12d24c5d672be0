//! The shim under real programs, compiled by gcc and by clang, with a page made by the test.
//!
//! `CC_GCC` and `CC_CLANG` name the compilers if they are not `gcc` and `clang`.

#![allow(clippy::unwrap_used)]

mod adaptive;
mod by_handle;
mod degree;
mod exports;
mod fast_path;
mod follow;
mod forks;
mod harness;
mod inert;
mod kernel_settings;
mod libomp_static;
mod mkl;
mod modules;
mod newer_libomp;
mod ompt;
mod parking;
mod patience;
mod progress;
mod results;
mod signals;
mod storage;
mod surroundings;
mod tasks;
mod virtual_teams;
