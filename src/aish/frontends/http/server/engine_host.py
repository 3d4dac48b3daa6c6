"""Holds the engine in service, its configuration and its keys, and replaces them on a reload.

A new engine takes over once its MCP servers are connected or have failed. Requests under way keep the engine they began
with.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)

from aish.config.schema.config import ServeConfig
from aish.engine.engine import Engine
from aish.engine.retention import forget_old_sessions
from aish.errors import AishError, UsageError
from aish.frontends.http.auth.authentication import Caller, KeyRing
from aish.frontends.http.metrics.counters import MANY_WORKERS, Metrics
from aish.frontends.http.server.http_errors import HttpProblem, uncovered_model
from aish.frontends.origin_guard import OriginGuard
from aish.frontends.runtime import Runtime
from aish.ports import Store
from aish.types.models import is_model_file_name
from aish.types.requests import TurnLimits

_DAY_MS = 86_400_000
_CLEANUP_INTERVAL_S = 600.0
_PUBLISH_INTERVAL_S = 1.0  # the most that a worker's figures are behind, as other workers see them
# For cancelled requests to record their end and to tell the client.
_CLOSING_GRACE_S = 5.0


class Generation:
    """An engine and its users. When it is out of service, it is closed after the last user has left."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._shared = MANY_WORKERS in runtime.launch_context.env
        self.users = 0
        self._all_left: asyncio.Event | None = None  # set only while `close` waits
        self._stack = AsyncExitStack()

    async def open(self, *, with_tools: bool = False) -> None:
        """`with_tools`: waits for the tools of MCP servers that are not too slow."""
        async with AsyncExitStack() as stack:
            self.engine = await stack.enter_async_context(self.runtime.engine(serving=True, shared=self._shared))
            if with_tools:
                await self.wait_for_tools()
            self._stack = stack.pop_all()

    async def wait_for_tools(self) -> None:
        await self.runtime.wait_for_mcp(self.runtime.config.mcp.wait_s)

    def leave(self) -> None:
        self.users -= 1
        if self._all_left is not None and not self.users:
            self._all_left.set()

    async def close(self, wait_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.users:
                    self._all_left = asyncio.Event()
                    await self._all_left.wait()
        await self._stack.aclose()


class EngineHost:
    """`keys` are keys of this run, besides stored ones. `must_have_keys`: other machines can reach the server."""

    engine: Engine
    keys: KeyRing

    def __init__(self, runtime: Runtime, keys: Sequence[str] = (), *, must_have_keys: bool = False) -> None:
        self._given_keys = tuple(keys)
        self._must_have_keys = must_have_keys
        self._use(Generation(runtime))
        self._closing: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[None] | None = None
        self.draining = False
        self.active_requests = 0
        self.metrics = Metrics(together=MANY_WORKERS in runtime.launch_context.env, is_ours=self._has_tool)

    @property
    def store(self) -> Store:
        return self.engine.store

    async def release_memory(self) -> None:
        await self.store.release_memory()

    def _use(self, generation: Generation) -> None:
        """Makes what every request needs an attribute."""
        self._generation = generation
        self.runtime = generation.runtime
        config = generation.runtime.config
        self.config: ServeConfig = config.serve
        self.limits: TurnLimits = config.limits.limits()
        self.fallback = config.routing.fallback
        self.mode = config.gate.mode
        self.guard = OriginGuard(hosts=self.config.hosts, origins=self.config.origins)

    def _use_engine(self) -> None:
        self.engine = self._generation.engine
        self.keys = KeyRing(self.store, self.engine.ledger.keys, self._given_keys, always=self._must_have_keys)

    def redact_json(self, body: bytes) -> bytes:
        """JSON without known secrets, for storing."""
        return self.engine.redact_json(body)

    def _has_tool(self, name: str) -> bool:
        return any(spec.name == name for spec in self.engine.tools.specs())

    @property
    def is_starting(self) -> bool:
        """Whether MCP servers still connect, so that the list of tools is not complete."""
        return self._starting is not None and not self._starting.done()

    async def wait_until_started(self) -> None:
        if self._starting is not None:
            await asyncio.wait({self._starting})

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def check_model(self, caller: Caller, name: str) -> None:
        """Raises HttpProblem 403 if the key does not cover the model, or if the name is a file and the caller is no
        administrator. Only administrators and the configuration may name files of this machine; presets are for all."""
        if not caller.may_use_model(name):
            raise uncovered_model(name)
        if not caller.admin and self._is_file(name):
            raise HttpProblem(403, "only an administrator's key may name a file", code="model_not_allowed")

    def _is_file(self, name: str) -> bool:
        """As the embedded provider reads it, under whatever name it is configured."""
        provider, _, model = name.partition(":")
        configured = self.runtime.config.providers.get(provider)
        return (configured.kind if configured else provider) == "embedded" and is_model_file_name(model)

    def begin_request(self) -> Generation:
        """Counts a request, which keeps the returned generation until it calls `end_request`."""
        self.active_requests += 1
        self._generation.users += 1
        return self._generation

    def end_request(self, generation: Generation) -> None:
        self.active_requests -= 1
        generation.leave()

    @contextmanager
    def active_request(self) -> Iterator[None]:
        """The two as a context, for long work: a generator costs too much on short requests."""
        generation = self.begin_request()
        try:
            yield
        finally:
            self.end_request(generation)

    @asynccontextmanager
    async def open_engine(self) -> AsyncIterator[None]:
        await self._generation.open()
        self._use_engine()
        if self._must_have_keys and not await self.keys.has_keys():
            await self._generation.close(0)
            raise UsageError(
                "to listen where other machines reach it, the server needs a key",
                hint="`aish keys create NAME`, or --key-env",
            )
        if self.runtime.mcp_servers:
            self._starting = asyncio.create_task(self._generation.wait_for_tools())
        jobs = [asyncio.create_task(self._delete_expired()), asyncio.create_task(self._publish_metrics())]
        try:
            with self._ending_with_parent():
                yield
        finally:
            for job in jobs:
                job.cancel()
            if self._starting is not None:
                self._starting.cancel()
            await self.wait_until_started()
            await asyncio.gather(*jobs, *self._closing, return_exceptions=True)
            await self._generation.close(_CLOSING_GRACE_S)
            self.metrics.close()

    def _ending_with_parent(self) -> AbstractContextManager[None]:
        if MANY_WORKERS not in self.runtime.launch_context.env:
            return nullcontext()
        from aish.process.orphan_guard import terminate_with_parent  # a server of one process does without

        return terminate_with_parent()

    async def reload(self, runtime: Runtime) -> None:
        """Switches to this configuration. If it cannot be opened, nothing changes.

        The old engine serves until the new one has its tools: a call of a tool that is missing would go to the client.
        """
        old, new = self._generation, Generation(runtime)
        await new.open(with_tools=True)
        self._use(new)
        self._use_engine()
        closing = asyncio.create_task(old.close(self.limits.wall_s))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def update_gauges(self) -> None:
        self.metrics.active_requests.set(self.active_requests)
        self.metrics.mcp_brought_open.set(len(self.runtime.dynamic_mcp_servers))

    async def _publish_metrics(self) -> None:
        """Writes the figures where the worker that is asked for those of all workers finds them."""
        while self.metrics.together:
            self.update_gauges()
            self.metrics.flush()
            await asyncio.sleep(_PUBLISH_INTERVAL_S)

    async def _delete_expired(self) -> None:
        """Deletes old turns and sessions every ten minutes; their usage is summed up."""
        while True:
            before_ms = self.now_ms() - self.config.keep_days * _DAY_MS
            with suppress(AishError):
                await self.store.delete_turns("", before_ms=before_ms)
                await self.store.trim_traces(self.config.max_trace_bytes)
                while await self.store.sum_up_usage(before_ms=before_ms):
                    pass  # a quarter of an hour at a time, so that others can write in between
                keep_days = self.runtime.config.store.keep_days
                while keep_days and await forget_old_sessions(self.store, keep_days=keep_days, now_ms=self.now_ms()):
                    pass
            await asyncio.sleep(_CLEANUP_INTERVAL_S)
