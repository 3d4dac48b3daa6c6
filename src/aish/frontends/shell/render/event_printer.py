"""Shows a turn's events on a terminal, and keeps what decides the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from aish.frontends.shell.render.spinner import Waiting
from aish.frontends.shell.render.styles import Look
from aish.frontends.terminal import Output
from aish.types.events import (
    LIMIT_ENDS,
    Event,
    Failed,
    Halted,
    PlanAccepted,
    PlanRejected,
    Status,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    encode_event,
)
from aish.types.messages import text_of
from aish.types.tools import ResultStatus

ANSWERED, REFUSED, PROVIDER_FAILED, LIMIT_REACHED, INTERRUPTED = 0, 3, 4, 5, 130
_REFUSALS = (ResultStatus.REFUSED, ResultStatus.NOT_ALLOWED)
# One line of a call or a result is enough to follow along; the whole is in the session.
_FRAME_CHARS = 200


def narrator_for(output: Output, look: Look) -> Narrator:
    """Markdown is drawn where somebody watches, and passed on as it is where a program reads."""
    if not look.live:
        return Narrator(output)
    from aish.frontends.shell.render.reply import Reply

    return Reply(output, look)


class Narrator:
    """Plain text to stdout, what surrounds it to stderr."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.end: TurnEnd | None = None
        self.refused = False
        self.session = ""
        self._waiting: Waiting | None = None

    def waiting(self, subject: str) -> AbstractAsyncContextManager[object]:
        """To be inside of while a turn is shown: there is a sign of life until something is."""
        self._waiting = Waiting(self.output, subject)
        return self._waiting

    def show_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self.show(event)

    @property
    def exit_code(self) -> int:
        if self.end is TurnEnd.FAILED:
            return PROVIDER_FAILED
        if self.end in LIMIT_ENDS:
            return LIMIT_REACHED
        if self.end in (TurnEnd.CANCELLED, TurnEnd.INTERRUPTED, None):
            return INTERRUPTED
        return REFUSED if self.refused else ANSWERED

    def show(self, event: Event) -> None:
        self._keep(event)
        match event.body:
            case TextDelta(text):
                self.output.answer(text)
            case ToolCallReady(name, arguments):
                self.output.note(f"→ {name} {_one_line(arguments)}")
            case ToolResult() as result:
                self.output.note(_result_line(result))
            case Status(text) | Halted(text):
                self.output.note(f"· {text}")
            case Failed() as failed:
                hint = f"\n  {failed.hint}" if failed.hint else ""
                self.output.note(f"aish: {failed.message}{hint}")
            case TurnFinished():
                self.output.end_line()
            case PlanAccepted(plan):
                steps = ", ".join(f"{step['id']}: {step['tool']}" for step in plan["steps"])
                self.output.note(f"· the plan: {steps}")
            case PlanRejected(errors):
                self.output.note(f"· the plan cannot be run: {_one_line(errors[0])}")
            case _:
                pass  # the steps of a plan are shown by their calls

    def _keep(self, event: Event) -> None:
        self.session = event.session
        if self._waiting and not isinstance(event.body, TurnStarted | StepStarted):
            self._waiting.over()
        if isinstance(event.body, ToolResult) and event.body.status in _REFUSALS:
            self.refused = True
        if isinstance(event.body, TurnFinished):
            self.end = event.body.reason


class JsonNarrator(Narrator):
    """Every event as one line of JSON."""

    def show(self, event: Event) -> None:
        self._keep(event)
        self.output.line(encode_event(event).decode())


def _result_line(result: ToolResult) -> str:
    mark = "←" if result.status is ResultStatus.OK else "✗"
    return f"{mark} {_one_line(text_of(result.parts))} ({result.duration_ms:.0f} ms)"


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _FRAME_CHARS else f"{flat[: _FRAME_CHARS - 1]}…"
