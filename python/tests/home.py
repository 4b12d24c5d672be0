"""A user without a daemon, whose launches start one; it ends with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

CHECKOUT = Path(__file__).resolve().parents[2]
#: How long anything may take on a busy machine.
PATIENCE_S = 60.0
#: A daemon that decides often, so that tests are short.
CONFIGURATION = 'interval = "100ms"\n'


def eventually(what: str, holds: Callable[[], Any]) -> Any:
    """What ``holds`` gives as soon as that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < deadline, f"after {PATIENCE_S} s not: {what}"
        time.sleep(0.05)


class Home:
    def __init__(self, prefix: str = sys.prefix, configuration: str = CONFIGURATION) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.bin = Path(prefix) / "bin"
        self.env = {
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "MAPPER_SOCKET": str(self.folder / "mapper/mapper.sock"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        settings = self.folder / "config/mapper/mapper.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(configuration)
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Home:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._running:
            # The launcher passes it on; killed, it would leave the program behind.
            program.terminate()
            program.wait()
            for stream in (program.stdin, program.stdout):
                if stream:
                    stream.close()
        if (self.folder / "mapper/mapper.sock").exists():
            pid = self.status()["daemon"]["pid"]
            os.kill(pid, signal.SIGTERM)
            eventually("the daemon has ended", lambda: not Path(f"/proc/{pid}").exists())
        self._folder.cleanup()

    def launch(self, *words: str) -> subprocess.Popen[str]:
        """Starts a program under mapper; it and the test talk by lines."""
        command = [str(self.bin / "mapper-launch"), *words]
        pipe = subprocess.PIPE
        program = subprocess.Popen(command, env=self.env, stdin=pipe, stdout=pipe, text=True)
        self._running.append(program)
        return program

    def python(self, code: str, *options: str) -> subprocess.Popen[str]:
        return self.launch(*options, "--name", "python", "--", sys.executable, "-uc", code)

    def answer(self, *words: str) -> Any:
        command = [str(self.bin / "mapperctl"), *words, "--json"]
        return json.loads(subprocess.run(command, env=self.env, check=True, capture_output=True).stdout)

    def status(self) -> Any:
        return self.answer("status")

    def runs(self) -> bool:
        """Whether a daemon answers."""
        command = [str(self.bin / "mapperctl"), "policies"]
        return subprocess.run(command, env=self.env, capture_output=True).returncode == 0

    def apps(self) -> Any:
        """The applications that it manages."""
        return self.status()["apps"] if self.runs() else []

    def app(self) -> Any:
        """The application ``python``."""
        return next(app for app in self.status()["apps"] if app["name"] == "python")


def line(program: subprocess.Popen[str]) -> str:
    assert program.stdout
    return program.stdout.readline().strip()


def say(program: subprocess.Popen[str], text: str = "") -> None:
    assert program.stdin
    program.stdin.write(f"{text}\n")
    program.stdin.flush()
