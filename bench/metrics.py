"""What counting costs a chunk of a stream: the meter that every chunk passes, and the tap of telemetry where it is on.

    .venv/bin/python bench/metrics.py

The bar is 1 us for each chunk. Exits with 1 if it is not kept.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from aish.frontends.http.metrics.counters import Metrics, TurnMeter
from aish.telemetry.store_tap import Telemetry
from aish.types.events import Body, Event, StepStarted, TextDelta, TurnStarted, encode_events

CHUNKS = 200_000
RUNS = 7
BAR_US = 1.0


class Nothing:
    def add(self, lines: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def timed(action: Callable[[], None]) -> float:
    """Microseconds for each chunk, the median of several runs."""
    spent = []
    for _ in range(RUNS):
        began_s = time.perf_counter()
        action()
        spent.append((time.perf_counter() - began_s) / CHUNKS * 1e6)
    return statistics.median(spent)


def main() -> int:
    chunk = [Event("sess_1", "turn_1", 3, 1, TextDelta("word "), 1)]
    line = encode_events(chunk)
    meter = TurnMeter(Metrics())
    begun: list[Body] = [TurnStarted("up:model", ()), StepStarted("up:model"), TextDelta("x")]
    meter.observe([Event("sess_1", "turn_1", number, 1, body) for number, body in enumerate(begun, 1)])
    telemetry = Telemetry(Nothing, max_bytes=1 << 30)  # so that every chunk is taken

    def loop() -> None:
        for _ in range(CHUNKS):
            pass

    def count() -> None:
        for _ in range(CHUNKS):
            meter.observe(chunk)

    def tap() -> None:
        for _ in range(CHUNKS):
            telemetry.put(line)

    empty_us = timed(loop)
    costs = {"counted": timed(count) - empty_us, "tapped": timed(tap) - empty_us}
    telemetry.close()
    for name, cost_us in costs.items():
        sys.stdout.write(f"{name:<8} {cost_us:.3f} us a chunk (at most {BAR_US:g})\n")
    return 0 if all(cost_us <= BAR_US for cost_us in costs.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
