"""`Idempotency-Key`: the same request asked again is the same request.

While it is being answered, whoever asks with its key follows along; afterwards the recorded reply is given again. It is
run by a task of its own, so that a connection that breaks does not stop it: the client that comes back finds it. A
failure that clients are meant to ask again after is not kept, unless something has been done by then.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any

import msgspec

from aish.errors import AishError
from aish.frontends.asgi import CONNECTION, Exchange, Scope
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.http_errors import Problem
from aish.frontends.http.server.service import Service
from aish.frontends.http.sessions.idempotency_remote import Elsewhere
from aish.frontends.http.sessions.reply_redaction import without_secrets
from aish.frontends.http.turns.background_turns import LiveTurn, Missed
from aish.types.records import Document

log = logging.getLogger(__name__)

HEADER = "idempotency-key"
KIND = "idempotent"
KEPT_MS = 24 * 3600 * 1000
# A longer reply is not kept: it can be followed, but not given again.
MAX_REPLY_BYTES = 8 * 1024 * 1024
# What may wait in memory for a store that cannot be written now; of a longer reply it is only noted that it was given.
_MAX_LATE_BYTES = 64 * 1024
_MAX_KEY_CHARS = 255
_LENGTH = b"content-length"

Answer = Callable[[Exchange], Awaitable[None]]


class _Reply(msgspec.Struct, frozen=True):
    status: int
    headers: list[tuple[str, str]]
    body: str


class _Kept(msgspec.Struct, frozen=True):
    """`reply` None: it is being answered by the process `runner`, or was when that died."""

    request: str  # a digest: the key belongs to this one and no other
    reply: _Reply | None = None
    runner: str = ""


_decoder = msgspec.json.Decoder(_Kept)


class _Recording:
    """Takes a reply apart for those who follow it."""

    def __init__(self, id: str, scope: Scope, body: bytes, digest: str) -> None:
        self.digest = digest
        self.beginning: asyncio.Task[_Kept | None] | None = None
        self.live = LiveTurn(id, kept_bytes=MAX_REPLY_BYTES)
        self.begun = asyncio.Event()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: list[bytes] = []
        self.size = 0
        self._unread = [{"type": "http.request", "body": body, "more_body": False}]
        alone = {name: value for name, value in scope.items() if name != CONNECTION}
        self.exchange = Exchange(alone, self._receive, self._send)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._unread:
            return self._unread.pop()
        gone: asyncio.Future[MutableMapping[str, Any]] = asyncio.get_running_loop().create_future()
        return await gone  # which never comes: this client does not go away

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status, self.headers = event["status"], list(event["headers"])
            self.begun.set()
        elif data := event.get("body", b""):
            self.size += len(data)
            if self.size <= MAX_REPLY_BYTES:
                self.body.append(data)
            self.live.push(data)


class Idempotent:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._recordings: dict[str, _Recording] = {}
        self._elsewhere = Elsewhere(service, KIND)

    async def answer(self, exchange: Exchange, scope: Scope, caller: Caller, key: str, answer: Answer) -> None:
        """`answer` replies to the exchange it is given, whatever happens."""
        if len(key) > _MAX_KEY_CHARS:
            raise Problem(400, f"{HEADER}: at most {_MAX_KEY_CHARS} characters", param=HEADER)
        body = await exchange.body(self._service.config.max_body_bytes)
        id = _digest(caller.key, key)
        digest = _digest(exchange.method, exchange.path, body)
        recording = self._recordings.get(id)
        if recording is None:
            recording = self._recordings[id] = _Recording(id, scope, body, digest)
        elif recording.digest != digest:
            raise _other_request()
        if recording.beginning is None:
            recording.beginning = asyncio.create_task(self._begin(id, recording, answer))
        # Whoever comes before it is known what is kept under the key waits for it, too.
        kept = await asyncio.shield(recording.beginning)
        if kept is not None:
            if kept.reply is None and kept.request == digest:
                kept = await self._from_elsewhere(exchange, id, kept)
            await _give_again(exchange, _checked(kept, digest))
        else:
            await _follow(exchange, recording)

    async def _from_elsewhere(self, exchange: Exchange, id: str, kept: _Kept) -> _Kept:
        changed = await self._elsewhere.changed(exchange, id, msgspec.json.encode(kept), kept.runner)
        return kept if changed is None else _decoder.decode(changed)

    async def _begin(self, id: str, recording: _Recording, answer: Answer) -> _Kept | None:
        """What is kept under this key; None: nothing was, and it is being answered from now on."""
        begun = False
        try:
            kept = await self._taken(id, recording.digest)
            if kept is None:
                await self._start(id, recording, answer)
                begun = True
            return kept
        finally:
            if not begun:
                self._recordings.pop(id, None)

    async def _start(self, id: str, recording: _Recording, answer: Answer) -> None:
        try:
            self._service.live.start(recording.live, self._run(id, recording, answer))
        except Problem:
            await self._service.store.delete(KIND, id)  # or the key would be taken by a request that never ran
            raise

    async def _taken(self, id: str, digest: str) -> _Kept | None:
        """What is there under this key; None: nothing was, and it is ours now."""
        store = self._service.store
        expires_ms = self._service.now_ms() + KEPT_MS
        mine = _Kept(digest, runner=self._service.engine.owners.me)
        document = Document(KIND, id, msgspec.json.encode(mine), expires_ms=expires_ms)
        if await store.put_new(document):
            return None
        found = await store.find(KIND, id)
        return _Kept(digest) if found is None else _decoder.decode(found.body)

    async def _run(self, id: str, recording: _Recording, answer: Answer) -> None:
        try:
            with self._service.request():
                await answer(recording.exchange)
        finally:
            try:
                await self._keep(id, recording)
            finally:
                self._recordings.pop(id, None)
                del recording.exchange  # which leads back to it: memory does not wait for the collector

    async def _keep(self, id: str, recording: _Recording) -> None:
        store, kept = self._service.store, await self._kept(recording)
        try:
            if kept is None:
                await store.delete(KIND, id)
            else:
                await store.put(self._document(id, kept))
        except AishError as exc:
            log.warning("what became of a request with an idempotency key is not written yet: %s", exc.message)
            await store.put(self._late(id, recording.digest, kept), wait=False)

    async def _kept(self, recording: _Recording) -> _Kept | None:
        """None: it is as if it had not been asked."""
        failed = recording.exchange.failed_status or recording.status
        if not recording.status or failed == 429 or failed >= 500:
            return None
        if recording.size > MAX_REPLY_BYTES:
            return _Kept(recording.digest)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in recording.headers]
        body, engine = b"".join(recording.body).decode("utf-8", "replace"), self._service.engine
        # Not here: a long stream takes a while.
        told = await asyncio.to_thread(without_secrets, body, engine.redacted_json, engine.redacted_pieces)
        return _Kept(recording.digest, _Reply(recording.status, headers, told))

    def _document(self, id: str, kept: _Kept) -> Document:
        return Document(KIND, id, msgspec.json.encode(kept), expires_ms=self._service.now_ms() + KEPT_MS)

    def _late(self, id: str, digest: str, kept: _Kept | None) -> Document:
        """For when the store can be written again: nobody is to wait for this process any more."""
        if kept is None:
            return Document(KIND, id, msgspec.json.encode(_Kept(digest)), expires_ms=1)  # so it is not there
        document = self._document(id, kept)
        return document if len(document.body) <= _MAX_LATE_BYTES else self._document(id, _Kept(digest))


async def _follow(exchange: Exchange, recording: _Recording) -> None:
    following = asyncio.create_task(_pass_on(exchange, recording))
    try:
        await asyncio.shield(following)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or following.cancelled():
            raise
        # The server ends: the turn does, too, and its last words are passed on.
        task.uncancel()
        recording.live.stop()
        await following


async def _pass_on(exchange: Exchange, recording: _Recording) -> None:
    ended = asyncio.ensure_future(recording.begun.wait())
    gone = asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not recording.begun.is_set():
            return
        await exchange.start(recording.status, recording.headers)
        async with aclosing(recording.live.follow()) as pieces:
            async for piece in pieces:
                if gone.done():
                    return
                await exchange.send_piece(piece)
        await exchange.send_piece(b"", last=True)
    except Missed:
        raise Problem(409, "the reply was too long to be given again", code="reply_not_kept") from None
    finally:
        ended.cancel()
        gone.cancel()


async def _give_again(exchange: Exchange, reply: _Reply) -> None:
    """Whole, whether it was streamed or not; without its secrets it has another length."""
    body = reply.body.encode()
    kept = ((name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers)
    headers = [pair for pair in kept if pair[0] != _LENGTH]
    headers += [(_LENGTH, b"%d" % len(body)), (b"idempotent-replayed", b"true")]
    await exchange.start(reply.status, headers, at_once=True)
    await exchange.send_piece(body, last=True)


def _checked(kept: _Kept, digest: str) -> _Reply:
    if kept.request != digest:
        raise _other_request()
    if kept.reply is None:
        raise Problem(
            409,
            "a request with this key is being answered elsewhere, or was broken off; what it did is not done again",
            code="idempotency_conflict",
        )
    return kept.reply


def _other_request() -> Problem:
    return Problem(422, f"this {HEADER} was used for another request", param=HEADER, code="idempotency_key_reused")


def _digest(*parts: str | bytes) -> str:
    whole = b"\0".join(part.encode("utf-8", "replace") if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(whole).hexdigest()
