"""An engine over a scripted model: more tools on offer, a longer answer, a longer session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aish.engine.engine import Engine
from aish.engine.model.router import Router
from aish.ports import Store
from aish.process.clock import SystemClock
from aish.process.liveness import ProcessOwners
from aish.providers.scripted import ScriptedProvider
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.judgement import CAREFUL
from aish.safety.redaction.redactor import Redactor
from aish.storage.memory import MemoryStore
from aish.storage.sqlite.store import SqliteStore
from aish.tools.registry import Registry
from aish.types.context import ContextRules
from aish.types.events import TextDelta, TurnEnd
from aish.types.messages import AssistantMessage, user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.requests import TurnRequest
from aish.types.tools import Arguments, Effect, ToolOutput, ToolSpec
from aish.types.usage import Usage
from bench.growth_parts import Subject

TURNS = 8
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}


class Offering:
    """So many tools that no model calls."""

    def __init__(self, count: int) -> None:
        self._specs = [ToolSpec(f"tool_{n}", f"Does thing {n}.", SCHEMA, Effect.READ, "many") for n in range(count)]

    def specs(self) -> list[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: object) -> ToolOutput:
        raise NotImplementedError(name)

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def engine_with(store: Store, *, chunks: int = 10, tools: int = 0) -> AsyncIterator[Engine]:
    provider = ScriptedProvider("bench", {"model": lambda _: [TextDelta("word ")] * chunks})
    registry = Registry()
    if tools:
        registry.add("many", Offering(tools))
    engine = Engine(
        router=Router({"bench": provider}),
        tools=registry,
        gate=PolicyGate((), verdicts=CAREFUL, shell=ShellContext(cwd="/", home="/")),
        store=store,
        clock=SystemClock(),
        liveness=ProcessOwners(),
        redactor=Redactor([]),
        rules=ContextRules(answer_room=512),
    )
    try:
        yield engine
    finally:
        await engine.aclose()


async def turn(engine: Engine, session: str = "") -> None:
    asked = (user("what now?"),)
    request = TurnRequest(input=asked, model="bench:model", session=session, kept=bool(session), tools=("*",))
    async with engine.turn(request) as batches:
        async for _ in batches:
            pass


async def least_us(work: Callable[[], Awaitable[None]], tries: int = TURNS) -> float:
    found = []
    for _ in range(tries):
        began = time.process_time_ns()
        await work()
        found.append(time.process_time_ns() - began)
    return min(found[1:]) / 1e3


def tools_offered(count: int) -> float:
    async def measure() -> float:
        async with engine_with(MemoryStore(), tools=count) as engine:
            return await least_us(lambda: turn(engine))

    return asyncio.run(measure())


def chunks_said(count: int) -> float:
    async def measure() -> float:
        async with engine_with(MemoryStore(), chunks=count) as engine:
            return await least_us(lambda: turn(engine))

    return asyncio.run(measure())


def turns_before(count: int) -> float:
    """One more turn in a session that is in the store already; the engine has answered in it before."""

    async def measure() -> float:
        with TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "aish.db")
            await fill_session(store, "long", count)
            async with engine_with(store) as engine:
                return await least_us(lambda: turn(engine, "long"))

    return asyncio.run(measure())


def turns_opened(count: int) -> float:
    """The first turn of an engine in such a session: what a restart costs."""

    async def once(path: Path) -> float:
        async with engine_with(SqliteStore(path)) as engine:
            await turn(engine)  # what every engine does first is not the session's cost
            began = time.process_time_ns()
            await turn(engine, "long")
            return (time.process_time_ns() - began) / 1e3

    async def measure() -> float:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "aish.db"
            store = SqliteStore(path)
            await fill_session(store, "long", count)
            await store.aclose()
            return min([await once(path) for _ in range(TURNS // 2)])

    return asyncio.run(measure())


async def fill_session(store: Store, session: str, turns: int) -> None:
    await store.create_session(SessionRecord(session, 1, 1))
    for number in range(1, turns + 1):
        said = (user(f"question {number} " * 10), AssistantMessage(f"answer {number} " * 30))
        id = f"{session}_{number}"
        await store.start_turn(TurnRecord(id, session, number, "bench:model", number, said[:1]))
        await store.finish_turn(
            id, end=TurnEnd.ANSWERED, finished_ms=number, messages=said, usage=Usage(10, 5), wait=False
        )
        if number % 500 == 0:
            await store.flush(durable=False)
    await store.flush()


SUBJECTS = (
    Subject("tools on offer", (10, 100, 1000), "a turn", tools_offered, "engine/tools/selection.py, tools/registry.py"),
    Subject(
        "chunks of an answer",
        (100, 1000, 10_000),
        "a turn",
        chunks_said,
        "engine/model/stream_assembly.py, engine/turn/events.py",
    ),
    Subject(
        "turns of a session",
        (20, 200, 2000),
        "one more turn",
        turns_before,
        "engine/prompt/history_cache.py, engine/prompt/composer.py",
    ),
    Subject(
        "turns of a session, reopened",
        (20, 200, 2000),
        "its first turn",
        turns_opened,
        "engine/prompt/history_cache.py",
    ),
)
