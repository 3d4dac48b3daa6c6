"""What has happened: `/v1/sessions…`, also as a file, and `/v1/traces/{turn}`."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import msgspec

from aish.engine.rewind import find_rewinds
from aish.engine.turn.events import record_from_events
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem, bad_field, read_number
from aish.frontends.http.server.reply_stream import ReplyStream
from aish.frontends.http.server.service import Service
from aish.types.records import SessionRecord, TurnRecord

# Another process may hold events of a turn back for up to 0.3 s, and then waits for the disk.
_LAG_S = 0.5
_LOOK_S = 0.05
_MOST = 1000
_MAX_EVENTS = 99_999_999
_CLOCK_DIGITS = 16
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


class Records:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def sessions(self, exchange: Exchange, caller: Caller) -> None:
        """`before` is the `next` of a list that was not complete."""
        query = exchange.query
        limit = read_number("limit", query.get("limit", "20"), most=_MOST)
        found = await self._service.store.list_sessions(
            limit=limit,
            search=query.get("search", ""),
            under="" if caller.admin else f"{caller.key}/",
            before=_place(query.get("before", "")),
        )
        data = [_session_object(caller, session) for session in found]
        following = f"{found[-1].updated_ms}:{found[-1].id}" if len(found) == limit else None
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": data, "next": following}))

    async def session(self, exchange: Exchange, caller: Caller, id: str) -> None:
        session = await find_visible_session(self._service, caller, id)
        turns = await self._service.store.list_turns(session.id)
        rewinds = await find_rewinds(self._service.store, session.id)
        shown_turns = [{**_turn(turn), **(_REWOUND if rewinds.has_cut(turn.number) else {})} for turn in turns]
        shown = {**_session_object(caller, session), "turns": shown_turns}
        await exchange.reply(200, msgspec.json.encode(shown))

    async def delete(self, exchange: Exchange, caller: Caller, id: str) -> None:
        session = await find_visible_session(self._service, caller, id)
        await self._service.store.delete_session(session.id)
        await exchange.reply(200, msgspec.json.encode({"id": id, "object": "session.deleted", "deleted": True}))

    async def export(self, exchange: Exchange, caller: Caller, id: str) -> None:
        """Like `aish sessions export`, one turn at a time."""
        session = await find_visible_session(self._service, caller, id)
        config = self._service.config
        name = f'attachment; filename="{_file_name(id)}.jsonl"'
        headers = [(b"content-type", b"application/x-ndjson"), (b"content-disposition", name.encode())]
        await exchange.start(200, [*exchange.extra, *headers])
        self._service.engine.flush_running_turns()
        turns = await self._service.store.list_turns(session.id)
        with ReplyStream(exchange, None, heartbeat_s=config.heartbeat_s) as reply_stream:
            for turn in turns:
                await reply_stream.send(await self._service.store.read_events(turn.id))
            await reply_stream.finish()

    async def trace(self, exchange: Exchange, caller: Caller, turn: str) -> None:
        """A turn of a session is visible to those who may see the session; any other turn to those who know its id."""
        self._service.engine.flush_running_turns()
        record = await self._find_turn(turn)
        if record is None or (record.session and not caller.may_see(record.session)):
            raise HttpProblem(404, f"there is no turn {turn[:80]}", code="turn_not_found")
        after = read_number("after", exchange.query.get("after", "0"), least=0, most=_MAX_EVENTS)
        lines = (await self._service.store.read_events(turn)).splitlines()
        if not record.session:
            record = record_from_events(lines, record)
        if after:
            lines = (await self._service.store.read_events(turn, after_seq=after)).splitlines()
        body = self._service.redact_json(msgspec.json.encode({"object": "trace", **_turn(record)}))
        await exchange.reply(200, body[:-1] + b',"events":[' + b",".join(lines) + b"]}")

    async def _find_turn(self, turn: str) -> TurnRecord | None:
        """Waits briefly for a turn of another process, whose client may know more of it than is stored."""
        record = await self._service.store.find_turn(turn)
        due_s = time.monotonic() + _LAG_S
        while self._may_be_behind(record) and time.monotonic() < due_s:
            await asyncio.sleep(_LOOK_S)
            record = await self._service.store.find_turn(turn)
        return record

    def _may_be_behind(self, record: TurnRecord | None) -> bool:
        """Turns of a session are never behind: their end is stored before it is sent."""
        engine = self._service.engine
        if record is None:
            return engine.shared
        if record.end is not None or record.session:
            return False
        return record.owner != engine.liveness.me and engine.liveness.is_alive(record.owner)


_REWOUND = {"rewound": True}  # no longer part of the conversation


async def find_visible_session(service: Service, caller: Caller, id: str) -> SessionRecord:
    """The session that this caller means. Raises HttpProblem 404, also where it may not see it."""
    for name in dict.fromkeys((caller.session(id), id)):
        session = await service.store.find_session(name)
        if session is not None and caller.may_see(session.id):
            return session
    raise HttpProblem(404, f"there is no session {id[:80]}", code="session_not_found")


def _session_object(caller: Caller, session: SessionRecord) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(session)
    if not session.parent:
        del shown["parent"]
    return {**shown, "id": session.id.removeprefix(f"{caller.key}/"), "object": "session"}


def _turn(turn: TurnRecord) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(turn)
    shown.pop("owner")
    return shown


def _place(given: str) -> tuple[int, str] | None:
    if not given:
        return None
    at_ms, _, id = given.partition(":")
    if not (at_ms.isascii() and at_ms.isdecimal()) or len(at_ms) > _CLOCK_DIGITS:
        raise bad_field("before", "must be the `next` of an earlier list")
    return int(at_ms), id


def _file_name(session: str) -> str:
    return _ODD.sub("-", session)[:80].strip("-.") or "session"
