"""Rewinds sessions: `/v1/sessions/{id}/checkpoints` and `/v1/sessions/{id}/rewind`.

A key may rewind its own conversations. Files belong to the workspace of the server, where turns of other keys work:
only administrators see their names and bring them back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem, decode_body
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.frontends.http.sessions.session_traces import find_visible_session
from aish.types.checkpoints import FileChanges, RewindScope, RewindTarget

_MAX_NAMES = 50  # of each kind of change
_MAX_BODY_BYTES = 4096


class RewindBody(msgspec.Struct, frozen=True):
    """`to` is the `id` of what is listed at `checkpoints`: the number of a turn, or `r1` and so on for an earlier
    rewind."""

    to: str
    what: RewindScope


_decoder = msgspec.json.Decoder(RewindBody)


class RewindRoutes:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        path = "/v1/sessions/{*id}"
        return [
            HttpRoute("GET", f"{path}/checkpoints", self.list_targets, "What a session can be rewound to"),
            HttpRoute("POST", f"{path}/rewind", self.rewind, "Rewind a session", body=RewindBody, free=True),
        ]

    async def list_targets(self, exchange: Exchange, caller: Caller, id: str) -> None:
        """The newest turns and rewinds, oldest first. `files` is what bringing each back would change now; null if
        there is nothing to bring back, or for a key that may not do it."""
        session = await find_visible_session(self._service, caller, id)
        found = await self._service.engine.rewinds.list_targets(session.id, with_files=caller.admin)
        data = [_target_object(target) for target in found]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": data}))

    async def rewind(self, exchange: Exchange, caller: Caller, id: str) -> None:
        """Answers with what was changed and with `undo`, the target that takes this rewind back.

        Refused with 409 while a turn runs in the session, and if the files cannot be brought back: then the
        conversation stays as it is, too.
        """
        given = decode_body(await exchange.body(_MAX_BODY_BYTES), _decoder)
        session = await find_visible_session(self._service, caller, id)
        if given.what is not RewindScope.CONVERSATION and not caller.admin:
            raise HttpProblem(403, "files are brought back by keys of administrators only", code="forbidden")
        result = await self._service.engine.rewinds.rewind(session.id, given.to, given.what)
        files = [_changes_object(root, changes) for root, changes in result.files]
        reply = {"object": "rewind", "undo": result.undo, "turns": result.turns, "files": files}
        await exchange.reply(200, msgspec.json.encode(reply))


def _target_object(target: RewindTarget) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(target)
    files = None if target.files is None else [_changes_object(root, changes) for root, changes in target.files]
    return {**shown, "files": files, "changed": target.changed}


def _changes_object(root: str, changes: FileChanges) -> dict[str, Any]:
    """Counts are whole, lists of names may be cut."""
    kinds = {"restored": changes.restored, "replaced": changes.replaced, "removed": changes.removed}
    left = [{"path": path, "reason": reason} for path, reason in changes.left[:_MAX_NAMES]]
    names = {kind: names[:_MAX_NAMES] for kind, names in kinds.items()}
    return {"workspace": root, "changed": changes.count, **names, "left": left}
