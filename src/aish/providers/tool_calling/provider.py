"""A provider whose models all call tools, by one of three strategies: natively, constrained by a schema, or by a
prompt.

It wraps any other provider. `strategies` picks the strategy for a model, `prompts` writes the instructions, `reader`
reads the answers. Calls that a model writes as text are found with every strategy. A request without tools passes
through unchanged.

A model with an adapter for tool calls is first asked, with it, which tool to call. If it says that none fits, its words
are dropped, and the question is asked again without tools: the adapter picks tools, the model itself chats.

It stands outside of redaction, so that the prompt it writes is redacted like all else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress

import msgspec

from aish.errors import ProviderError
from aish.ports import Provider, TextRelay
from aish.providers.tool_calling.prompts import (
    PromptStyle,
    answer_or_call_schema,
    has_result,
    render_messages,
    repeats_calls,
    room_for_tools,
    tool_instructions,
    with_tool_instructions,
)
from aish.providers.tool_calling.reader import ToolCallReader
from aish.providers.tool_calling.strategies import Strategies, Strategy, has_calls, strategy_notice, tools_to_call
from aish.tool_calls.schema.sanitiser import PLAIN, TOOLS, simplify_tools
from aish.types.chunks import Batch, Chunk, UsageChunk
from aish.types.events import Status
from aish.types.messages import ToolMessage
from aish.types.models import ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, Sampling, StepRequest, ToolChoice
from aish.types.tools import JsonSchema, ToolSpec
from aish.types.usage import Usage

_LOOKUP_S = 10.0  # for asking what a model supports
_MAX_TRIES = 5  # more than there are strategies
_EMPTY_ANSWER: JsonSchema = {
    "type": "string",
    "const": "",
}  # for an adapter that only picks a tool: its words would be dropped
_NATIVE_STRATEGIES = (Strategy.NATIVE, Strategy.PLAIN)


class ToolCallingProvider:
    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self._strategies = Strategies()

    @property
    def name(self) -> str:
        return self._inner.name

    async def list_models(self) -> Sequence[ModelProfile]:
        return await self._inner.list_models()

    async def describe(self, model: str) -> ModelProfile:
        info = await self._inner.describe(model)
        self._strategies.remember(model, info)
        return info

    def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        if request.tools:
            request = self._narrow_tools(_drop_unnamed_tools(request))
        if self._is_passthrough(request):
            return self._inner.stream(request, relay)
        return aclosing(self._batches(request, relay))

    def prepare(self, request: StepRequest) -> StepRequest:
        if request.tools:
            request = self._narrow_tools(_drop_unnamed_tools(request))
        if self._is_passthrough(request):
            return self._inner.prepare(request)
        return self._inner.prepare(self._encode(request, self._strategies.choose(request)))

    async def count_tokens(self, model: str, text: str) -> int | None:
        return await self._inner.count_tokens(model, text)

    async def count_prompt(self, request: StepRequest) -> int | None:
        return await self._inner.count_prompt(self.prepare(request))

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        return await self._inner.embed(model, inputs)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _batches(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        """Tries again with the next strategy when the backend refuses one."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + request.deadline_s
        await self._look_up_model(request)
        strategy = self._strategies.choose(request)
        for _ in range(_MAX_TRIES):
            begun = False
            left = msgspec.structs.replace(request, deadline_s=due_s - loop.time())
            try:
                async with aclosing(self._answer(left, strategy, relay)) as batches:
                    async for batch in batches:
                        begun = begun or not all(isinstance(chunk, Status) for chunk in batch)
                        yield batch
                return
            except ProviderError as exc:
                other = None if begun else self._strategies.find_fallback(request, strategy, exc)
                if other is None:
                    raise
                strategy = other
            yield [Status(strategy_notice(f"{self.name}:{request.model}", strategy))]

    async def _answer(
        self, request: StepRequest, strategy: Strategy, relay: TextRelay | None
    ) -> AsyncGenerator[Batch, None]:
        tools = tools_to_call(request.tools, request.tool_choice)
        reader, sent = self._make_reader(request, strategy, tools), self._encode(request, strategy)
        if sent.picks_tool:
            work = self._report_result if _ends_with_result(request) else self._pick_tool
            async with aclosing(work(request, sent, reader)) as batches:
                async for batch in batches:
                    yield batch
            return
        if relay is not None and tools:
            relay.scan_with(reader.passes_text)
        async with self._inner.stream(sent, relay) as batches:
            async for batch in batches:
                if not tools or reader.passes(batch):
                    yield batch
                elif read := reader.read(batch):
                    yield read
        if reader.has_called_natively:
            self._strategies.note_native_call(request.model)
        if strategy is Strategy.NATIVE and request.tool_choice.mode == "required" and not reader.has_called:
            self._note_ignored(request)

    async def _pick_tool(
        self, request: StepRequest, sent: StepRequest, reader: ToolCallReader
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        """Asks with the adapter, to the end. If it calls nothing, asks the model itself; the usage is the sum of
        both."""
        due_s = asyncio.get_running_loop().time() + request.deadline_s
        chunks: list[Chunk] = []
        async with self._inner.stream(sent) as batches:
            async for batch in batches:
                read = reader.read(batch)
                chunks += [chunk for chunk in read if not isinstance(chunk, Status)]
                if prompt := [chunk for chunk in read if isinstance(chunk, Status)]:
                    yield prompt
        if reader.has_called:
            yield chunks
            return
        spent = sum((chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)), Usage())
        left_s = max(0.0, due_s - asyncio.get_running_loop().time())
        async with self._inner.stream(self._encode(_without_tools(request, left_s), Strategy.CONSTRAINED)) as batches:
            async for batch in batches:
                yield [UsageChunk(c.usage + spent) if isinstance(c, UsageChunk) else c for c in batch]

    async def _report_result(
        self, request: StepRequest, sent: StepRequest, reader: ToolCallReader
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        """Has the model report a tool's result, to the end, so that made-up text can be replaced; reports are short."""
        chunks: list[Chunk] = []
        async with self._inner.stream(sent) as batches:
            async for batch in batches:
                chunks += reader.read(batch)
        if not reader.has_called and request.repair:
            from aish.providers.tool_calling.weak_models import replace_made_up

            chunks = replace_made_up(chunks, request.messages)
        if chunks:
            yield chunks

    def _make_reader(self, request: StepRequest, strategy: Strategy, tools: Sequence[ToolSpec]) -> ToolCallReader:
        constrained = strategy is Strategy.CONSTRAINED and bool(tools)
        knows = strategy in _NATIVE_STRATEGIES and self._strategies.calls_natively(request.model)
        return ToolCallReader(tools, constrained=constrained, repair=request.repair, calls_natively=knows)

    def _has_adapter(self, request: StepRequest) -> bool:
        info = self._strategies.info(request.model)
        return info is not None and info.capabilities.tool_adapter

    def _is_weak(self, model: str) -> bool:
        info = self._strategies.info(model)
        return info is not None and info.is_weak

    def _note_ignored(self, request: StepRequest) -> None:
        """The backend accepts tools and a required call, and then ignores both: next time another strategy is used."""
        info = self._strategies.info(request.model)
        if request.tool_mode == "auto" and info is not None and info.capabilities.constrained:
            self._strategies.learn(request.model, Strategy.CONSTRAINED)

    async def _look_up_model(self, request: StepRequest) -> None:
        """Asks once what the model supports. If that fails, native tools are tried."""
        if request.tool_mode in ("auto", "constrained") and self._strategies.info(request.model) is None:
            with suppress(ProviderError, TimeoutError):
                async with asyncio.timeout(max(0.0, min(_LOOKUP_S, request.deadline_s))):
                    await self.describe(request.model)

    def _narrow_tools(self, request: StepRequest) -> StepRequest:
        """Offers a weak model whose tools are in the prompt only those that the question is about."""
        if request.tool_mode != "auto" or request.tool_choice.mode == "required":
            return request
        info = self._strategies.info(request.model)
        if info is None or not info.is_weak or info.capabilities.tool_adapter:
            return request
        if self._strategies.choose(request) in _NATIVE_STRATEGIES:
            return request
        from aish.providers.tool_calling.weak_models import select_relevant  # few runs ask a weak model

        return msgspec.structs.replace(request, tools=select_relevant(request.tools, request.messages))

    def _is_passthrough(self, request: StepRequest) -> bool:
        """Whether the request needs nothing from this wrapper."""
        if request.tools:
            return False
        return not has_calls(request) or self._strategies.choose(request) in _NATIVE_STRATEGIES

    def _encode(self, request: StepRequest, strategy: Strategy) -> StepRequest:
        if strategy in _NATIVE_STRATEGIES:
            tools = simplify_tools(request.tools, TOOLS if strategy is Strategy.NATIVE else PLAIN)
            return request if tools is request.tools else msgspec.structs.replace(request, tools=tools)
        sent = msgspec.structs.replace(request, tools=(), parallel_calls=None)
        if not (tools := tuple(tools_to_call(request.tools, request.tool_choice))):
            return msgspec.structs.replace(sent, messages=render_messages(request.messages, "prompted"))
        style: PromptStyle = "constrained" if strategy is Strategy.CONSTRAINED else "prompted"
        return self._with_prompted_tools(sent, tools, style)

    def _with_prompted_tools(self, request: StepRequest, tools: Sequence[ToolSpec], style: PromptStyle) -> StepRequest:
        """Writes the tools into the prompt and, if answers are constrained, into their schema. Otherwise the request's
        own schema would keep the model from calling, so the prompt describes it instead."""
        choice, answer = request.tool_choice, _answer_schema(request.sampling)
        info, is_weak = self._strategies.info(request.model), self._is_weak(request.model)
        tuned = style == "constrained" and self._has_adapter(request)
        if tuned and not _ends_with_result(request):
            answer = _EMPTY_ANSWER
        # A small model that made the same call twice would repeat it for ever; a weak one would repeat any call.
        done = repeats_calls(request.messages) or (is_weak and not tuned and has_result(request.messages))
        offered = () if done and choice.mode == "auto" else tools
        prompt = tool_instructions(
            tools,
            style,
            choice,
            room_chars=room_for_tools(info.context_size if info else None),
            answer=answer if style == "prompted" else None,
        )
        union = answer_or_call_schema(offered, choice, answer, bounded=is_weak) if style == "constrained" else None
        messages = request.messages
        if tuned and _ends_with_result(request):
            from aish.providers.tool_calling.weak_models import current_turn_only

            messages = current_turn_only(messages)
        return msgspec.structs.replace(
            request,
            messages=with_tool_instructions(render_messages(messages, style), prompt),
            sampling=msgspec.structs.replace(request.sampling, json_schema=union, json_object=False),
            picks_tool=tuned,
        )


def _answer_schema(sampling: Sampling) -> JsonSchema | None:
    """The schema that the request sets for an answer, apart from calls."""
    return sampling.json_schema or ({"type": "object"} if sampling.json_object else None)


def _ends_with_result(request: StepRequest) -> bool:
    """Whether the model now has to report a tool's result."""
    return isinstance(request.messages[-1], ToolMessage)


def _without_tools(request: StepRequest, deadline_s: float) -> StepRequest:
    return msgspec.structs.replace(request, tools=(), tool_choice=ToolChoice(), deadline_s=deadline_s)


def _drop_unnamed_tools(request: StepRequest) -> StepRequest:
    """Drops tools without a name: they cannot be called, and a single one makes a backend refuse all."""
    named = [tool for tool in request.tools if tool.name.strip()]
    return request if len(named) == len(request.tools) else msgspec.structs.replace(request, tools=tuple(named))
