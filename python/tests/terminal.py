"""An interactive shell at a terminal of its own."""

from __future__ import annotations

import os
import pty

from home import Home


class Shell:
    def __init__(self, home: Home) -> None:
        self.printed = ""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(home.folder)
            env = {**home.env, "TERM": "dumb", "PS1": "$ "}
            os.execve("/bin/bash", ["bash", "--norc", "-i"], env)

    def paste(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def has_ended(self) -> bool:
        """Whether it has; takes what it has printed until now."""
        try:
            self.printed += os.read(self._terminal, 1 << 16).decode(errors="replace")
        except OSError:
            return True
        return False

    def close(self) -> None:
        """Closes the terminal, which hangs up."""
        os.close(self._terminal)
        os.waitpid(self._pid, 0)
