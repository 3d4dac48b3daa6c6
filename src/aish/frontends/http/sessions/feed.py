"""`GET /v1/events`: everything that every turn says, of any frontend and any process on the store, as it is written.

Each event has an id. Whoever comes back with the last one they saw (`Last-Event-ID`, or `?after=`) goes on after it,
without loss or repetition: events are read from the store, and a listener holds nothing but its place there. One that
does not read is given up by `Watch`, and may come back.

Life: opened with the server. While anybody listens, one task waits for news on behalf of all (`feed_news`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.disconnect_monitor import Watch
from aish.frontends.http.server.http_errors import Problem, bad_field
from aish.frontends.http.server.routes import Route
from aish.frontends.http.sessions.feed_news import Listener
from aish.types.records import FeedRow

if TYPE_CHECKING:
    from aish.frontends.http.server.service import Service

# Rows read at once. A row is seldom larger than 256 KB.
_ROWS = 16
# A browser waits this long before it comes back.
_RETRY_MS = 1000
_PLACE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")


class Place(msgspec.Struct, frozen=True):
    """After so many lines of that row; None: after all of them."""

    row: int
    lines: int | None = None

    @property
    def before(self) -> int:
        """The cursor to read on from."""
        return self.row if self.lines is None else self.row - 1

    def skipped(self, row: FeedRow) -> int:
        return (self.lines or 0) if row.cursor == self.row else 0


class _Signs:
    """What `Watch` needs to know of a stream that has nothing to say of itself."""

    heartbeat = b": \n\n"

    def opening(self) -> bytes:
        return b""


class FeedRoutes:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        return [Route("GET", "/v1/events", self.follow, "What every turn says, as it happens (SSE)")]

    async def follow(self, exchange: Exchange, caller: Caller) -> None:
        service, config = self._service, self._service.config
        place = await self._place(exchange)
        is_wanted = _wanted(exchange.query, caller)
        watch = Watch(exchange, _Signs(), heartbeat_s=config.heartbeat_s)
        with service.news.listener(lambda owner: caller.admin or owner == caller.key) as listener, watch:
            await watch.send(b"retry: %d\nid: %b\n\n" % (_RETRY_MS, _name(place)))
            await self._relay(watch, listener, caller, place, is_wanted)
            await watch.finish()

    async def _relay(
        self, watch: Watch, listener: Listener, caller: Caller, place: Place, is_wanted: Callable[[FeedRow], bool]
    ) -> None:
        """Until the server closes or has a new configuration; whoever listens then comes back, if they still may."""
        service, engine = self._service, self._service.engine
        while not service.draining and service.engine is engine and not listener.is_lost:
            news = listener.news
            if not await service.keys.still_admits(caller):
                return
            rows = await engine.store.read_feed(place.before, _ROWS)
            for row in rows:
                if is_wanted(row) and (data := encoded(row, place.skipped(row))):
                    await watch.send(data)
                place = Place(row.cursor)
            for approval in listener.take():
                await watch.send(b"event: approval\ndata: %b\n\n" % approval)
            if not rows:
                await news.wait()

    async def _place(self, exchange: Exchange) -> Place:
        """Where they left off; now, if they say nothing. A place past the end is one of another store."""
        given = exchange.headers.get("last-event-id") or exchange.query.get("after", "")
        end = await self._service.store.feed_end()
        if not given:
            return Place(end)
        found = _PLACE.fullmatch(given)
        if found is None or not given.isascii():
            raise bad_field("after", "must be the id of an event of this feed")
        place = Place(int(found[1]), int(found[2]) if found[2] else None)
        return place if place.row <= end else Place(end)


def encoded(row: FeedRow, skipped: int = 0) -> bytes:
    lines = row.lines.split(b"\n")[:-1]
    events = enumerate(lines[skipped:], skipped + 1)
    return b"".join([b"id: %d.%d\nevent: event\ndata: %b\n\n" % (row.cursor, number, line) for number, line in events])


def _name(place: Place) -> bytes:
    return b"%d" % place.row if place.lines is None else b"%d.%d" % (place.row, place.lines)


def _wanted(query: dict[str, str], caller: Caller) -> Callable[[FeedRow], bool]:
    """A turn of no session is its asker's alone: others must know its id."""
    session, turn = query.get("session", ""), query.get("turn", "")
    names = {session, caller.session(session)}
    if len(session) > 200 or len(turn) > 200:
        raise Problem(400, "no session or turn has so long a name", code="invalid_value")

    def is_wanted(row: FeedRow) -> bool:
        mine = caller.admin or row.session.startswith(f"{caller.key}/") or (not row.session and row.turn == turn)
        return mine and (not turn or row.turn == turn) and (not session or row.session in names)

    return is_wanted
