"""A run whose process is killed at a chosen point of a chosen step, and how it is gone on with.

As a program: `killed_runs.py PLACE WORKSPACE KIND STEP POINT` begins the run and kills itself there. Effects are lines
in a log that is opened anew and synced for each, so that they can be counted whatever dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from aish.autonomy.goal_worker import GoalWorker
from aish.autonomy.state import GoalState
from aish.engine.engine import Engine, flatten
from aish.engine.model.router import Router
from aish.planner.run import PlanBody, resume_request
from aish.ports import CallContext, Store
from aish.process.clock import SystemClock
from aish.process.liveness import ProcessOwners
from aish.providers.scripted import Item, ScriptedProvider
from aish.safety.redaction.redactor import Redactor
from aish.storage.sqlite.store import SqliteStore
from aish.types.decisions import Answer, Choice, Question
from aish.types.events import TextDelta, ToolResult
from aish.types.messages import TextPart, user
from aish.types.requests import StepRequest, TurnRequest
from aish.types.runs import Halt, HaltAnswer, HaltChoice, Planning, RunKind, RunRecord, StepRecord, StepState
from aish.types.tools import Arguments, Effect, ToolOutput, ToolSpec
from support.containment import FakeSandbox
from support.engines import policy_gate

STEPS = 4
POINTS = ("before intent", "after intent", "after effect", "after outcome")
KINDS = ("plan", "norris")
_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def effects(workspace: Path) -> list[int]:
    log = workspace / "effects.log"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


_SPECS = (
    ToolSpec("x__append", "", _NUMBER, Effect.WRITE, "x"),
    ToolSpec("x__put", "", _NUMBER, Effect.WRITE, "x"),
    ToolSpec("shell__run", "", _COMMAND, Effect.EXEC, "shell"),
)


class Workshop:
    """`x__put` can tell afterwards whether it was done; `x__append` and commands cannot. `kill`: a step and a point."""

    def __init__(self, workspace: Path, kill: tuple[int, str] | None = None) -> None:
        self._workspace = workspace
        self._kill = kill

    def specs(self) -> Sequence[ToolSpec]:
        return _SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        number = int(arguments.get("n") or str(arguments["command"]).split()[-1])
        if name == "x__put":
            (self._workspace / f"{number}.txt").write_text(str(number))
        with (self._workspace / "effects.log").open("a") as log:
            log.write(f"{number}\n")
            log.flush()
            os.fsync(log.fileno())
        if self._kill == (number, "after effect"):
            die()
        return ToolOutput((TextPart(f"done {number}"),))

    async def compute_witness(self, name: str, arguments: Arguments) -> str:
        if name != "x__put":
            return ""
        path = self._workspace / f"{arguments['n']}.txt"
        return json.dumps([str(path), _digest(path), hashlib.sha256(str(arguments["n"]).encode()).hexdigest()])

    async def has_happened(self, name: str, witness: str) -> bool | None:
        path, before, after = json.loads(witness)
        now = _digest(Path(path))
        return True if now == after else False if now == before else None

    async def aclose(self) -> None:
        pass


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


class Killing:
    """A store that dies with its process at a point of a step. Everything else is the real one's."""

    def __init__(self, store: Store, kill: tuple[int, str]) -> None:
        self._store = store
        self._step, self._point = kill

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        mine = step.number == self._step
        if mine and step.state is StepState.INTENT and self._point == "before intent":
            die()
        put = await self._store.put_step(step, fence=fence)
        if mine and self._point == ("after intent" if step.state is StepState.INTENT else "after outcome"):
            die()
        return put


def _plan() -> str:
    tools = ("x__append", "x__put")
    steps = [{"id": f"s{n}", "tool": tools[n % 2], "args": {"n": n}} for n in range(1, STEPS + 1)]
    return json.dumps({"direct": False, "steps": steps})


def _script(request: StepRequest) -> Sequence[Item]:
    """A planner, a worker whose one step has all the commands, and one who says that all is done."""
    if request.sampling.json_schema:
        return [TextDelta(_plan())]
    if request.tools and not any("$ make" in message.text for message in request.messages):
        return [TextDelta("\n".join(f"CMD: make target {n}" for n in range(1, STEPS + 1)))]
    return [TextDelta("GOAL: complete")]


def engine_on(store: Store, workspace: Path, kill: tuple[int, str] | None = None) -> Engine:
    return Engine(
        router=Router({"s": ScriptedProvider("s", {"m": _script})}),
        tools=Workshop(workspace, kill),
        gate=policy_gate(write="allow", exec="allow"),
        store=store,
        clock=SystemClock(),
        liveness=ProcessOwners(),
        redactor=Redactor(),
    )


class Truthful:
    """A person who looks into the log before answering: what is there is not done again. Keeps what was asked."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.asked: list[str] = []
        self.notes: list[str] = []

    def _is_done(self, question: Question) -> bool:
        number = int(question.arguments.get("n") or str(question.arguments["command"]).split()[-1])
        self.asked.append(question.reason)
        return number in effects(self._workspace)

    async def __call__(self, question: Question) -> Answer:
        return Answer(Choice.NO if self._is_done(question) else Choice.YES)

    async def decide(self, halt: Halt) -> HaltAnswer:
        assert halt.question is not None, halt
        return HaltAnswer(HaltChoice.SKIP if self._is_done(halt.question) else HaltChoice.PROCEED)

    def notify_user(self, text: str) -> None:
        self.notes.append(text)

    def step(self, number: int, max_steps: int, cost: float) -> Any:
        return nullcontext(lambda events: None)

    def show_command(self, command: str, result: ToolResult) -> None:
        pass


async def begin(engine: Engine, kind: str, person: Truthful) -> None:
    if kind == "norris":
        body = msgspec.json.encode(GoalState(model="s:m"))
        async with engine.runs.start(RunKind.NORRIS, "make it all", body) as run:
            await GoalWorker(engine, run, person, FakeSandbox()).work()
        return
    request = TurnRequest((user("make it all"),), model="s:m", tools=("*",), planner=Planning(max_replans=0))
    async with engine.turn(request, ask=person) as batches:
        async for _ in flatten(batches):
            pass


async def go_on(engine: Engine, record: RunRecord, person: Truthful) -> None:
    if record.kind is RunKind.NORRIS:
        async with engine.runs.take_over(record.id) as run:
            await GoalWorker(engine, run, person, FakeSandbox()).work()
        return
    body = msgspec.json.decode(record.body, type=PlanBody)
    async with engine.turn(resume_request(body, record.id, record.session), ask=person) as batches:
        async for _ in flatten(batches):
            pass


def open_store(place: str) -> Store:
    if place.startswith("postgresql:"):
        from aish.storage.postgres.store import PostgresStore

        return PostgresStore(place)
    return SqliteStore(Path(place))


async def main(place: str, workspace: Path, kind: str, kill: tuple[int, str]) -> None:
    store: Any = Killing(open_store(place), kill)
    await begin(engine_on(store, workspace, kill), kind, Truthful(workspace))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], (int(sys.argv[4]), sys.argv[5])))
