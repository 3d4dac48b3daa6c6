"""An engine with a scripted model, a recording toolset and a store in memory, for tests of what lies between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aish.engine.engine import Engine, flatten
from aish.engine.model.router import Router
from aish.ports import Ask, CallContext, Gate, Provider, Store
from aish.process.clock import SystemClock
from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.judgement import CAREFUL
from aish.safety.policy.rules import Rule
from aish.safety.redaction.redactor import Redactor
from aish.storage.memory import MemoryStore
from aish.types.chunks import CallFragment
from aish.types.decisions import Verdict
from aish.types.events import Event, ToolResult, TurnFinished
from aish.types.messages import TextPart, user
from aish.types.requests import TurnLimits, TurnRequest
from aish.types.tools import Arguments, Effect, ToolOutput, ToolSpec

ANYTHING: dict[str, Any] = {"type": "object"}
Body = Callable[[Arguments, CallContext], Awaitable[ToolOutput]]


def policy_gate(*rules: Rule, **verdicts: Verdict) -> PolicyGate:
    """The real gate, in a shell that stands in /work; `write="allow"` and so on change an effect's own verdict."""
    given = {Effect(name): Verdict(verdict) for name, verdict in verdicts.items()}
    return PolicyGate(rules, verdicts={**CAREFUL, **given}, shell=ShellContext(cwd="/work", home="/home/u"))


class FixedLiveness:
    """This process is alive, and one other."""

    me = "host/1/1"

    def is_alive(self, owner: str) -> bool:
        return owner in (self.me, "host/alive/1")


class TickingClock:
    """Wall time by the second, so that recordings are the same in every run; waiting is by the real clock."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1_800_000_000_000, 1000)
        self.monotonic_s = SystemClock().monotonic_s

    def now_ms(self) -> int:
        return next(self._ticks)

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000


class Tools:
    """A toolset of coroutines. `calls` keeps what was asked of it."""

    def __init__(self) -> None:
        self._specs: list[ToolSpec] = []
        self._bodies: dict[str, Body] = {}
        self.calls: list[tuple[str, Arguments]] = []
        self.closed = False

    def add(
        self, name: str, body: Body | None = None, *, effect: Effect = Effect.READ, schema: Any = None, **spec: Any
    ) -> Tools:
        added = ToolSpec(name, f"does {name}", schema or ANYTHING, effect, name.split("__")[0], **spec)
        self._specs = [*self._specs, added]
        self._bodies[name] = body or _say_done
        return self

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        self.calls.append((name, arguments))
        return await self._bodies[name](arguments, context)

    async def aclose(self) -> None:
        self.closed = True


async def _say_done(arguments: Arguments, context: CallContext) -> ToolOutput:
    return said("done")


def said(text: str, *, is_error: bool = False) -> ToolOutput:
    return ToolOutput((TextPart(text),), is_error)


def call(name: str, arguments: str = "{}", *, index: int | None = 0, id: str = "") -> CallFragment:
    return CallFragment(index, id, name, arguments)


class Bench:
    """One engine under test. `steps` are what the model says, a list of items for each model call."""

    def __init__(
        self,
        *steps: Sequence[Item],
        tools: Tools | None = None,
        gate: Gate | None = None,
        store: Store | None = None,
        provider: Provider | None = None,
        redactor: Redactor | None = None,
        others: Sequence[Provider] = (),
        settings: dict[str, Any] | None = None,
        **router: Any,
    ) -> None:
        """`others` are further providers, `settings` what the engine is told besides."""
        self.tools = tools or Tools()
        self.store = store or MemoryStore()
        self.scripted = ScriptedProvider("scripted", {"model": from_steps(steps or [[]])})
        self.clock = TickingClock()
        chosen = provider or self.scripted
        self.engine = Engine(
            router=Router({one.name: one for one in (chosen, *others)}, **router),
            tools=self.tools,
            gate=gate or policy_gate(),
            store=self.store,
            clock=self.clock,
            redactor=redactor or Redactor(),
            **{"liveness": FixedLiveness(), **(settings or {})},
        )

    def request(self, text: str = "hello", **fields: Any) -> TurnRequest:
        limits = TurnLimits(**fields.pop("limits", {}))
        return TurnRequest(
            **{"input": (user(text),), "model": "scripted:model", "tools": ("*",), "limits": limits, **fields}
        )

    async def run(self, text: str = "hello", *, ask: Ask | None = None, **fields: Any) -> list[Event]:
        """A whole turn, bounded."""
        async with asyncio.timeout(20), self.engine.turn(self.request(text, **fields), ask=ask) as batches:
            return [event async for event in flatten(batches)]

    async def recorded(self, events: Sequence[Event]) -> bytes:
        return await self.store.read_events(events[-1].turn)


def results(events: Sequence[Event]) -> list[ToolResult]:
    return [event.body for event in events if isinstance(event.body, ToolResult)]


def finish(events: Sequence[Event]) -> TurnFinished:
    body = events[-1].body
    assert isinstance(body, TurnFinished)
    return body


def bodies(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event.body for event in events if isinstance(event.body, kind)]
