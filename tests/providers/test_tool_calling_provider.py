"""A model with an adapter for tool calls: the adapter picks, the model chats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aish.providers.scripted import Item, ScriptedProvider
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.chunks import CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
from aish.types.events import Status, TextDelta
from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage, UserMessage, user
from aish.types.models import Capabilities, Constraint, ModelProfile
from aish.types.requests import Sampling, StepRequest
from aish.types.tools import Effect, ToolSpec
from aish.types.usage import Usage

ADD = ToolSpec(
    "runtime__add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "unit": {"type": "string"}},
        "required": ["a", "b"],
    },
    Effect.READ,
    "runtime",
)
CALL = '{"name": "runtime__add", "arguments": {"a": 17, "b": 25, "unit": "meters"}}'
NO_TOOL = '{"answer": "None of the tools fits this request."}'


class Small(ScriptedProvider):
    """Says one thing with the adapter and another without."""

    def __init__(self, picked: str, chatted: str = "Paris.", *, tool_adapter: bool = True) -> None:
        super().__init__("one", {"m": self._next})
        self._picked, self._chatted = picked, chatted
        can = Capabilities(
            native_tools=False, constrained=frozenset({Constraint.JSON_SCHEMA}), tool_adapter=tool_adapter
        )
        self._info = ModelProfile("one", "m", 8192, can, 135_000_000)

    async def describe(self, model: str) -> ModelProfile:
        return self._info

    def _next(self, request: StepRequest) -> Sequence[Item]:
        text = self._picked if request.sampling.json_schema else self._chatted
        return [*(TextDelta(letter) for letter in text), UsageChunk(Usage(10, 2)), StepFinished(StepEnd.STOP)]


async def said(model: Small, *messages: Message, **fields: Any) -> list[Chunk]:
    request = StepRequest("m", messages, tools=(ADD,), **fields)
    async with ToolCallingProvider(model).stream(request) as batches:
        return [chunk async for batch in batches for chunk in batch]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def test_a_call_is_made_by_the_adapter_alone_and_handed_on_as_it_is_written():
    model = Small(CALL)
    chunks = await said(model, user("add 17 and 25"))
    fragments = [chunk for chunk in chunks if isinstance(chunk, CallFragment)]
    assert "".join(fragment.name for fragment in fragments) == "runtime__add"
    assert "".join(fragment.arguments for fragment in fragments) == '{"a": 17, "b": 25, "unit": "meters"}'
    assert not any(fragment.repairs for fragment in fragments)
    assert chunks[-1] == StepFinished(StepEnd.TOOL_CALLS)
    assert [request.picks_tool for request in model.requests] == [True]


async def test_where_no_tool_fits_the_question_is_put_again_without_tools_and_without_the_adapter():
    model = Small(NO_TOOL)
    chunks = await said(model, user("What is the capital of France?"))
    assert text_of(chunks) == "Paris." and chunks[-1] == StepFinished(StepEnd.STOP)
    assert [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)] == [Usage(20, 4)]
    picking, chatting = model.requests
    assert picking.picks_tool and "runtime__add" in picking.messages[0].text
    assert not chatting.picks_tool and chatting.sampling.json_schema is None
    assert chatting.messages == (user("What is the capital of France?"),)
    assert chatting.deadline_s <= picking.deadline_s


async def test_the_asker_s_own_schema_of_an_answer_is_kept_for_the_second_question():
    model = Small(NO_TOOL, chatted="{}")
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    model._chatted = NO_TOOL
    await said(model, user("France?"), sampling=Sampling(json_schema=schema))
    assert model.requests[1].sampling.json_schema == schema and not model.requests[1].picks_tool


async def test_a_result_is_told_by_the_adapter_and_another_call_may_follow_it():
    messages = (
        user("add 17 and 25"),
        AssistantMessage("", (ToolCall("c", "runtime__add", '{"a": 17, "b": 25}'),)),
        ToolMessage("c", "runtime__add", (TextPart("42"),)),
    )
    model = Small('{"answer": "The result is 42."}')
    assert text_of(await said(model, *messages)) == "The result is 42."
    (request,) = model.requests
    assert request.picks_tool and "anyOf" in (request.sampling.json_schema or {})


def heard_back(question: str, result: str) -> tuple[Message, ...]:
    return (
        user(question),
        AssistantMessage("", (ToolCall("c", "runtime__add", "{}"),)),
        ToolMessage("c", "runtime__add", (TextPart(result),)),
    )


async def test_a_result_is_told_as_it_is_where_the_model_makes_up_a_number():
    model = Small('{"answer": "It is 23:05 on 2026-11-16."}')
    chunks = await said(model, *heard_back("what time is it?", "2026-11-16T03:05:30+00:00"))
    assert text_of(chunks) == "2026-11-16T03:05:30+00:00" and chunks[-1] == StepFinished(StepEnd.STOP)
    assert [chunk.text for chunk in chunks if isinstance(chunk, Status)] == ["told as it is: 23 is in no result"]
    assert [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)] == [Usage(10, 2)]


async def test_a_result_is_told_as_it_is_where_the_model_speaks_of_no_tool():
    assert text_of(await said(Small(NO_TOOL), *heard_back("add 17 and 25", "42"))) == "42"


async def test_what_the_person_had_run_is_no_more_to_do_once_a_result_is_there():
    question, *rest = heard_back("add 17 and 25", "42")
    assert isinstance(question, UserMessage)
    asked = UserMessage((*question.parts, TextPart("\n\n[I ran] $ git branch\n[exit 0]\nmain")))
    model = Small('{"answer": "42"}')
    await said(model, asked, *rest)
    sent = "\n".join(message.text for message in model.requests[0].messages)
    assert "add 17 and 25" in sent and "git branch" not in sent


async def test_a_result_is_told_as_it_is_where_the_model_breaks_off():
    model = Small('{"answer": "It is 03:05:30+"}')
    chunks = await said(model, *heard_back("what time is it?", "2026-11-16T03:05:30+00:00"))
    assert text_of(chunks) == "2026-11-16T03:05:30+00:00"


async def test_numbers_that_the_question_or_the_result_holds_may_be_told():
    model = Small('{"answer": "17 and 25 make 42, at 3:05."}')
    assert text_of(await said(model, *heard_back("add 17 and 25", "42 (03:05)"))) == "17 and 25 make 42, at 3:05."


async def test_what_is_made_of_a_long_result_stays():
    model = Small('{"answer": "There are 99 files."}')
    assert text_of(await said(model, *heard_back("list the files", "file\n" * 500))) == "There are 99 files."


async def test_a_result_is_told_without_the_turns_before_it():
    model = Small('{"answer": "42"}')
    before = (*heard_back("what time is it?", "2026-11-16T03:05:30+00:00"), AssistantMessage("It is 3:05."))
    await said(model, *before, *heard_back("add 17 and 25", "42"))
    sent = "\n".join(message.text for message in model.requests[0].messages)
    assert "add 17 and 25" in sent and "what time is it?" not in sent


async def test_the_word_gate_is_for_weak_models_without_an_adapter():
    plain = Small(CALL, tool_adapter=False)
    provider = ToolCallingProvider(plain)
    await provider.describe("m")
    request = StepRequest("m", (user("tell me a joke"),), tools=(ADD,))
    assert not provider.prepare(request).sampling.json_schema
    tuned = ToolCallingProvider(Small(CALL))
    await tuned.describe("m")
    assert tuned.prepare(request).sampling.json_schema


async def test_a_call_that_is_cut_off_is_handed_on_as_it_stands():
    model = Small(CALL[:40])
    chunks = await said(model, user("add 17 and 25"))
    written = "".join(chunk.arguments for chunk in chunks if isinstance(chunk, CallFragment))
    assert CALL[:40].endswith(written) and written and chunks[-1] != StepFinished(StepEnd.STOP)
