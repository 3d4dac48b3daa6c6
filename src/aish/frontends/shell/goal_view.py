"""Work towards a goal, watched on a terminal: its steps as they go, and the halts where a person decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aish.autonomy.state import Show
from aish.frontends.shell.approvals.call_view import edited_arguments, what_would_run
from aish.frontends.shell.prompt.line_reader import Lines, drop_typed_ahead
from aish.frontends.shell.render.event_printer import Narrator
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
GO_ON = "aish runs resume"


class TerminalWatcher:
    """`lines` None: nobody is there, and a halt is left as it is."""

    def __init__(self, output: Output, view: Callable[[], Narrator], lines: Lines | None) -> None:
        self._output = output
        self._view = view
        self._lines = lines

    def note(self, text: str) -> None:
        self._output.note(f"· {text}")

    @asynccontextmanager
    async def step(self, number: int, most: int, cost: float) -> AsyncIterator[Show]:
        spent = f", ${cost:.4f} so far" if cost else ""
        self._output.note(f"── step {number} of {most}{spent}")
        view = self._view()
        async with view.waiting(f"step {number} of {most}"):
            yield view.show_all

    def ran(self, command: str, result: ToolResult) -> None:
        self._output.note(f"$ {command}")
        text = text_of(result.parts)
        left_out = f"\n… {len(text) - _SHOWN_CHARS} more characters …" if len(text) > _SHOWN_CHARS else ""
        self._output.note(f"{text[:_SHOWN_CHARS].rstrip()}{left_out}\n[{result.status}]".lstrip())

    async def halt(self, halt: Halt) -> HaltAnswer:
        self._output.note(f"■ halted: {halt.reason}")
        if halt.question is not None:
            self._output.note(f"{halt.question.tool} would run:")
            self._output.note(what_would_run(halt.question))
        if self._lines is None:
            return HaltAnswer(HaltChoice.LEAVE)
        drop_typed_ahead()  # what was typed before the halt was seen is no answer to it
        while True:
            line = await self._lines.read(_MENUS[halt.kind])
            if line is None:
                return HaltAnswer(HaltChoice.LEAVE)
            if answer := await self._understood(halt, line.strip()):
                return answer

    async def _understood(self, halt: Halt, typed: str) -> HaltAnswer | None:
        """None: ask again."""
        word = typed.lower()
        if word in ("l", "leave"):
            return HaltAnswer(HaltChoice.LEAVE)
        choice = _CHOICES.get(word[:1]) if word in (*_CHOICES, "proceed", "skip", "edit", "abort") else None
        if halt.kind is HaltKind.SKIPS and typed and choice is not HaltChoice.ABORT:
            return HaltAnswer(HaltChoice.PROCEED, note=typed)
        if choice is None or (halt.question is None and choice in (HaltChoice.SKIP, HaltChoice.EDIT)):
            return None
        if choice is HaltChoice.EDIT:
            assert halt.question is not None and self._lines is not None
            arguments = await edited_arguments(halt.question, self._lines, self._output)
            return HaltAnswer(choice, arguments=arguments) if arguments is not None else None
        return HaltAnswer(choice)


def report(run: RunRecord, steps: list[StepRecord], *, go_on: str = GO_ON) -> list[str]:
    """How it ended: what was and what was not done; `go_on` is what takes it up again."""
    lines = [f"{run.state}: {run.reason}" if run.reason else run.state.value]
    for state, words in (
        (StepState.DONE, "done"),
        (StepState.FAILED, "failed"),
        (StepState.UNKNOWN, "nobody can tell whether this was done"),
        (StepState.INTENT, "under way when it ended"),
    ):
        lines += [f"  {words}: {_call(step)}" for step in steps if step.state is state and step.effect != "read"]
    if run.state in (RunState.HALTED, RunState.RUNNING):
        lines.append(f"  go on with: {go_on} {run.id}")
    return lines


def _call(step: StepRecord) -> str:
    arguments = step.arguments.decode("utf-8", "replace")
    return f"{step.tool} {arguments if len(arguments) <= 200 else f'{arguments[:199]}…'}"
