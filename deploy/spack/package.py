# Copyright the developers of mapper.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)
"""Recipe for Spack: `spack repo create mapper-repo`, put this into packages/mapper there, `spack repo add mapper-repo`."""

from spack.package import *


class Mapper(Package):
    """Runs several parallel programs on one machine side by side, each with a performance promise."""

    homepage = "https://mapper.invalid"
    git = "https://mapper.invalid/mapper.git"

    license("Apache-2.0 OR MIT", checked_by="mapper")

    version("main", branch="main")
    # With the first release: version("0.1.0", tag="v0.1.0", commit=...)

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("binutils", type="build")
    depends_on("hwloc@2.8:2")

    conflicts("platform=darwin", msg="mapper reads and changes what only Linux has")
    conflicts("platform=windows", msg="mapper reads and changes what only Linux has")

    def setup_build_environment(self, env):
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("xtask", "install", "--prefix", prefix)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(join_path(self.prefix.bin, "mapper"))("--version")
