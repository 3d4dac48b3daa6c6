"""Counts the tokens of a prompt as its model counts them.

The backend is asked once for every text, and once for what its chat template adds to a message; both counts are cached.
If the backend cannot say, or not in time, four bytes count as one token, corrected by what it reports of past requests.
Counting never fails and never takes longer than DEADLINE_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from aish.ports import Provider
from aish.types.messages import AssistantMessage, ImagePart, Message, SystemMessage, ToolCall, ToolMessage, user
from aish.types.requests import StepRequest
from aish.types.tools import ToolSpec

DEADLINE_S = 2.0
BYTES_PER_TOKEN = 4
# Backends scale images to tiles of their own; this is typical.
IMAGE_TOKENS = 1000
_AT_ONCE = 8
# Counts are small, and a dropped one is counted again.
_MAX_KEPT = 50_000
# Reports that differ by more are mistakes of the backend, not of our count.
_ODDEST = 4.0
# One report that differs may be caused by the backend's cache; a second means that our count is wrong.
_OFF = 1.1
_MAX_BYTES_A_TOKEN = 128  # runs of blanks are the longest tokens there are
# After counting has taken too long, sizes are guessed for a while.
_REST_S = 60.0

Key = tuple[int, int]


class Frame(msgspec.Struct, frozen=True):
    """What a chat template adds: once, with or without a system message, to each message and to each call. A template
    without tools leaves the text of calls out: then `call_words` is 0."""

    with_system: float = 3.0
    without_system: float = 3.0
    each: float = 4.0
    call: float = 8.0
    call_words: float = 1.0


class TokenCounter:
    """Counts for one model."""

    def __init__(self, provider: Provider, model: str) -> None:
        self._provider = provider
        self._model = model
        self._texts: dict[Key, int] = {}
        self._tools: dict[int, int] = {}
        self._frame: Frame | None = None
        self.scale = 1.0  # what guesses are multiplied by
        self._off_before = False
        self._resting_until_s = 0.0
        self.counted_by: Literal["backend", "guess"] = "guess"

    async def prepare(self, messages: Iterable[Message]) -> None:
        """Has the backend count the texts that it has not counted before."""
        missing = {
            key: text for m in messages for text in counted_texts(m) if text and (key := _key(text)) not in self._texts
        }
        now_s = asyncio.get_running_loop().time()
        if (not missing and self._frame is not None) or now_s < self._resting_until_s:
            return
        try:
            async with asyncio.timeout(DEADLINE_S):
                if self._frame is None:
                    self._frame = await self._learn_frame()
                await self._count_all(missing)
        except TimeoutError:
            self._frame = self._frame or Frame()
            self._resting_until_s = now_s + _REST_S

    def size(self, message: Message) -> float:
        """The size of one message within a conversation."""
        frame = self._frame or Frame()
        tokens = frame.each + self._text_size(message.text)
        if isinstance(message, AssistantMessage):
            tokens += self._text_size(message.reasoning)
            words = sum(self._text_size(_call_text(call)) for call in message.tool_calls)
            tokens += frame.call * len(message.tool_calls) + frame.call_words * words
        elif not isinstance(message, SystemMessage):
            tokens += IMAGE_TOKENS * sum(isinstance(part, ImagePart) for part in message.parts)
        return tokens

    def head(self, *, system: bool) -> float:
        """The size of what the template adds once."""
        frame = self._frame or Frame()
        return frame.with_system - frame.each if system else frame.without_system

    async def tools(self, tools: Sequence[ToolSpec]) -> int:
        """The size of tools that the backend takes as tools."""
        if not tools:
            return 0
        encoded = encode_counted_tools(tools)
        key = hash(encoded)
        if key not in self._tools and asyncio.get_running_loop().time() < self._resting_until_s:
            return self._guess(len(encoded))
        if key not in self._tools:
            counted = await self._count_tools(tuple(tools))
            if counted is None:
                return self._guess(len(encoded))
            self._tools[key] = counted
        return self._tools[key]

    def learn(self, counted: int, reported: int, scale: float) -> None:
        """Corrects guesses by what the backend reported of a request that we had counted, with `scale` at that time:
        requests at the same time each say how wrong the same scale was."""
        if not counted or not 1 / _ODDEST <= reported * scale / counted <= _ODDEST:
            return
        ratio = reported / counted
        if self.counted_by == "guess":
            self.scale = scale * ratio
        elif ratio > _OFF and self._off_before:
            self.scale = max(self.scale, scale * ratio)  # its counter is another model's
        self._off_before = ratio > _OFF

    def _text_size(self, text: str) -> float:
        if not text:
            return 0
        counted = self._texts.get(_key(text))
        return self._guess(byte_length(text)) if counted is None else counted * self._exact_scale

    @property
    def _exact_scale(self) -> float:
        return self.scale if self.counted_by == "backend" else 1.0

    def _guess(self, length: int) -> int:
        return max(1, round(length * self.scale / BYTES_PER_TOKEN))

    async def _count_all(self, missing: dict[Key, str]) -> None:
        if not missing:
            return
        first, *rest = missing.items()
        if not await self._count(*first):
            self.counted_by = "guess"
            return
        self.counted_by = "backend"
        limit = asyncio.Semaphore(_AT_ONCE)

        async def count(key: Key, text: str) -> None:
            async with limit:
                await self._count(key, text)

        async with asyncio.TaskGroup() as group:
            for key, text in rest:
                group.create_task(count(key, text))

    async def _count(self, key: Key, text: str) -> bool:
        tokens = await self._provider.count_tokens(self._model, text)
        if tokens is None or not byte_length(text) / _MAX_BYTES_A_TOKEN - 2 <= tokens <= 4 * byte_length(text) + 8:
            return False  # no tokenizer counts like that
        if len(self._texts) >= _MAX_KEPT:
            self._texts.clear()
        self._texts[key] = tokens
        return True

    async def _learn_frame(self) -> Frame:
        """Counts small conversations. What exceeds their text is the template's."""
        one = await self._provider.count_tokens(self._model, _PROBE)
        bare = await self._probe((user(_PROBE),))
        if one is None or bare is None:
            return Frame()
        opening: tuple[Message, ...] = (SystemMessage(_PROBE), user(_PROBE))
        opened = await self._probe(opening) or bare + one
        longer = await self._probe((*opening, AssistantMessage(_PROBE), user(_PROBE))) or opened + 2 * one
        each = max(0.0, (longer - opened) / 2 - one)
        call, words = await self._learn_calls(opening, opened + one + 2 * each)
        return Frame(opened - 2 * one - each, bare - one - each, each, call, words)

    async def _learn_calls(self, opening: tuple[Message, ...], without: float) -> tuple[float, float]:
        """Finds what a call adds besides its text, and how much of its text the template writes."""
        known: list[tuple[int, int]] = []  # what a conversation with the call comes to, and the call's words alone
        for call in _PROBE_CALLS:
            size = await self._probe((*opening, *_exchange(call)))
            words = await self._provider.count_tokens(self._model, _call_text(call))
            if size is None or words is None:
                return Frame().call, 1.0
            known.append((size, words))
        (short, few), (long, many) = known
        share = min(1.0, max(0.0, (long - short) / (many - few))) if many > few else 1.0
        return max(0.0, short - without - share * few), share

    async def _probe(self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...] = ()) -> int | None:
        return await self._provider.count_prompt(StepRequest(self._model, messages, tools))

    async def _count_tools(self, tools: tuple[ToolSpec, ...]) -> int | None:
        opening = (SystemMessage(_PROBE), user(_PROBE))
        try:
            async with asyncio.timeout(DEADLINE_S):
                without, with_tools = await self._probe(opening), await self._probe(opening, tools)
        except TimeoutError:
            return None
        return None if without is None or with_tools is None else max(0, with_tools - without)


_PROBE = "hello"
_PROBE_CALLS = (
    ToolCall("call_1", _PROBE, '{"path": "a"}'),
    ToolCall("call_1", _PROBE, '{"path": "the quick brown fox jumps over the lazy dog and is gone"}'),
)


def _exchange(call: ToolCall) -> tuple[Message, ...]:
    return AssistantMessage("", (call,)), ToolMessage(call.id, call.name, user(_PROBE).parts)


def counted_texts(message: Message) -> tuple[str, ...]:
    """The texts of a message that are counted. The same texts come again and again."""
    if isinstance(message, AssistantMessage) and (message.tool_calls or message.reasoning):
        return (message.text, message.reasoning, *map(_call_text, message.tool_calls))
    return (message.text,)


def _call_text(call: ToolCall) -> str:
    return f"{call.name} {call.arguments}"


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def max_tokens_of(message: Message) -> int:
    """An upper bound: no tokenizer makes more than one token of a byte."""
    images = (
        0
        if isinstance(message, AssistantMessage | SystemMessage)
        else sum(isinstance(part, ImagePart) for part in message.parts)
    )
    return sum(byte_length(text) for text in counted_texts(message)) + images * IMAGE_TOKENS


def encode_counted_tools(tools: Sequence[ToolSpec]) -> bytes:
    """What a backend is sent of the tools, approximately, without their source and their output schema."""
    return msgspec.json.encode(
        [
            {
                "type": "function",
                "function": {"name": each.name, "description": each.description, "parameters": each.schema},
            }
            for each in tools
        ]
    )


def _key(text: str) -> Key:
    return hash(text), len(text)
