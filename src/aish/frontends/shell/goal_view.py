"""Shows work towards a goal on a terminal: its steps, and the halts at which the user decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aish.autonomy.state import Show
from aish.frontends.shell.approvals.call_view import call_text, read_edited_arguments
from aish.frontends.shell.prompt.line_reader import AnswerReader, drop_typed_ahead
from aish.frontends.shell.render.event_printer import EventPrinter
from aish.frontends.terminal import Output
from aish.types.events import ToolResult
from aish.types.messages import text_of
from aish.types.runs import Halt, HaltAnswer, HaltChoice, HaltKind, RunRecord, RunState, StepRecord, StepState

_CHOICES = {"p": HaltChoice.PROCEED, "s": HaltChoice.SKIP, "e": HaltChoice.EDIT, "a": HaltChoice.ABORT}
_MENUS = {
    HaltKind.EFFECT: "[p]roceed, [s]kip, [e]dit, [a]bort, [l]eave it halted: ",
    HaltKind.PAUSE: "[p]roceed, [a]bort, [l]eave it halted: ",
    HaltKind.SKIPS: "what to do instead? [a]bort: ",
    HaltKind.TROUBLE: "[p]roceed to try again, [a]bort, [l]eave it halted: ",
}
_SHOWN_CHARS = 2000
RESUME_COMMAND = "aish runs resume"


class TerminalWatcher:
    """With `reader` None there is no user to ask, and a halt ends the work."""

    def __init__(self, output: Output, make_printer: Callable[[], EventPrinter], reader: AnswerReader | None) -> None:
        self._output = output
        self._make_printer = make_printer
        self._reader = reader

    def note(self, text: str) -> None:
        self._output.note(f"· {text}")

    @asynccontextmanager
    async def step(self, number: int, max_steps: int, cost: float) -> AsyncIterator[Show]:
        spent = f", ${cost:.4f} so far" if cost else ""
        self._output.note(f"── step {number} of {max_steps}{spent}")
        printer = self._make_printer()
        async with printer.waiting(f"step {number} of {max_steps}"):
            yield printer.show_all

    def show_command(self, command: str, result: ToolResult) -> None:
        self._output.note(f"$ {command}")
        text = text_of(result.parts)
        left_out = f"\n… {len(text) - _SHOWN_CHARS} more characters …" if len(text) > _SHOWN_CHARS else ""
        self._output.note(f"{text[:_SHOWN_CHARS].rstrip()}{left_out}\n[{result.status}]".lstrip())

    async def decide(self, halt: Halt) -> HaltAnswer:
        self._output.note(f"■ halted: {halt.reason}")
        if halt.question is not None:
            self._output.note(f"{halt.question.tool} would run:")
            self._output.note(call_text(halt.question))
        if self._reader is None:
            return HaltAnswer(HaltChoice.LEAVE)
        drop_typed_ahead()  # keys typed before the halt was shown do not answer it
        while True:
            line = await self._reader.read(_MENUS[halt.kind])
            if line is None:
                return HaltAnswer(HaltChoice.LEAVE)
            if answer := await self._parse_answer(halt, line.strip()):
                return answer

    async def _parse_answer(self, halt: Halt, typed: str) -> HaltAnswer | None:
        """None if the user has to be asked again."""
        word = typed.lower()
        if word in ("l", "leave"):
            return HaltAnswer(HaltChoice.LEAVE)
        choice = _CHOICES.get(word[:1]) if word in (*_CHOICES, "proceed", "skip", "edit", "abort") else None
        if halt.kind is HaltKind.SKIPS and typed and choice is not HaltChoice.ABORT:
            return HaltAnswer(HaltChoice.PROCEED, note=typed)
        if choice is None or (halt.question is None and choice in (HaltChoice.SKIP, HaltChoice.EDIT)):
            return None
        if choice is HaltChoice.EDIT:
            assert halt.question is not None and self._reader is not None
            arguments = await read_edited_arguments(halt.question, self._reader, self._output)
            return HaltAnswer(choice, arguments=arguments) if arguments is not None else None
        return HaltAnswer(choice)


def report_lines(run: RunRecord, steps: list[StepRecord], *, resume_command: str = RESUME_COMMAND) -> list[str]:
    """How the run ended, what was done, and how to resume it."""
    lines = [f"{run.state}: {run.reason}" if run.reason else run.state.value]
    for state, words in (
        (StepState.DONE, "done"),
        (StepState.FAILED, "failed"),
        (StepState.UNKNOWN, "may or may not have been done"),
        (StepState.INTENT, "under way when it ended"),
    ):
        lines += [f"  {words}: {_call(step)}" for step in steps if step.state is state and step.effect != "read"]
    if run.state in (RunState.HALTED, RunState.RUNNING):
        lines.append(f"  go on with: {resume_command} {run.id}")
    return lines


def _call(step: StepRecord) -> str:
    arguments = step.arguments.decode("utf-8", "replace")
    return f"{step.tool} {arguments if len(arguments) <= 200 else f'{arguments[:199]}…'}"
