"""Stored responses: documents that name their predecessor, and the histories that follow from them.

A document holds its own input and output and the name of the document before it. So a conversation of n turns takes
space for n turns, and its history is put together by following the names. Histories are cached within bounds. Items
that were added to a conversation by hand are a document, too, without a response.

A response is visible only to the key that made it. A response whose process died is closed as failed.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.responses.encoder import ResponseEncoder
from aish.frontends.http.openai.responses.objects import EncoderSetup
from aish.frontends.http.openai.responses.replay import StreamReplay
from aish.frontends.http.server.http_errors import HttpProblem, bad_field, read_number
from aish.ports import ProcessLiveness, Store
from aish.types.messages import Message
from aish.types.records import Document

KIND = "response"
ITEMS = "items"  # the status of a document that has no response
RUNNING = ("queued", "in_progress")
# Enough for a few hundred long conversations at a time. What is not cached is read again.
MAX_REMEMBERED_BYTES = 64 * 1024 * 1024
_DAY_MS = 24 * 3600 * 1000
_MAX_CHAIN = 10_000  # documents: a guard against names that form a circle
_MAX_LISTED = 100  # as OpenAI's
_INTERRUPTED = "aish ended before this response did"
_OWN_ID = re.compile(r"(?:msg|rs|fco?|mcp[lr]?|item)_([0-9a-z]+)_.+")


class StoredResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """`messages` are those of the input and those produced; `previous` is the document before. `runner` is the process
    that makes it; its stream can be made again from `setup` and `turns`."""

    status: str
    response: msgspec.Raw = msgspec.Raw(b"null")
    input: tuple[msgspec.Raw, ...] = ()
    messages: tuple[Message, ...] = ()
    previous: str = ""
    conversation: str = ""
    listed: tuple[str, ...] = ()
    runner: str = ""
    setup: EncoderSetup | None = None
    turns: tuple[str, ...] = ()

    def output(self) -> list[Any]:
        response = msgspec.json.decode(self.response)
        return response["output"] if response else []

    def items(self) -> list[Any]:
        return [*(msgspec.json.decode(item) for item in self.input), *self.output()]


_decoder = msgspec.json.Decoder(StoredResponse)


class ResponseStore:
    """`store` and `keep_days` are called each time, because a reload may change them."""

    def __init__(
        self,
        store: Callable[[], Store],
        owners: ProcessLiveness,
        keep_days: Callable[[], int],
        redact: Callable[[bytes], bytes],
    ) -> None:
        self._store = store
        self._redact = redact
        self._owners = owners
        self._keep_days = keep_days
        self._histories: OrderedDict[str, tuple[tuple[Message, ...], int]] = OrderedDict()
        self._remembered_bytes = 0
        self.running: set[str] = set()  # made by this process

    @property
    def me(self) -> str:
        return self._owners.me

    async def find(self, id: str, owner: str) -> StoredResponse | None:
        while True:
            ours = id in self.running  # checked before the read, so that one that ends meanwhile does not look dead
            document = await self._store().find(KIND, id)
            if document is None or document.owner != owner:
                return None
            stored = _decoder.decode(document.body)
            if ours or stored.status not in RUNNING or self._is_made_by_other(stored):
                return stored
            stored = await close_interrupted_response(self._store(), stored)
            if await self._store().swap(self._document(id, owner, stored), old=document.body):
                return stored

    async def get(self, id: str, owner: str) -> StoredResponse:
        stored = await self.find(id, owner)
        if stored is None or stored.status == ITEMS:
            raise HttpProblem(404, f"there is no response {id[:100]}", param="response_id", code="not_found")
        return stored

    async def put(self, id: str, owner: str, stored: StoredResponse, *, wait: bool = True) -> int:
        """Returns its size in bytes."""
        document = self._document(id, owner, stored)
        await self._store().put(document, wait=wait)
        return len(document.body)

    async def move(self, id: str, owner: str, *, previous: str) -> None:
        """Puts it behind another document."""
        if (stored := await self.find(id, owner)) is not None:
            await self.put(id, owner, msgspec.structs.replace(stored, previous=previous))
            self._forget(id)

    async def delete(self, id: str, owner: str) -> None:
        """Clears the cached histories. A document with a predecessor leaves an empty document behind, so that later
        ones still have their history."""
        stored = await self.find(id, owner)
        if stored is not None and stored.previous and stored.status != ITEMS:
            await self.put(id, owner, StoredResponse(ITEMS, previous=stored.previous, conversation=stored.conversation))
        else:
            await self._store().delete(KIND, id)
        self._histories.clear()
        self._remembered_bytes = 0

    async def chain(self, id: str, owner: str, *, limit: int = _MAX_CHAIN) -> list[tuple[str, StoredResponse]]:
        """The documents, oldest first. It begins after a document that no longer exists."""
        found: list[tuple[str, StoredResponse]] = []
        while id and len(found) < limit and (stored := await self.find(id, owner)) is not None:
            found.append((id, stored))
            id = stored.previous
        return found[::-1]

    async def history(self, id: str, owner: str) -> tuple[Message, ...]:
        """All messages up to and including this response."""
        missing: list[tuple[str, StoredResponse]] = []
        known: tuple[Message, ...] = ()
        while id and len(missing) < _MAX_CHAIN:
            if (remembered := self._find_remembered(id)) is not None:
                known = remembered
                break
            if (stored := await self.find(id, owner)) is None:
                break
            missing.append((id, stored))
            id = stored.previous
        for name, stored in reversed(missing):
            known = (*known, *stored.messages)
            self.remember(name, known, len(msgspec.json.encode(stored.messages)))
        return known

    def remember(self, id: str, history: tuple[Message, ...], size: int) -> None:
        """Caches a history. `size` is about that of the messages that no other history shares."""
        size += 8 * len(history)
        self._forget(id)
        self._histories[id] = (history, size)
        self._remembered_bytes += size
        while self._remembered_bytes > MAX_REMEMBERED_BYTES:
            self._forget(next(iter(self._histories)))

    async def find_item(
        self, id: str, owner: str, before: Sequence[tuple[str, StoredResponse]]
    ) -> dict[str, Any] | None:
        """Finds an item by its id: in the given documents, or in the response that its id names."""
        for _, stored in reversed(before):
            if (item := _find_item(stored, id)) is not None:
                return item
        found = _OWN_ID.fullmatch(id)
        kept_there = await self.find(f"resp_{found[1]}", owner) if found else None
        return _find_item(kept_there, id) if kept_there is not None else None

    def _find_remembered(self, id: str) -> tuple[Message, ...] | None:
        if id not in self._histories:
            return None
        self._histories.move_to_end(id)
        return self._histories[id][0]

    def _forget(self, id: str) -> None:
        _, size = self._histories.pop(id, ((), 0))
        self._remembered_bytes -= size

    def _document(self, id: str, owner: str, stored: StoredResponse) -> Document:
        now_ms = time.time_ns() // 1_000_000
        expires_ms = now_ms + self._keep_days() * _DAY_MS
        body = self._redact(msgspec.json.encode(stored))
        return Document(KIND, id, body, owner, created_ms=now_ms, expires_ms=expires_ms)

    def _is_made_by_other(self, stored: StoredResponse) -> bool:
        return stored.runner != self._owners.me and self._owners.is_alive(stored.runner)


async def close_interrupted_response(store: Store, stored: StoredResponse) -> StoredResponse:
    """The response as far as it was recorded, failed."""
    if stored.setup is None:
        return msgspec.structs.replace(stored, status="failed")
    again = StreamReplay(store, ResponseEncoder(stored.setup))
    await again.read(stored.turns)
    again.stream.fail(HttpProblem(500, _INTERRUPTED))
    messages = (*stored.messages, *again.transcript.new_messages())
    response = msgspec.Raw(again.stream.whole)
    return msgspec.structs.replace(stored, status="failed", response=response, messages=messages)


def list_page(items: list[Any], query: dict[str, str], *, order: str = "desc") -> bytes:
    """A page of items, by `limit`, `order`, `after` and `before`."""
    order = query.get("order", order)
    if order not in ("asc", "desc"):
        raise bad_field("order", "must be asc or desc")
    limit = read_number("limit", query.get("limit", "20"), most=_MAX_LISTED)
    listed = items if order == "asc" else items[::-1]
    ids = [item.get("id") for item in listed]
    if after := query.get("after"):
        start = ids.index(after) + 1 if after in ids else len(ids)
        listed = listed[start:]
    elif (before := query.get("before")) and before in ids:
        listed = listed[: ids.index(before)]
    page = listed[:limit]
    ends = {"first_id": page[0].get("id") if page else "", "last_id": page[-1].get("id") if page else ""}
    return msgspec.json.encode({"object": "list", "data": page, **ends, "has_more": len(listed) > len(page)})


def _find_item(stored: StoredResponse, id: str) -> dict[str, Any] | None:
    return next((item for item in stored.items() if item.get("id") == id), None)
