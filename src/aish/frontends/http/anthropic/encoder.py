"""Encodes a turn's events as the messages API has them.

Calls that we run are shown as `mcp_tool_use` and `mcp_tool_result` to clients that asked for an MCP server's tools.
Other clients would not know what to do with them and do not see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.frontends.http.openai.chat.encoder import ParagraphJoiner, limit_notice
from aish.frontends.http.server.http_errors import (
    INVALID,
    HttpProblem,
    anthropic_shape,
    problem_of_failure,
    without_retry,
)
from aish.types.events import (
    LIMIT_ENDS,
    ArgumentsDelta,
    Event,
    Failed,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    TurnEnd,
    TurnFinished,
)
from aish.types.messages import marked_text
from aish.types.tools import ResultStatus
from aish.types.usage import Usage

# For thinking blocks: some clients keep only signed ones. It proves nothing.
SIGNATURE = "aish"
_encode = msgspec.json.encode
_STREAMED = frozenset({TextDelta, ReasoningDelta, ToolCallStarted, ArgumentsDelta})
_STEP_ENDS = frozenset({ToolCallReady, ToolResult, StepStarted, Failed, TurnFinished})


def stop_reason(end: TurnEnd) -> str:
    if end is TurnEnd.CLIENT_TOOLS:
        return "tool_use"
    return "max_tokens" if end is TurnEnd.LENGTH or end in LIMIT_ENDS else "end_turn"


def usage_object(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
    }


def message_object(id: str, model: str, content: list[Any], reason: str | None, usage: Usage) -> dict[str, Any]:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage_object(usage),
    }


def problem_of_end(finished: TurnFinished, failed: HttpProblem | None) -> HttpProblem | None:
    if finished.reason in (TurnEnd.FAILED, TurnEnd.INTERRUPTED):
        return failed or HttpProblem(500, finished.detail)
    if finished.reason is TurnEnd.COST:
        return HttpProblem(402, finished.detail, type=INVALID, code="cost_limit")
    return None


def mcp_use(event: Event, name: str, arguments: str) -> dict[str, Any]:
    server, _, tool = name.partition("__")
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (ValueError, RecursionError):
        given = {}
    given = given if isinstance(given, dict) else {}  # anything else is no input to Anthropic's clients
    return {"type": "mcp_tool_use", "id": event.call, "name": tool or name, "server_name": server, "input": given}


def mcp_result(event: Event, result: ToolResult) -> dict[str, Any]:
    content = [{"type": "text", "text": marked_text(result.parts)}]
    is_error = result.status is not ResultStatus.OK
    return {"type": "mcp_tool_result", "tool_use_id": event.call, "is_error": is_error, "content": content}


class MessagesStreamEncoder:
    """Opens a block when its first event comes, and closes it when an event for another block comes. A closed block is
    not opened again: events between the arguments of a call wait until these are complete, or until the step ends."""

    heartbeat = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, *, id: str, model: str, clients: Sequence[str], show_ours: bool) -> None:
        self._id = id
        self._model = model
        self._clients = frozenset(clients)
        self._show_ours = show_ours
        self._index = -1
        self._open: tuple[str, str] | None = None  # kind of block and call
        self._unfinished = ""  # the call whose arguments are incomplete
        self._arguments: list[str] = []  # of that call
        self._waiting: list[Event] = []
        self._paragraphs = ParagraphJoiner()
        self.failed: HttpProblem | None = None
        self.effects = False

    def opening(self) -> bytes:
        message = message_object(self._id, self._model, [], None, Usage())
        return _event("message_start", {"message": message})

    def encode(self, events: Sequence[Event]) -> bytes:
        return b"".join([piece for event in events for piece in self._encode_in_order(event)])

    def word(self, text: str) -> bytes:
        if self._unfinished:  # the text waits, too
            return self.encode([Event("", "", 0, 0, TextDelta(text))])
        return b"".join([*self._open_block("text"), self._delta("text_delta", "text", self._paragraphs.join(text))])

    def failure(self, problem: HttpProblem) -> bytes:
        return (
            b"event: error\ndata: " + _encode(anthropic_shape(without_retry(problem, effects=self.effects))) + b"\n\n"
        )

    def _encode_in_order(self, event: Event) -> list[bytes]:
        if not self._unfinished:
            return self._encode_event(event)
        if type(event.body) not in _STREAMED:
            return [*(self._release_waiting() if type(event.body) in _STEP_ENDS else ()), *self._encode_event(event)]
        if event.call != self._unfinished and not self._is_whole():
            self._waiting.append(event)
            return []
        encoded = self._encode_event(event)
        if self._waiting and self._is_whole():
            waiting, self._waiting = self._waiting, []
            encoded += [piece for waited in waiting for piece in self._encode_in_order(waited)]
        return encoded

    def _is_whole(self) -> bool:
        """Whether no call is incomplete any more."""
        text = "".join(self._arguments)
        try:
            if text.endswith("}"):
                msgspec.json.decode(text)
                self._unfinished = ""
        except (ValueError, RecursionError):
            pass
        return not self._unfinished

    def _release_waiting(self) -> list[bytes]:
        """The step has ended: encodes the waiting events, grouped by call."""
        waiting, self._waiting, self._unfinished = self._waiting, [], ""
        order = list(dict.fromkeys(event.call for event in waiting))
        encoded = [self._encode_event(event) for call in order for event in waiting if event.call == call]
        self._unfinished = ""
        return [piece for pieces in encoded for piece in pieces]

    def _encode_event(self, event: Event) -> list[bytes]:
        body = event.body
        match body:
            case TextDelta(text):
                return [*self._open_block("text"), self._delta("text_delta", "text", self._paragraphs.join(text))]
            case ReasoningDelta(text):
                return [*self._open_block("thinking"), self._delta("thinking_delta", "thinking", text)]
            case StepStarted():
                self._paragraphs.begin_step()
                return []
            case ToolCallStarted(name=name) if name in self._clients:
                self._unfinished, self._arguments = event.call, []
                return self._open_block("tool_use", event.call, name)
            case ArgumentsDelta(text) if self._open == ("tool_use", event.call):
                self._arguments.append(text)
                return [self._delta("input_json_delta", "partial_json", text)]
            case ToolCallReady(name, arguments) if self._show_ours and name not in self._clients:
                return self._whole_block(mcp_use(event, name, arguments))
            case ToolResult() if self._show_ours:
                return self._whole_block(mcp_result(event, body))
            case Failed():
                self.failed = problem_of_failure(body)
                return []
            case TurnFinished():
                return self._end(body)
            case _:
                return []

    def _open_block(self, kind: str, call: str = "", name: str = "") -> list[bytes]:
        """Opens the block for the next event, unless it is open."""
        if self._open == (kind, call):
            return []
        blocks: dict[str, dict[str, Any]] = {
            "text": {"type": "text", "text": ""},
            "thinking": {"type": "thinking", "thinking": "", "signature": ""},
            "tool_use": {"type": "tool_use", "id": call, "name": name, "input": {}},
        }
        pieces = self._close()
        self._index += 1
        self._open = (kind, call)
        return [*pieces, _event("content_block_start", {"index": self._index, "content_block": blocks[kind]})]

    def _whole_block(self, block: dict[str, Any]) -> list[bytes]:
        """A block that comes as a whole."""
        pieces = self._close()
        self._index += 1
        self._open = (block["type"], "")
        start = _event("content_block_start", {"index": self._index, "content_block": block})
        return [*pieces, start, *self._close()]

    def _close(self) -> list[bytes]:
        opened, self._open = self._open, None
        if opened is None:
            return []
        signed = [self._delta("signature_delta", "signature", SIGNATURE)] if opened[0] == "thinking" else []
        return [*signed, _event("content_block_stop", {"index": self._index})]

    def _delta(self, kind: str, key: str, text: str) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": {"type": kind, key: text}})

    def _end(self, finished: TurnFinished) -> list[bytes]:
        if (problem := problem_of_end(finished, self.failed)) is not None:
            self.failed = problem
            return [*self._close(), self.failure(problem)]
        pieces: list[bytes] = []
        if words := limit_notice(finished):
            pieces += [
                *self._open_block("text"),
                self._delta("text_delta", "text", self._paragraphs.append_notice(words)),
            ]
        delta = {"stop_reason": stop_reason(finished.reason), "stop_sequence": None}
        closing = _event("message_delta", {"delta": delta, "usage": usage_object(finished.usage)})
        return [*pieces, *self._close(), closing, _event("message_stop", {})]


class MessagesReplyBuilder:
    """The same as one reply."""

    def __init__(self, *, id: str, model: str, clients: Sequence[str], show_ours: bool) -> None:
        self._id = id
        self._model = model
        self._clients = frozenset(clients)
        self._show_ours = show_ours
        self._content: list[dict[str, Any]] = []
        self._paragraphs = ParagraphJoiner()
        self._finished: TurnFinished | None = None
        self._failed: HttpProblem | None = None

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            self._feed(event)

    def body(self) -> bytes:
        finished = self._finished
        if finished is None:
            raise self._failed or HttpProblem(500, "the turn did not come to its end")
        if (problem := problem_of_end(finished, self._failed)) is not None:
            raise problem
        if words := limit_notice(finished):
            self._add("text", "text", self._paragraphs.append_notice(words))
        reason = stop_reason(finished.reason)
        return _encode(message_object(self._id, self._model, self._content, reason, finished.usage))

    def _feed(self, event: Event) -> None:
        body = event.body
        match body:
            case TextDelta(text):
                self._add("text", "text", self._paragraphs.join(text))
            case ReasoningDelta(text):
                self._add("thinking", "thinking", text)
            case StepStarted():
                self._paragraphs.begin_step()
            case ToolCallReady(name, arguments) if name in self._clients:
                use = mcp_use(event, name, arguments)
                self._content.append({"type": "tool_use", "id": event.call, "name": name, "input": use["input"]})
            case ToolCallReady(name, arguments) if self._show_ours:
                self._content.append(mcp_use(event, name, arguments))
            case ToolResult() if self._show_ours:
                self._content.append(mcp_result(event, body))
            case Failed():
                self._failed = problem_of_failure(body)
            case TurnFinished():
                self._finished = body
            case _:
                pass

    def _add(self, kind: str, key: str, text: str) -> None:
        if self._content and self._content[-1]["type"] == kind:
            self._content[-1][key] += text
            return
        block = {"type": kind, key: text}
        self._content.append({**block, "signature": SIGNATURE} if kind == "thinking" else block)


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode({"type": name, **data}))
