"""Agents at the same time: how much longer three take than the slowest of them alone.

    python bench/agents.py

The models are scripted, the store is a SQLite file. Both times are of one run, so their ratio does not depend on the
machine. It must be at most 1.2.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aish.agents.roster import AgentRoster
from aish.agents.toolset import AgentTools
from aish.engine.engine import Engine
from aish.engine.model.router import Router
from aish.process.clock import SystemClock
from aish.process.liveness import ProcessOwners
from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.safety.redaction.redactor import Redactor
from aish.storage.sqlite.store import SqliteStore
from aish.tools.builtin.runtime import RuntimeTools
from aish.tools.registry import Registry
from aish.types.chunks import CallFragment
from aish.types.events import TextDelta, ToolResult
from aish.types.messages import user
from aish.types.models import AgentDefinition
from aish.types.requests import TurnRequest
from aish.types.tools import ResultStatus

BAR = 1.2
ROUNDS = 5
WAITS_S = {"short": 0.1, "middle": 0.15, "long": 0.2}  # of each of its two steps


def make_engine(folder: Path) -> Engine:
    agents = [AgentDefinition(name, f"takes {s:g} s a step", model=f"scripted:{name}") for name, s in WAITS_S.items()]
    scripts = {name: from_steps([[wait_s, *call("runtime__time")], [wait_s, TextDelta("done")]])
               for name, wait_s in WAITS_S.items()}  # fmt: skip
    scripts["one"] = from_steps([call_agents(["long"]), [TextDelta("done")]])
    scripts["three"] = from_steps([call_agents(list(WAITS_S)), [TextDelta("done")]])
    roster, tools = AgentRoster(find_more=lambda: agents), Registry()
    engine = Engine(
        router=Router({"scripted": ScriptedProvider("scripted", scripts)}),
        tools=tools,
        gate=PolicyGate((), shell=ShellContext(cwd=str(folder), home=str(folder))),
        store=SqliteStore(folder / "aish.db"),
        clock=SystemClock(),
        liveness=ProcessOwners(),
        redactor=Redactor(),
    )
    tools.add("runtime", RuntimeTools(SystemClock()))
    tools.add("agents", AgentTools(roster, lambda: engine))
    return engine


def call(name: str) -> list[Item]:
    return [CallFragment(0, name=name, arguments="{}")]


def call_agents(names: Sequence[str]) -> list[Item]:
    arguments = (msgspec.json.encode({"agent": name, "task": "work"}).decode() for name in names)
    return [CallFragment(at, f"call_{at}", "agents__run", given) for at, given in enumerate(arguments)]


async def time_turn(engine: Engine, model: str) -> float:
    began_s, results = time.perf_counter(), []
    async with engine.turn(TurnRequest((user("go"),), model=f"scripted:{model}", tools=("*",))) as batches:
        async for events in batches:
            results += [event.body for event in events if isinstance(event.body, ToolResult)]
    assert results and all(result.status is ResultStatus.OK for result in results)
    return time.perf_counter() - began_s


async def measure() -> float:
    with tempfile.TemporaryDirectory() as folder:
        engine = make_engine(Path(folder))
        try:
            await time_turn(engine, "one")  # loads what turns need
            pairs = [(await time_turn(engine, "one"), await time_turn(engine, "three")) for _ in range(ROUNDS)]
        finally:
            await engine.aclose()
    one_s, three_s = statistics.median(one for one, _ in pairs), statistics.median(three for _, three in pairs)
    sys.stdout.write(f"the slowest agent alone {one_s * 1000:.0f} ms, three at once {three_s * 1000:.0f} ms\n")
    return three_s / one_s


def main() -> int:
    ratio = asyncio.run(measure())
    sys.stdout.write(f"ratio {ratio:.3f}, at most {BAR}\n")
    return int(ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())
