"""How requests are counted: by the backend once for every text, by a guess where it cannot say."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from aish.engine.prompt import token_counts
from aish.engine.prompt.token_counts import TokenCounter, byte_length
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.types.messages import AssistantMessage, ImagePart, SystemMessage, ToolCall, ToolMessage, UserMessage, user
from aish.types.requests import StepRequest
from aish.types.tools import Effect, ToolSpec


class Counted(ScriptedProvider):
    """Counts words, and how often it was asked to."""

    def __init__(self) -> None:
        super().__init__("scripted", {"model": from_steps([[]])})
        self.asked: list[str] = []

    async def count_tokens(self, model: str, text: str) -> int | None:
        self.asked.append(text)
        return await super().count_tokens(model, text)


class Silent(ScriptedProvider):
    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__("scripted", {"model": from_steps([[]])})
        self.hangs = hangs

    async def count_tokens(self, model: str, text: str) -> int | None:
        if self.hangs:
            await asyncio.Event().wait()
        return None

    async def count_prompt(self, request: StepRequest) -> int | None:
        return await self.count_tokens("", "")


TOOLS = (ToolSpec("a__b", "does it", {"type": "object"}, Effect.READ, "a"),)
CONVERSATION = (
    SystemMessage("you are terse"),
    user("what is here"),
    AssistantMessage("let me look", (ToolCall("call_1", "a__b", '{"x": 1}'),)),
    ToolMessage("call_1", "a__b", user("one two three").parts),
    AssistantMessage("three things"),
    user("and now"),
)


async def size_of(counter: TokenCounter, messages, tools=()) -> float:
    await counter.prepare(messages)
    head = counter.head(system=isinstance(messages[0], SystemMessage))
    return head + sum(counter.size(message) for message in messages) + await counter.tools(tools)


async def test_the_sum_of_the_parts_is_what_the_backend_counts_for_the_whole():
    provider = Counted()
    counter = TokenCounter(provider, "model")
    for messages in (CONVERSATION, CONVERSATION[1:2], CONVERSATION[:2]):
        for tools in ((), TOOLS):
            whole = await provider.count_prompt(StepRequest("model", messages, tools))
            assert round(await size_of(counter, messages, tools)) == whole
    assert counter.counted_by == "backend"


async def test_no_text_is_counted_twice():
    provider = Counted()
    counter = TokenCounter(provider, "model")
    await size_of(counter, CONVERSATION, TOOLS)
    asked = len(provider.asked)
    await size_of(counter, (*CONVERSATION, user("new words")), TOOLS)
    assert provider.asked[asked:] == ["new words"]


async def test_without_a_tokenizer_four_bytes_are_a_token():
    counter = TokenCounter(Silent(), "model")
    message = user("x" * 4000)
    await counter.prepare([message])
    assert counter.counted_by == "guess"
    assert 1000 <= counter.size(message) <= 1010
    chinese = user("这是一个很长的句子" * 100)
    assert counter.size(chinese) >= byte_length(chinese.text) / 4


async def test_a_guess_is_corrected_by_what_the_backend_reports():
    counter = TokenCounter(Silent(), "model")
    message = user("x" * 4000)
    await counter.prepare([message])
    before = counter.size(message)
    counter.learn(round(before), round(before * 1.5), 1.0)
    assert abs(counter.size(message) - before * 1.5) < 10


@pytest.mark.parametrize("backend", [Silent, Counted])
async def test_calls_at_the_same_time_teach_what_one_of_them_does(backend: type):
    counter = TokenCounter(backend(), "model")
    message = user("word " * 800)
    await counter.prepare([message])
    before = counter.size(message)
    for _ in range(10):
        counter.learn(round(before), round(before * 3), 1.0)
    assert abs(counter.size(message) - before * 3) < 20
    after = counter.size(message)
    counter.learn(round(after), round(after), counter.scale)
    counter.learn(round(before), round(before * 3), 1.0)  # one that was asked before the others answered
    assert abs(counter.size(message) - before * 3) < 20


async def test_reports_that_cannot_be_true_teach_nothing():
    counter = TokenCounter(Silent(), "model")
    message = user("x" * 4000)
    await counter.prepare([message])
    before = counter.size(message)
    for reported in (0, 1, 1_000_000):
        counter.learn(round(before), reported, counter.scale)
    assert counter.size(message) == before


async def test_a_counter_that_belongs_to_another_model_is_corrected_after_it_was_off_twice():
    counter = TokenCounter(Counted(), "model")
    message = user("word " * 1000)
    await counter.prepare([message])
    before = counter.size(message)
    counter.learn(1000, 1300, counter.scale)
    assert counter.size(message) == before
    counter.learn(1000, 1300, counter.scale)
    assert counter.size(message) > before * 1.25
    counter.learn(1000, 700, counter.scale)  # never down: that could overrun the window
    assert counter.size(message) > before * 1.25


async def test_a_tokenizer_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(token_counts, "DEADLINE_S", 0.05)
    counter = TokenCounter(Silent(hangs=True), "model")
    async with asyncio.timeout(5):
        assert await size_of(counter, CONVERSATION, TOOLS) > 0
    assert counter.counted_by == "guess"


async def test_an_image_counts_as_something():
    counter = TokenCounter(Counted(), "model")
    message = UserMessage((ImagePart(data="aGk="),))
    await counter.prepare([message])
    assert counter.size(message) >= token_counts.IMAGE_TOKENS


class Absurd(Counted):
    """Counts one token for everything, or far too many."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    async def count_tokens(self, model: str, text: str) -> int | None:
        return self.count


@pytest.mark.parametrize("count", [0, 1, 10**9])
async def test_a_count_that_cannot_be_is_no_count(count):
    counter = TokenCounter(Absurd(count), "model")
    message = user("word " * 2000)
    await counter.prepare([message])
    assert 2000 <= counter.size(message) <= 3000


async def test_a_tokenizer_that_was_too_slow_is_left_alone_for_a_while(monkeypatch):
    monkeypatch.setattr(token_counts, "DEADLINE_S", 0.05)
    provider = Silent(hangs=True)
    counter = TokenCounter(provider, "model")
    await counter.prepare([user("one")])
    provider.count_tokens = None  # type: ignore[assignment, method-assign]
    async with asyncio.timeout(5):
        await counter.prepare([user("two")])
        assert await counter.tools(TOOLS) > 0


async def test_of_a_tool_only_what_a_model_is_told_is_counted():
    counter = TokenCounter(Silent(), "model")
    promised = msgspec.structs.replace(TOOLS[0], output_schema={"type": "object", "description": "x" * 100_000})
    assert await counter.tools([promised]) == await counter.tools(TOOLS[:1])
