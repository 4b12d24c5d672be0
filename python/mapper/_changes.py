"""Callbacks for changes, from one thread that waits for them."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable

from ._library import LIBRARY

#: The longest wait before the thread sees that no callback is left.
_SLICE_S = 1.0


class _Watch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[int], Any]] = {}
        self._is_running = False

    def add(self, key: object, callback: Callable[[int], Any]) -> None:
        with self._lock:
            self._callbacks[key] = callback
            if not self._is_running:
                self._is_running = True
                since = LIBRARY.generation()
                threading.Thread(target=self._watch, args=(since,), name="mapper", daemon=True).start()

    def remove(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    def _watch(self, known: int) -> None:
        while True:
            changed = LIBRARY.wait(known, _SLICE_S)
            with self._lock:
                if not self._callbacks:
                    self._is_running = False
                    return
                callbacks = list(self._callbacks.values())
            if not changed:
                continue
            known, count = LIBRARY.generation(), LIBRARY.cpu_count()
            for callback in callbacks:
                try:
                    callback(count)
                except Exception:
                    sys.excepthook(*sys.exc_info())


_WATCH = _Watch()


def _begin_anew() -> None:
    global _WATCH
    _WATCH = _Watch()


# A child has no other thread than the one that forked, and perhaps a lock that will never be released.
os.register_at_fork(after_in_child=_begin_anew)


def on_change(callback: Callable[[int], Any]) -> Callable[[], None]:
    """Have ``callback(count)`` called with the number of CPUs after each change; return a function that ends this.

    It is called from a thread of its own. An exception is printed, and the next change is reported all the same. It is
    not called in forked children, and never without mapper.
    """
    key = object()
    if LIBRARY.is_managed():
        _WATCH.add(key, callback)
    return lambda: _WATCH.remove(key)
