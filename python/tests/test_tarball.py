"""The tarball, installed below a prefix by an ordinary user who has nothing else."""

import os
import subprocess
import unittest
from pathlib import Path

from ordinary import OrdinaryUser

TARBALL = Path(os.environ["MAPPER_TARBALL"])


class Tarball(unittest.TestCase):
    def setUp(self) -> None:
        self.user = OrdinaryUser()
        self.addCleanup(self.user.close)
        self.user.run("tar", "-xf", self.user.take(TARBALL))
        (unpacked,) = self.user.home.glob("mapper-*-linux-*/")
        self.installer = str(unpacked / "install.sh")

    def test_it_installs_runs_replaces_itself_and_goes_without_a_trace(self) -> None:
        user = self.user
        said = user.run(self.installer)
        prefix = user.home / ".local"
        self.assertIn(f"export PATH={prefix}/bin:", said)
        user.env["PATH"] = f"{prefix}/bin:/usr/bin:/bin"
        self.assertEqual(user.run("mapper", "run", "--", "echo", "ran"), "ran\n")
        paths = {line.split()[-1] for line in user.libraries_of_the_daemon().splitlines() if "libhwloc" in line}
        self.assertEqual(paths, {str(prefix / "lib/mapper/libhwloc.so.15")})
        # While its daemon runs.
        self.assertNotIn("export PATH", user.run(self.installer))
        unit = (prefix / "share/systemd/user/mapperd.service").read_text()
        self.assertIn(f"ExecStart={prefix}/bin/mapperd ", unit)
        for page in ("man/man1/mapper.1", "man/man8/mapperd.8", "doc/mapper/LICENSE-MIT"):
            self.assertTrue((prefix / "share" / page).is_file(), page)
        user.run("mapper", "run", "--", "true")
        user.run(str(prefix / "share/mapper/uninstall.sh"))
        left = [path for path in prefix.rglob("*") if not path.is_dir() and "state" not in path.parts]
        self.assertEqual(left, [])
        self.assertFalse((prefix / "bin").exists())

    def test_a_program_is_linked_with_its_library(self) -> None:
        user = self.user
        prefix = user.home / "tools"
        user.run(self.installer, "--prefix", str(prefix))
        source = user.home / "program.c"
        source.write_text('#include <mapper.h>\n#include <stdio.h>\nint main(void) { puts(mapper_is_managed() ? "yes" : "no"); }\n')
        user.env["PKG_CONFIG_PATH"] = str(prefix / "lib/pkgconfig")
        flags = user.run("pkg-config", "--cflags", "--libs", "mapper").split()
        user.run("cc", "program.c", *flags, f"-Wl,-rpath,{prefix}/lib")
        self.assertEqual(user.run("./a.out"), "no\n")
        user.run(str(prefix / "share/mapper/uninstall.sh"))

    def test_a_wrong_word_is_refused_and_nothing_is_installed(self) -> None:
        for words in (["--prefix", "relative"], ["--prefix"], ["--to", "/tmp/x"], ["--prefix", "/tmp/a b"]):
            done = subprocess.run([self.installer, *words], env=self.user.env, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, words)
            self.assertRegex(done.stderr, "usage: install.sh|give a folder", words)
        self.assertFalse((self.user.home / ".local").exists())
