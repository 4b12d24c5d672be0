//! Gives `libmapper.so` the name by which programs ask for it at run time.
//!
//! The number changes with every version whose calls programs of an earlier one cannot use.

/// The one place of the name.
const SONAME: &str = include_str!("soname").trim_ascii_end();

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=soname");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
}
