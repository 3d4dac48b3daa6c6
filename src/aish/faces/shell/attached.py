"""What the person ran, for the model to see: goes along with the next real question, once."""

from __future__ import annotations

from aish.types.live_shell import RunEnd, RunResult

_MAX_RUNS = 20


class Attached:
    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._runs: list[RunResult] = []

    def add(self, run: RunResult) -> None:
        self._runs = [*self._runs[1 - _MAX_RUNS :], run]

    @property
    def last(self) -> RunResult | None:
        return self._runs[-1] if self._runs else None

    def clear(self) -> None:
        self._runs = []

    def take(self) -> str:
        """For the model; "" if nothing was run since. The newest gets the most room."""
        runs, self._runs = self._runs, []
        left = self._max_chars
        told: list[str] = []
        for run in reversed(runs):
            if left <= 0:
                told.append(f"[earlier: {len(runs) - len(told)} more commands]")
                break
            text = describe(run, left)
            left -= len(text)
            told.append(text)
        return "\n\n".join(reversed(told))


def describe(run: RunResult, max_chars: int) -> str:
    head = f"[I ran] $ {run.line}\n[exit {run.status}]"
    if run.end is RunEnd.LOST:
        head += " (the shell was killed)"
    output = run.output.strip("\n")
    return f"{head}\n{_cut(output, max_chars)}" if output else head


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    head = max_chars * 2 // 3
    tail = max_chars - head
    return f"{text[:head]}\n[… {len(text) - max_chars} characters left out …]\n{text[len(text) - tail :]}"
