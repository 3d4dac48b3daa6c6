"""Shows the progress of a download: a moving bar on a terminal, elsewhere a line for each phase."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from aish.frontends.runtime import Progress
from aish.frontends.terminal import Output

_WIDTH = 24


class ProgressLine:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.end_progress()

    def show(self, progress: Progress) -> None:
        if progress.phase not in (self._phase, "done"):
            self._phase = progress.phase
            self._output.end_progress()
            self._output.note(f"· {progress.phase}")
        if progress.total:
            share = min(1.0, progress.done / progress.total)
            bar = "█" * int(share * _WIDTH)
            self._output.progress(f"  {bar:<{_WIDTH}} {share:4.0%}  {_size(progress.done)} of {_size(progress.total)}")
        elif progress.done:
            self._output.progress(f"  {_size(progress.done)}")


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
