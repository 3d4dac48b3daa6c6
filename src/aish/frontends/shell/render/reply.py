"""A reply on a terminal: the events of a turn as markdown, quiet frames and a line that says what is waited for.

What is shown stays where it is, also when the turn is stopped half-way: leaving `waiting` shows all that was held back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import assert_never

from aish.frontends.shell.render.event_printer import Narrator
from aish.frontends.shell.render.markdown.code import Highlighter
from aish.frontends.shell.render.markdown.renderer import Markdown
from aish.frontends.shell.render.reasoning import ReasoningText
from aish.frontends.shell.render.styles import DIM, Look, columns_of
from aish.frontends.shell.render.tool_frames import (
    Frame,
    call_frame,
    duration,
    failure_frame,
    one_line,
    plan_frame,
    result_frame,
)
from aish.frontends.shell.render.wait_line import WRITING_PATIENCE_S, Ticking, WaitLine
from aish.frontends.terminal import Output
from aish.types.events import (
    ArgumentsDelta,
    DecisionAsked,
    DecisionMade,
    Event,
    Failed,
    Halted,
    PlanAccepted,
    PlanProposed,
    PlanRejected,
    PlanStepFinished,
    PlanStepStarted,
    ReasoningDelta,
    Status,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    TurnFinished,
    TurnStarted,
    UsageReported,
)


class Reply(Narrator):
    def __init__(
        self,
        output: Output,
        look: Look,
        *,
        columns: Callable[[], int] | None = None,
        wait: WaitLine | None = None,
    ) -> None:
        super().__init__(output)
        self._look = look
        self._columns = columns or columns_of(output.out)
        self._wait = wait or WaitLine(output, self._columns)
        self._markdown = Markdown(output.shown, self._columns, find_highlighter=self._highlighter)
        self._reasoning = ReasoningText(output.shown, self._columns, styled=look.styled)
        self._thinking = False
        self._calls: dict[str, str] = {}  # those under way: id and name
        self._framed = ""  # the call whose frame was the last thing shown

    def waiting(self, subject: str) -> AbstractAsyncContextManager[object]:
        self._wait.waits_for(subject)
        return Ticking(self._wait, self.close)

    def show(self, event: Event) -> None:
        self.show_all((event,))

    def show_all(self, events: Sequence[Event]) -> None:
        """Text that comes together is written together."""
        text: list[str] = []
        for event in events:
            self._keep(event)
            if isinstance(event.body, TextDelta):
                text.append(event.body.text)
                continue
            if text:
                self._text("".join(text))
                text.clear()
            self._other(event)
        if text:
            self._text("".join(text))

    def close(self) -> None:
        """What was held back is shown, and the line ended. More may follow."""
        self._wait.wipe()
        self._end_thinking()
        self._markdown.close()
        self.output.end_line()

    def _text(self, text: str) -> None:
        self._wait.wipe()
        self._end_thinking()
        self._framed = ""
        if self._look.styled:
            self._markdown.feed(text)
        else:
            self.output.answer(text)
        self._wait.waits_for("writing", patience_s=WRITING_PATIENCE_S)

    def _other(self, event: Event) -> None:
        match event.body:
            case ReasoningDelta(text):
                self._think(text)
            case TurnStarted(model=model) | StepStarted(model=model):
                self.close()
                self._wait.waits_for(f"waiting for {model or 'a model'}")
            case ToolCallStarted(name=name):
                self.close()
                self._wait.waits_for(f"calling {name}")
            case ArgumentsDelta():
                self._wait.count()
            case ToolCallReady(name, arguments):
                self._call(event.call, name, arguments)
            case ToolResult() as result:
                self._result(event.call, result)
            case DecisionAsked():
                self.close()
                self._wait.rest()  # a person is asked, and answers here
                self._framed = ""
            case DecisionMade():
                self._wait_for_calls()
            case Status(text) | Halted(text):
                self._frame([[(f"· {text}", DIM)]])
            case Failed() as failed:
                self._frame(failure_frame(failed))
            case TurnFinished():
                self.close()
                self._wait.rest()
            case PlanAccepted(plan):
                self._frame(plan_frame(plan, self._columns()))
            case PlanRejected(errors):
                self._frame([[(f"· the plan cannot be run: {one_line(errors[0], self._columns() - 30)}", DIM)]])
                self._wait.waits_for("planning again")
            case PlanProposed() | PlanStepStarted() | PlanStepFinished():
                pass  # the calls themselves are shown
            case UsageReported() | TextDelta():
                pass
            case _ as never:
                assert_never(never)

    def _think(self, text: str) -> None:
        if not self._thinking:
            self.close()
            self._thinking = True
        self._wait.waits_for("thinking")
        self._wait.count()
        if self._look.reasoning == "show":
            self._wait.wipe()
            self._reasoning.feed(text)

    def _end_thinking(self) -> None:
        if not self._thinking:
            return
        self._thinking = False
        if self._look.reasoning == "show":
            self._reasoning.close()
        elif self._look.reasoning == "fold":
            self.output.note(f"∴ thought for {duration(self._wait.waited_s)}")

    def _call(self, call: str, name: str, arguments: str) -> None:
        self._calls[call] = name
        self._frame(call_frame(name, arguments, self._columns()))
        self._framed = call
        self._wait_for_calls()

    def _result(self, call: str, result: ToolResult) -> None:
        self._calls.pop(call, None)
        self._frame(result_frame(result, self._columns(), named=call != self._framed))
        self._wait_for_calls()

    def _wait_for_calls(self) -> None:
        if self._calls:
            self._wait.waits_for(one_line(", ".join(self._calls.values()), self._columns() // 2))
        else:
            self._wait.rest()

    def _frame(self, frame: Frame) -> None:
        self.close()
        self._framed = ""
        for line in frame:
            self.output.aside(line)

    def _highlighter(self, language: str) -> Highlighter | None:
        if not self._look.highlight:
            return None
        from aish.frontends.shell.render.highlight.highlighter import find_highlighter

        return find_highlighter(language)
