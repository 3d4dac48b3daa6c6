"""One language server with an owner: started when first needed, stopped when idle, started again after a crash.

Life: asleep → starting → ready → asleep again (idle, or too large), or crashed. After a crash the next use starts it
again at once, then after growing pauses; after several in a row nothing is started for a while and each use is told so.
Only the owner task opens and closes the connection; uses come from any task.
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
    """A connection and what it was told. Valid while it lives."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.documents = Documents(connection)
        self.settled = False  # whether it was seen to answer about the whole project twice alike
        self.turn = asyncio.Lock()  # what was told and what is asked must not interleave with another's


class LanguageServer:
    """`on_start` is called before each start: what changes from then on it may not have read."""

    def __init__(self, spec: ServerSpec, *, on_start: Callable[[], None] = lambda: None) -> None:
        self.spec = spec
        self._on_start = on_start
        self.starts = 0
        self.ended = ""  # why it is not running, for a person
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
        """It does not go to sleep meanwhile. WireTimeout while it still starts; ToolError when it cannot be had."""
        self._uses += 1
        try:
            yield await self._session()
        finally:
            self._uses -= 1
            self._used_s = _now_s()

    async def forget(self, session: Session) -> None:
        """Ends it, so that the next use starts one that reads everything anew; unless somebody has done so already."""
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
            life.cancel()  # it is still starting, and owes nobody a farewell
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
        """Waits for the end of a life that is over: its last session is of no use."""
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
        finally:  # also when we are cancelled: nobody waits for what does not come
            if not ready.done():
                ready.set_exception(_unusable(self.spec.name, crash))
                ready.exception()  # perhaps nobody waits any more
        if crash is not None:
            self._note_crash(crash, began_s)

    async def _attend(self, connection: Connection) -> AishError | None:
        """Until it is to stop or goes by itself; the crash, if that is what it was."""
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
        """Counts as a crash: one that grows at once must not be started for ever."""
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
