"""The contracts hold ours, and each broken promise is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish import tool
from aish.library.inline_tools import InlineTools
from aish.ports import CallContext, TextRelay
from aish.process.clock import SystemClock
from aish.testing import ContractBroken, Scripted, provider_contract, toolset_contract
from aish.tools.builtin.runtime import RuntimeTools
from aish.types.chunks import Batch
from aish.types.events import Status, TextDelta
from aish.types.models import ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, StepRequest
from aish.types.tools import Arguments, Effect, ToolOutput, ToolSpec


@tool(effect="read")
def double(number: int) -> int:
    "Doubles a number."
    return 2 * number


async def test_our_scripted_model_and_our_toolsets_keep_them():
    await provider_contract(lambda: Scripted("One two three.", "More."), model="model")
    await toolset_contract(lambda: RuntimeTools(SystemClock()), examples={"add": {"a": 1, "b": 2}, "time": {}})
    await toolset_contract(lambda: InlineTools([double], Path("/")), examples={"double": {"number": 2}})


class _Deaf:
    """Offers a relay what it takes, and says that it took nothing."""

    def __init__(self, relay: TextRelay) -> None:
        self._relay = relay

    def scan_with(self, passes: Callable[[str], bool]) -> None:
        self._relay.scan_with(passes)

    def accept(self, text: str) -> bool:
        self._relay.accept("".join(list(text)))
        return False


class Broken(Scripted):
    """Breaks one promise."""

    def __init__(self, promise: str) -> None:
        super().__init__(["One ", "two ", "three."])
        self._promise = promise

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        if self._promise == "unknown":
            request = msgspec.structs.replace(request, model="model")
        async with super().stream(request, _Deaf(relay) if self._promise == "twice" and relay else relay) as batches:
            yield self._change(batches, relay)

    async def _change(
        self, batches: AsyncGenerator[Batch, None], relay: TextRelay | None
    ) -> AsyncGenerator[Batch, None]:
        if self._promise == "relay" and relay is not None:
            relay.accept("early")
        if self._promise == "deadline":
            yield [TextDelta("late")]
            return
        async for batch in batches:
            if self._promise == "mute" and relay is not None:
                batch = [Status("…") if isinstance(chunk, TextDelta) else chunk for chunk in batch]
            if self._promise != "end" or isinstance(batch[0], TextDelta):
                yield batch

    async def count_tokens(self, model: str, text: str) -> int | None:
        return -1 if self._promise == "count" else await super().count_tokens(model, text)

    async def list_models(self) -> Sequence[ModelProfile]:
        return [ModelProfile("other", "model")] if self._promise == "list" else await super().list_models()

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        return EmbeddingResult([[1.0]]) if self._promise == "embed" else await super().embed(model, inputs)


@pytest.mark.parametrize(
    ("promise", "named"),
    [
        ("end", "no other, is StepFinished"),
        ("deadline", "A deadline that has passed"),
        ("relay", "Words that a relay has taken"),
        ("mute", "Words that a relay has taken"),
        ("twice", "Words that a relay has taken"),
        ("unknown", "A model that does not exist"),
        ("count", "Counting tokens gives a number or None"),
        ("list", "Every listed model has the provider's name"),
        ("embed", "Embedding gives a vector for each input"),
    ],
)
async def test_a_provider_that_breaks_a_promise_is_told_which(promise: str, named: str):
    with pytest.raises(ContractBroken) as caught:
        await provider_contract(lambda: Broken(promise), model="model")
    assert any(named in line for line in caught.value.broken)


class Faulty(RuntimeTools):
    def __init__(self, fault: str) -> None:
        super().__init__(SystemClock())
        self._fault = fault

    def specs(self) -> Sequence[ToolSpec]:
        if self._fault == "new":
            return list(super().specs())
        if self._fault == "bare":
            return BARE
        return super().specs()

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if self._fault == "raises":
            raise ValueError("oops")
        if self._fault == "anything":
            return ToolOutput(())
        return await super().call(name, arguments, context)


BARE = (ToolSpec("add", "", {"type": "object"}, Effect.READ, "x"),)


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("new", "returns the same object"),
        ("bare", "a description and a schema"),
        ("raises", "A tool that does not exist"),
        ("anything", "A call gives parts"),
    ],
)
async def test_a_toolset_that_breaks_a_promise_is_told_which(fault: str, named: str):
    examples: dict[str, Any] = {"add": {"a": 1, "b": 2}}
    with pytest.raises(ContractBroken) as caught:
        await toolset_contract(lambda: Faulty(fault), examples=examples)
    assert any(named in line for line in caught.value.broken)


class Stubborn(RuntimeTools):
    """Goes on when it is cancelled."""

    def __init__(self) -> None:
        super().__init__(SystemClock())

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        for _ in range(100):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        return await super().call(name, arguments, context)


async def test_a_toolset_that_swallows_being_cancelled_breaks_its_promise():
    with pytest.raises(ContractBroken, match=r"A cancelled call ends soon.*add ended otherwise"):
        await toolset_contract(Stubborn, examples={"add": {"a": 1, "b": 2}})


async def test_all_that_a_contract_has_made_is_closed_and_ended():
    opened: list[Scripted] = []
    closed: list[Scripted] = []

    class Closing(Scripted):
        async def aclose(self) -> None:
            closed.append(self)

    def make() -> Scripted:
        opened.append(Closing("One."))
        return opened[-1]

    await provider_contract(make, model="model")
    assert {id(one) for one in closed} == {id(one) for one in opened}
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_examples_must_fit_their_tools():
    with pytest.raises(ContractBroken, match="The examples fit"):
        await toolset_contract(lambda: RuntimeTools(SystemClock()), examples={"add": {"a": "x"}})
