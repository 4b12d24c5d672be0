"""The wheel, installed by an ordinary user who has nothing else."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

WHEEL = Path(os.environ["MAPPER_WHEEL"])
NOBODY = 65534


class Wheel(unittest.TestCase):
    def test_an_ordinary_user_runs_a_program_with_the_wheels_own_libraries(self) -> None:
        # Root's Python may be in root's home.
        is_root = os.geteuid() == 0
        python = "/usr/bin/python3" if is_root else sys._base_executable
        with tempfile.TemporaryDirectory() as name:
            home = Path(name)
            home.chmod(0o755)
            (home / WHEEL.name).write_bytes(WHEEL.read_bytes())
            if is_root:
                os.chown(home, NOBODY, NOBODY)
            venv = home / "venv"
            # Nothing but what was installed: no compiler, no cargo, no tool of the system.
            env = {"HOME": name, "PATH": str(venv / "bin"), "XDG_RUNTIME_DIR": name}
            env["MAPPER_SOCKET"] = f"{name}/mapper/mapper.sock"

            def run(*command: str) -> str:
                identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root else {}
                done = subprocess.run(command, env=env, cwd=name, capture_output=True, text=True, **identity)
                self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
                return done.stdout

            run(python, "-m", "venv", "venv")
            begun = time.monotonic()
            run(str(venv / "bin/pip"), "install", "--no-index", str(home / WHEEL.name))
            code = "import mapper; print(mapper.is_managed(), mapper.cpus())"
            said = run("venv/bin/mapper", "run", "--", "python", "-c", code)
            print(f"from pip to the end: {time.monotonic() - begun:.1f} s ", end="")
            maps = "import json, os, subprocess as s\n" \
                "pid = json.loads(s.run(['mapperctl', 'status', '--json'], capture_output=True).stdout)['daemon']['pid']\n" \
                "print(open(f'/proc/{pid}/maps').read())\n" \
                "os.kill(pid, 15)"
            loaded = run("venv/bin/python", "-c", maps)
            self.assertEqual(said, f"True {len(os.sched_getaffinity(0))}\n")
            for library in ("libhwloc.so.15", "libudev.so.1"):
                paths = {line.split()[-1] for line in loaded.splitlines() if library[:-2] in line}
                self.assertEqual(paths, {str(venv / "lib/mapper" / library)})

    def test_it_has_documents_and_licences(self) -> None:
        with zipfile.ZipFile(WHEEL) as wheel:
            names = "\n".join(wheel.namelist())
        for wanted in (
            "data/scripts/mapper",
            "data/share/man/man1/mapper-launch.1",
            "dist-info/licenses/LICENSE-MIT",
            "dist-info/licenses/third-party-licences.txt",
            "dist-info/licenses/libhwloc15-copyright.txt",
            "dist-info/licenses/bundled-libraries.txt",
            "mapper/py.typed",
        ):
            self.assertIn(wanted, names)
