"""The workload ``feed.py``, whose workers make pictures for a network that PyTorch trains: here on the CPU."""

import json
import subprocess
import unittest
from pathlib import Path
from typing import Any

import mapper
from home import CHECKOUT, PATIENCE_S, Home, eventually

#: Debian's, which has its PyTorch.
PYTHON = "/usr/bin/python3"
WORDS = (PYTHON, str(CHECKOUT / "benches/workloads/feed.py"), "--device", "cpu", "--steps", "120")


class Feed(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(self.home.__exit__)
        # The package alone: the other packages of this environment are not for Debian's Python.
        packages = self.home.folder / "packages"
        packages.mkdir()
        (packages / "mapper").symlink_to(Path(mapper.__file__).parent)
        self.home.env["PYTHONPATH"] = str(packages)

    def plain(self) -> Any:
        done = subprocess.run(WORDS, env=self.home.env, capture_output=True, text=True, timeout=4 * PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_it_is_promised_steps_per_second_beside_another_program_and_computes_the_same(self) -> None:
        plain = self.plain()
        self.home.launch("--name", "busy", "--", "sh", "-c", "while :; do :; done")
        program = self.home.launch("--name", "feed", "--qos", "0.9", "--", *WORDS)

        def judged() -> Any:
            found = next((app for app in self.home.apps() if app["name"] == "feed"), {})
            by = (found.get("performance") or {}).get("source")
            return found if by == "reported" and found["floor"] else None

        app = eventually("it is judged by its steps", judged)
        self.assertEqual(app["qos"], 0.9)
        # In steps, not in pictures: each step has 32.
        steps_per_s = plain["steps"] / plain["seconds"]
        self.assertGreater(app["floor"], steps_per_s / 10)
        self.assertLess(app["floor"], 4 * steps_per_s)
        managed = json.loads(program.communicate(timeout=4 * PATIENCE_S)[0])
        self.assertEqual(program.returncode, 0)
        self.assertEqual(managed["checksum"], plain["checksum"])
