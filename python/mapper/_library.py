"""libmapper, by ctypes; or nothing in its place, where there is none.

It is searched beside this file, in ``lib/mapper`` of the prefix that the package is installed in, and where the loader
looks. Not by an environment variable: what is loaded runs in this process.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Iterator, Optional

#: As `crates/client-c/soname` has it; a test compares them.
SONAME = "libmapper.so.0"

#: Bits of the set that is asked for; more CPUs than a kernel can have.
_SET_BYTES = 8192 // 8


def _places() -> Iterator[str]:
    package = Path(__file__).resolve().parent
    yield str(package / SONAME)
    # PREFIX/lib/python3.11/site-packages/mapper: only there, as folders further up may be anybody's.
    if package.parent.name in ("site-packages", "dist-packages") and len(package.parents) > 3:
        yield str(package.parents[3] / "lib" / "mapper" / SONAME)
    yield str(Path(sys.prefix) / "lib" / "mapper" / SONAME)
    yield SONAME


class Library:
    """The calls; each does nothing where there is no library."""

    def __init__(self) -> None:
        #: Why there is no library; empty if there is one.
        self.missing = ""
        self._calls: Optional[ctypes.CDLL] = None
        for place in _places():
            if "/" in place and not Path(place).is_file():
                continue
            try:
                calls = ctypes.CDLL(place)
                self._declare(calls)
            except (OSError, AttributeError) as error:
                self.missing = str(error)
                continue
            self._calls, self.missing = calls, ""
            break

    @staticmethod
    def _declare(calls: ctypes.CDLL) -> None:
        """Says which types the calls have, as `mapper.h` does."""
        number, seconds, pointer = ctypes.c_uint32, ctypes.c_double, ctypes.c_void_p
        for name, result, arguments in (
            ("is_managed", ctypes.c_int, []),
            ("cpu_count", number, []),
            ("generation", number, []),
            ("get_cpus", ctypes.c_int, [ctypes.c_size_t, pointer]),
            ("wait", ctypes.c_int, [number, seconds, pointer]),
            ("work_done", None, [seconds]),
            ("latency", None, [seconds]),
            ("declare_cpus", None, [number, number]),
            ("promise", ctypes.c_int, [seconds]),
            ("serial_begin", None, []),
            ("serial_end", None, []),
        ):
            call = getattr(calls, f"mapper_{name}")
            call.restype, call.argtypes = result, arguments

    def is_managed(self) -> bool:
        return self._calls is not None and bool(self._calls.mapper_is_managed())

    def cpu_count(self) -> int:
        return self._calls.mapper_cpu_count() if self._calls else 0

    def generation(self) -> int:
        return self._calls.mapper_generation() if self._calls else 0

    def cpu_set(self) -> frozenset[int]:
        bits = ctypes.create_string_buffer(_SET_BYTES)
        if not self._calls or not self._calls.mapper_get_cpus(_SET_BYTES, bits):
            return frozenset()
        number = int.from_bytes(bits.raw, "little")
        return frozenset(cpu for cpu in range(number.bit_length()) if number >> cpu & 1)

    def wait(self, generation: int, timeout_s: float) -> bool:
        return bool(self._calls and self._calls.mapper_wait(generation, timeout_s, None))

    def work_done(self, amount: float) -> None:
        if self._calls:
            self._calls.mapper_work_done(amount)

    def latency(self, seconds: float) -> None:
        if self._calls:
            self._calls.mapper_latency(seconds)

    def declare_cpus(self, least: int, most: int) -> None:
        if self._calls:
            self._calls.mapper_declare_cpus(least, most)

    def promise(self, share: float) -> int:
        """0, or a number of errno."""
        return self._calls.mapper_promise(share) if self._calls else 0

    def serial_begin(self) -> None:
        if self._calls:
            self._calls.mapper_serial_begin()

    def serial_end(self) -> None:
        if self._calls:
            self._calls.mapper_serial_end()


LIBRARY = Library()
