"""`GET /v1/events`: the events of all turns, of any frontend and any process on the store, as they are recorded.

Each event has an id. A client that comes back with the last id it got (`Last-Event-ID`, or `?after=`) continues after
it, without loss or repetition: events are read from the store, and a listener holds only its position. A client that
does not read is disconnected by its connection.

While there are listeners, one task waits for new events on behalf of all, and another one for approvals. Approvals are
stored documents, so those of other processes are found, too. A new listener gets all approvals that wait, then each one
that begins, is answered or is withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.engine_host import EngineHost
from aish.frontends.http.server.http_errors import HttpProblem, bad_field
from aish.frontends.http.server.reply_stream import ReplyStream
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.sessions.approvals import KIND, Approval, is_waiting
from aish.types.records import FeedRow

log = logging.getLogger(__name__)

# Each is a connection that stays open and reads all events from the store.
MAX_LISTENERS = 256
# A listener that falls behind by more is disconnected. It comes back and gets the approvals that still wait.
_MAX_QUEUED = 256
# How often to look for approvals of other processes, and whether the server is to close.
_POLL_S = 1.0

_decoder = msgspec.json.Decoder(Approval)


class FeedListener:
    def __init__(self, may_see: Callable[[str], bool]) -> None:
        self.news = asyncio.Event()
        self.is_lost = False
        self._may_see = may_see
        self._queued: deque[bytes] = deque()

    def notify(self) -> None:
        """Wakes tasks that wait for the current `news` event. Later waits use a new one."""
        news, self.news = self.news, asyncio.Event()
        news.set()

    def put(self, owner: str, approval: bytes) -> None:
        if not self._may_see(owner):
            return
        if len(self._queued) >= _MAX_QUEUED:
            self.is_lost = True
        else:
            self._queued.append(approval)

    def take(self) -> Iterator[bytes]:
        while self._queued:
            yield self._queued.popleft()


class FeedWatcher:
    """Waits for events and approvals on behalf of all listeners."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._listeners: set[FeedListener] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._approvals_changed = asyncio.Event()
        self._known: dict[str, tuple[str, bytes]] = {}  # approvals by id: whose, and what was told of them

    async def __aenter__(self) -> FeedWatcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        await asyncio.gather(*self._ending, return_exceptions=True)

    @contextmanager
    def listener(self, may_see: Callable[[str], bool]) -> Iterator[FeedListener]:
        """`may_see` is called with the owner of an approval. Raises HttpProblem where there are too many listeners."""
        if len(self._listeners) >= MAX_LISTENERS:
            raise HttpProblem(503, "too many listen already", headers=[(b"retry-after", b"5")], code="overloaded")
        listener = FeedListener(may_see)
        for owner, approval in self._known.values():
            if _decoder.decode(approval).answer is None:
                listener.put(owner, approval)
        self._listeners.add(listener)
        if not self._tasks:
            self._start(self._watch_events())
            self._start(self._watch_approvals())
        try:
            yield listener
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._stop()

    def note_approval_change(self) -> None:
        """An approval of this process has changed."""
        self._approvals_changed.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._tasks, self._known = set(), {}

    async def _watch_events(self) -> None:
        end = 0
        while True:
            try:
                store = self._host.store
                await store.wait_feed(end, _POLL_S)
                end = await store.feed_end()
            except Exception as exc:  # top of an owner task, on which every listener depends
                # Mostly a store that closes because of a new configuration; the next poll finds the new one.
                log.warning("the feed could not be read: %s", exc)
                await asyncio.sleep(_POLL_S)
            self._notify()

    async def _watch_approvals(self) -> None:
        while True:
            self._approvals_changed.clear()
            try:
                await self._refresh_approvals()
            except Exception as exc:  # as above
                log.warning("the approvals could not be read: %s", exc)
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._approvals_changed.wait()

    async def _refresh_approvals(self) -> None:
        documents = await self._host.store.list_documents(KIND, limit=_MAX_QUEUED)
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
            self._notify()

    def _is_current(self, body: bytes) -> bool:
        approval = _decoder.decode(body)
        return approval.answer is not None or is_waiting(approval, self._host)

    def _is_news(self, id: str, body: bytes) -> bool:
        """An approval that was answered before it was seen here is not."""
        return id in self._known or _decoder.decode(body).answer is None

    def _notify(self) -> None:
        for listener in self._listeners:
            listener.notify()


# Rows read at once. A row is seldom larger than 256 KB.
_ROWS = 16
# How long a browser waits before it reconnects.
_RETRY_MS = 1000
_EVENT_ID = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")


class FeedPosition(msgspec.Struct, frozen=True):
    """After so many lines of that row; None: after all of them."""

    row: int
    lines: int | None = None

    @property
    def before(self) -> int:
        """The cursor to read on from."""
        return self.row if self.lines is None else self.row - 1

    def lines_to_skip(self, row: FeedRow) -> int:
        return (self.lines or 0) if row.cursor == self.row else 0


class _FeedHeartbeat:
    """The heartbeat of the feed, for the disconnect monitor."""

    heartbeat = b": \n\n"

    def opening(self) -> bytes:
        return b""


class FeedRoutes:
    def __init__(self, host: EngineHost, watcher: FeedWatcher) -> None:
        self._host = host
        self._watcher = watcher

    def routes(self) -> list[HttpRoute]:
        return [HttpRoute("GET", "/v1/events", self.follow, "What every turn says, as it happens (SSE)")]

    async def follow(self, exchange: Exchange, caller: Caller) -> None:
        config = self._host.config
        position = await self._read_position(exchange)
        is_wanted = _row_filter(exchange.query, caller)
        reply_stream = ReplyStream(exchange, _FeedHeartbeat(), heartbeat_s=config.heartbeat_s)
        with self._watcher.listener(lambda owner: caller.admin or owner == caller.key) as listener, reply_stream:
            await reply_stream.send(b"retry: %d\nid: %b\n\n" % (_RETRY_MS, _position_id(position)))
            await self._relay(reply_stream, listener, caller, position, is_wanted)
            await reply_stream.finish()

    async def _relay(
        self,
        reply_stream: ReplyStream,
        listener: FeedListener,
        caller: Caller,
        position: FeedPosition,
        is_wanted: Callable[[FeedRow], bool],
    ) -> None:
        """Runs until the server closes or has a new configuration. Listeners then reconnect, if their key still allows
        it."""
        host, engine = self._host, self._host.engine
        while not host.draining and host.engine is engine and not listener.is_lost:
            news = listener.news
            if not await host.keys.is_still_admitted(caller):
                return
            rows = await engine.store.read_feed(position.before, _ROWS)
            for row in rows:
                if is_wanted(row) and (data := encode_row(row, position.lines_to_skip(row))):
                    await reply_stream.send(data)
                position = FeedPosition(row.cursor)
            for approval in listener.take():
                await reply_stream.send(b"event: approval\ndata: %b\n\n" % approval)
            if not rows:
                await news.wait()

    async def _read_position(self, exchange: Exchange) -> FeedPosition:
        """Reads the position that the client gives; the end if it gives none. A position past the end belongs to
        another store."""
        given = exchange.headers.get("last-event-id") or exchange.query.get("after", "")
        end = await self._host.store.feed_end()
        if not given:
            return FeedPosition(end)
        found = _EVENT_ID.fullmatch(given)
        if found is None or not given.isascii():
            raise bad_field("after", "must be the id of an event of this feed")
        position = FeedPosition(int(found[1]), int(found[2]) if found[2] else None)
        return position if position.row <= end else FeedPosition(end)


def encode_row(row: FeedRow, skipped: int = 0) -> bytes:
    lines = row.lines.split(b"\n")[:-1]
    events = enumerate(lines[skipped:], skipped + 1)
    return b"".join([b"id: %d.%d\nevent: event\ndata: %b\n\n" % (row.cursor, number, line) for number, line in events])


def _position_id(position: FeedPosition) -> bytes:
    return b"%d" % position.row if position.lines is None else b"%d.%d" % (position.row, position.lines)


def _row_filter(query: dict[str, str], caller: Caller) -> Callable[[FeedRow], bool]:
    """A turn without a session is visible only to callers who know its id."""
    session, turn = query.get("session", ""), query.get("turn", "")
    names = {session, caller.session(session)}
    if len(session) > 200 or len(turn) > 200:
        raise HttpProblem(400, "no session or turn has so long a name", code="invalid_value")

    def is_wanted(row: FeedRow) -> bool:
        mine = caller.admin or row.session.startswith(f"{caller.key}/") or (not row.session and row.turn == turn)
        return mine and (not turn or row.turn == turn) and (not session or row.session in names)

    return is_wanted
