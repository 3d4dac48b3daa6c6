"""The two calls of counting.c, for Python. The library's path is in the environment of the counted process."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

LIBRARY = "BENCH_COUNTING"


class Counting:
    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[LIBRARY])

    def start(self) -> None:
        gc.collect()  # so that it is not due at another point each time
        self._library.counting_starts()

    def end(self, name: str) -> None:
        self._library.counting_ends(name.encode())

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        self.start()
        yield
        self.end(name)
