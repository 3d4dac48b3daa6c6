"""From what happened to a line to what is said of it."""

from __future__ import annotations

from aish.tools.bash.capture import OutputCapture
from aish.tools.bash.process import Life
from aish.types.live_shell import RunEnd, RunResult

_TITLE_CHARACTERS = 60


def result_of(life: Life, line: str, capture: OutputCapture, end: RunEnd, typed_ahead: bytes = b"") -> RunResult:
    capture.finish()
    status = life.status.code
    if life.gone.is_set():
        code = life.returncode or 0
        status = code if code >= 0 else 128 - code
        end = RunEnd.EXITED if code >= 0 else RunEnd.LOST
    return RunResult(
        line=line,
        status=status,
        cwd=life.status.cwd,
        duration_s=life.duration_s,
        output=capture.text(title_of(line), status),
        end=end,
        total_bytes=capture.total_bytes,
        left_out_bytes=capture.left_out_bytes,
        full_screen=capture.screen.used_full_screen,
        binary=capture.binary,
        jobs=life.status.jobs,
        typed_ahead=typed_ahead.decode("utf-8", "replace"),
    )


def title_of(line: str) -> str:
    """Its beginning, for a program that used the whole screen."""
    first, *more = line.strip().splitlines() or [""]
    cut = first[:_TITLE_CHARACTERS]
    return cut + ("…" if more or cut != first else "")
