"""Encodes a turn's events as events of a response and as the response object.

The lifecycle is the same for any number of steps: `opening`, `encode` for each batch, then `finish` or `fail` once. The
same events give the same bytes, so a stream can be made again from recorded events. Calls that we run are `mcp_call`
items, because clients would try to run a `function_call`. Calls that may have to wait for consent are shown once it is
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from aish.frontends.http.openai.responses.objects import (
    MESSAGE,
    SUMMARY,
    THOUGHTS,
    EncoderSetup,
    ItemWriter,
    OpenCall,
    OpenText,
    TextForm,
    approval_item,
    error_object,
    function_item,
    listing_item,
    mcp_item,
    sse,
    with_state,
)
from aish.frontends.http.server.http_errors import INVALID, HttpProblem, ShutDown, problem_of_failure, without_retry
from aish.types.decisions import QuestionKind
from aish.types.events import (
    LIMIT_ENDS,
    ArgumentsDelta,
    DecisionAsked,
    DecisionMade,
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
    TurnStarted,
)
from aish.types.messages import ToolCall
from aish.types.tools import Effect, ResultStatus
from aish.types.usage import Usage

_encode = msgspec.json.encode
_END_EVENTS = {"completed": "response.completed", "failed": "response.failed"}
_LENGTH_ENDS = (TurnEnd.LENGTH, TurnEnd.TOKENS)


class ResponseEncoder(ItemWriter):
    def __init__(self, setup: EncoderSetup) -> None:
        super().__init__()
        self.setup = setup
        self._head = setup.head.encode()
        self._beat = with_state(setup.light.encode(), "in_progress")
        self._open: OpenText | None = None
        self._calls: dict[str, OpenCall] = {}
        self._waiting: dict[str, ToolCall] = {}  # not shown yet
        self._approved = dict(setup.approved)
        self._effects = False
        self._usage: Usage | None = None
        self._finished: Event | None = None
        self.failed: HttpProblem | None = None
        self.status = "in_progress"
        self.whole = b""  # the response object, once it has ended
        self._closing = b""  # the events right before the end

    @property
    def heartbeat(self) -> bytes:
        """Repeats the number of the last event, so that a client may continue from it."""
        head = b'event: response.in_progress\ndata: {"type":"response.in_progress","response":'
        return head + self._beat + b',"sequence_number":%d}\n\n' % (self.number - 1)

    def opening(self) -> bytes:
        snapshot = msgspec.Raw(with_state(self._head, "in_progress"))
        return b"".join(
            sse(kind, {"response": snapshot}, number)
            for number, kind in enumerate(("response.created", "response.in_progress"))
        )

    def encode(self, events: Sequence[Event]) -> bytes:
        pieces: list[bytes] = []
        for event in events:
            body = event.body
            if isinstance(body, TextDelta):
                pieces += self._text(MESSAGE, body.text, () if body.logprobs is UNSET else body.logprobs)
            else:
                pieces += self._other(event)
        return b"".join(pieces)

    def word(self, text: str) -> bytes:
        return b"".join(self._text(MESSAGE, text))

    def finish(self) -> bytes:
        """The end, as the last event reports it."""
        finished = self._finished
        body = finished.body if finished is not None else None
        if finished is None or not isinstance(body, TurnFinished):
            return self.fail(HttpProblem(500, "the turn did not come to its end"))
        self._usage = body.usage
        at = finished.at_ms // 1000
        if body.reason in (TurnEnd.FAILED, TurnEnd.INTERRUPTED):
            return self.fail(self.failed or HttpProblem(500, body.detail))
        if body.reason is TurnEnd.COST:
            return self.fail(HttpProblem(402, body.detail, type=INVALID, code="cost_limit"))
        if body.reason is TurnEnd.CANCELLED:
            return self.cancel()
        if body.reason in _LENGTH_ENDS or body.reason in LIMIT_ENDS:
            why = "max_output_tokens" if body.reason in _LENGTH_ENDS else body.reason.value
            incomplete = {"reason": why, "message": body.detail}
            return self._end("incomplete", incomplete=incomplete, completed_at=at)
        return self._end("completed", completed_at=at)

    def fail(self, problem: HttpProblem) -> bytes:
        # A call that was broken off may have had its effect, too.
        broken_off = isinstance(problem, ShutDown) and bool(self._calls)
        self.failed = without_retry(problem, effects=self._effects or broken_off)
        return self._end("failed", error=error_object(self.failed))

    def fail_instead(self, problem: HttpProblem) -> bytes:
        """Replaces an end that has not been sent."""
        self.number -= 1
        return self._closing + self.fail(problem)

    def cancel(self) -> bytes:
        return self._end("cancelled", incomplete={"reason": "cancelled"})

    def end_with(self, status: str, whole: bytes) -> bytes:
        """The end of a response that was made before."""
        pieces = self._close_all("completed" if status == "completed" else "incomplete")
        self.status, self.whole = status, whole
        pieces.append(self.event(_END_EVENTS.get(status, "response.incomplete"), {"response": msgspec.Raw(whole)}))
        return b"".join(pieces)

    def snapshot(self) -> bytes:
        """The response object as it stands."""
        return self.whole or with_state(self._head, self.status, self.output())

    def _end(self, status: str, **state: Any) -> bytes:
        self._closing = b"".join(self._close_all("completed" if status == "completed" else "incomplete"))
        whole = with_state(self._head, status, self.output(), usage=self._usage, **state)
        return self._closing + self.end_with(status, whole)

    def _close_all(self, status: str) -> list[bytes]:
        pieces = self._close(status)
        for opened in self._calls.values():
            pieces += self._leave(opened)
        self._calls.clear()
        return pieces

    def _other(self, event: Event) -> list[bytes]:
        body, call = event.body, event.call
        match body:
            case ReasoningDelta(text):
                return self._text(SUMMARY if self.setup.summary else THOUGHTS, text)
            case StepStarted():
                return self._close("completed")
            case ToolCallStarted(name=name):
                return self._call_started(ToolCall(call, name, ""))
            case ArgumentsDelta(text) if call in self._calls:
                return [self._argument(self._calls[call], text)]
            case ToolCallReady(name, arguments):
                return self._call_ready(ToolCall(call, name, arguments))
            case DecisionAsked(question) if question.kind is QuestionKind.EFFECT and call in self._waiting:
                return self.whole_item(approval_item(self.setup.item_id("mcpr", call), self._waiting.pop(call)))
            case DecisionMade():
                return self._show_decided(call)
            case ToolResult():
                return self._result(call, body)
            case TurnStarted():
                return self._listings()
            case Failed():
                self.failed = problem_of_failure(body)
            case TurnFinished():
                self._finished = event
            case _:
                pass
        return []

    def _text(self, form: TextForm, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> list[bytes]:
        opened = self._open
        pieces: list[bytes] = []
        if opened is None or opened.form is not form:
            pieces = self._close("completed")
            opened, begun = self._begin(form)
            pieces += begun
        opened.pieces.append(text)
        if logprobs:
            opened.logprobs += logprobs
            fields = {**opened.at, form.index: 0, "logprobs": logprobs, "delta": text}
            return [*pieces, self.event(f"{form.text_events}.delta", fields)]
        pieces.append(opened.delta_head + _encode(text) + b',"sequence_number":%d}\n\n' % self.number)
        self.number += 1
        return pieces

    def _begin(self, form: TextForm) -> tuple[OpenText, list[bytes]]:
        id = self.setup.item_id(form.prefix, self.index)
        opened = self._open = OpenText(form, self.index, id)
        added = self.item_added(form.item(id, "in_progress", None))
        part = self.event(f"{form.part_events}.added", {**opened.at, form.index: 0, "part": form.part("")})
        return opened, [added, part]

    def _close(self, status: str) -> list[bytes]:
        """Closes the open text item, if there is one."""
        opened, self._open = self._open, None
        if opened is None:
            return []
        form, text, at = opened.form, "".join(opened.pieces), {**opened.at, opened.form.index: 0}
        odds = opened.logprobs
        extra = {**form.extra, "logprobs": odds} if odds else form.extra
        return [
            self.event(f"{form.text_events}.done", {**at, "text": text, **extra}),
            self.event(f"{form.part_events}.done", {**at, "part": form.part(text, odds)}),
            self.item_done(opened.at, form.item(opened.at["item_id"], status, text, odds)),
        ]

    def _call_started(self, call: ToolCall) -> list[bytes]:
        pieces = self._close("completed")
        if call.name in self.setup.functions:
            id = self.setup.item_id("fc", self.index)
            self._calls[call.id] = OpenCall(id, self.index, call, "response.function_call")
            item = function_item(id, call, self.setup.functions[call.name], "in_progress")
            return [*pieces, self.item_added(item)]
        if call.name in self.setup.late:
            self._waiting[call.id] = call
            return pieces
        return [*pieces, *self._begin_mcp(call.id, call)]

    def _begin_mcp(self, key: str, call: ToolCall, *, request: str = "") -> list[bytes]:
        id = self.setup.item_id("mcp", call.id)
        item = mcp_item(id, msgspec.structs.replace(call, arguments=""), "in_progress", request=request)
        opened = OpenCall(id, self.index, call, "response.mcp_call", request=request)
        self._calls[key] = opened
        return [self.item_added(item), self.event("response.mcp_call.in_progress", opened.at)]

    def _argument(self, opened: OpenCall, text: str) -> bytes:
        opened.pieces.append(text)
        data = opened.delta_head + _encode(text) + b',"sequence_number":%d}\n\n' % self.number
        self.number += 1
        return data

    def _call_ready(self, call: ToolCall) -> list[bytes]:
        if call.id in self._waiting:
            self._waiting[call.id] = call
            return []
        opened = self._calls.get(call.id)
        if opened is None:
            return []
        opened.call = call
        pieces = self._arguments_done(opened)
        if call.name in self.setup.functions:
            del self._calls[call.id]
            item = function_item(opened.at["item_id"], opened.call, self.setup.functions[call.name], "completed")
            pieces.append(self.item_done(opened.at, item))
        return pieces

    def _arguments_done(self, opened: OpenCall) -> list[bytes]:
        """Every call has at least one delta: an empty object where the model wrote nothing."""
        pieces = []
        arguments = opened.call.arguments or "{}"
        opened.call = msgspec.structs.replace(opened.call, arguments=arguments)
        if not opened.pieces:
            pieces.append(self._argument(opened, arguments))
        pieces.append(self.event(f"{opened.events}_arguments.done", {**opened.at, "arguments": arguments}))
        return pieces

    def _show_decided(self, call: str) -> list[bytes]:
        """Shows the call whole: the decision is known, whatever it is."""
        waiting, approved = self._waiting.pop(call, None), self._approved.pop(call, None)
        shown = approved or waiting
        if shown is None:
            return []
        pieces = self._begin_mcp(call, shown, request=self.setup.requests.get(call, "") if approved else "")
        return pieces + self._arguments_done(self._calls[call])

    def _result(self, call: str, result: ToolResult) -> list[bytes]:
        pieces = self._show_decided(call)
        self._effects = self._effects or result.effect not in (None, Effect.READ)
        opened = self._calls.pop(call, None)
        if opened is None:
            return pieces
        status = "completed" if result.status is ResultStatus.OK else "failed"
        pieces.append(self.event(f"response.mcp_call.{status}", opened.at))
        item = mcp_item(opened.at["item_id"], opened.call, status, result, request=opened.request)
        pieces.append(self.item_done(opened.at, item))
        return pieces

    def _leave(self, opened: OpenCall) -> list[bytes]:
        """Closes a call that is incomplete, or has no result, when the response ends."""
        call = msgspec.structs.replace(opened.call, arguments=opened.call.arguments or "".join(opened.pieces))
        id, function = opened.at["item_id"], self.setup.functions.get(call.name)
        if function is not None:
            return [self.item_done(opened.at, function_item(id, call, function, "incomplete"))]
        return [self.item_done(opened.at, mcp_item(id, call, "incomplete", request=opened.request))]

    def _listings(self) -> list[bytes]:
        pieces: list[bytes] = []
        if self.index == 0:
            for listing in self.setup.listings:
                id = self.setup.item_id("mcpl", self.index)
                at = {"item_id": id, "output_index": self.index}
                item = listing_item(id, listing)
                pieces.append(self.item_added({**item, "tools": []}))
                pieces.append(self.event("response.mcp_list_tools.in_progress", at))
                kind = "failed" if listing.error else "completed"
                pieces.append(self.event(f"response.mcp_list_tools.{kind}", at))
                pieces.append(self.item_done(at, item))
        return pieces
