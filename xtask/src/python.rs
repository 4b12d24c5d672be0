//! The tests of the wheel, the Python package, the examples and the pages.

use std::process::Command;

use crate::environment;
use crate::task_dist::{Use, tarball, wheel};
use crate::workspace::{self, output};

/// What runs the tests of the Python package, of the examples and of the pages, with a wheel of what cargo builds for users.
pub(crate) fn tests() -> anyhow::Result<Command> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--quiet", "--locked", "--release"]);
    output(&mut cargo)?;
    let target = workspace::root().join(workspace::target_dir());
    let (built, out) = (target.join("release"), target.join("python"));
    let wheel = wheel::pack(&built, Use::Tests, &out)?;
    let tarball = tarball::pack(&built, Use::Tests, &out)?;
    let environment = environment::with("requirements-tests.txt")?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
    ]);
    output(pip.arg(&wheel))?;
    let mut python = Command::new(environment.join("bin/python"));
    python.arg("python/tests").env("MAPPER_WHEEL", wheel);
    python.env("MAPPER_TARBALL", tarball);
    Ok(python)
}
