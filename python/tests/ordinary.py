"""An ordinary user who has nothing but what was installed: no compiler, no cargo, no tool of the project."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

NOBODY = 65534


class OrdinaryUser:
    """Commands of a user with an empty home; where the tests run as root, of one who is nobody."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.home = Path(self._folder.name)
        self.home.chmod(0o755)
        self._is_root = os.geteuid() == 0
        # Root's Python may be in root's home.
        self.python = "/usr/bin/python3" if self._is_root else sys._base_executable
        self.env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self.home)}
        self.env["MAPPER_SOCKET"] = f"{self.home}/mapper/mapper.sock"
        if self._is_root:
            os.chown(self.home, NOBODY, NOBODY)

    def close(self) -> None:
        self._folder.cleanup()

    def take(self, file: Path) -> str:
        """A copy of a file, in the home."""
        copy = self.home / file.name
        copy.write_bytes(file.read_bytes())
        return str(copy)

    def run(self, *command: str) -> str:
        identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self._is_root else {}
        done = subprocess.run(
            command, env=self.env, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **identity
        )
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def libraries_of_the_daemon(self) -> str:
        """The files that the user's daemon has mapped."""
        code = (
            "import json, subprocess as s\n"
            "pid = json.loads(s.run(['mapperctl', 'status', '--json'], capture_output=True).stdout)['daemon']['pid']\n"
            "print(open(f'/proc/{pid}/maps').read())\n"
        )
        return self.run(self.python, "-c", code)
