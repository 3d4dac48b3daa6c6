"""What every handler of the server works with: the engine of the day, the settings and who is asking.

A reload puts a new engine in place, once its MCP servers can be used or are known not to be; requests under way keep
the one they began with.
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
from functools import partial

from aish.config.schema.serve import ServeConfig
from aish.engine.engine import Engine
from aish.engine.retention import forget_old_sessions
from aish.errors import AishError, UsageError
from aish.frontends.http.auth.caller import Caller as Caller
from aish.frontends.http.auth.console_session import ConsoleSessions
from aish.frontends.http.auth.keys import KeyRing
from aish.frontends.http.metrics.counters import MANY_WORKERS, Metrics
from aish.frontends.http.server.http_errors import Problem, uncovered_model
from aish.frontends.http.sessions.approvals import Approvals
from aish.frontends.http.sessions.feed_news import FeedNews
from aish.frontends.http.sessions.runs import Runs
from aish.frontends.http.turns.background_turns import LiveTurns
from aish.frontends.origin_guard import Guard
from aish.frontends.runtime import Runtime
from aish.ports import Ask, Store
from aish.types.limits import Limits
from aish.types.models import means_file

_DAY_MS = 86_400_000
_SWEEP_S = 3600.0
_TELL_S = 1.0  # so old may be what one worker knows of another
# For requests that were broken off to write down and to say so.
_LAST_WORDS_S = 5.0


class Generation:
    """An engine and those who use it. Put out of service, it is closed when the last of them has left."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._shared = MANY_WORKERS in runtime.process_environment.env
        self.users = 0
        self.left: asyncio.Event | None = None  # for the one who closes it
        self._stack = AsyncExitStack()

    async def open(self, *, settled: bool = False) -> None:
        """`settled`: with the tools of its MCP servers, those that are not too slow."""
        async with AsyncExitStack() as stack:
            self.engine = await stack.enter_async_context(self.runtime.engine(serving=True, shared=self._shared))
            if settled:
                await self.settle()
            self._stack = stack.pop_all()

    async def settle(self) -> None:
        await self.runtime.mcp_settled(self.runtime.config.mcp.wait_s)

    async def close(self, wait_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.users:
                    self.left = asyncio.Event()
                    await self.left.wait()
        await self._stack.aclose()


class Service:
    """`keys` are keys of this run, besides those in the store. `must_have_keys`: others can reach us."""

    engine: Engine
    keys: KeyRing

    def __init__(self, runtime: Runtime, keys: Sequence[str] = (), *, must_have_keys: bool = False) -> None:
        self._given_keys = tuple(keys)
        self._must_have_keys = must_have_keys
        self._take(Generation(runtime))
        self._closing: set[asyncio.Task[None]] = set()
        self._settling: asyncio.Task[None] | None = None
        self.draining = False
        self.under_way = 0
        self.metrics = Metrics(together=MANY_WORKERS in runtime.process_environment.env, is_ours=self._has_tool)
        self.approvals = Approvals(self)
        self.console = ConsoleSessions(self)
        self.live = LiveTurns()
        self.news = FeedNews(self)
        self.runs = Runs(self)

    @property
    def store(self) -> Store:
        return self.engine.store

    def _take(self, generation: Generation) -> None:
        """What every request looks at is at hand."""
        self._generation = generation
        self.runtime = generation.runtime
        config = generation.runtime.config
        self.config: ServeConfig = config.serve
        self.limits: Limits = config.limits.limits()
        self.fallback = config.routing.fallback
        self.guard = Guard(hosts=self.config.hosts, origins=self.config.origins)

    def redacted(self, body: bytes) -> bytes:
        """JSON without known secrets, for whatever is kept."""
        return self.engine.redacted_json(body)

    def _has_tool(self, name: str) -> bool:
        return any(spec.name == name for spec in self.engine.tools.specs())

    @property
    def starting(self) -> bool:
        """It is not known yet which tools there are: MCP servers still connect."""
        return self._settling is not None and not self._settling.done()

    async def started(self) -> None:
        if self._settling is not None:
            await asyncio.wait({self._settling})

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def ask(self, caller: Caller) -> Ask | None:
        """Who is asked where the gate wants consent; None: nobody, and it is refused."""
        return partial(self.approvals.ask, caller) if self.config.approvals == "wait" else None

    def check_model(self, caller: Caller, named: str) -> None:
        """Problem 403 if the key does not cover what a client names, or if that is a file: what lies on this machine is
        for administrators to name, and for the configuration, whose presets anybody may use."""
        if not caller.may_use_model(named):
            raise uncovered_model(named)
        if not caller.admin and self._is_file(named):
            raise Problem(403, "only an administrator's key may name a file", code="model_not_allowed")

    def _is_file(self, named: str) -> bool:
        """As the embedded provider sees it, under whatever name it is configured."""
        provider, _, model = named.partition(":")
        configured = self.runtime.config.providers.get(provider)
        return (configured.kind if configured else provider) == "embedded" and means_file(model)

    def enter(self) -> Generation:
        """One more request is under way; it keeps the engine it began with until it leaves."""
        self.under_way += 1
        self._generation.users += 1
        return self._generation

    def leave(self, generation: Generation) -> None:
        self.under_way -= 1
        generation.users -= 1
        if generation.left is not None and not generation.users:
            generation.left.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """The same, for work that is long enough not to mind what a generator costs."""
        generation = self.enter()
        try:
            yield
        finally:
            self.leave(generation)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Service]:
        await self._generation.open()
        self.engine = self._generation.engine
        self.keys = KeyRing(self.store, self._given_keys, always=self._must_have_keys)
        if self._must_have_keys and not await self.keys.are_there():
            await self._generation.close(0)
            raise UsageError(
                "to listen where other machines reach it, the server needs a key",
                hint="`aish keys create NAME`, or --key-env",
            )
        self._settling = asyncio.create_task(self._generation.settle()) if self.runtime.mcp_servers else None
        sweeping, telling = asyncio.create_task(self._sweep()), asyncio.create_task(self._tell_others())
        try:
            with self._life():
                async with self.live, self.news, self.runs:
                    yield self
        finally:
            sweeping.cancel()
            telling.cancel()
            if self._settling is not None:
                self._settling.cancel()
            await self.started()
            await asyncio.gather(sweeping, telling, *self._closing, return_exceptions=True)
            await self._generation.close(_LAST_WORDS_S)
            self.metrics.close()

    def _life(self) -> AbstractContextManager[None]:
        if MANY_WORKERS not in self.runtime.process_environment.env:
            return nullcontext()
        from aish.process.parent_death import ends_with_parent  # a server of one process does without

        return ends_with_parent()

    async def reload(self, runtime: Runtime) -> None:
        """From now on by this configuration. If it cannot be opened, nothing changes. Until its tools are there the old
        one serves: a tool of ours that is not there would be taken for the client's."""
        old, new = self._generation, Generation(runtime)
        await new.open(settled=True)
        self._take(new)
        self.engine = new.engine
        self.keys = KeyRing(self.store, self._given_keys, always=self._must_have_keys)
        closing = asyncio.create_task(old.close(self.limits.wall_s))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def note_now(self) -> None:
        """What is so at this moment, for whoever reads what is counted."""
        self.metrics.under_way.set(self.under_way)
        self.metrics.mcp_brought_open.set(len(self.runtime.mcp_guests))

    async def _tell_others(self) -> None:
        """What is counted and what is so, for the worker that is asked for all of them."""
        while self.metrics.together:
            self.note_now()
            self.metrics.hand_on()
            await asyncio.sleep(_TELL_S)

    async def _sweep(self) -> None:
        """Throws away, once in a while, what was kept for looking at and is old; what it cost is summed up."""
        while True:
            before_ms = time.time_ns() // 1_000_000 - self.config.keep_days * _DAY_MS
            with suppress(AishError):
                await self.store.delete_turns("", before_ms=before_ms)
                while await self.store.sum_up_usage(before_ms=before_ms):
                    pass  # a quarter of an hour at a time: others write between
                await self._forget_old_sessions()
            await asyncio.sleep(_SWEEP_S)

    async def _forget_old_sessions(self) -> None:
        keep_days = self.runtime.config.store.keep_days
        while keep_days and await forget_old_sessions(
            self.store, keep_days=keep_days, now_ms=time.time_ns() // 1_000_000
        ):
            pass
