"""Recipes of `deploy/`, as far as they can be checked without the programs that read them."""

import re
import unittest

from home import CHECKOUT

DEPLOY = CHECKOUT / "deploy"


class Recipes(unittest.TestCase):
    def test_spacks_is_python_and_asks_for_the_rust_and_hwloc_of_the_source(self) -> None:
        recipe = (DEPLOY / "spack/package.py").read_text()
        compile(recipe, "package.py", "exec")
        (rust,) = re.findall(r'rust-version = "([0-9.]+)"', (CHECKOUT / "Cargo.toml").read_text())
        self.assertIn(f'"rust@{rust}:"', recipe)
        (hwloc,) = re.findall(r"hwloc >= ([0-9]+\.[0-9]+)", (CHECKOUT / "crates/host/build.rs").read_text())
        self.assertIn(f'"hwloc@{hwloc}:2"', recipe)

    def test_condas_has_the_version_and_files_of_the_source(self) -> None:
        recipe = (DEPLOY / "conda-forge/meta.yaml").read_text()
        (version,) = re.findall(r'^version = "([0-9.]+)"', (CHECKOUT / "Cargo.toml").read_text(), re.MULTILINE)
        self.assertIn(f'version = "{version}"', recipe)
        for name in re.findall(r"- (LICENSE\S+)", recipe):
            self.assertTrue((CHECKOUT / name).is_file(), name)

    def test_the_container_is_built_with_the_toolchain_of_the_source(self) -> None:
        (channel,) = re.findall(r'channel = "([0-9]+\.[0-9]+)', (CHECKOUT / "rust-toolchain.toml").read_text())
        self.assertIn(f"rust:{channel}-", (DEPLOY / "Containerfile").read_text())
