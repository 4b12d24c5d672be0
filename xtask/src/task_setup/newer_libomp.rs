//! A newer libomp than clang's own, for the shim's tests.
//!
//! Debian's packages of two libomps exclude each other, so the newer one is not installed: its files are
//! unpacked below the build folder, where the shim's tests look for them. It is fetched once, some 0.6 MB.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace;

/// The newest that Debian 12 has.
const PACKAGE: &str = "libomp5-19";

/// Unpacks the package `$0` beside its place `$1`, then moves it there whole.
const FETCH: &str = "mkdir -p \"${1%/*}\"
scratch=$(mktemp -d \"$1.XXXXXX\")
trap 'rm -rf \"$scratch\"' EXIT
cd \"$scratch\"
apt-get download \"$0\"
dpkg-deb -x ./*.deb files
mv files \"$1\"";

/// Where its files are.
pub(super) fn folder() -> PathBuf {
    workspace::target_dir().join("runtimes").join(PACKAGE)
}

/// Fetches it if it is not there yet. Where that fails the test that needs it fails, and says what to do.
pub(super) fn fetch() {
    let folder = folder();
    if folder.exists() {
        return;
    }
    eprintln!("fetching {PACKAGE}");
    let mut shell = Command::new("sh");
    shell.args(["-ec", FETCH, PACKAGE]).arg(&folder);
    if let Err(error) = workspace::output(&mut shell) {
        eprintln!("note: {PACKAGE} is missing, tests with a newer libomp will fail: {error:#}");
    }
}
