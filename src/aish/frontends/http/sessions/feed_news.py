"""Waits for news on behalf of everybody who listens to the feed: that something was written, and which calls wait for
consent. It does not know what they are told, nor how.

Approvals lie in the store as documents, so those of other processes are noticed, too. A listener is told of all that
wait when it comes, and then of each that begins, is answered or is withdrawn.

Life: opened with the server. Its tasks run while somebody listens, and end with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from aish.frontends.http.server.http_errors import Problem
from aish.frontends.http.sessions.approvals import KIND, Approval

if TYPE_CHECKING:
    from aish.frontends.http.server.service import Service

log = logging.getLogger(__name__)

# Each is a connection that stays open and reads what is written again.
MAX_LISTENERS = 256
# A listener that has not taken this many is lost: it comes back and is told what still waits.
_MAX_KEPT = 256
# For news that is only noticed by looking: approvals of other processes, a server that is to close.
_LOOK_S = 1.0

_decoder = msgspec.json.Decoder(Approval)


class Listener:
    def __init__(self, may_see: Callable[[str], bool]) -> None:
        self.news = asyncio.Event()
        self.is_lost = False
        self._may_see = may_see
        self._kept: deque[bytes] = deque()

    def tell(self) -> None:
        """Whoever took `news` before has been told; whoever takes it now waits for the next."""
        news, self.news = self.news, asyncio.Event()
        news.set()

    def put(self, owner: str, approval: bytes) -> None:
        if not self._may_see(owner):
            return
        if len(self._kept) >= _MAX_KEPT:
            self.is_lost = True
        else:
            self._kept.append(approval)

    def take(self) -> Iterator[bytes]:
        while self._kept:
            yield self._kept.popleft()


class FeedNews:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._listeners: set[Listener] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._poked = asyncio.Event()
        self._known: dict[str, tuple[str, bytes]] = {}  # approvals by id: whose, and what was told of them

    async def __aenter__(self) -> FeedNews:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        await asyncio.gather(*self._ending, return_exceptions=True)

    @contextmanager
    def listener(self, may_see: Callable[[str], bool]) -> Iterator[Listener]:
        """`may_see` is asked with the owner of an approval. Raises Problem where there is no room."""
        if len(self._listeners) >= MAX_LISTENERS:
            raise Problem(503, "too many listen already", headers=[(b"retry-after", b"5")], code="overloaded")
        listener = Listener(may_see)
        for owner, approval in self._known.values():
            if _decoder.decode(approval).answer is None:
                listener.put(owner, approval)
        self._listeners.add(listener)
        if not self._tasks:
            self._start(self._attend_events())
            self._start(self._attend_approvals())
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._stop()

    def poke(self) -> None:
        """An approval of this process has changed."""
        self._poked.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._tasks, self._known = set(), {}

    async def _attend_events(self) -> None:
        end = 0
        while True:
            try:
                store = self._service.store
                await store.wait_feed(end, _LOOK_S)
                end = await store.feed_end()
            except Exception as exc:  # top of an owner task, on which every listener depends
                # Mostly a store that closes because of a new configuration; the next look finds the new one.
                log.warning("the feed could not be read: %s", exc)
                await asyncio.sleep(_LOOK_S)
            self._tell()

    async def _attend_approvals(self) -> None:
        while True:
            self._poked.clear()
            try:
                await self._look_at_approvals()
            except Exception as exc:  # as above
                log.warning("the approvals could not be read: %s", exc)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._poked.wait()

    async def _look_at_approvals(self) -> None:
        documents = await self._service.store.list_documents(KIND, limit=_MAX_KEPT)
        found = {one.id: (one.owner, one.body) for one in documents if self._is_current(one.body)}
        news = [seen for id, seen in found.items() if self._known.get(id) != seen and self._is_news(id, seen[1])]
        news += [
            (owner, msgspec.json.encode({"id": id, "withdrawn": True}))
            for id, (owner, body) in self._known.items()
            if id not in found and _decoder.decode(body).answer is None
        ]
        self._known = found
        for owner, approval in news:
            for listener in self._listeners:
                listener.put(owner, approval)
        if news:
            self._tell()

    def _is_current(self, body: bytes) -> bool:
        approval = _decoder.decode(body)
        return approval.answer is not None or self._service.approvals.is_waiting(approval)

    def _is_news(self, id: str, body: bytes) -> bool:
        """What was answered before anybody listened is not."""
        return id in self._known or _decoder.decode(body).answer is None

    def _tell(self) -> None:
        for listener in self._listeners:
            listener.tell()
