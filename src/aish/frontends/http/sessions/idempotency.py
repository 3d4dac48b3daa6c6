"""`Idempotency-Key`: the same request sent again gets the same reply.

While the request is being answered, others with its key follow along; afterwards they get the recorded reply. It runs
in a task of its own, so a broken connection does not stop it, and the client that comes back finds it. A failure that
clients are meant to retry is not stored, unless something has been done by then.

A request that another process answers is waited for as long as that process lives. Its reply is in the store once it is
complete.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from aish.errors import AishError
from aish.frontends.asgi import CONNECTION, Exchange, Scope
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.server.service import Service
from aish.frontends.http.sessions.reply_redaction import redact_reply
from aish.frontends.http.turns.background_turns import BackgroundTurn, NotBuffered
from aish.types.records import Document

log = logging.getLogger(__name__)

HEADER = "idempotency-key"
KIND = "idempotent"
LIFETIME_MS = 24 * 3600 * 1000
# A longer reply is not stored: it can be followed, but not repeated.
MAX_REPLY_BYTES = 8 * 1024 * 1024
# What may wait in memory for a store that cannot be written now. Of a longer reply only its existence is recorded.
_MAX_FALLBACK_BYTES = 64 * 1024
_MAX_KEY_CHARS = 255
_LENGTH = b"content-length"

Answer = Callable[[Exchange], Awaitable[None]]


class _Reply(msgspec.Struct, frozen=True):
    status: int
    headers: list[tuple[str, str]]
    body: str


class _StoredReply(msgspec.Struct, frozen=True):
    """`reply` None: the process `runner` is answering it, or was when it died."""

    request: str  # a digest: the key belongs to this request only
    reply: _Reply | None = None
    runner: str = ""


_decoder = msgspec.json.Decoder(_StoredReply)


class _Recording:
    """Runs a request without a client and records its reply for those who follow it."""

    def __init__(self, id: str, scope: Scope, body: bytes, digest: str) -> None:
        self.digest = digest
        self.claiming: asyncio.Task[_StoredReply | None] | None = None
        self.live = BackgroundTurn(id, buffer_bytes=MAX_REPLY_BYTES)
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
        disconnected: asyncio.Future[MutableMapping[str, Any]] = asyncio.get_running_loop().create_future()
        return await disconnected  # never set: this client does not go away

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status, self.headers = event["status"], list(event["headers"])
            self.begun.set()
        elif data := event.get("body", b""):
            self.size += len(data)
            if self.size <= MAX_REPLY_BYTES:
                self.body.append(data)
            self.live.push(data)


class IdempotentReplies:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._recordings: dict[str, _Recording] = {}
        self._remote = RemoteReply(service, KIND)

    async def answer(self, exchange: Exchange, scope: Scope, caller: Caller, key: str, answer: Answer) -> None:
        """`answer` replies to the exchange that it is given, whatever happens."""
        if len(key) > _MAX_KEY_CHARS:
            raise HttpProblem(400, f"{HEADER}: at most {_MAX_KEY_CHARS} characters", param=HEADER)
        body = await exchange.body(self._service.config.max_body_bytes)
        id = _digest(caller.key, key)
        digest = _digest(exchange.method, exchange.path, body)
        recording = self._recordings.get(id)
        if recording is None:
            recording = self._recordings[id] = _Recording(id, scope, body, digest)
        elif recording.digest != digest:
            raise _other_request()
        if recording.claiming is None:
            recording.claiming = asyncio.create_task(self._claim_or_run(id, recording, answer))
        # Requests that come before the claim is decided wait for it, too.
        stored = await asyncio.shield(recording.claiming)
        if stored is not None:
            if stored.reply is None and stored.request == digest:
                stored = await self._wait_for_remote(exchange, id, stored)
            await _replay(exchange, _check(stored, digest))
        else:
            await _follow(exchange, recording)

    async def _wait_for_remote(self, exchange: Exchange, id: str, stored: _StoredReply) -> _StoredReply:
        changed = await self._remote.wait_for_change(exchange, id, msgspec.json.encode(stored), stored.runner)
        return stored if changed is None else _decoder.decode(changed)

    async def _claim_or_run(self, id: str, recording: _Recording, answer: Answer) -> _StoredReply | None:
        """Returns what is stored under this key; None: nothing was, and the request runs now."""
        begun = False
        try:
            stored = await self._claim(id, recording.digest)
            if stored is None:
                await self._start(id, recording, answer)
                begun = True
            return stored
        finally:
            if not begun:
                self._recordings.pop(id, None)

    async def _start(self, id: str, recording: _Recording, answer: Answer) -> None:
        try:
            self._service.background_turns.start(recording.live, self._run(id, recording, answer))
        except HttpProblem:
            await self._service.store.delete(KIND, id)  # otherwise the key would belong to a request that never ran
            raise

    async def _claim(self, id: str, digest: str) -> _StoredReply | None:
        """Returns what is stored under this key; None: nothing was, and the key is ours now."""
        store = self._service.store
        expires_ms = self._service.now_ms() + LIFETIME_MS
        mine = _StoredReply(digest, runner=self._service.engine.liveness.me)
        document = Document(KIND, id, msgspec.json.encode(mine), expires_ms=expires_ms)
        if await store.put_new(document):
            return None
        found = await store.find(KIND, id)
        return _StoredReply(digest) if found is None else _decoder.decode(found.body)

    async def _run(self, id: str, recording: _Recording, answer: Answer) -> None:
        try:
            with self._service.active_request():
                await answer(recording.exchange)
        finally:
            try:
                await self._store_outcome(id, recording)
            finally:
                self._recordings.pop(id, None)
                del recording.exchange  # breaks a reference cycle, so the memory is freed at once

    async def _store_outcome(self, id: str, recording: _Recording) -> None:
        store, stored = self._service.store, await self._outcome_of(recording)
        try:
            if stored is None:
                await store.delete(KIND, id)
            else:
                await store.put(self._document(id, stored))
        except AishError as exc:
            log.warning("what became of a request with an idempotency key is not written yet: %s", exc.message)
            await store.put(self._fallback_document(id, recording.digest, stored), wait=False)

    async def _outcome_of(self, recording: _Recording) -> _StoredReply | None:
        """The document to store; None: a retry shall run again."""
        failed = recording.exchange.failed_status or recording.status
        if not recording.status or failed == 429 or failed >= 500:
            return None
        if recording.size > MAX_REPLY_BYTES:
            return _StoredReply(recording.digest)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in recording.headers]
        body, engine = b"".join(recording.body).decode("utf-8", "replace"), self._service.engine
        # In a thread: a long stream takes a while.
        redacted = await asyncio.to_thread(redact_reply, body, engine.redact_json, engine.redact_pieces)
        return _StoredReply(recording.digest, _Reply(recording.status, headers, redacted))

    def _document(self, id: str, stored: _StoredReply) -> Document:
        return Document(KIND, id, msgspec.json.encode(stored), expires_ms=self._service.now_ms() + LIFETIME_MS)

    def _fallback_document(self, id: str, digest: str, stored: _StoredReply | None) -> Document:
        """For when the store can be written again: no process shall wait for this one any more."""
        if stored is None:
            body = msgspec.json.encode(_StoredReply(digest))
            return Document(KIND, id, body, expires_ms=1)  # expired, so it does not exist
        document = self._document(id, stored)
        return document if len(document.body) <= _MAX_FALLBACK_BYTES else self._document(id, _StoredReply(digest))


async def _follow(exchange: Exchange, recording: _Recording) -> None:
    following = asyncio.create_task(_relay(exchange, recording))
    try:
        await asyncio.shield(following)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or following.cancelled():
            raise
        # The server stops: the turn ends, too, and the rest of its reply is relayed.
        task.uncancel()
        recording.live.stop()
        await following


async def _relay(exchange: Exchange, recording: _Recording) -> None:
    ended = asyncio.ensure_future(recording.begun.wait())
    disconnected = asyncio.ensure_future(exchange.wait_until_gone())
    try:
        await asyncio.wait({ended, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not recording.begun.is_set():
            return
        await exchange.start(recording.status, recording.headers)
        async with aclosing(recording.live.follow()) as pieces:
            async for piece in pieces:
                if disconnected.done():
                    return
                await exchange.send_piece(piece)
        await exchange.send_piece(b"", last=True)
    except NotBuffered:
        raise HttpProblem(409, "the reply was too long to be given again", code="reply_not_kept") from None
    finally:
        ended.cancel()
        disconnected.cancel()


async def _replay(exchange: Exchange, reply: _Reply) -> None:
    """Sends the reply as a whole, even if it was streamed. Without its secrets it has another length."""
    body = reply.body.encode()
    stored = ((name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers)
    headers = [pair for pair in stored if pair[0] != _LENGTH]
    headers += [(_LENGTH, b"%d" % len(body)), (b"idempotent-replayed", b"true")]
    await exchange.start(reply.status, headers, at_once=True)
    await exchange.send_piece(body, last=True)


def _check(stored: _StoredReply, digest: str) -> _Reply:
    if stored.request != digest:
        raise _other_request()
    if stored.reply is None:
        raise HttpProblem(
            409,
            "a request with this key is being answered elsewhere, or was broken off; what it did is not done again",
            code="idempotency_conflict",
        )
    return stored.reply


def _other_request() -> HttpProblem:
    return HttpProblem(422, f"this {HEADER} was used for another request", param=HEADER, code="idempotency_key_reused")


def _digest(*parts: str | bytes) -> str:
    whole = b"\0".join(part.encode("utf-8", "replace") if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(whole).hexdigest()


_POLL_S = 0.25
# For recording a turn that has used up its time.
_GRACE_S = 60.0


class RemoteReply:
    """Waits for the reply of another process."""

    def __init__(self, service: Service, kind: str) -> None:
        self._service = service
        self._kind = kind

    async def wait_for_change(self, exchange: Exchange, id: str, body: bytes, runner: str) -> bytes | None:
        """Returns the document once it is no longer `body`; None if it does not change: its process died or takes
        longer than a turn may, or the waiting client went away. Raises HttpProblem if the key was given up."""
        disconnected = asyncio.ensure_future(exchange.wait_until_gone())
        due_s = time.monotonic() + self._service.limits.wall_s + _GRACE_S
        try:
            while not disconnected.done() and time.monotonic() < due_s and self._is_answered_by(runner):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await asyncio.shield(disconnected)
                found = await self._service.store.find(self._kind, id)
                if found is None:
                    raise HttpProblem(
                        503, "the request failed where it was being answered", headers=[(b"retry-after", b"1")]
                    )
                if found.body != body:
                    return found.body
            return None
        finally:
            disconnected.cancel()

    def _is_answered_by(self, runner: str) -> bool:
        owners = self._service.engine.liveness
        return runner not in ("", owners.me) and owners.is_alive(runner) and not self._service.draining
