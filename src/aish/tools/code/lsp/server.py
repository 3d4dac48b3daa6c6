"""One language server: started at the first use, stopped when idle, restarted after a crash.

States: asleep → starting → ready → asleep again (idle, or too large), or crashed. After the first crash it restarts at
once, then after growing pauses; after several in a row it is not started for a while, and each use gets an error. Only
the owner task opens and closes the connection; any task can use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aish.errors import AishError, ToolError, WireTimeout
from aish.tools.code.lsp.connection import Connection
from aish.tools.code.lsp.documents import Documents
from aish.tools.code.lsp.memory import resident_mb
from aish.tools.code.lsp.spec import ServerSpec
from aish.types.tools import ResultStatus

_STDERR_SHOWN_CHARS = 300


class Session:
    """A connection and its documents. Valid as long as the connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.documents = Documents(connection)
        self.settled = False  # whether two answers about the whole project have agreed
        self.turn = asyncio.Lock()  # changes are reported by one task at a time


class LanguageServer:
    """`on_start` is called before each start: later changes may not be known to the server."""

    def __init__(self, spec: ServerSpec, *, on_start: Callable[[], None] = lambda: None) -> None:
        self.spec = spec
        self._on_start = on_start
        self.starts = 0
        self.ended = ""  # why it is not running, for messages
        self._life: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Session] | None = None
        self._stop = asyncio.Event()
        self._closed = False
        self._ending = False
        self._uses = 0
        self._used_s = 0.0
        self._crashes = 0
        self._not_before_s = 0.0

    @property
    def running(self) -> bool:
        return self._life is not None and not self._life.done()

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Session]:
        """Keeps the server running meanwhile. Raises WireTimeout while it starts, ToolError if it cannot be started."""
        self._uses += 1
        try:
            yield await self._session()
        finally:
            self._uses -= 1
            self._used_s = _now_s()

    async def forget(self, session: Session) -> None:
        """Stops the server of this session, so that the next use starts one that reads everything anew."""
        ready = self._ready
        if ready is not None and ready.done() and ready.exception() is None and ready.result() is session:
            self._ending = True
            await self._end()

    async def aclose(self) -> None:
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        self._stop.set()
        life = self._life
        if life is None:
            return
        if self._ready is not None and not self._ready.done():
            life.cancel()  # it is still starting and needs no shutdown
        await asyncio.wait({life}, timeout=3 * self.spec.limits.close_wait_s + 5)
        if not life.done():
            life.cancel()
            await asyncio.wait({life}, timeout=5)

    async def _session(self) -> Session:
        if self._closed:
            raise ToolError(f"{self.spec.name} is closed", status=ResultStatus.SERVER_GONE)
        try:
            async with asyncio.timeout(self.spec.limits.answer_timeout_s):
                await self._buried()
                if not self.running:
                    self._begin()
                assert self._ready is not None
                return await asyncio.shield(self._ready)
        except TimeoutError as exc:
            raise WireTimeout(f"{self.spec.name} is still starting", phase="start") from exc

    async def _buried(self) -> None:
        """Waits until a server that is stopping has ended."""
        ending = self._ending or (self._ready is not None and self._ready.done() and self._is_dead(self._ready))
        if ending and self._life is not None and self.running:
            await asyncio.wait({self._life})

    def _is_dead(self, ready: asyncio.Future[Session]) -> bool:
        return ready.exception() is not None or ready.result().connection.closed

    def _begin(self) -> None:
        wait_s = self._not_before_s - _now_s()
        if wait_s > 0:
            text = (
                f"{self.spec.name} crashed {self._crashes} times ({self.ended}); it is not started for {wait_s:.0f} s"
            )
            raise ToolError(text, status=ResultStatus.SERVER_GONE)
        self._stop, self._ending = asyncio.Event(), False
        self._ready = asyncio.get_running_loop().create_future()
        self._used_s = _now_s()
        self.starts += 1
        self._on_start()
        self._life = asyncio.create_task(self._live(self._ready), name=f"language server {self.spec.name}")

    async def _live(self, ready: asyncio.Future[Session]) -> None:
        began_s = _now_s()
        crash: AishError | None = None
        try:
            async with Connection.open(self.spec) as connection:
                ready.set_result(Session(connection))
                crash = await self._attend(connection)
        except AishError as exc:
            crash = exc
        finally:  # also on cancellation: waiting callers get an error
            if not ready.done():
                ready.set_exception(_unusable(self.spec.name, crash))
                ready.exception()  # marks it as retrieved if no caller waits
        if crash is not None:
            self._note_crash(crash, began_s)

    async def _attend(self, connection: Connection) -> AishError | None:
        """Waits until the server is stopped or exits. Returns the error if it crashed."""
        limits = self.spec.limits
        gone = asyncio.ensure_future(connection.wait_gone())
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {gone, stop}, timeout=limits.attend_every_s, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done:
                    return gone.result()
                if stop in done:
                    self.ended = "stopped"
                    return None
                if self._is_idle():
                    return None
                if (size := self._excess(connection)) is not None:
                    return size
        finally:
            self._ending = True
            gone.cancel()
            stop.cancel()

    def _is_idle(self) -> bool:
        idle_s = self.spec.limits.idle_stop_s
        if self._uses or not idle_s or _now_s() - self._used_s < idle_s:
            return False
        self.ended = "asleep"
        return True

    def _excess(self, connection: Connection) -> AishError | None:
        """Returns an error if the server uses too much memory. It counts as a crash, so that it is not restarted for
        ever."""
        limit_mb = self.spec.limits.max_memory_mb
        size_mb = resident_mb(connection.pid) if limit_mb else None
        if size_mb is None or size_mb <= limit_mb:
            return None
        return AishError(f"{self.spec.name} held {size_mb:.0f} MB, more than the {limit_mb} MB it may")

    def _note_crash(self, crash: AishError, began_s: float) -> None:
        limits, now_s = self.spec.limits, _now_s()
        self._crashes = 1 if now_s - began_s > limits.rest_s else self._crashes + 1
        self.ended = describe(crash)
        if self._crashes >= limits.restarts:
            self._not_before_s = now_s + limits.rest_s
        elif self._crashes > 1:
            self._not_before_s = now_s + limits.first_pause_s * 2 ** (self._crashes - 2)


def _unusable(name: str, crash: AishError | None) -> ToolError:
    why = describe(crash) if crash is not None else "stopped"
    hint = f"; {crash.hint}" if crash is not None and crash.hint else ""
    return ToolError(f"{name} cannot be used: {why}{hint}", status=ResultStatus.SERVER_GONE)


def describe(crash: AishError) -> str:
    tail = " ".join(getattr(crash, "stderr_tail", "").split())[-_STDERR_SHOWN_CHARS:]
    return f"{crash.message}: {tail}" if tail else crash.message


def _now_s() -> float:
    return asyncio.get_running_loop().time()
