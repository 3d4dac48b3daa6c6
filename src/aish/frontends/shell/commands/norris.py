"""`aish norris GOAL` and `aish runs list|show|resume|abandon`: work towards a goal, shown on a terminal.

Exit codes of work: 0 the goal is reached, 3 it was given up, 4 the model could not be asked, 5 a limit was reached,
6 it halted and waits for a decision, 130 it was stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from aish.autonomy.destructive_check import Containment
from aish.autonomy.goal_worker import GoalWorker
from aish.autonomy.state import GoalState, Show
from aish.engine.engine import Engine
from aish.errors import RunNotFound, UsageError
from aish.frontends.long_runs import check_goal, make_goal_state, run_json, run_line
from aish.frontends.runtime import Runtime
from aish.frontends.shell.approvals.consent import TYPED_YES
from aish.frontends.shell.approvals.editor import read_edited_arguments
from aish.frontends.shell.approvals.question_view import show_call
from aish.frontends.shell.prompt.line_reader import AnswerReader, StdinReader
from aish.frontends.shell.render.event_printer import EventPrinter, printer_for
from aish.frontends.shell.render.styles import display_for, make_output
from aish.frontends.shell.setup import ensure_model, wait_for_tools
from aish.frontends.signals import INTERRUPTED, is_stopped_alone, on_interrupt, run_until_done
from aish.frontends.terminal import Output
from aish.planner.run import PlanBody, resume_request
from aish.runs.ownership import OwnedRun
from aish.types.decisions import Danger
from aish.types.events import ToolResult
from aish.types.messages import text_of
from aish.types.runs import (
    OPEN_STATES,
    Halt,
    HaltAnswer,
    HaltChoice,
    HaltKind,
    RunKind,
    RunRecord,
    RunState,
    StepRecord,
    StepState,
)
from aish.types.tools import ResultStatus

HALTED = 6
_RESUMED_WITHOUT_ANSWER = (HaltKind.MODEL_FAILED, HaltKind.PAUSE)  # there is nothing to decide
_EXIT_CODES = {
    RunState.FINISHED: 0,
    RunState.ABANDONED: 3,
    RunState.FAILED: 4,
    RunState.STOPPED: 5,
    RunState.HALTED: HALTED,
}
_CHOICES = {"p": HaltChoice.PROCEED, "s": HaltChoice.SKIP, "e": HaltChoice.EDIT, "a": HaltChoice.ABORT}
_MENUS = {
    HaltKind.EFFECT: "[p]roceed, [s]kip, [e]dit, [a]bort, [l]eave it halted: ",
    HaltKind.PAUSE: "[p]roceed, [a]bort, [l]eave it halted: ",
    HaltKind.SKIPS: "what to do instead? [a]bort: ",
    HaltKind.MODEL_FAILED: "[p]roceed to try again, [a]bort, [l]eave it halted: ",
}
_SHOWN_CHARS = 2000
RESUME_COMMAND = "aish runs resume"


def norris_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Work towards a goal. What is neither proved harmless nor held by the sandbox halts: on a terminal "
        "you are asked, else it ends there.",
        epilog="exit codes: 0 reached, 3 given up, 4 the model could not be asked, 5 a limit, 6 halted, 130 stopped",
    )
    parser.add_argument("goal", nargs="+")
    parser.add_argument("--model", "-m", default="", help="the model that works")
    parser.add_argument(
        "--tools", action="append", metavar="GLOB", help="offer only these tools (repeatable; 'none' offers none)"
    )
    parser.add_argument("--max-steps", type=int, metavar="N", help="at most so many steps (norris.max_steps)")
    parser.add_argument("--budget", type=float, metavar="DOLLARS", help="at most so much money (norris.max_cost)")
    parser.add_argument("--minutes", type=float, metavar="M", help="at most so long (norris.max_minutes)")
    parser.add_argument("--endpoint", action="append", default=[], metavar="NAME=URL", help="a provider for this run")
    return parser


def runs_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Long work that is kept: towards goals, and by plans.")
    parser.set_defaults(json=False, endpoint=[], limit=20)
    actions = parser.add_subparsers(dest="action", metavar="list|show|resume|abandon")
    listing = actions.add_parser("list", help="newest first (the default)")
    listing.add_argument("--limit", type=int, default=20)
    show = actions.add_parser("show", help="one run and its journal")
    resume = actions.add_parser("resume", help="go on with it")
    resume.add_argument("--answer", choices=("proceed", "skip", "abort"), help="to the halt it stands at")
    resume.add_argument("--endpoint", action="append", default=[], metavar="NAME=URL", help="a provider for this run")
    abandon = actions.add_parser("abandon", help="give it up")
    for action in (show, resume, abandon):
        action.add_argument("id", help="an id, the end of one, or `latest`")
    for action in (listing, show):
        action.add_argument("--json", action="store_true")
    return parser


def norris(arguments: argparse.Namespace, runtime: Runtime) -> int:
    _check(arguments)
    return run_until_done(_norris(arguments, runtime))


def runs(arguments: argparse.Namespace, runtime: Runtime) -> int:
    return run_until_done(_runs(arguments, runtime))


def _check(arguments: argparse.Namespace) -> None:
    if arguments.max_steps is not None and arguments.max_steps < 1:
        raise UsageError("--max-steps must be at least 1")
    if arguments.budget is not None and not 0 <= arguments.budget < math.inf:
        raise UsageError("--budget must be a number of dollars, 0 or more")
    if arguments.minutes is not None and not 0 < arguments.minutes * 60 < math.inf:
        raise UsageError("--minutes must be a number of minutes, more than 0")


async def _norris(arguments: argparse.Namespace, runtime: Runtime) -> int:
    goal = check_goal(" ".join(arguments.goal))
    body = make_goal_state(
        runtime.config,
        model=arguments.model,
        tools=None if arguments.tools is None else tuple(glob for glob in arguments.tools if glob != "none"),
        max_steps=arguments.max_steps,
        max_cost=arguments.budget,
        max_minutes=arguments.minutes,
    )
    async with runtime.engine() as engine:
        watcher = await _prepare(engine, runtime, arguments.model)
        return await work(engine, engine.runs.start(RunKind.NORRIS, goal, body), watcher, runtime.containment)


async def _prepare(engine: Engine, runtime: Runtime, model: str) -> TerminalWatcher:
    """Makes sure that there is a model and waits for the tools. Returns what shows the work."""
    env = runtime.launch_context.env
    output = make_output(env)
    reader = StdinReader() if sys.stdin is not None and sys.stdin.isatty() else None

    def make_printer() -> EventPrinter:
        return printer_for(output, display_for(output.out, env))

    await ensure_model(engine, runtime, model, output, reader)
    await wait_for_tools(runtime, output)
    return TerminalWatcher(output, make_printer, reader, env)


async def work(
    engine: Engine,
    owning: AbstractAsyncContextManager[OwnedRun],
    watcher: TerminalWatcher,
    containment: Containment,
    answer: HaltAnswer | None = None,
    *,
    resume_command: str = RESUME_COMMAND,
) -> int:
    """Works until the run ends, and reports what was done. Returns the exit code.

    Ctrl-C halts the work before its next action. A second one stops what runs; resuming then asks about that action, as
    after a crash.
    """
    async with owning as run:
        worker = GoalWorker(engine, run, watcher, containment)
        working = asyncio.ensure_future(worker.work(answer))
        with on_interrupt(lambda: _interrupt(worker, watcher, working)):
            state = await _wait_or_stop(working)
        if state is None:
            await worker.halt_as_stopped()
    record = await engine.runs.find(run.record.id)
    for line in report_lines(record, list(await engine.runs.steps(record.id)), resume_command=resume_command):
        watcher.notify_user(line)
    if state is None:
        return INTERRUPTED
    halt = msgspec.json.decode(record.body, type=GoalState).halt
    if state is RunState.HALTED and halt is not None and halt.kind is HaltKind.MODEL_FAILED:
        return _EXIT_CODES[RunState.FAILED]
    return _EXIT_CODES[state]


def _interrupt(worker: GoalWorker, watcher: TerminalWatcher, working: asyncio.Future[RunState]) -> None:
    if worker.is_pausing:
        working.cancel()
    else:
        worker.pause()
        watcher.notify_user("it halts before the next action; Ctrl-C again stops what runs")


async def _wait_or_stop(working: asyncio.Future[RunState]) -> RunState | None:
    """The state in which the work ended; None if the user stopped it."""
    try:
        return await working
    except asyncio.CancelledError:
        if not is_stopped_alone(working):
            raise
        return None


async def _runs(arguments: argparse.Namespace, runtime: Runtime) -> int:
    async with runtime.engine(mcp=None if arguments.action == "resume" else ()) as engine:
        if arguments.action == "list":
            return await _list(arguments, engine)
        record = await find_run(engine, arguments.id)
        match arguments.action:
            case "show":
                return await _show(arguments, engine, record)
            case "abandon":
                await engine.runs.abandon(record.id)
                print(f"{record.id} is abandoned", file=sys.stderr)
                return 0
            case _:
                return await _resume(arguments, runtime, engine, record)


async def _resume(arguments: argparse.Namespace, runtime: Runtime, engine: Engine, record: RunRecord) -> int:
    if record.kind is RunKind.PLAN:
        from aish.frontends.shell.commands.plan import answer_planned

        body = msgspec.json.decode(record.body, type=PlanBody)
        return await answer_planned(runtime, engine, resume_request(body, record.id, record.session))
    answer = HaltAnswer(HaltChoice(arguments.answer)) if arguments.answer else None
    model = msgspec.json.decode(record.body, type=GoalState).model
    return await resume_run(engine, record, await _prepare(engine, runtime, model), runtime.containment, answer)


async def resume_run(
    engine: Engine,
    record: RunRecord,
    watcher: TerminalWatcher,
    containment: Containment,
    answer: HaltAnswer | None,
    *,
    resume_command: str = RESUME_COMMAND,
) -> int:
    """Resumes work. If it halted for a decision and none is given, asks the user again."""
    if record.kind is not RunKind.NORRIS:
        raise UsageError(f"{record.id} is a plan", hint=f"go on with it by: {RESUME_COMMAND} {record.id}")
    body = msgspec.json.decode(record.body, type=GoalState)
    if body.halt is not None and answer is None and body.halt.kind not in _RESUMED_WITHOUT_ANSWER:
        answer = await watcher.decide(body.halt)
        if answer.choice is HaltChoice.STAY_HALTED:
            return HALTED
    return await work(
        engine, engine.runs.take_over(record.id), watcher, containment, answer, resume_command=resume_command
    )


async def find_run(engine: Engine, name: str, kind: RunKind | None = None) -> RunRecord:
    """Finds a run by its id, by the end of one, or as the `latest` of a kind; "" is the latest that can be resumed."""
    records = await engine.runs.list(1000)
    if name in ("", "latest"):
        candidates = [record for record in records if kind in (None, record.kind)]
        found = [record for record in candidates if name or record.state in OPEN_STATES][:1]
    else:
        found = [record for record in records if record.id == name] or [r for r in records if r.id.endswith(name)]
    if len(found) != 1:
        problem = f"{len(found)} runs end in {name}" if found else f"there is no run {name or 'to go on with'}"
        raise RunNotFound(problem, hint="`aish runs list` shows them")
    return found[0]


async def _list(arguments: argparse.Namespace, engine: Engine) -> int:
    if arguments.limit < 1:
        raise UsageError("--limit must be at least 1")
    records = await engine.runs.list(arguments.limit)
    for record in records:
        print(msgspec.json.encode(run_json(record)).decode() if arguments.json else run_line(record))
    if not records:
        print("no runs", file=sys.stderr)
    return 0


async def _show(arguments: argparse.Namespace, engine: Engine, record: RunRecord) -> int:
    steps = list(await engine.runs.steps(record.id))
    if arguments.json:
        print(msgspec.json.encode(run_json(record, steps)).decode())
        return 0
    print(run_line(record))
    for line in report_lines(record, steps):
        print(line)
    return 0


class TerminalWatcher:
    """Shows the steps of the work, and the halts at which the user decides. With `reader` None there is no user to ask,
    and a halt ends the work."""

    def __init__(
        self,
        output: Output,
        make_printer: Callable[[], EventPrinter],
        reader: AnswerReader | None,
        env: Mapping[str, str],
    ) -> None:
        """`env` names the user's editor."""
        self._env = env
        self._output = output
        self._make_printer = make_printer
        self._reader = reader

    def notify_user(self, text: str) -> None:
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
        self._output.note(f"{text[:_SHOWN_CHARS].rstrip()}{left_out}\n{_ending(result.status)}".strip())

    async def decide(self, halt: Halt) -> HaltAnswer:
        self._output.note(f"■ halted: {halt.reason}")
        if halt.question is not None:
            self._output.note(f"{halt.question.tool} would run:")
            show_call(halt.question.arguments, halt.question.preview, self._output)
        if self._reader is None:
            return HaltAnswer(HaltChoice.STAY_HALTED)
        self._reader.drop_typed_ahead()
        while True:
            line = await self._reader.read(_MENUS[halt.kind])
            if line is None:
                return HaltAnswer(HaltChoice.STAY_HALTED)
            if answer := await self._parse_answer(halt, line.strip()):
                return answer

    async def _parse_answer(self, halt: Halt, typed: str) -> HaltAnswer | None:
        """None if the user has to be asked again."""
        word = typed.lower()
        if word in ("l", "leave"):
            return HaltAnswer(HaltChoice.STAY_HALTED)
        choice = _CHOICES.get(word[:1]) if word in (*_CHOICES, "proceed", "skip", "edit", "abort") else None
        if halt.kind is HaltKind.SKIPS and typed and choice is not HaltChoice.ABORT:
            return HaltAnswer(HaltChoice.PROCEED, note=typed)
        if choice is None or (halt.question is None and choice in (HaltChoice.SKIP, HaltChoice.EDIT)):
            return None
        if choice is HaltChoice.EDIT:
            assert halt.question is not None and self._reader is not None
            arguments = await read_edited_arguments(halt.question, self._reader, self._output, self._env)
            return HaltAnswer(choice, arguments=arguments) if arguments is not None else None
        is_catastrophe = halt.question is not None and halt.question.danger is Danger.CATASTROPHE
        if choice is HaltChoice.PROCEED and is_catastrophe:
            assert self._reader is not None
            word = await self._reader.read(TYPED_YES) or ""
            return HaltAnswer(choice) if word.strip().lower() == "yes" else None
        return HaltAnswer(choice)


def _ending(status: ResultStatus) -> str:
    """How a call ended, in words; "" if it went well."""
    if status is ResultStatus.OK:
        return ""
    if status is ResultStatus.TOOL_ERROR:
        return "it failed"
    return f"it did not run to its end: {status.value.replace('_', ' ')}"


def report_lines(run: RunRecord, steps: list[StepRecord], *, resume_command: str = RESUME_COMMAND) -> list[str]:
    """How the run ended, what was done, and how to resume it."""
    lines = [f"{run.state}: {run.reason}" if run.reason else run.state.value]
    for state, words in (
        (StepState.DONE, "done"),
        (StepState.FAILED, "failed"),
        (StepState.UNKNOWN, "may or may not have been done"),
        (StepState.INTENT, "under way when it ended"),
    ):
        lines += [f"  {words}: {_call_line(step)}" for step in steps if step.state is state and step.effect != "read"]
    if run.state in (RunState.HALTED, RunState.RUNNING):
        lines.append(f"  go on with: {resume_command} {run.id}")
    return lines


def _call_line(step: StepRecord) -> str:
    arguments = step.arguments.decode("utf-8", "replace")
    return f"{step.tool} {arguments if len(arguments) <= 200 else f'{arguments[:199]}…'}"
