"""The package as it is installed from the wheel, with a daemon and without."""

import importlib.metadata
import math
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import mapper
from home import CHECKOUT, Home, eventually, line, say
from mapper import _library

ALL = len(os.sched_getaffinity(0))

#: A program that executes the lines that it gets.
OBEDIENT = "import mapper, sys\nfor line in sys.stdin: exec(line)"

#: One that takes CPUs of the first.
OTHER = ["--name", "other", "--", sys.executable, "-c", "while True: pass"]


class WithoutMapper(unittest.TestCase):
    def test_every_call_does_nothing(self) -> None:
        self.assertEqual(_library.LIBRARY.missing, "", "the library is found")
        self.assertFalse(mapper.is_managed())
        self.assertEqual(mapper.cpus(), ALL)
        self.assertEqual(mapper.cpu_set(), os.sched_getaffinity(0))
        self.assertEqual(mapper.generation, 0)
        mapper.work_done(1)
        mapper.latency(0.1)
        mapper.declare_cpus(1, 2)
        mapper.promise(0.9)
        with mapper.serial():
            pass
        mapper.on_change(self.fail)()
        with mapper.follow() as following:
            self.assertEqual(following.names(), [])
        self.assertIn("mapper run", mapper.status())

    def test_a_wait_takes_its_time_and_without_one_returns_at_once(self) -> None:
        begun = time.monotonic()
        self.assertFalse(mapper.wait_for_change(0.2))
        self.assertGreaterEqual(time.monotonic() - begun, 0.2)
        self.assertFalse(mapper.wait_for_change())

    def test_wrong_values_are_refused_with_their_name(self) -> None:
        with self.assertRaisesRegex(ValueError, "most=0"):
            mapper.follow(most=0)
        with self.assertRaisesRegex(ValueError, "least=-1"):
            mapper.declare_cpus(least=-1)
        for share in (0, 1.1, math.nan):
            with self.assertRaisesRegex(ValueError, f"share={share}"):
                mapper.promise(share)
        with self.assertRaises(AttributeError):
            mapper.generations  # noqa: B018


class Package(unittest.TestCase):
    def test_versions_and_the_librarys_name_are_those_of_the_source(self) -> None:
        version = importlib.metadata.version("mapper-run")
        self.assertEqual(mapper.__version__, version)
        self.assertIn(f'version = "{version}"', (CHECKOUT / "Cargo.toml").read_text())
        soname = (CHECKOUT / "crates/client-c/soname").read_text().strip()
        self.assertEqual(_library.SONAME, soname)

    def test_types_hold_in_the_strict_mode_of_mypy_from_the_oldest_python_it_knows(self) -> None:
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", str(CHECKOUT / "python/mapper")],
            capture_output=True,
            text=True,
        )
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertTrue((Path(mapper.__file__).parent / "py.typed").exists())


class Managed(unittest.TestCase):
    def setUp(self) -> None:
        self.assertGreater(ALL, 1, "a machine with one CPU has none to take")
        self.home = Home()
        self.addCleanup(self.home.__exit__)

    def test_a_program_sees_its_cpus_change_and_change_back(self) -> None:
        program = self.home.python(OBEDIENT)
        say(program, "mapper.on_change(lambda count: sys.stdout.write('called %d\\n' % count))")
        say(program, "g = mapper.generation; print(mapper.cpus(), len(mapper.cpu_set()), g > 0, mapper.is_managed())")
        self.assertEqual(line(program), f"{ALL} {ALL} True True")
        other = self.home.launch(*OTHER)
        self.assertRegex(line(program), r"called \d+")
        say(program, "c = mapper.cpus(); print(mapper.wait_for_change(60, since=g), mapper.generation != g, c)")
        changed, differs, count = line(program).split()
        self.assertEqual((changed, differs), ("True", "True"))
        self.assertLess(int(count), ALL)
        say(program, "while mapper.cpus() < %d: mapper.wait_for_change(1)" % ALL)
        say(program, "sys.stdout.write('again\\n')")
        other.terminate()
        said = line(program)
        while said.startswith("called"):
            said = line(program)
        self.assertEqual(said, "again")

    def test_what_a_program_reports_reaches_the_daemon(self) -> None:
        program = self.home.python(OBEDIENT)
        say(program, "import threading; stop = threading.Event(); print('started')")
        self.assertEqual(line(program), "started")
        reports = "[mapper.work_done(5) for _ in iter(lambda: stop.wait(0.01), True)]"
        say(program, f"f = lambda: {reports}")
        say(program, "threading.Thread(target=f).start()")
        performance = eventually("work is seen", self.reported)
        self.assertGreater(performance["value"], 0)
        say(program, "stop.set(); mapper.declare_cpus(0, 1); print('declared')")
        self.assertEqual(line(program), "declared")
        eventually("one CPU is enough", lambda: self.home.app()["cpu_count"] == 1)
        say(program, "mapper.declare_cpus(); print('withdrawn')")
        self.assertEqual(line(program), "withdrawn")
        eventually("all CPUs are back", lambda: self.home.app()["cpu_count"] == ALL)
        say(program, "s = mapper.serial(); s.__enter__(); print('serial')")
        self.assertEqual(line(program), "serial")
        spare = lambda: self.home.answer("explain", "python")["spare_cpus"]  # noqa: E731
        eventually("the others can be spared", lambda: spare() == ALL - 1)
        say(program, "s.__exit__(None, None, None); print('parallel')")
        self.assertEqual(line(program), "parallel")
        eventually("none can be spared", lambda: spare() == 0)

    def test_a_program_changes_its_promise(self) -> None:
        program = self.home.python(OBEDIENT)
        say(program, "mapper.promise(0.6); print('promised')")
        self.assertEqual(line(program), "promised")
        self.assertEqual(self.home.app()["qos"], 0.6)
        # In a thread and in a child, which are parts of it, too.
        say(program, "import threading; t = threading.Thread(target=mapper.promise, args=[0.7]); t.start(); t.join()")
        say(program, "import os; child = os.fork()")
        say(program, "child or (mapper.promise(0.8), print('child'), sys.stdout.flush(), os._exit(0))")
        self.assertEqual(line(program), "child")
        self.assertEqual(self.home.app()["qos"], 0.8)
        say(program, "os.environ['MAPPER_SOCKET'] = '/nowhere'")
        code = "try: mapper.promise(0.9)\\nexcept OSError as error: print(error.strerror)"
        say(program, f"exec('{code}')")
        self.assertIn("not connected", line(program))

    def reported(self) -> object:
        performance = self.home.app().get("performance")
        return performance if performance and performance["source"] == "reported" else None

    def test_libraries_follow_the_cpus(self) -> None:
        program = self.home.python(
            "import mapper, numpy, joblib, sys, threadpoolctl, types\n"
            "from sklearn.cluster import KMeans\n"
            "class Torch(types.ModuleType):\n"
            "    count = 7\n"
            "    def get_num_threads(self): return self.count\n"
            "    def set_num_threads(self, count): self.count = count\n"
            "torch = sys.modules['torch'] = Torch('torch')\n"
            "pools = lambda: {p['num_threads'] for p in threadpoolctl.threadpool_info()}\n"
            "a = numpy.ones((200, 200))\n"
            "def settled(count):\n"
            "    while not (pools() == {count} == {joblib.effective_n_jobs(-1)} and torch.count == count):\n"
            "        assert (a @ a)[0, 0] == 200\n"
            "    KMeans(2, n_init=1).fit(a + numpy.eye(200))\n"
            "    print(sorted(pools()), torch.count, flush=True)\n"
            "before = pools()\n"
            "following = mapper.follow()\n"
            "print(*following.names())\n"
            f"settled({ALL})\n"
            "sys.stdin.readline()\n"
            "count = mapper.cpus()\n"
            "settled(count)\n"
            "with threadpoolctl.threadpool_limits(3):\n"
            "    following.apply()\n"
            "    print('own', *pools())\n"
            "following.stop()\n"
            "print('stopped', pools() == before, torch.count)\n",
            "--teams",
            "fixed",
        )
        self.assertEqual(line(program), "joblib openblas openmp torch")
        self.assertEqual(line(program), f"[{ALL}] {ALL}")
        self.home.launch(*OTHER)
        eventually("CPUs are taken", lambda: self.home.app()["cpu_count"] < ALL)
        count = self.home.app()["cpu_count"]
        say(program)
        self.assertEqual(line(program), f"[{count}] {count}")
        self.assertEqual(line(program), "own 3", "what the program sets itself stays")
        self.assertEqual(line(program), "stopped True 7")

    def test_openmp_is_left_to_the_shim_where_that_adapts_it(self) -> None:
        program = self.home.python(
            "import mapper, sklearn.cluster\nprint(*mapper.follow().names())"
        )
        self.assertEqual(line(program), "joblib openblas")

    def test_a_forked_child_follows_nothing_and_its_parent_goes_on(self) -> None:
        program = self.home.python(OBEDIENT)
        say(program, "import os; mapper.on_change(lambda count: print('called', os.getpid() == parent))")
        say(program, "parent = os.getpid(); child = os.fork()")
        say(program, "child or (print('child', mapper.cpus()), os._exit(0))")
        self.assertEqual(line(program), f"child {ALL}")
        self.home.launch(*OTHER)
        self.assertEqual(line(program), "called True")

    def test_the_magic_shows_and_begins(self) -> None:
        program = self.home.python(
            "from IPython.core.interactiveshell import InteractiveShell\n"
            "shell = InteractiveShell.instance()\n"
            "for text in ('%load_ext mapper', '%mapper', '%mapper follow'): shell.run_cell(text)\n"
        )
        begin = f"managed: {ALL} CPUs (.*), OpenMP teams virtual; in step: "
        self.assertRegex(line(program), begin + "nothing; call mapper.follow()")
        self.assertRegex(line(program), begin + "joblib")
