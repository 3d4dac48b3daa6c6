"""The system clock, as an implementation of the Clock port."""

from __future__ import annotations

import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    now_ns = staticmethod(time.time_ns)
    monotonic_s = staticmethod(time.monotonic)
