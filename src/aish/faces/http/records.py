"""What has happened: `/v1/sessions…` and `/v1/traces/{turn}`."""

from __future__ import annotations

from typing import Any

import msgspec

from aish.faces.asgi import Exchange
from aish.faces.http.callers import Caller
from aish.faces.http.problems import Problem, bad_field
from aish.faces.http.service import Service
from aish.types.records import SessionRecord, TurnRecord

_MOST = 1000


class Records:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def sessions(self, exchange: Exchange, caller: Caller) -> None:
        query = exchange.query
        limit = _number("limit", query.get("limit", "20"), most=_MOST)
        # A key sees its own only, of which there may be few among many.
        asked = limit if caller.admin else _MOST
        found = await self._service.store.list_sessions(limit=asked, search=query.get("search", ""))
        mine = [_shown(caller, session) for session in found if _is_visible(caller, session.id)]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": mine[:limit]}))

    async def session(self, exchange: Exchange, caller: Caller, id: str) -> None:
        session = await self._find(caller, id)
        turns = await self._service.store.list_turns(session.id)
        shown = {**_shown(caller, session), "turns": [_turn(turn) for turn in turns]}
        await exchange.reply(200, msgspec.json.encode(shown))

    async def delete(self, exchange: Exchange, caller: Caller, id: str) -> None:
        session = await self._find(caller, id)
        await self._service.store.delete_session(session.id)
        await exchange.reply(200, msgspec.json.encode({"id": id, "object": "session.deleted", "deleted": True}))

    async def trace(self, exchange: Exchange, caller: Caller, turn: str) -> None:
        """By its id, which only those know who were told; a session's turns by those who may see the session."""
        record = await self._service.store.find_turn(turn)
        if record is None or (record.session and not _is_visible(caller, record.session)):
            raise Problem(404, f"there is no turn {turn[:80]}", code="turn_not_found")
        lines = (await self._service.store.read_events(turn)).splitlines()
        body = msgspec.json.encode({"object": "trace", **_turn(record)})
        await exchange.reply(200, body[:-1] + b',"events":[' + b",".join(lines) + b"]}")

    async def _find(self, caller: Caller, id: str) -> SessionRecord:
        for name in dict.fromkeys((caller.session(id), id)):
            session = await self._service.store.find_session(name)
            if session is not None and _is_visible(caller, session.id):
                return session
        raise Problem(404, f"there is no session {id[:80]}", code="session_not_found")


def _is_visible(caller: Caller, session: str) -> bool:
    return caller.admin or session.startswith(f"{caller.key}/")


def _shown(caller: Caller, session: SessionRecord) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(session)
    return {**shown, "id": session.id.removeprefix(f"{caller.key}/"), "object": "session"}


def _turn(turn: TurnRecord) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(turn)
    shown.pop("owner")
    return shown


def _number(field: str, given: str, *, most: int) -> int:
    if not given.isdecimal() or not 1 <= int(given[:9]) <= most:
        raise bad_field(field, f"must be a number from 1 to {most}")
    return int(given)
