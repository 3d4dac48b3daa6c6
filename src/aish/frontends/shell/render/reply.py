"""Prints a reply on a terminal: text as Markdown, tool calls as frames, and a line that says what is waited for.

Output stays where it is, also if the turn is stopped: leaving `waiting` prints everything that was held back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from aish.frontends.shell.render.event_printer import EventPrinter
from aish.frontends.shell.render.markdown.renderer import Highlighter, Markdown
from aish.frontends.shell.render.markdown.wrap import Wrap
from aish.frontends.shell.render.styles import DIM, PLAIN, DisplayOptions, StyledBuffer, columns_of
from aish.frontends.shell.render.tool_frames import (
    Frame,
    RunningCalls,
    call_frame,
    changes_frame,
    failure_frame,
    fit_on_one_line,
    format_duration,
    plan_frame,
    result_frame,
)
from aish.frontends.shell.render.wait_line import WRITING_PATIENCE_S, WaitLine
from aish.frontends.terminal import Output, visible
from aish.tool_calls.detect.proposals import BlockScanner
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
    ToolOutputDelta,
    ToolResult,
    TurnFinished,
    TurnStarted,
    UsageReported,
)


class ReasoningText:
    """Prints reasoning in full: dim and wrapped. It is not parsed as Markdown, so that nothing is held back."""

    def __init__(self, write: Callable[[str], None], columns: Callable[[], int], *, styled: bool) -> None:
        self._write = write
        self._style = DIM if styled else PLAIN
        self._buffer = StyledBuffer()
        self._wrap = Wrap(self._buffer, columns)

    def feed(self, text: str) -> None:
        lines = visible(text).replace("\t", "    ").split("\n")
        for line in lines[:-1]:
            self._wrap.text(line, self._style)
            self._wrap.newline()
        self._wrap.text(lines[-1], self._style)
        self._flush()

    def close(self) -> None:
        self._wrap.finish()
        self._buffer.plain()
        self._flush()

    def _flush(self) -> None:
        if text := self._buffer.take():
            self._write(text)


class ReplyPrinter(EventPrinter):
    def __init__(
        self,
        output: Output,
        display: DisplayOptions,
        *,
        columns: Callable[[], int] | None = None,
        wait: WaitLine | None = None,
    ) -> None:
        self._columns = columns or columns_of(output.out)
        super().__init__(output, wait or WaitLine(output, self._columns))
        self._display = display
        scanner = BlockScanner() if display.numbered else None
        self.blocks = scanner.blocks if scanner else ()
        self._markdown = Markdown(
            output.write_safe, self._columns, find_highlighter=self._find_highlighter, blocks=scanner
        )
        self._reasoning = ReasoningText(output.write_safe, self._columns, styled=display.styled)
        self._is_thinking = False
        self._calls = RunningCalls()
        self._result_count = 0
        self._framed_call = ""  # the call whose frame, or question, was shown last
        self._asked: set[str] = set()  # the calls whose questions have shown what they change
        if display.styled:
            self._wait.set_stall_handler(self._show_held_word)

    def show(self, event: Event) -> None:
        self.show_all((event,))

    def show_all(self, events: Sequence[Event]) -> None:
        """Prints a batch of events. Consecutive text is written at once."""
        text: list[str] = []
        for event in events:
            self._record(event)
            if isinstance(event.body, TextDelta):
                text.append(event.body.text)
                continue
            if text:
                self._show_text("".join(text))
                text.clear()
            self._show_other(event)
        if text:
            self._show_text("".join(text))

    def on_turn_over(self) -> None:
        self._flush()

    def _flush(self) -> None:
        """Prints what was held back and ends the line. More may follow."""
        self._wait.wipe()
        self._end_thinking()
        self._markdown.close()
        self.output.end_line()

    def _show_text(self, text: str) -> None:
        self._wait.wipe()
        self._end_thinking()
        self._framed_call = ""
        if self._display.styled:
            self._markdown.feed(text)
        else:
            self.output.answer(text)
        self._wait.set_subject("writing", patience_s=WRITING_PATIENCE_S)

    def _show_other(self, event: Event) -> None:
        match event.body:
            case ReasoningDelta(text):
                self._show_reasoning(text)
            case TurnStarted(model=model) | StepStarted(model=model):
                self._flush()
                self._wait.set_subject(f"waiting for {model or 'a model'}")
            case ToolCallStarted(name=name):
                self._flush()
                self._wait.set_subject(f"calling {name}")
            case ArgumentsDelta():
                self._wait.count()
            case ToolCallReady(name, arguments):
                self._show_call(event.call, name, arguments)
            case ToolResult() as result:
                self._show_result(event.call, result)
            case DecisionAsked():
                self._hand_over(event.call)
            case ToolOutputDelta(text):
                self._show_output(event.call, text)
            case DecisionMade():
                self._wait_for_calls()
            case Status(text) | Halted(text):
                self._show_frame([[(f"· {text}", DIM)]])
            case Failed() as failed:
                self._show_frame(failure_frame(failed))
            case TurnFinished():
                self._flush()
                self._wait.clear()
            case PlanAccepted(plan):
                self._show_frame(plan_frame(plan, self._columns()))
            case PlanRejected(errors):
                why = fit_on_one_line(errors[0], self._columns() - 30)
                self._show_frame([[(f"· the plan cannot be run: {why}", DIM)]])
                self._wait.set_subject("planning again")
            case PlanProposed() | PlanStepStarted() | PlanStepFinished() | UsageReported() | TextDelta():
                pass  # the steps of a plan are shown by their calls
            case _ as never:
                assert_never(never)

    def _show_reasoning(self, text: str) -> None:
        if not self._is_thinking:
            self._flush()
            self._is_thinking = True
        self._wait.set_subject("thinking")
        self._wait.count()
        if self._display.reasoning == "show":
            self._wait.wipe()
            self._reasoning.feed(text)

    def _end_thinking(self) -> None:
        if not self._is_thinking:
            return
        self._is_thinking = False
        if self._display.reasoning == "show":
            self._reasoning.close()
        elif self._display.reasoning == "fold":
            self.output.note(f"∴ thought for {format_duration(self._wait.waited_s)}")

    def _show_call(self, call: str, name: str, arguments: str) -> None:
        self._calls.begin(call, name, arguments)
        self._show_frame(call_frame(name, arguments, self._columns()))
        self._framed_call = call
        self._wait_for_calls()

    def _show_result(self, call: str, result: ToolResult) -> None:
        arguments = self._calls.end(call)
        changes = None if call in self._asked else changes_frame(arguments, self._columns())
        self._result_count += 1
        self._show_frame(
            result_frame(
                result,
                self._columns(),
                call=None if call == self._framed_call else arguments,
                number=self._result_count if self._display.numbered else 0,
                changes=changes,
            )
        )
        self._wait_for_calls()

    def _wait_for_calls(self) -> None:
        if names := self._calls.names:
            self._wait.set_subject(fit_on_one_line(names, self._columns() // 2))
            self._wait.set_tail(self._calls.tail(self._columns()))
        else:
            self._wait.clear()

    def _hand_over(self, call: str) -> None:
        """The user is asked about the call, and answers here."""
        self._flush()
        self._wait.clear()
        self._framed_call = call
        self._asked.add(call)

    def _show_output(self, call: str, text: str) -> None:
        self._calls.add_output(call, text)
        self._wait.set_tail(self._calls.tail(self._columns()))

    def _show_held_word(self) -> int | None:
        return None if self._is_thinking else self._markdown.show_held_word()

    def _show_frame(self, frame: Frame) -> None:
        self._flush()
        self._framed_call = ""
        for line in frame:
            self.output.styled_note(line)

    def _find_highlighter(self, language: str) -> Highlighter | None:
        if not self._display.highlight:
            return None
        from aish.frontends.shell.render.highlight.highlighter import find_highlighter

        return find_highlighter(language)
