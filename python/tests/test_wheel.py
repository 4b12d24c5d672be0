"""The wheel, installed by an ordinary user who has nothing else."""

import os
import time
import unittest
import zipfile
from pathlib import Path

from ordinary import OrdinaryUser

WHEEL = Path(os.environ["MAPPER_WHEEL"])


class Wheel(unittest.TestCase):
    def test_an_ordinary_user_runs_a_program_with_the_wheels_own_libraries(self) -> None:
        user = OrdinaryUser()
        self.addCleanup(user.close)
        venv = user.home / "venv"
        wheel = user.take(WHEEL)
        user.run(user.python, "-m", "venv", str(venv))
        user.env["PATH"] = str(venv / "bin")
        begun = time.monotonic()
        user.run("pip", "install", "--no-index", wheel)
        code = "import mapper; print(mapper.is_managed(), mapper.cpus())"
        said = user.run("mapper", "run", "--", "python", "-c", code)
        print(f"from pip to the end: {time.monotonic() - begun:.1f} s ", end="")
        loaded = user.libraries_of_the_daemon()
        user.run("mapper", "stop")
        self.assertEqual(said, f"True {len(os.sched_getaffinity(0))}\n")
        paths = {line.split()[-1] for line in loaded.splitlines() if "libhwloc" in line}
        self.assertEqual(paths, {str(venv / "lib/mapper/libhwloc.so.15")})

    def test_it_has_documents_and_licences(self) -> None:
        with zipfile.ZipFile(WHEEL) as wheel:
            names = "\n".join(wheel.namelist())
        for wanted in (
            "data/scripts/mapper",
            "data/share/man/man1/mapper-launch.1",
            "dist-info/licenses/LICENSE-MIT",
            "dist-info/licenses/bundled-libraries.txt",
            "mapper/py.typed",
        ):
            self.assertIn(wanted, names)
