"""Shows the progress of a run: a moving line on a terminal, elsewhere a line from time to time."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aish.frontends.eval.results import Result
from aish.frontends.eval.runner import EvalPlan
from aish.frontends.terminal import Output

# Lines for a whole run if the output is no terminal.
_LINES = 20


class EvalProgress:
    def __init__(self, output: Output, plan: EvalPlan) -> None:
        self._output = output
        self._total = plan.total
        self._every = max(1, plan.total // _LINES)
        self._outcomes: Counter[str] = Counter()
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_progress()

    def collector(self, results: list[Result]) -> Callable[[Result], None]:
        """A function that takes each result, stores it and shows the progress."""

        def collect(result: Result) -> None:
            results.append(result)
            self._outcomes[result.outcome] += 1
            line = self._line(result)
            self._output.progress(line)
            if not sys.stderr.isatty() and (len(results) % self._every == 0 or len(results) == self._total):
                self._output.note(line)

        return collect

    def _line(self, result: Result) -> str:
        done = self._outcomes.total()
        left_s = (time.monotonic() - self._started) / done * (self._total - done)
        errors = f", {self._outcomes['error']} errors" if self._outcomes["error"] else ""
        return (
            f"{done}/{self._total}  {result.suite} · {result.model} · {result.mode}  "
            f"{self._outcomes['right']} right, {self._outcomes['wrong']} wrong{errors}  {_clock(left_s)} left"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
