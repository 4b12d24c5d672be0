"""Thread pools of libraries, kept as large as the CPUs that the process has.

*When.* The main thread changes them, between two steps of the interpreter (``Py_AddPendingCall``): then it runs no
native code, so none of its pools is at work. A matrix product, or a fit that is one call of a library, ends with the
threads with which it began.

*What.* Only what is loaded. Where the shim adapts teams, OpenMP is left to it: a number set here would count as the
program's own request. Under ``virtual`` that is libgomp, with the PyTorch that uses it; under ``follow`` all OpenMP.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import time
from typing import Any, Callable, Optional

from ._changes import on_change
from ._library import LIBRARY

#: The most CPUs that joblib's and loky's `n_jobs=-1` stand for.
_JOBLIB = "LOKY_MAX_CPU_COUNT"


def _is_adapted(openmp: dict[str, Any], teams: str) -> bool:
    """Whether the shim adapts the teams of this OpenMP runtime."""
    return teams == "follow" or (teams == "virtual" and openmp["prefix"] == "libgomp")


class Following:
    """What :func:`follow` began; :meth:`stop`, or the end of a ``with``, ends it."""

    _current: Optional[Following] = None

    def __init__(self, most: Optional[int]) -> None:
        self._most = most
        self._is_active = False
        self._is_due = False
        self._end: Callable[[], None] = lambda: None
        self._joblib_before = os.environ.get(_JOBLIB)
        # By the path of the library, or "torch".
        self._before: dict[str, int] = {}
        self._set: dict[str, int] = {}
        self._names: dict[str, str] = {}

    @classmethod
    def current(cls) -> Optional[Following]:
        """What is being followed, if anything is."""
        return cls._current

    def names(self) -> list[str]:
        """The libraries that are kept in step."""
        return sorted({"joblib", *self._names.values()}) if self._is_active else []

    def apply(self) -> None:
        """Sets what is loaded by now to the CPUs of now, from the calling thread.

        For a library that was loaded after the last change. A number that the program has set itself since, as by
        ``with threadpool_limits(1):``, stays.
        """
        self._is_due = False
        count = LIBRARY.cpu_count()
        if not self._is_active or not count:
            return
        count = max(1, min(count, self._most or count))
        own = self._joblib_before or ""
        os.environ[_JOBLIB] = str(min(count, int(own)) if own.isdigit() and int(own) else count)
        teams = os.environ.get("MAPPER_TEAMS", "fixed")
        has_fixed_teams = teams == "fixed"
        # Not imported here: a module that is being imported has not all of its names yet.
        control: Any = sys.modules.get("threadpoolctl")
        if hasattr(control, "threadpool_limits"):
            pools = [pool for pool in control.threadpool_info() if pool["user_api"] == "blas" or not _is_adapted(pool, teams)]
            for pool in pools:
                self._names[pool["filepath"]] = pool["internal_api"]
            now = {pool["filepath"]: pool["num_threads"] for pool in pools}
            paths = self._unchanged(now)
            control.threadpool_limits(limits={path: count for path in paths})
            # As it is in force: a library may take fewer.
            now = {pool["filepath"]: pool["num_threads"] for pool in control.threadpool_info()}
            self._set.update((path, now[path]) for path in paths)
        torch: Any = sys.modules.get("torch")
        if has_fixed_teams and hasattr(torch, "set_num_threads") and hasattr(torch, "get_num_threads"):
            self._names["torch"] = "torch"
            if self._unchanged({"torch": torch.get_num_threads()}):
                torch.set_num_threads(count)
                self._set["torch"] = count

    def _unchanged(self, now: dict[str, int]) -> list[str]:
        """Those that have the number that was set here last, if any was."""
        for name, number in now.items():
            self._before.setdefault(name, number)
        return [name for name, number in now.items() if self._set.get(name, number) == number]

    def stop(self) -> None:
        """Ends this; libraries get the numbers that they had before."""
        if not self._is_active:
            return
        self._is_active = False
        self._end()
        Following._current = None
        if self._joblib_before is None:
            os.environ.pop(_JOBLIB, None)
        else:
            os.environ[_JOBLIB] = self._joblib_before
        torch_before = self._before.pop("torch", None)
        if torch_before is not None:
            sys.modules["torch"].set_num_threads(torch_before)
        if self._before:
            sys.modules["threadpoolctl"].threadpool_limits(limits=self._before)

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        self._is_active = True
        Following._current = self
        self._end = on_change(self._have_applied)
        self.apply()

    def _have_applied(self, _count: int) -> None:
        """Runs in the thread that waits for changes. The interpreter's queue has room for 32 calls of all modules."""
        if not self._is_due:
            self._is_due = True
            while self._is_active and _ADD_PENDING_CALL(_APPLY, None) != 0:
                time.sleep(0.1)


def _apply(_: Optional[int]) -> int:
    current = Following.current()
    if current is not None:
        try:
            current.apply()
        except Exception:
            sys.excepthook(*sys.exc_info())
    return 0


_Call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
#: For the life of the process, as the interpreter may still call it.
_APPLY = _Call(_apply)
_ADD_PENDING_CALL = ctypes.pythonapi.Py_AddPendingCall
_ADD_PENDING_CALL.argtypes = [_Call, ctypes.c_void_p]


def follow(most: Optional[int] = None) -> Following:
    """Keep thread pools of libraries as large as the CPUs that the process has, at most ``most``.

    - BLAS (OpenBLAS, MKL, BLIS) and OpenMP, where threadpoolctl is installed (it comes with scikit-learn);
    - PyTorch: ``torch.set_num_threads``;
    - joblib and scikit-learn: what ``n_jobs=-1`` stands for; ``n_jobs=None`` and numbers keep their meaning.

    Numbers change when the main thread runs Python code, never within a call of a library. Polars, and others whose pool
    is made once, keep their size. Call this once, early; a second call replaces the first. Without mapper it does
    nothing.
    """
    if most is not None and most < 1:
        raise ValueError(f"most={most}: give at least 1")
    previous = Following.current()
    if previous is not None:
        previous.stop()
    following = Following(most)
    if LIBRARY.is_managed():
        # Here, since this is a moment at which the program may import.
        with contextlib.suppress(ImportError):
            importlib.import_module("threadpoolctl")
        following._start()
    return following
