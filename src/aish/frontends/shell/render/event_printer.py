"""Prints the events of a turn, and keeps what decides the exit code. Here as plain text or JSON; `reply` draws
Markdown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from aish.engine.engine import Engine
from aish.frontends.shell.render.styles import DisplayOptions, columns_of
from aish.frontends.shell.render.wait_line import Ticker, WaitLine
from aish.frontends.terminal import Output
from aish.ports import Ask
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
from aish.types.requests import TurnRequest
from aish.types.tools import ResultStatus

if TYPE_CHECKING:
    from aish.tool_calls.detect.proposals import AnswerBlock

ANSWERED, REFUSED, PROVIDER_FAILED, LIMIT_REACHED, INTERRUPTED = 0, 3, 4, 5, 130
_REFUSALS = (ResultStatus.REFUSED, ResultStatus.NOT_ALLOWED)
# One line of a call or a result is enough to follow along; the whole is in the session.
_FRAME_CHARS = 200


def printer_for(output: Output, display: DisplayOptions) -> EventPrinter:
    """Draws Markdown on a terminal, and passes text through unchanged where a program reads it."""
    if not display.live:
        return EventPrinter(output)
    from aish.frontends.shell.render.reply import ReplyPrinter

    return ReplyPrinter(output, display)


async def print_turn(engine: Engine, request: TurnRequest, printer: EventPrinter, ask: Ask | None) -> None:
    """Runs one turn and prints its events as they arrive."""
    async with (
        printer.waiting(f"waiting for {request.model or 'a model'}"),
        engine.turn(request, ask=ask) as batches,
    ):
        async for events in batches:
            printer.show_all(events)


class EventPrinter:
    """Plain text: the answer to stdout, everything else to stderr."""

    def __init__(self, output: Output, wait: WaitLine | None = None) -> None:
        self.output = output
        self.end: TurnEnd | None = None
        self.has_refused = False
        self.blocks: Sequence[AnswerBlock] = ()  # as numbered on the screen
        self.session = ""
        self._wait = wait or WaitLine(output, columns_of(sys.stderr))

    def waiting(self, subject: str) -> AbstractAsyncContextManager[object]:
        """The context in which a turn is shown: it shows what is waited for until the first event."""
        self._wait.set_subject(subject)
        return Ticker(self._wait, self.on_turn_over)

    def on_turn_over(self) -> None:
        """Called when the turn is over or has been left. Plain text holds nothing back."""

    def show_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self.show(event)

    def show_text(self, text: str) -> None:
        """Shows a text as an answer."""
        self.show(Event("", "", 0, 0, TextDelta(text)))
        self.on_turn_over()
        self.output.end_line()

    @property
    def exit_code(self) -> int:
        if self.end is TurnEnd.FAILED:
            return PROVIDER_FAILED
        if self.end in LIMIT_ENDS:
            return LIMIT_REACHED
        if self.end in (TurnEnd.CANCELLED, TurnEnd.INTERRUPTED, None):
            return INTERRUPTED
        return REFUSED if self.has_refused else ANSWERED

    def show(self, event: Event) -> None:
        self._end_wait(event)
        self._record(event)
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

    def _record(self, event: Event) -> None:
        self.session = event.session
        if isinstance(event.body, ToolResult) and event.body.status in _REFUSALS:
            self.has_refused = True
        if isinstance(event.body, TurnFinished):
            self.end = event.body.reason

    def _end_wait(self, event: Event) -> None:
        if not isinstance(event.body, TurnStarted | StepStarted):
            self._wait.clear()


class JsonEventPrinter(EventPrinter):
    """Every event as one line of JSON."""

    def show(self, event: Event) -> None:
        self._end_wait(event)
        self._record(event)
        self.output.line(encode_event(event).decode())


def _result_line(result: ToolResult) -> str:
    mark = "←" if result.status is ResultStatus.OK else "✗"
    return f"{mark} {_one_line(text_of(result.parts))} ({result.duration_ms:.0f} ms)"


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _FRAME_CHARS else f"{flat[: _FRAME_CHARS - 1]}…"
