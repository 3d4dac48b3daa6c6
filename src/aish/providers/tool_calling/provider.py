"""A provider whose models all call tools, in one of three ways: natively, constrained by a schema, or by a prompt.

Wraps any other. `strategies` picks the way for a model, `prompted` writes the instructions, `reader` reads the answers.
Calls that a model writes as text are found in every way. A request without tools goes straight through.

A model with an adapter for tool calls is first asked, with it, which tool to call. Where it says that none fits, what
it says is thrown away and the question is put again as if there were no tools: the adapter picks, the model chats.

It stands outside of redaction: the prompt it writes is scrubbed like all else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress

import msgspec

from aish.errors import ProviderError
from aish.ports import Provider, TextRelay
from aish.providers.tool_calling.answer_schema import answer_or_call, chosen
from aish.providers.tool_calling.prompted import (
    Manner,
    has_result,
    instructions,
    rendered,
    repeats_itself,
    room_for_tools,
    with_instructions,
)
from aish.providers.tool_calling.reader import Reading
from aish.providers.tool_calling.relevance import is_weak, relevant
from aish.providers.tool_calling.strategies import Way, Ways, has_calls, saying
from aish.tool_calls.schema.sanitiser import PLAIN, TOOLS, simplified_tools
from aish.types.chunks import Batch, Chunk, UsageChunk
from aish.types.embeddings import Embedded, Inputs
from aish.types.events import Status
from aish.types.messages import ToolMessage
from aish.types.models import ModelInfo
from aish.types.requests import Sampling, StepRequest, ToolChoice
from aish.types.tools import JsonSchema, ToolSpec
from aish.types.usage import Usage

_LOOKUP_S = 10.0  # to ask what a model can, where nobody has asked yet
_MAX_TRIES = 5  # more than there are ways
_NO_WORDS: JsonSchema = {"type": "string", "const": ""}  # of an adapter that only picks: they would be thrown away
_NATIVE_WAYS = (Way.NATIVE, Way.PLAIN)


class ToolModeProvider:
    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self._ways = Ways()

    @property
    def name(self) -> str:
        return self._inner.name

    async def list_models(self) -> Sequence[ModelInfo]:
        return await self._inner.list_models()

    async def describe(self, model: str) -> ModelInfo:
        info = await self._inner.describe(model)
        self._ways.know(model, info)
        return info

    def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        if request.tools:
            request = self._narrowed(request)
        if self._goes_through(request):
            return self._inner.stream(request, relay)
        return aclosing(self._batches(request, relay))

    def prepared(self, request: StepRequest) -> StepRequest:
        if request.tools:
            request = self._narrowed(request)
        if self._goes_through(request):
            return self._inner.prepared(request)
        return self._inner.prepared(self._sent(request, self._ways.choose(request)))

    async def count_tokens(self, model: str, text: str) -> int | None:
        return await self._inner.count_tokens(model, text)

    async def count_prompt(self, request: StepRequest) -> int | None:
        return await self._inner.count_prompt(self.prepared(request))

    async def embed(self, model: str, inputs: Inputs) -> Embedded:
        return await self._inner.embed(model, inputs)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _batches(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        """One attempt, and another for each way that the backend turns out not to take."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + request.deadline_s
        await self._know(request)
        way = self._ways.choose(request)
        for _ in range(_MAX_TRIES):
            begun = False
            left = msgspec.structs.replace(request, deadline_s=due_s - loop.time())
            try:
                async with aclosing(self._answer(left, way, relay)) as batches:
                    async for batch in batches:
                        begun = begun or not all(isinstance(chunk, Status) for chunk in batch)
                        yield batch
                return
            except ProviderError as exc:
                other = None if begun else self._ways.find_other(request, way, exc)
                if other is None:
                    raise
                way = other
            yield [Status(saying(f"{self.name}:{request.model}", way))]

    async def _answer(self, request: StepRequest, way: Way, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        tools = _callable(request)
        sent, reading = self._sent(request, way), self._reading(request, way, tools)
        if sent.picks_tool:
            work = self._retold if _has_heard_back(request) else self._picked
            async with aclosing(work(request, sent, reading)) as batches:
                async for batch in batches:
                    yield batch
            return
        if relay is not None and tools:
            relay.scan_with(reading.passes_text)
        async with self._inner.stream(sent, relay) as batches:
            async for batch in batches:
                if not tools or reading.passes(batch):
                    yield batch
                elif read := reading.read(batch):
                    yield read
        if reading.has_called_natively:
            self._ways.note_native_call(request.model)
        if way is Way.NATIVE and request.tool_choice.mode == "required" and not reading.has_called:
            self._note_ignored(request)

    async def _picked(
        self, request: StepRequest, sent: StepRequest, reading: Reading
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        """Asks with the adapter, to the end. Where it calls nothing, the model itself is asked; the usage is the sum of
        both."""
        due_s = asyncio.get_running_loop().time() + request.deadline_s
        held: list[Chunk] = []
        async with self._inner.stream(sent) as batches:
            async for batch in batches:
                read = reading.read(batch)
                held += [chunk for chunk in read if not isinstance(chunk, Status)]
                if said := [chunk for chunk in read if isinstance(chunk, Status)]:
                    yield said
        if reading.has_called:
            yield held
            return
        spent = sum((chunk.usage for chunk in held if isinstance(chunk, UsageChunk)), Usage())
        left_s = max(0.0, due_s - asyncio.get_running_loop().time())
        async with self._inner.stream(self._sent(_without_tools(request, left_s), Way.CONSTRAINED)) as batches:
            async for batch in batches:
                yield [UsageChunk(c.usage + spent) if isinstance(c, UsageChunk) else c for c in batch]

    async def _retold(
        self, request: StepRequest, sent: StepRequest, reading: Reading
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        """Tells of a result, to the end: it is short, and what is made up in it is not told."""
        held: list[Chunk] = []
        async with self._inner.stream(sent) as batches:
            async for batch in batches:
                held += reading.read(batch)
        if not reading.has_called and request.repair:
            from aish.providers.tool_calling.retelling import retold

            held = retold(held, request.messages)
        if held:
            yield held

    def _reading(self, request: StepRequest, way: Way, tools: Sequence[ToolSpec]) -> Reading:
        constrained = way is Way.CONSTRAINED and bool(tools)
        knows = way in _NATIVE_WAYS and self._ways.calls_natively(request.model)
        return Reading(tools, constrained=constrained, repair=request.repair, calls_natively=knows)

    def _has_adapter(self, request: StepRequest) -> bool:
        info = self._ways.info(request.model)
        return info is not None and info.capabilities.tool_adapter

    def _note_ignored(self, request: StepRequest) -> None:
        """The backend takes tools and a demand to call one, and then heeds neither: next time another way is taken."""
        info = self._ways.info(request.model)
        if request.tool_mode == "auto" and info is not None and info.capabilities.constrained:
            self._ways.learn(request.model, Way.CONSTRAINED)

    async def _know(self, request: StepRequest) -> None:
        """Asks what the model can, once. If nobody can say, its own tools are tried."""
        if request.tool_mode in ("auto", "constrained") and self._ways.info(request.model) is None:
            with suppress(ProviderError, TimeoutError):
                async with asyncio.timeout(max(0.0, min(_LOOKUP_S, request.deadline_s))):
                    await self.describe(request.model)

    def _narrowed(self, request: StepRequest) -> StepRequest:
        """A weak model that has to be told of tools is told of those that the question is about."""
        if request.tool_mode != "auto" or request.tool_choice.mode == "required":
            return request
        if self._ways.choose(request) in _NATIVE_WAYS or not is_weak(self._ways.info(request.model)):
            return request
        if self._has_adapter(request):
            return request
        return msgspec.structs.replace(request, tools=relevant(request.tools, request.messages))

    def _goes_through(self, request: StepRequest) -> bool:
        """Whether there is nothing to do for us."""
        if request.tools:
            return False
        return not has_calls(request) or self._ways.choose(request) in _NATIVE_WAYS

    def _sent(self, request: StepRequest, way: Way) -> StepRequest:
        if way in _NATIVE_WAYS:
            tools = simplified_tools(_named(request.tools), TOOLS if way is Way.NATIVE else PLAIN)
            return request if tools is request.tools else msgspec.structs.replace(request, tools=tools)
        sent = msgspec.structs.replace(request, tools=(), parallel_calls=None)
        if not (tools := tuple(_callable(request))):
            return msgspec.structs.replace(sent, messages=rendered(request.messages, "prompted"))
        manner: Manner = "constrained" if way is Way.CONSTRAINED else "prompted"
        return self._told(sent, tools, manner)

    def _told(self, request: StepRequest, tools: Sequence[ToolSpec], manner: Manner) -> StepRequest:
        """With the tools written into the prompt, and into the schema of the answer where that is constrained. Where
        it is not, the asker's own schema would keep the model from calling: it is told in words instead."""
        choice, answer = request.tool_choice, _answer_schema(request.sampling)
        info = self._ways.info(request.model)
        tuned = manner == "constrained" and self._has_adapter(request)
        if tuned and not _has_heard_back(request):
            answer = _NO_WORDS
        # A small model that has made the same call twice makes it for ever, if it may; a weak one, any call.
        done = repeats_itself(request.messages) or (is_weak(info) and not tuned and has_result(request.messages))
        offered = () if done and choice.mode == "auto" else tools
        said = instructions(
            tools,
            manner,
            choice,
            room_chars=room_for_tools(info.context_size if info else None),
            answer=answer if manner == "prompted" else None,
        )
        union = answer_or_call(offered, choice, answer, bounded=is_weak(info)) if manner == "constrained" else None
        messages = request.messages
        if tuned and _has_heard_back(request):
            from aish.providers.tool_calling.retelling import this_turn

            messages = this_turn(messages)
        return msgspec.structs.replace(
            request,
            messages=with_instructions(rendered(messages, manner), said),
            sampling=msgspec.structs.replace(request.sampling, json_schema=union, json_object=False),
            picks_tool=tuned,
        )


def _answer_schema(sampling: Sampling) -> JsonSchema | None:
    """What the asker wants an answer to be, besides the calls that lead to it."""
    return sampling.json_schema or ({"type": "object"} if sampling.json_object else None)


def _has_heard_back(request: StepRequest) -> bool:
    """Whether a tool has said something that is to be told of."""
    return isinstance(request.messages[-1], ToolMessage)


def _without_tools(request: StepRequest, deadline_s: float) -> StepRequest:
    return msgspec.structs.replace(request, tools=(), tool_choice=ToolChoice(), deadline_s=deadline_s)


def _named(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Without those that have no name: nobody could call them, and one alone makes a backend refuse them all."""
    return tools if all(tool.name.strip() for tool in tools) else tuple(tool for tool in tools if tool.name.strip())


def _callable(request: StepRequest) -> list[ToolSpec]:
    return chosen(_named(request.tools), request.tool_choice)
