"""Shows how far a run has come: a moving line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aish.frontends.eval.results import Result
from aish.frontends.eval.runner import Plan
from aish.frontends.terminal import Output

# Lines in a log of a whole run, where nothing can move.
_LINES = 20


class Watch:
    def __init__(self, output: Output, plan: Plan) -> None:
        self._output = output
        self._total = plan.total
        self._every = max(1, plan.total // _LINES)
        self._seen: Counter[str] = Counter()
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_progress()

    def heard(self, results: list[Result]) -> Callable[[Result], None]:
        """Keeps each result and shows it."""

        def hear(result: Result) -> None:
            results.append(result)
            self._seen[result.outcome] += 1
            line = self._line(result)
            self._output.progress(line)
            if not sys.stderr.isatty() and (len(results) % self._every == 0 or len(results) == self._total):
                self._output.note(line)

        return hear

    def _line(self, result: Result) -> str:
        done = self._seen.total()
        left_s = (time.monotonic() - self._started) / done * (self._total - done)
        errors = f", {self._seen['error']} errors" if self._seen["error"] else ""
        return (
            f"{done}/{self._total}  {result.suite} · {result.model} · {result.mode}  "
            f"{self._seen['right']} right, {self._seen['wrong']} wrong{errors}  {_clock(left_s)} left"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
