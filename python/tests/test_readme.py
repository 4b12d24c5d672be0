"""What the README's first run says, pasted into a shell at a terminal; as often as ``MAPPER_PASTES`` says."""

import os
import re
import unittest

from home import CHECKOUT, Home, eventually
from terminal import Shell

PASTES = int(os.environ.get("MAPPER_PASTES", "1"))


def first_run() -> str:
    """The block, with a short wait."""
    readme = (CHECKOUT / "README.md").read_text()
    section = readme.split("## First run\n")[1].split("\n## ")[0]
    (block, *_) = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    for long, short in (("benches/workloads/", f"{CHECKOUT}/benches/workloads/"), ("sleep 8", "sleep 2")):
        assert long in block, long
        block = block.replace(long, short)
    lines = (line.strip() for line in block.splitlines())
    return "\n".join(line for line in lines if not line.startswith("PATH=")) + "\n"


class FirstRun(unittest.TestCase):
    def test_every_paste_starts_a_daemon_and_two_programs_which_it_manages(self) -> None:
        for number in range(PASTES):
            with self.subTest(paste=number), Home() as home:
                shell = Shell(home)
                shell.paste(first_run())
                # The programs would run for longer than anybody waits for a test.
                eventually("the status is shown", lambda: shell.has_ended() or "STATE" in shell.printed)
                shell.paste("kill %1 %2; wait; exit\n")
                eventually("the shell is done", shell.has_ended)
                shell.close()
                printed = shell.printed
                for name in ("md", "cg"):
                    self.assertRegex(printed, rf"(?m)^(\x1b\[[0-9;]*m)*{name} ", f"the status has {name}: {printed}")
                reports = re.findall(r"mapper: (md|cg): [0-9.]+ s on", printed)
                self.assertEqual(sorted(reports), ["cg", "md"], printed)
                self.assertEqual(printed.count("started one, which logs to"), 1, printed)
                self.assertNotIn("no daemon there", printed)
