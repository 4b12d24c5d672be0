"""What a Python program can tell mapper, and ask of it.

mapper moves CPUs between programs while they run. A program started by ``mapper run`` or ``mapper-launch`` can keep its
thread pools as large as the CPUs it has, report its progress, and say when one CPU is enough::

    import mapper

    mapper.follow()                    # BLAS, OpenMP, PyTorch and joblib use as many threads as there are CPUs
    for batch in batches:
        train(batch)
        mapper.work_done(len(batch))   # mapper judges the program by this
    with mapper.serial():
        save(model)                    # one CPU is enough

Without mapper nothing happens: reports are dropped, :func:`cpus` counts the CPUs that the process may use. All functions
may be called from any thread.
"""

from __future__ import annotations

import errno
import math
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Optional

from ._changes import on_change
from ._following import Following, follow
from ._library import LIBRARY

__version__ = "0.1.0"
__all__ = [
    "Following",
    "cpu_set",
    "cpus",
    "declare_cpus",
    "follow",
    "is_managed",
    "latency",
    "on_change",
    "promise",
    "serial",
    "status",
    "wait_for_change",
    "work_done",
]

if TYPE_CHECKING:
    #: A number that differs after each change of the CPUs; 0 without mapper. Read it as ``mapper.generation``: a copy by
    #: ``from mapper import generation`` stays as it is.
    generation: int

#: The longest wait in C: Python handles signals, such as Ctrl-C, between two.
_SLICE_S = 0.1


def __getattr__(name: str) -> Any:
    if name == "generation":
        return LIBRARY.generation()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_managed() -> bool:
    """Whether mapper manages this program and speaks to it."""
    return LIBRARY.is_managed()


def cpus() -> int:
    """How many CPUs the program has now: the size for a pool of threads or processes.

    Without mapper, how many the calling thread may use.
    """
    return LIBRARY.cpu_count() or len(os.sched_getaffinity(0))


def cpu_set() -> frozenset[int]:
    """Which CPUs these are; more than :func:`cpus` where programs share CPUs."""
    return LIBRARY.cpu_set() or frozenset(os.sched_getaffinity(0))


def wait_for_change(timeout: Optional[float] = None, since: Optional[int] = None) -> bool:
    """Wait until the CPUs change, for ``timeout`` seconds at most; return whether they did.

    ``since`` is the :data:`generation` after which a change counts, by default the present one. Give the one at which
    you last read :func:`cpus`: otherwise a change between reading and waiting is missed. Without mapper CPUs never
    change: this sleeps for ``timeout``, and returns at once where there is none.
    """
    if not is_managed():
        time.sleep(max(timeout or 0.0, 0.0))
        return False
    known = LIBRARY.generation() if since is None else since
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        if LIBRARY.wait(known, max(min(left, _SLICE_S), 0.0)):
            return True
        if left <= _SLICE_S:
            return False


def work_done(amount: float = 1.0) -> None:
    """Report that so much work is done, in any unit that stays the same; more per second is better.

    The amounts of all threads add up. mapper then judges the program by this instead of by counters. Ignored are
    amounts that are negative, NaN or infinite. A report makes no system call.
    """
    LIBRARY.work_done(amount)


def latency(seconds: float) -> None:
    """Report how long something took that should be quick, such as a request; less is better.

    A program reports either work or latencies; the last kind counts.
    """
    LIBRARY.latency(seconds)


def declare_cpus(least: int = 0, most: int = 0) -> None:
    """Declare that the program can use from ``least`` to ``most`` CPUs; 0 leaves either open.

    This narrows what the program was launched with; a ``least`` beyond an equal share of the machine is cut to that.
    """
    for name, value in (("least", least), ("most", most)):
        if not 0 <= value < 2**32:
            raise ValueError(f"{name}={value}: give a number of CPUs, or 0 to leave it open")
    LIBRARY.declare_cpus(least, most)


def promise(share: float) -> None:
    """Have the program promised ``share`` of its performance on its fair share of the CPUs, from the next decision on.

    ``mapper run --qos`` says it at launch. As much is allowed as there: beyond what the operator allows its user,
    :exc:`PermissionError` is raised; :exc:`OSError` where the daemon does not answer. Without mapper it does nothing.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share}: give a number above 0 and up to 1, such as 0.85")
    refused = LIBRARY.promise(share)
    if refused:
        why = "the operator allows less" if refused == errno.EPERM else os.strerror(refused)
        raise OSError(refused, f"the promise stays as it was: {why}")


@contextmanager
def serial() -> Iterator[None]:
    """A part of the program that needs one CPU only: ``with mapper.serial(): …``, or before a function ``@serial()``.

    For parts of a second or more, since mapper decides about once a second. Parts of several threads may overlap; the
    last end counts.
    """
    LIBRARY.serial_begin()
    try:
        yield
    finally:
        LIBRARY.serial_end()


def status() -> str:
    """What mapper does for this process, in a few words; ``%mapper`` in Jupyter prints it."""
    if not is_managed():
        why = LIBRARY.missing or "it was not started by mapper"
        return f"not managed: {why}; start it with: mapper run -- PROGRAM"
    numbers = ",".join(map(str, sorted(cpu_set())))
    followed = Following.current()
    pools = ", ".join(followed.names()) if followed else "nothing; call mapper.follow()"
    teams = os.environ.get("MAPPER_TEAMS", "fixed")
    count = cpus()
    return f"managed: {count} CPU{'s' * (count != 1)} ({numbers}), OpenMP teams {teams}; in step: {pools}"


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext mapper`` in Jupyter or IPython: ``%mapper`` prints the status, ``%mapper follow`` starts following."""

    def mapper_magic(line: str) -> None:
        word = line.strip()
        if word == "follow":
            follow()
        elif word:
            print(f"%mapper {word}: unknown; give %mapper or %mapper follow", file=sys.stderr)
            return
        print(status())

    ipython.register_magic_function(mapper_magic, "line", "mapper")
