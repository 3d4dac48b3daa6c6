"""What the person ran, for the model to see: goes along with the next real question, once."""

from __future__ import annotations

from aish.types.live_shell import RAN_MARK, RunEnd, RunResult

_MAX_PIECES = 20


class Attached:
    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._pieces: list[RunResult | str] = []

    def add(self, run: RunResult) -> None:
        self._pieces = [*self._pieces[1 - _MAX_PIECES :], run]

    def tell(self, text: str) -> None:
        """Something else the model should know, such as what another one answered."""
        self._pieces = [*self._pieces[1 - _MAX_PIECES :], text]

    @property
    def last(self) -> RunResult | None:
        return next((piece for piece in reversed(self._pieces) if isinstance(piece, RunResult)), None)

    def clear(self) -> None:
        self._pieces = []

    def peek(self) -> str:
        """For the model; "" if nothing was run since. The newest gets the most room."""
        left = self._max_chars
        if not left:
            return ""
        told: list[str] = []
        for piece in reversed(self._pieces):
            if left <= 0:
                told.append(f"[earlier: {len(self._pieces) - len(told)} more commands]")
                break
            text = _cut(piece, left) if isinstance(piece, str) else describe(piece, left)
            left -= len(text)
            told.append(text)
        return "\n\n".join(reversed(told))


def describe(run: RunResult, max_chars: int) -> str:
    head = f"{RAN_MARK} $ {run.line}\n[exit {run.status}]"
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
