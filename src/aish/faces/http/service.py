"""What every handler of the server works with: the engine of the day, the settings and who is asking.

A reload puts a new engine in place; requests under way keep the one they began with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from aish.config.schema_serve import ServeConfig
from aish.engine.offer import matches
from aish.engine.session import Engine
from aish.faces.runtime import Runtime
from aish.ports import Ask, Store
from aish.types.limits import Limits


class Caller(msgspec.Struct, frozen=True):
    """Who asks and what they may: `key` is the id of their key, "" where none is needed. Globs."""

    key: str = ""
    models: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)

    def may_use_model(self, name: str) -> bool:
        return matches(name, self.models)

    def allowed(self, tools: Sequence[str]) -> tuple[str, ...]:
        """Of these tool names, those that the key covers."""
        return tuple(name for name in tools if matches(name, self.tools))


class Service:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.draining = False
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "used before it was opened"
        return self._engine

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def config(self) -> ServeConfig:
        return self.runtime.config.serve

    @property
    def limits(self) -> Limits:
        return self.runtime.config.limits.limits()

    def ask(self, caller: Caller, globs: Sequence[str] = ()) -> Ask | None:
        """Who is asked where the gate wants consent; None: nobody."""
        return None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Service]:
        async with self.runtime.engine(serving=True) as engine:
            self._engine = engine
            yield self
