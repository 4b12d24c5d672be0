//! `mapper-launch`; see the library of the same name. There is no `main` of Rust's, as its runtime
//! changes signals and descriptors before they could be kept.

#![no_main]

use mapper_launch::{StartedWith, run};
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn main(
    count: c_int,
    arguments: *mut *mut c_char,
    environment: *mut *mut c_char,
) -> c_int {
    // SAFETY: these are the arguments of `main`, called once by the C runtime.
    let started = unsafe { StartedWith::from_main(count, arguments, environment) };
    c_int::from(run(started))
}
