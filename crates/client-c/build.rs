//! Gives `libmapper.so` the name by which programs ask for it at run time.
//!
//! The number changes with every version whose calls programs of an earlier one cannot use.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmapper.so.0");
}
