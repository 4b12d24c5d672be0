"""Each folder of ``examples/`` prints what its ``expected.txt`` says, in which … is anything."""

import re
import shlex
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from home import CHECKOUT, PATIENCE_S, Home

EXAMPLES = CHECKOUT / "examples"


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(self.home.__exit__)

    def run_in_home(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.home.env, capture_output=True, text=True, timeout=4 * PATIENCE_S
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{command}: {done.stdout}")
        return done.stdout

    def assert_expected(self, name: str, printed: str) -> None:
        expected = (EXAMPLES / name / "expected.txt").read_text()
        pattern = re.escape(expected).replace("…", ".+")
        self.assertIsNotNone(re.fullmatch(pattern, printed), f"{expected!r} was expected, not {printed!r}")

    def test_two_fits(self) -> None:
        self.assert_expected("two-fits", self.run_in_home(f"{EXAMPLES}/two-fits/run.sh", "20000"))

    def test_a_notebook_beside_a_job(self) -> None:
        self.assert_expected("notebook", self.run_in_home(f"{EXAMPLES}/notebook/run.sh"))

    def test_a_service_beside_a_batch(self) -> None:
        self.assert_expected("service", self.run_in_home(f"{EXAMPLES}/service/run.sh"))

    def test_ranks(self) -> None:
        self.assert_expected("ranks", self.run_in_home(f"{EXAMPLES}/ranks/run.sh"))

    def test_a_pool_in_c(self) -> None:
        library = self.home.folder / "lib"
        (library / "pkgconfig").mkdir(parents=True)
        (self.home.folder / "include").mkdir()
        sources = CHECKOUT / "crates/client-c"
        shutil.copy(sources / "mapper.pc", library / "pkgconfig")
        shutil.copy(sources / "include/mapper.h", self.home.folder / "include")
        installed = Path(sys.prefix) / "lib/mapper/libmapper.so.0"
        for name in ("libmapper.so", "libmapper.so.0"):
            shutil.copy(installed, library / name)
        self.home.env["PKG_CONFIG_PATH"] = str(library / "pkgconfig")
        self.home.env["LD_LIBRARY_PATH"] = str(library)
        self.assert_expected("own-pool", self.run_in_home(f"{EXAMPLES}/own-pool/run.sh", "200", "2"))

    def test_the_unit_starts_what_it_says(self) -> None:
        programs = self.home.folder / ".local/bin"
        programs.mkdir(parents=True)
        (programs / "mapper").symlink_to(self.home.bin / "mapper")
        shutil.copy(EXAMPLES / "two-fits/fit.py", self.home.folder)
        unit = (EXAMPLES / "systemd/fit.service").read_text()
        (start,) = re.findall("^ExecStart=(.*)$", unit, re.MULTILINE)
        printed = self.run_in_home(*shlex.split(start.replace("%h", str(self.home.folder))))
        self.assert_expected("systemd", printed)

    def test_every_example_is_run(self) -> None:
        source = Path(__file__).read_text()
        for folder in EXAMPLES.iterdir():
            if folder.is_dir():
                self.assertIn(f'assert_expected("{folder.name}"', source)
