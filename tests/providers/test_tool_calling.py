"""Tools in three ways, over scripted models and fake servers: what is sent, what comes back, what is tried next."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from aish.errors import ProviderRejected, ProviderUnavailable
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.http_errors import error_for
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.redacting import RedactingProvider
from aish.providers.scripted import Item, ScriptedProvider
from aish.providers.tool_calling.prompts import answer_or_call_schema, describe_tools, room_for_tools
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.providers.tool_calling.reader import ToolCallReader
from aish.safety.policy.secret_recipients import Recipients
from aish.safety.redaction.redactor import Redactor
from aish.tool_calls.repair.repair import BadArguments, repair_arguments
from aish.types.chunks import CallFragment, Chunk, StepEnd, StepFinished
from aish.types.events import Status, TextDelta
from aish.types.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    user,
)
from aish.types.models import Capabilities, Constraint, ModelProfile
from aish.types.requests import Sampling, StepRequest, ToolChoice
from aish.types.tools import Effect, RepairKind, ToolSpec
from support.backends import LlamaCpp, body_of, delta, json_answer, running

NONE = Capabilities(native_tools=False)
SCHEMAS = Capabilities(native_tools=False, constrained=frozenset({Constraint.JSON_SCHEMA}))
NATIVE = Capabilities(constrained=frozenset({Constraint.JSON_SCHEMA}))


def tool(name: str = "get_weather", **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties or {"city": {"type": "string"}}, "required": ["city"]}
    return ToolSpec(name, f"Does {name}.", schema, Effect.READ, "test")


class Model(ScriptedProvider):
    """Answers `replies` in order, the last again and again, and can what it is told to."""

    def __init__(
        self,
        *replies: Sequence[Item] | Callable[[StepRequest], Sequence[Item]],
        can: Capabilities = NATIVE,
        window: int | None = 8192,
    ) -> None:
        self._replies = list(replies)
        super().__init__("one", {"m": self._next})
        self._can = can
        self._window = window
        self.described = 0

    async def describe(self, model: str) -> ModelProfile:
        await super().describe(model)
        self.described += 1
        return ModelProfile("one", model, self._window, self._can)

    def _next(self, request: StepRequest) -> Sequence[Item]:
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return reply(request) if callable(reply) else reply

    @property
    def sent(self) -> StepRequest:
        return self.requests[-1]


def asked(*messages: Message, tools: Sequence[ToolSpec] = (tool(),), **fields: Any) -> StepRequest:
    return StepRequest("m", messages or (user("How is Rome?"),), tools=tuple(tools), **fields)


async def say(provider: ToolCallingProvider, request: StepRequest) -> list[Chunk]:
    async with provider.stream(request) as batches:
        return [chunk async for batch in batches for chunk in batch]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def calls_of(chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    calls: dict[int | None, list[str]] = {}
    for chunk in chunks:
        if isinstance(chunk, CallFragment):
            call = calls.setdefault(chunk.index, ["", ""])
            call[0] += chunk.name
            call[1] += chunk.arguments
    return [(name, arguments) for name, arguments in calls.values()]


def letters(text: str) -> list[Item]:
    return [TextDelta(letter) for letter in text]


ROME = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
REFUSES_TOOLS = error_for("one", "m", 400, "registry.ollama.ai/m does not support tools")


async def test_native_tools_go_as_they_are_where_the_model_has_them():
    model = Model([TextDelta("hi")])
    request = asked()
    await say(ToolCallingProvider(model), request)
    assert model.sent.tools is request.tools
    assert model.sent.messages is request.messages


async def test_a_request_without_tools_goes_straight_through_and_asks_nothing():
    model = Model([TextDelta('{"name": "get_weather", "arguments": {}}')], can=NONE)
    request = asked(tools=())
    assert text_of(await say(ToolCallingProvider(model), request)) == '{"name": "get_weather", "arguments": {}}'
    assert (model.sent is request, model.described) == (True, 1)  # one by the script itself, none by the wrapper


async def test_what_a_model_can_is_asked_once():
    model = Model([TextDelta("hi")])
    provider = ToolCallingProvider(model)
    await provider.describe("m")
    before = model.described
    for _ in range(3):
        await say(provider, asked())
    assert model.described == before + 3  # the script's own, once a request


async def test_a_call_written_as_text_is_a_call_in_native_mode_too():
    chunks = await say(ToolCallingProvider(Model(letters(f"Let me see. {ROME}"))), asked())
    assert calls_of(chunks) == [("get_weather", '{"city":"Rome"}')]
    assert text_of(chunks) == "Let me see. "
    assert chunks[-1] == StepFinished(StepEnd.TOOL_CALLS)


class Ear:
    """Takes all it is told, and keeps it among what came in batches."""

    def __init__(self) -> None:
        self.said = ""
        self.chunks: list[Chunk] = []
        self._passes: Callable[[str], bool] = lambda text: True

    def scan_with(self, passes: Callable[[str], bool]) -> None:
        self._passes = passes

    def accept(self, text: str) -> bool:
        if not self._passes(text):
            return False
        self.said += text
        self.chunks.append(TextDelta(text))
        return True

    async def hears(self, provider: ToolCallingProvider, request: StepRequest) -> None:
        async with provider.stream(request, self) as batches:
            async for batch in batches:
                self.chunks += batch


@pytest.mark.parametrize("can", [NATIVE, SCHEMAS, NONE], ids=["native", "constrained", "prompted"])
@pytest.mark.parametrize("answer", [f"Let me see. <tool_call>{ROME}</tool_call>", f"Let me see.\n{ROME}\nThere."])
async def test_of_what_is_told_as_it_comes_nothing_is_a_call(can: Capabilities, answer: str):
    model, ear = ToolCallingProvider(Model(letters(answer), can=can)), Ear()
    plain = await say(ToolCallingProvider(Model(letters(answer), can=can)), asked())
    await ear.hears(model, asked())
    assert calls_of(ear.chunks) == calls_of(plain) == [("get_weather", '{"city":"Rome"}')]
    assert text_of(ear.chunks) == text_of(plain)
    assert "get_weather" not in ear.said
    assert bool(ear.said) == (can is not SCHEMAS)  # what is constrained is read to the letter


async def test_nothing_is_told_while_the_question_may_be_put_again():
    """A call written as text is held to the end: nothing has been said yet, so a refusal leads to another strategy."""
    refused = [*letters(f"<tool_call>{ROME}</tool_call>"), TextDelta("I "), TextDelta("look. "), REFUSES_TOOLS]
    plain = ToolCallingProvider(Model(refused, [TextDelta("Sunny.")]))
    expected = await say_or_fail(plain)
    ear = Ear()
    try:
        await ear.hears(ToolCallingProvider(Model(refused, [TextDelta("Sunny.")])), asked())
    except ProviderRejected as exc:
        assert expected == (text_of(ear.chunks), str(exc))
    else:
        assert expected == (text_of(ear.chunks), "")


async def say_or_fail(provider: ToolCallingProvider) -> tuple[str, str]:
    chunks: list[Chunk] = []
    try:
        async with provider.stream(asked()) as batches:
            async for batch in batches:
                chunks += batch
    except ProviderRejected as exc:
        return text_of(chunks), str(exc)
    return text_of(chunks), ""


async def test_json_in_the_text_of_a_model_that_makes_calls_of_its_own_is_text():
    own = [CallFragment(0, "id1", "get_weather", '{"city": "Oslo"}')]
    shown = f"An example:\n```json\n{ROME}\n```\nor {ROME}"
    model = Model(own, letters(shown), letters(f"<tool_call>{ROME}</tool_call>"))
    provider = ToolCallingProvider(model)
    await say(provider, asked())
    assert text_of(await say(provider, asked())) == shown
    assert calls_of(await say(provider, asked())) == [("get_weather", '{"city":"Rome"}')]


async def test_repairs_made_on_the_way_are_with_the_call():
    text = "<tool_call>{'name': 'get_wether', 'arguments': {'city': 'Rome',}}</tool_call>"
    chunks = await say(ToolCallingProvider(Model(letters(text))), asked())
    (call,) = [chunk for chunk in chunks if isinstance(chunk, CallFragment)]
    assert (call.name, call.arguments) == ("get_weather", '{"city":"Rome"}')
    assert {repair.kind for repair in call.repairs} == {RepairKind.TOOL_NAME, RepairKind.QUOTES, RepairKind.COMMA}


async def test_without_repair_a_call_in_text_is_handed_on_as_it_is_written():
    text = "<tool_call>{'name': 'get_weather', 'arguments': {'town': 'Rome'}}</tool_call>"
    chunks = await say(ToolCallingProvider(Model(letters(text))), asked(repair=False))
    assert calls_of(chunks) == [("get_weather", '{"town":"Rome"}')]


async def test_constrained_the_answer_streams_decoded():
    model = Model(letters('{"answer": "It is \\"fine\\" \\ud83d\\ude00\\nBye"}'), can=SCHEMAS)
    chunks = await say(ToolCallingProvider(model), asked())
    assert text_of(chunks) == 'It is "fine" 😀\nBye'
    assert len([chunk for chunk in chunks if isinstance(chunk, TextDelta)]) > 10
    assert calls_of(chunks) == []


async def test_constrained_a_calls_arguments_stream_as_fragments():
    chunks = await say(ToolCallingProvider(Model(letters(ROME), can=SCHEMAS)), asked())
    assert calls_of(chunks) == [("get_weather", '{"city": "Rome"}')]
    assert len([chunk for chunk in chunks if isinstance(chunk, CallFragment)]) > 10
    assert text_of(chunks) == ""


@pytest.mark.parametrize(
    "more", [ROME, f" {ROME}", f"<tool_call>{ROME}</tool_call>", f"\n```json\n{ROME}\n```", f', "call": {ROME}}}']
)
@pytest.mark.parametrize("answer", ['{"answer": "Done."}', '{"answer": {"a": 1}}', '{"answer": 5}'])
async def test_constrained_nothing_that_follows_an_answer_is_a_call(answer: str, more: str):
    for pieces in (letters(answer + more), [TextDelta(answer + more)]):
        chunks = await say(ToolCallingProvider(Model(pieces, can=SCHEMAS)), asked())
        assert calls_of(chunks) == []
        assert text_of(chunks).endswith(more.strip())


async def test_constrained_a_call_with_more_than_arguments_is_no_call_that_can_be_run():
    text = ROME[:-1] + ', "confirm": false}'
    for pieces in (letters(text), [TextDelta(text)]):
        chunks = await say(ToolCallingProvider(Model(pieces, can=SCHEMAS)), asked())
        ((name, arguments),) = calls_of(chunks)
        assert (name, text_of(chunks)) == ("get_weather", "")
        with pytest.raises(BadArguments, match="something after it"):
            repair_arguments(arguments, tool())


async def test_constrained_a_call_whose_object_is_not_closed_is_cut_where_the_stream_breaks_off():
    chunks = await say(
        ToolCallingProvider(Model([*letters(ROME[:-1]), StepFinished(StepEnd.UNKNOWN)], can=SCHEMAS)), asked()
    )
    assert chunks[-1] == StepFinished(StepEnd.LENGTH)


async def test_constrained_the_schema_is_one_branch_for_each_tool_and_one_for_an_answer():
    model = Model(letters(ROME), can=SCHEMAS)
    await say(ToolCallingProvider(model), asked(tools=[tool("get_weather"), tool("look")]))
    branches = model.sent.sampling.json_schema["anyOf"]
    assert [list(branch["properties"]) for branch in branches] == [["name", "arguments"]] * 2 + [["answer"]]
    assert branches[1]["properties"]["name"] == {"type": "string", "const": "look"}
    assert model.sent.tools == ()
    assert "- city: string." in model.sent.messages[0].text


def test_for_weak_models_no_value_of_a_call_may_go_on_for_ever():
    spec = tool(
        "look", city={"type": "string"}, guests={"type": "array", "items": {"type": "string"}}, kind={"enum": ["a"]}
    )
    free = answer_or_call_schema([spec], ToolChoice("required"))["properties"]["arguments"]["properties"]
    bound = answer_or_call_schema([spec], ToolChoice("required"), bounded=True)["properties"]["arguments"]["properties"]
    assert free["city"] == {"type": "string"}
    assert bound["city"] == {"type": "string", "maxLength": 120}
    assert bound["guests"] == {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 8}
    assert bound["kind"] == free["kind"]


@pytest.mark.parametrize("mode", ["constrained", "prompted"])
async def test_a_named_tool_is_the_only_one_that_is_offered(mode: str):
    model = Model(letters(ROME), can=SCHEMAS)
    choice = ToolChoice("required", "look")
    await say(ToolCallingProvider(model), asked(tools=[tool(), tool("look")], tool_mode=mode, tool_choice=choice))
    assert "get_weather" not in model.sent.messages[0].text
    schema = model.sent.sampling.json_schema
    assert schema is None if mode == "prompted" else schema["properties"]["name"]["const"] == "look"


async def test_a_demand_to_call_leaves_no_branch_to_answer():
    model = Model(letters(ROME), can=SCHEMAS)
    await say(ToolCallingProvider(model), asked(tool_choice=ToolChoice("required")))
    assert "answer" not in json.dumps(model.sent.sampling.json_schema)
    assert "answer" not in model.sent.messages[0].text


@pytest.mark.parametrize("mode", ["constrained", "prompted"])
async def test_where_no_tool_may_be_called_none_is_shown_and_none_is_looked_for(mode: str):
    model = Model([TextDelta(ROME)], can=SCHEMAS)
    chunks = await say(ToolCallingProvider(model), asked(tool_mode=mode, tool_choice=ToolChoice("none")))
    assert (text_of(chunks), calls_of(chunks)) == (ROME, [])
    assert model.sent.messages == (user("How is Rome?"),)
    assert model.sent.sampling.json_schema is None


async def test_an_answer_the_asker_has_a_schema_for_keeps_to_it_between_calls():
    wanted = {"type": "object", "properties": {"sunny": {"type": "boolean"}}}
    model = Model(letters('{"answer": {"sunny": true}}'), can=SCHEMAS)
    chunks = await say(ToolCallingProvider(model), asked(sampling=Sampling(json_schema=wanted)))
    assert json.loads(text_of(chunks)) == {"sunny": True}
    assert model.sent.sampling.json_schema["anyOf"][-1]["properties"]["answer"] == wanted


async def test_prompted_such_a_schema_is_told_in_words_since_it_would_forbid_calls():
    wanted = {"type": "object", "properties": {"sunny": {"type": "boolean"}}}
    model = Model([TextDelta("x")], can=NONE)
    await say(ToolCallingProvider(model), asked(sampling=Sampling(json_schema=wanted)))
    assert model.sent.sampling.json_schema is None
    assert '"sunny"' in model.sent.messages[0].text


async def test_a_backend_that_does_not_keep_to_the_schema_is_read_all_the_same():
    for text in (f"I call it: <tool_call>{ROME}</tool_call>", f"```json\n{ROME}\n```"):
        chunks = await say(ToolCallingProvider(Model(letters(text), can=SCHEMAS)), asked())
        assert calls_of(chunks) == [("get_weather", '{"city":"Rome"}')]
    chunks = await say(ToolCallingProvider(Model(letters("Just words."), can=SCHEMAS)), asked())
    assert text_of(chunks) == "Just words."


PAST = (
    SystemMessage("Be brief."),
    user("How is Rome?"),
    AssistantMessage("I look.", (ToolCall("c1", "get_weather", '{"city": "Rome"}'),)),
    ToolMessage("c1", "get_weather", (TextPart("sunny"),)),
    AssistantMessage("It is sunny."),
    user("And Oslo?"),
)


@pytest.mark.parametrize(
    ("mode", "call", "answer"),
    [
        ("constrained", ROME, '{"answer": "It is sunny."}'),
        ("prompted", f"<tool_call>{ROME}</tool_call>", "It is sunny."),
    ],
)
async def test_past_calls_and_results_are_shown_the_way_they_are_to_be_written(mode: str, call: str, answer: str):
    model = Model([TextDelta("x")], can=SCHEMAS)
    await say(ToolCallingProvider(model), asked(*PAST, tool_mode=mode))
    system, first, said, result, answered, last = model.sent.messages
    assert system.text.startswith("Be brief.\n\nTools:\n")
    assert (first.text, said.text, answered.text, last.text) == ("How is Rome?", call, answer, "And Oslo?")
    assert isinstance(result, UserMessage)
    assert result.text == "Result of get_weather:\nsunny"


async def test_a_model_without_tools_is_not_shown_tool_messages_of_the_past_either():
    model = Model([TextDelta("x")], can=NONE)
    provider = ToolCallingProvider(model)
    await provider.describe("m")
    await say(provider, asked(*PAST, tools=()))
    assert not any(isinstance(message, ToolMessage) for message in model.sent.messages)


async def test_prepared_is_what_is_sent_and_asks_nothing():
    model = Model([TextDelta("x")], can=NONE)
    provider = ToolCallingProvider(model)
    await provider.describe("m")
    described, request = model.described, asked(*PAST)
    prepared = provider.prepare(request)
    assert model.described == described
    await say(provider, request)
    assert (prepared.messages, prepared.tools) == (model.sent.messages, ())


async def test_a_refusal_of_tools_leads_to_the_next_way_is_said_once_and_remembered():
    model = Model([REFUSES_TOOLS], letters(ROME), can=NATIVE)
    provider = ToolCallingProvider(model)
    chunks = await say(provider, asked())
    assert calls_of(chunks) == [("get_weather", '{"city": "Rome"}')]
    assert [chunk.text for chunk in chunks if isinstance(chunk, Status)] == [
        "one:m takes no tools; describing them and constraining the answer instead"
    ]
    again = await say(provider, asked())
    assert not any(isinstance(chunk, Status) for chunk in again)
    assert len(model.requests) == 3


async def test_every_way_is_tried_before_the_first_chunk():
    schema = error_for("one", "m", 500, "failed to parse grammar")
    no_format = error_for("one", "m", 422, "response_format: json_schema is not supported")
    model = Model([schema], [REFUSES_TOOLS], [no_format], letters(f"<tool_call>{ROME}</tool_call>"))
    chunks = await say(ToolCallingProvider(model), asked())
    assert calls_of(chunks) == [("get_weather", '{"city":"Rome"}')]
    assert [bool(request.tools) for request in model.requests] == [True, True, False, False]
    assert [request.sampling.json_schema is not None for request in model.requests] == [False, False, True, False]


@pytest.mark.parametrize(
    "error",
    [
        error_for("one", "m", 500, "out of memory"),
        error_for("tools", "m", 401, "no such key"),
        ProviderUnavailable("tools: cannot connect to tools.example"),
        ProviderRejected("one answered 400: messages must have alternating roles, tool is none", status=400),
    ],
)
async def test_other_failures_are_what_they_are(error: Exception):
    model = Model([error], can=NATIVE)
    with pytest.raises(type(error)):
        await say(ToolCallingProvider(model), asked(*PAST))
    assert len(model.requests) == 1


async def test_after_the_first_chunk_there_is_no_other_way():
    model = Model([TextDelta("Well"), REFUSES_TOOLS])
    with pytest.raises(ProviderRejected):
        await say(ToolCallingProvider(model), asked())
    assert len(model.requests) == 1


async def test_who_names_a_mode_gets_that_one_or_its_error():
    model = Model([REFUSES_TOOLS], can=NATIVE)
    with pytest.raises(ProviderRejected):
        await say(ToolCallingProvider(model), asked(tool_mode="native"))


async def test_a_backend_that_ignores_a_demand_to_call_is_constrained_next_time():
    model = Model([TextDelta("No.")], letters(ROME), can=NATIVE)
    provider = ToolCallingProvider(model)
    required = ToolChoice("required")
    assert calls_of(await say(provider, asked(tool_choice=required))) == []
    assert calls_of(await say(provider, asked(tool_choice=required))) == [("get_weather", '{"city": "Rome"}')]


@pytest.mark.parametrize("can", [NATIVE, SCHEMAS, NONE])
async def test_an_unfinished_call_at_the_token_limit_is_a_cut_call_not_text(can: Capabilities):
    model = Model([*letters(ROME[:45]), StepFinished(StepEnd.LENGTH)], can=can)
    chunks = await say(ToolCallingProvider(model), asked())
    assert [name for name, _ in calls_of(chunks)] == ["get_weather"]
    assert (text_of(chunks), chunks[-1]) == ("", StepFinished(StepEnd.LENGTH))


@pytest.mark.parametrize("can", [NATIVE, SCHEMAS, NONE])
async def test_an_answer_that_breaks_off_in_a_call_is_cut_whatever_the_backend_says(can: Capabilities):
    model = Model([*letters(ROME[:-2]), StepFinished(StepEnd.UNKNOWN)], can=can)
    chunks = await say(ToolCallingProvider(model), asked())
    assert chunks[-1] == StepFinished(StepEnd.LENGTH)


async def test_a_backends_own_calls_and_those_in_its_text_do_not_mix():
    own = [CallFragment(0, "id1", "get_weather", '{"city": '), TextDelta(ROME), CallFragment(0, arguments='"Oslo"}')]
    chunks = await say(ToolCallingProvider(Model(own)), asked())
    assert sorted(calls_of(chunks)) == [("get_weather", '{"city": "Oslo"}'), ("get_weather", '{"city":"Rome"}')]


async def test_secrets_in_tools_written_into_the_prompt_do_not_leave():
    model = Model([TextDelta("x")], can=NONE)
    secret = "hunter22-very"
    described = msgspec.structs.replace(tool(), description=f"Needs {secret}.")
    provider = RedactingProvider(ToolCallingProvider(model), Redactor([secret]))
    await say(provider, asked(tools=[described]))
    assert secret not in str(model.requests)
    assert "get_weather" in model.sent.messages[0].text


async def test_secrets_in_tools_that_a_backend_takes_itself_do_not_leave():
    model = Model([TextDelta("x")])
    secret = 'hunt"er22-very'
    given = tool("set_key", key={"type": "string", "enum": [secret, "other"], "description": f"not {secret}"})
    await say(RedactingProvider(ToolCallingProvider(model), Redactor([secret])), asked(tools=[given, tool("look")]))
    assert "er22-very" not in str(model.requests)
    assert [each.name for each in model.sent.tools] == ["set_key", "look"]
    assert model.sent.tools[0].schema["properties"]["key"]["enum"][1] == "other"


@pytest.mark.parametrize("secret", ['quo"ted-very', "back\\new-very", "two\nlines-very"])
@pytest.mark.parametrize("written", ['<tool_call>{{"name": "look", "arguments": {{"city": "{}"}}}}</tool_call>',
                                     '{{"name": "look", "arguments": {{"city": "{}"}}}}'])  # fmt: skip
async def test_a_call_written_as_text_gets_the_secret_as_json_has_it_if_its_tool_is_named(secret, written):
    def play(request):
        return [TextDelta(written.format(request.messages[-1].text))]

    for named in (("look",), ()):
        model = ToolCallingProvider(Model(play))
        provider = RedactingProvider(model, Redactor([secret]), Recipients(tools=named))
        [(name, arguments)] = calls_of(await say(provider, asked(user(secret), tools=[tool("look")])))
        assert name == "look"
        assert (json.loads(arguments) == {"city": secret}) is bool(named)


async def test_an_answer_that_was_asked_for_as_json_stays_json_where_a_secret_is_put_back():
    secret = 'quo"ted\\very'

    def play(request):
        return [TextDelta(f'{{"key": "{request.messages[-1].text}"}}')]

    request = msgspec.structs.replace(asked(user(secret), tools=[]), sampling=Sampling(json_object=True))
    chunks = await say(RedactingProvider(ToolCallingProvider(Model(play)), Redactor([secret])), request)
    assert json.loads("".join(each.text for each in chunks if isinstance(each, TextDelta))) == {"key": secret}


async def test_a_refusal_of_logprobs_takes_no_tools_from_the_model():
    refusal = error_for("one", "m", 400, "logprobs is not supported with tools + stream")
    model = Model([refusal], [TextDelta("x")])
    provider = ToolCallingProvider(model)
    with pytest.raises(ProviderRejected, match="logprobs"):
        await say(provider, msgspec.structs.replace(asked(), sampling=Sampling(logprobs=2)))
    await say(provider, asked())
    assert [each.name for each in model.sent.tools] == ["get_weather"]


def test_words_that_hold_no_call_keep_what_is_told_of_their_tokens_however_many_come_at_once():
    said = [TextDelta(word, [{"token": word}]) for word in ("It ", "is ", "fine.")]
    assert ToolCallReader([tool()], constrained=False, repair=True, calls_natively=False).read(said) == said


async def test_two_hundred_tools_fit_into_a_small_window():
    tools = [tool(f"tool_number_{n}", city={"type": "string", "description": "long words " * 30}) for n in range(200)]
    model = Model([TextDelta("x")], can=NONE, window=4096)
    await say(ToolCallingProvider(model), asked(tools=tools))
    text = model.sent.messages[0].text
    assert all(each.name in text for each in tools)
    assert len(text) < room_for_tools(4096) + 1000


async def test_a_tool_without_a_name_is_left_out_and_the_others_stay():
    model = Model([TextDelta("x")])
    await say(ToolCallingProvider(model), asked(tools=[tool(""), tool("look"), tool(" ")]))
    assert [each.name for each in model.sent.tools] == ["look"]


def test_tools_are_described_one_line_each_and_one_for_each_argument():
    unit = {"enum": ["celsius", "fahrenheit"], "description": "Unit."}
    near = {"type": "array", "items": {"type": "object", "properties": {"lat": {"type": "number"}}}}
    either = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    spec = tool(
        "get_weather", city={"type": "string", "description": "A city.\n  By name."}, unit=unit, near=near, e=either
    )
    assert describe_tools([spec, ToolSpec("now", "", {"type": "object"}, Effect.READ, "t")], 10_000) == (
        "get_weather: Does get_weather.\n"
        "- city: string. A city. By name.\n"
        "- unit: celsius|fahrenheit, optional. Unit.\n"
        "- near: list of {lat: number}, optional.\n"
        "- e: string|null, optional.\n"
        "now"
    )


@pytest.fixture
async def http():
    async with HttpClient() as client:
        yield client


class NoFormats(LlamaCpp):
    """Knows none of the forms of a schema but one of vLLM's."""

    def get_props(self, request: Any) -> list[bytes]:
        props = json.loads(super().get_props(request)[0].partition(b"\r\n\r\n")[2])
        props["chat_template_caps"] = {"supports_tools": False}
        return [json_answer(props)]

    def post_v1_chat_completions(self, request: Any) -> list[bytes]:
        body = body_of(request)
        for field in ("response_format", "json_schema"):
            if field in body:
                return [json_answer({"error": {"message": f"{field} is not supported"}}, 400)]
        return super().post_v1_chat_completions(request)

    def text(self) -> Any:
        yield delta(role="assistant", content=ROME)
        yield delta("stop")


async def test_the_schema_of_an_answer_goes_in_the_form_that_the_server_takes(http: HttpClient):
    async with running(NoFormats()) as server:
        provider = ToolCallingProvider(OpenAIProvider("one", Endpoint(url=server.url), http))
        for _ in range(2):
            chunks = await say(provider, msgspec.structs.replace(asked(), model="any"))
            assert calls_of(chunks) == [("get_weather", '{"city": "Rome"}')]
        bodies = [body_of(request) for request in server.requests if request.path.endswith("/chat/completions")]
    assert ["guided_json" in body for body in bodies] == [False, False, False, False, True, True]


async def test_a_schema_that_is_not_taken_strictly_is_sent_less_so(http: HttpClient):
    class OpenAI(NoFormats):
        def post_v1_chat_completions(self, request: Any) -> list[bytes]:
            if body_of(request)["response_format"]["json_schema"]["strict"]:
                why = "Invalid schema for response_format 'answer': 'additionalProperties' is required to be false."
                return [json_answer({"error": {"message": why}}, 400)]
            return LlamaCpp.post_v1_chat_completions(self, request)

    async with running(OpenAI()) as server:
        provider = ToolCallingProvider(OpenAIProvider("one", Endpoint(url=server.url), http))
        chunks = await say(provider, msgspec.structs.replace(asked(), model="any"))
    assert calls_of(chunks) == [("get_weather", '{"city": "Rome"}')]


@pytest.mark.parametrize("mode", ["native", "constrained", "prompted"])
async def test_a_call_that_opens_brackets_without_end_is_a_call_that_cannot_be_read(mode):
    said = '<tool_call>{"name": "get_weather", "arguments": {"city": ' + "[" * 100_000
    [(name, arguments)] = calls_of(await say(ToolCallingProvider(Model([TextDelta(said)])), asked(tool_mode=mode)))
    assert name == "get_weather"
    assert arguments.endswith("[" * 1000)  # dispatch answers it as what it is


async def test_a_model_that_has_made_the_same_call_twice_may_only_answer():
    call = AssistantMessage("", (ToolCall("c1", "get_weather", '{"city": "Rome"}'),))
    result = ToolMessage("c1", "get_weather", (TextPart("sunny"),))
    model = Model(letters('{"answer": "Sunny."}'), can=SCHEMAS)
    provider = ToolCallingProvider(model)
    await say(provider, asked(user("Rome?"), call, result))
    assert "get_weather" in json.dumps(model.sent.sampling.json_schema)
    await say(provider, asked(user("Rome?"), call, result, call, result))
    assert list(model.sent.sampling.json_schema["properties"]) == ["answer"]


@pytest.mark.parametrize("constrained", [True, False])
def test_what_has_read_an_answer_is_not_left_to_the_collector(constrained):
    tool = ToolSpec("add", "", {"type": "object"}, Effect.READ, "add")
    reader = ToolCallReader([tool], constrained=constrained, repair=True)
    gone = weakref.ref(reader)
    del reader
    assert gone() is None
