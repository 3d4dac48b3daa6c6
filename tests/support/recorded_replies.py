"""What a reply of the recording upstream is made of, and how it is worded: as chat completions or as responses, in
events or as a whole."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]
CREATED = 1763200000
DEADLINE_S = 60.0


class Gate:
    """A place in a stream where it waits for the test."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Event(), threading.Event()

    def open(self) -> None:
        self._open.set()

    def reached(self, timeout_s: float = DEADLINE_S) -> None:
        assert self._reached.wait(timeout_s), "the stream never came to this gate"

    async def passed(self) -> None:
        self._reached.set()
        async with asyncio.timeout(DEADLINE_S):
            while not self._open.is_set():  # noqa: ASYNC110 (it is opened from another thread)
                await asyncio.sleep(0.005)


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str  # as the model wrote them
    id: str
    fragments: int = 3

    def pieces(self) -> list[str]:
        size = max(1, -(-len(self.arguments) // self.fragments))
        return [self.arguments[at : at + size] for at in range(0, len(self.arguments), size)]


@dataclass(frozen=True)
class Hold:
    gate: Gate


@dataclass(frozen=True)
class Cut:
    """The connection ends here; before anything was said, not even a head is sent."""


Part = Text | Thought | Call | Hold | Cut


@dataclass(frozen=True)
class Reply:
    parts: tuple[Part, ...] = ()
    status: int = 200
    message: str = ""
    code: str | None = None
    kind: str = "server_error"
    usage: tuple[int, int] = (12, 5)
    finish: str = ""

    @property
    def reason(self) -> str:
        return self.finish or ("tool_calls" if any(isinstance(part, Call) for part in self.parts) else "stop")


# The shapes.


def error_body(message: str, kind: str, code: str | None) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Shape(Protocol):
    def opening(self) -> Iterator[str]: ...
    def text(self, said: str) -> Iterator[str]: ...
    def thought(self, said: str) -> Iterator[str]: ...
    def call(self, name: str, id: str, pieces: list[str]) -> Iterator[str]: ...
    def closing(self, reason: str, usage: tuple[int, int]) -> Iterator[str]: ...


def chat_usage(usage: tuple[int, int]) -> Json:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


class ChatShape:
    def __init__(self, body: Json) -> None:
        self.body, self.calls = body, 0

    def opening(self) -> Iterator[str]:
        yield self._delta(role="assistant", content="")

    def text(self, said: str) -> Iterator[str]:
        yield self._delta(content=said)

    def thought(self, said: str) -> Iterator[str]:
        yield self._delta(reasoning_content=said)

    def call(self, name: str, id: str, pieces: list[str]) -> Iterator[str]:
        at, self.calls = self.calls, self.calls + 1
        first = {"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield self._delta(tool_calls=[first])
        for piece in pieces:
            yield self._delta(tool_calls=[{"index": at, "function": {"arguments": piece}}])

    def closing(self, reason: str, usage: tuple[int, int]) -> Iterator[str]:
        yield self._delta(finish=reason)
        if (self.body.get("stream_options") or {}).get("include_usage"):
            yield self._event({**self._chunk([]), "usage": chat_usage(usage)})
        yield "data: [DONE]\n\n"

    def _delta(self, *, finish: str | None = None, **fields: Any) -> str:
        return self._event(self._chunk([{"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish}]))

    def _chunk(self, choices: list[Json]) -> Json:
        head = {"id": "chatcmpl-up", "object": "chat.completion.chunk", "created": CREATED}
        return {**head, "model": self.body["model"], "choices": choices}

    def _event(self, value: Json) -> str:
        return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def whole_chat(body: Json, reply: Reply) -> Json:
    said = "".join(part.text for part in reply.parts if isinstance(part, Text))
    thought = "".join(part.text for part in reply.parts if isinstance(part, Thought))
    made = [part for part in reply.parts if isinstance(part, Call)]
    message: Json = {"role": "assistant", "content": said or None}
    if thought:
        message["reasoning_content"] = thought
    if made:
        message["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in made
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.reason}
    head = {"id": "chatcmpl-up", "object": "chat.completion", "created": CREATED, "model": body["model"]}
    return {**head, "choices": [choice], "usage": chat_usage(reply.usage)}


class ResponsesShape:
    """The least that codex and the strict helpers of the SDKs read."""

    def __init__(self, body: Json) -> None:
        self.body, self.output, self.number = body, list[Json](), 0
        self.open: Json | None = None  # the message under way

    def opening(self) -> Iterator[str]:
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def text(self, said: str) -> Iterator[str]:
        if self.open is None:
            self.open = {"type": "message", "id": f"msg_{len(self.output)}", "role": "assistant"}
            self.open |= {"status": "in_progress", "content": []}
            yield self._event("response.output_item.added", output_index=len(self.output), item=self.open)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._event("response.content_part.added", **self._where(), part=part)
            self.open = {**self.open, "content": [part]}
        self.open["content"][0]["text"] += said
        yield self._event("response.output_text.delta", **self._where(), delta=said, logprobs=[])

    def thought(self, said: str) -> Iterator[str]:
        yield from ()  # the upstreams that are stood in for here send none

    def call(self, name: str, id: str, pieces: list[str]) -> Iterator[str]:
        yield from self._end_text()
        at, item_id = len(self.output), f"fc_{id}"
        item = {"type": "function_call", "id": item_id, "call_id": id, "name": name, "arguments": ""}
        item["status"] = "in_progress"
        where = {"item_id": item_id, "output_index": at}
        yield self._event("response.output_item.added", output_index=at, item=item)
        for piece in pieces:
            yield self._event("response.function_call_arguments.delta", **where, delta=piece)
        done = {**item, "arguments": "".join(pieces), "status": "completed"}
        yield self._event("response.function_call_arguments.done", **where, name=name, arguments=done["arguments"])
        yield self._event("response.output_item.done", output_index=at, item=done)
        self.output.append(done)

    def closing(self, reason: str, usage: tuple[int, int]) -> Iterator[str]:
        yield from self._end_text()
        yield self._event("response.completed", response=self._response("completed", usage))

    def _end_text(self) -> Iterable[str]:
        if self.open is None:
            return
        item, where = {**self.open, "status": "completed"}, self._where()
        part = item["content"][0]
        yield self._event("response.output_text.done", **where, text=part["text"], logprobs=[])
        yield self._event("response.content_part.done", **where, part=part)
        yield self._event("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)
        self.open = None

    def _where(self) -> Json:
        assert self.open
        return {"item_id": self.open["id"], "output_index": len(self.output), "content_index": 0}

    def _response(self, status: str, usage: tuple[int, int] | None = None) -> Json:
        response = {"id": "resp_up", "object": "response", "created_at": CREATED, "status": status}
        response |= {"model": self.body["model"], "output": list(self.output), "tools": [], "tool_choice": "auto"}
        response |= {"parallel_tool_calls": True, "error": None, "incomplete_details": None, "usage": None}
        return response | ({"usage": response_usage(usage)} if usage else {})

    def _event(self, type: str, **fields: Any) -> str:
        value = {"type": type, "sequence_number": self.number, **fields}
        self.number += 1
        return f"event: {type}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


def response_usage(usage: tuple[int, int]) -> Json:
    return {
        "input_tokens": usage[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(usage),
    }


def whole_response(body: Json, reply: Reply) -> Json:
    shape = ResponsesShape(body)
    for part in reply.parts:
        match part:
            case Text(said):
                list(shape.text(said))
            case Call():
                list(shape.call(part.name, part.id, part.pieces()))
    list(shape.closing(reply.reason, reply.usage))
    return shape._response("completed", reply.usage)
