"""The events of one turn: makes them, folds them into the messages that the turn leaves, and passes them from a task to
the loop.

A live turn, a cancelled one and one whose process died all go through the same fold, so history is what the events say
and nothing else. Every tool call in it has exactly one result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from itertools import groupby

import msgspec

from aish.types.events import (
    Body,
    Event,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolOutputDelta,
    ToolResult,
    TurnFinished,
    TurnStarted,
    decode_event,
)
from aish.types.messages import AssistantMessage, Message, ToolCall, ToolMessage
from aish.types.records import TurnRecord

NO_ANSWER = "the model gave no answer"
# The events that change the messages. One set lookup is faster than a chain of class patterns.
_FOLDED = frozenset({TextDelta, StepStarted, TurnStarted, ReasoningDelta, ToolCallReady, ToolResult})
_NS_PER_MS = 1_000_000


class EventFactory(msgspec.Struct, eq=False):
    """Makes the events of one turn: each with its ids, its step and a number without gaps."""

    session: str
    turn: str
    _now_ns: Callable[[], int]
    step: int = 0
    seq: int = 0  # of the last event

    def now_ms(self) -> int:
        return self._now_ns() // _NS_PER_MS

    def events(self, bodies: Sequence[Body]) -> list[Event]:
        """Events that happened at the same moment."""
        session, turn, step = self.session, self.turn, self.step
        first, at_ms = self.seq + 1, self._now_ns() // _NS_PER_MS
        self.seq += len(bodies)
        return [Event(session, turn, seq, at_ms, body, step, "") for seq, body in enumerate(bodies, first)]

    def transient(self, body: Body, call: str) -> Event:
        """An event that is shown and not recorded. It takes no number."""
        return Event(self.session, self.turn, self.seq, self._now_ns() // _NS_PER_MS, body, self.step, call)

    def event(self, body: Body, call: str = "") -> Event:
        self.seq += 1
        return Event(self.session, self.turn, self.seq, self._now_ns() // _NS_PER_MS, body, self.step, call)


class Transcript(msgspec.Struct, eq=False):
    _messages: list[Message] = []
    _input_length: int = 0
    _text: list[str] = []
    _reasoning: list[str] = []
    _calls: list[ToolCall] = []
    _open: dict[str, ToolCall] = {}

    def apply_all(self, events: Sequence[Event]) -> None:
        parts = self._text
        for event in events:
            body = event.body
            if type(body) is TextDelta:
                parts.append(body.text)
            elif type(body) in _FOLDED:
                self.apply(event)
                parts = self._text

    def add_text(self, text: str) -> None:
        """Adds text of the model, like applying a TextDelta."""
        self._text.append(text)

    def apply(self, event: Event) -> None:
        body = event.body
        if type(body) not in _FOLDED:
            return
        match body:
            case TextDelta(text):
                self._text.append(text)
            case StepStarted():
                self._end_step()
            case TurnStarted(input=messages):
                self._messages.extend(messages)
                self._input_length = len(messages)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallReady(name, arguments):
                call = ToolCall(event.call, name, arguments)
                self._calls.append(call)
                self._open[call.id] = call
            case ToolResult(name=name, parts=parts):
                self._end_step()
                self._open.pop(event.call, None)
                self._messages.append(ToolMessage(event.call, name, parts))
            case _:
                pass

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without a result yet, in order."""
        return list(self._open.values())

    @property
    def step_text(self) -> str:
        """The text of the model since the last step began."""
        return "".join(self._text)

    def newest_text(self, chars: int) -> str:
        """At least the last `chars` characters of that text."""
        pieces: list[str] = []
        for piece in reversed(self._text):
            pieces.append(piece)
            chars -= len(piece)
            if chars <= 0:
                break
        return "".join(reversed(pieces))

    def messages(self) -> tuple[Message, ...]:
        """The messages so far, for the next model call."""
        self._end_step()
        return tuple(self._messages)

    def new_messages(self) -> tuple[Message, ...]:
        """The messages that the turn added to its input."""
        return self.messages()[self._input_length :]

    def history(self, closing: str) -> tuple[Message, ...]:
        """The messages that the finished turn leaves. They end with the assistant; `closing` is its text if it had
        none.

        Empty if the model never said or did anything, so that no half turn is kept. Calls without a result are left to
        the next turn, which goes on from there.
        """
        messages = self.messages()
        if len(messages) == self._input_length:
            return ()
        last = messages[-1]
        if self._open or (isinstance(last, AssistantMessage) and not last.tool_calls):
            return messages
        return (*messages, AssistantMessage(closing))

    def _end_step(self) -> None:
        if self._text or self._calls:
            text, reasoning = "".join(self._text), "".join(self._reasoning)
            self._messages.append(AssistantMessage(text, tuple(self._calls), reasoning))
            self._text, self._calls = [], []
        if self._reasoning:
            self._reasoning = []


def record_from_events(lines: Iterable[bytes], turn: TurnRecord) -> TurnRecord:
    """The record with its input and its messages, computed from recorded events. For a turn of no session they are
    stored nowhere else. The caller must redact them, since pieces are joined here for the first time."""
    transcript, input, messages = Transcript(), turn.input, None
    for event in map(decode_event, lines):
        transcript.apply(event)
        if isinstance(event.body, TurnStarted):
            input = event.body.input
        elif isinstance(event.body, TurnFinished):
            messages = transcript.history(f"[aish] {event.body.detail or NO_ANSWER}")
    return msgspec.structs.replace(turn, input=input, messages=transcript.messages() if messages is None else messages)


# A tool that reports progress in a tight loop must not fill memory: further lines are dropped.
MAX_PENDING = 1000
# How long the cancelled task may take to end. Its own cleanup, such as killing a process, is bounded below this.
GRACE_S = 10.0


_Pending = tuple[Body, str, asyncio.Future[None] | None]


def _is_output(pending: _Pending) -> bool:
    return type(pending[0]) is ToolOutputDelta


class EventChannel:
    """Turns a task into a stream of batches of events.

    Output of running tools comes in batches of its own, because it is not recorded.

    `send` returns once the consumer has taken the event and asked for more. So what a recorder does with an event, such
    as making it durable, has happened before the task goes on. `send_nowait` does not wait, and `send_progress` also
    drops what it is given when too much waits. The channel owns its task: leaving `events()` early cancels the task and
    waits for it, for a bounded time.
    """

    def __init__(self, events: EventFactory) -> None:
        self._events = events
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()

    async def send(self, body: Body, call: str) -> None:
        taken = asyncio.get_running_loop().create_future()
        self._put(body, call, taken)
        await taken

    def send_nowait(self, body: Body, call: str) -> None:
        self._put(body, call, None)

    def send_progress(self, body: Body, call: str) -> None:
        if len(self._pending) < MAX_PENDING:
            self._put(body, call, None)

    async def events(self, work: Coroutine[None, None, None]) -> AsyncGenerator[list[Event], None]:
        """Runs `work` and yields what it sends. A failure of `work` is raised here."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        try:
            while not task.done() or self._pending:
                if self._pending:
                    pending = list(self._pending)
                    self._pending.clear()
                    for is_output, group in groupby(pending, _is_output):
                        make = self._events.transient if is_output else self._events.event
                        yield [make(body, call) for body, call, _ in group]
                    for _, _, taken in pending:
                        if taken is not None and not taken.done():
                            taken.set_result(None)
                if not task.done() and not self._pending:
                    await self._wake.wait()
                    self._wake.clear()
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=GRACE_S)

    def _put(self, body: Body, call: str, taken: asyncio.Future[None] | None) -> None:
        self._pending.append((body, call, taken))
        self._wake.set()
