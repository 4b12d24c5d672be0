"""A program that was started with nohup, its terminal, and its daemon."""

import os
import signal
import unittest

from home import Home, eventually
from terminal import Shell


class Nohup(unittest.TestCase):
    def test_it_is_managed_after_its_terminal_was_closed_and_after_its_daemon_was_killed(self) -> None:
        with Home() as home:
            shell = Shell(home)
            shell.paste("nohup mapper run --name python -- sleep 1000 &\n")
            eventually("it is managed", home.apps)
            status = home.status()
            daemon, program = status["daemon"]["pid"], home.app()["pid"]
            shell.close()
            before = status["daemon"]["decisions"]
            eventually("the daemon decides", lambda: home.status()["daemon"]["decisions"] > before + 3)
            self.assertEqual(home.status()["daemon"]["pid"], daemon)
            self.assertEqual(home.app()["pid"], program)
            os.kill(daemon, signal.SIGKILL)
            eventually("the next daemon manages it", home.apps)
            self.assertEqual(home.app()["pid"], program)
            self.assertNotEqual(home.status()["daemon"]["pid"], daemon)
            said = (home.folder / "nohup.out").read_text()
            self.assertIn("the daemon went away; the next one manages it again", said)
            os.kill(program, signal.SIGTERM)
            eventually("nothing is managed", lambda: not home.apps())
