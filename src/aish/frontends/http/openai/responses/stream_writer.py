"""Responses, the bookkeeping of a stream: events numbered without gaps, items placed one after the other."""

from __future__ import annotations

from typing import Any

import msgspec

from aish.frontends.http.openai.responses.output_items import Form
from aish.types.messages import ToolCall

_encode = msgspec.json.encode


class OpenText:
    """The item of text that is open."""

    def __init__(self, form: Form, index: int, id: str) -> None:
        self.form = form
        self.at: dict[str, Any] = {"item_id": id, "output_index": index}
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []
        self.delta_head = delta_head(f"{form.text_events}.delta", {**self.at, form.index: 0, **form.extra})


class OpenCall:
    """A call whose item is open; `call` has its arguments when they are whole. `request` is the id of the item that
    asked for consent, where one did."""

    def __init__(self, id: str, index: int, call: ToolCall, events: str, *, request: str = "") -> None:
        self.call = call
        self.events = events
        self.request = request
        self.at: dict[str, Any] = {"item_id": id, "output_index": index}
        self.pieces: list[str] = []
        self.delta_head = delta_head(f"{events}_arguments.delta", self.at)


class ItemWriter:
    """`number` is that of the next event, `index` that of the next item."""

    def __init__(self) -> None:
        self.number = 2  # after created and in_progress
        self.index = 0
        self._done: dict[int, bytes] = {}

    def output(self) -> list[bytes]:
        return [self._done[index] for index in sorted(self._done)]

    def whole_item(self, item: dict[str, Any]) -> list[bytes]:
        at = {"output_index": self.index}
        return [self.added(item), self.item_done(at, item)]

    def added(self, item: dict[str, Any]) -> bytes:
        index, self.index = self.index, self.index + 1
        return self.event("response.output_item.added", {"output_index": index, "item": item})

    def item_done(self, at: dict[str, Any], item: dict[str, Any]) -> bytes:
        index, encoded = at["output_index"], _encode(item)
        self._done[index] = encoded
        return self.event("response.output_item.done", {"output_index": index, "item": msgspec.Raw(encoded)})

    def event(self, kind: str, fields: dict[str, Any]) -> bytes:
        number, self.number = self.number, self.number + 1
        return sse(kind, fields, number)


def sse(kind: str, fields: dict[str, Any], number: int) -> bytes:
    name = kind.encode()
    return b"event: " + name + b"\ndata: " + _encode({"type": kind, **fields, "sequence_number": number}) + b"\n\n"


def delta_head(kind: str, fields: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + _encode({"type": kind, **fields})[:-1] + b',"delta":'
