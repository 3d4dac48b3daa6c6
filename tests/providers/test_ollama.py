from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from aish.errors import ModelNotFound, ProviderProtocolError, ProviderRejected, ProviderUnavailable
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.ollama.provider import OllamaProvider
from aish.types.chunks import CallFragment, StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, Status, TextDelta, TurnEnd, UsageReported
from aish.types.messages import AssistantMessage, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage, user
from aish.types.models import Constraint
from aish.types.requests import Knobs, Sampling, StepRequest
from aish.types.usage import Usage
from support.backends import ANSWER, CALL, THOUGHT, Ollama, answer, body_of, chunked, json_answer, running
from support.engines import Bench, Tools, bodies, finish
from support.raw_server import Peer, Request, nothing_left, raw_server

MODEL = Ollama.model
NDJSON = "application/x-ndjson"


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with nothing_left(), HttpClient() as client:
        yield client


def provider_at(url: str, http: HttpClient, **settings) -> OllamaProvider:
    return OllamaProvider("ollama", Endpoint(url=url, **settings), http)


async def say(provider: OllamaProvider, *messages, **fields) -> list:
    async with provider.stream(StepRequest(MODEL, messages or (user("hi"),), **fields)) as chunks:
        return [chunk async for batch in chunks for chunk in batch]


async def say_raw(http: HttpClient, *lines: bytes, whole: bool = False, **settings) -> list:
    """What becomes of a stream of exactly these lines."""

    class Raw(Ollama):
        def post_api_chat(self, request: Request) -> list[bytes]:
            return list(lines) if whole else chunked(*lines, kind=NDJSON)

    async with running(Raw()) as server:
        return await say(provider_at(server.url, http, **settings))


def line(**fields) -> bytes:
    return json.dumps(fields).encode() + b"\n"


DONE = line(message={"content": ""}, done=True, done_reason="stop", prompt_eval_count=3, eval_count=2)


async def test_a_turn_with_a_tool_runs_from_the_question_to_the_answer(http):
    tools = Tools().add("math__add")
    async with running(Ollama()) as server:
        bench = Bench(provider=provider_at(server.url, http), tools=tools)
        events = await bench.run(model=f"ollama:{MODEL}")
    assert tools.calls == [("math__add", CALL)]
    assert [body.text for body in bodies(events, ReasoningDelta)] == [THOUGHT]
    assert [body.text for body in bodies(events, TextDelta)] == list(ANSWER)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert [body.usage for body in bodies(events, UsageReported)] == [Usage(12, 5)] * 2
    sent = body_of(server.requests[-1])["messages"]
    assert sent[-2]["tool_calls"] == [{"id": "call_x1", "function": {"name": "math__add", "arguments": CALL}}]
    assert (sent[-1]["role"], sent[-1]["tool_name"], sent[-1]["tool_call_id"]) == ("tool", "math__add", "call_x1")


async def test_lines_are_handed_on_as_they_come_and_not_at_the_end(http):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*chunked(line(message={"content": "first"}), kind=NDJSON)[:-1])
        await peer.left()

    async with raw_server(script) as server:
        request = StepRequest(MODEL, (user("hi"),), deadline_s=10)
        async with provider_at(server.url, http).stream(request) as chunks:
            assert await anext(chunks) == [TextDelta("first")]


async def test_a_window_of_the_model_file_is_used_as_it_is(http):
    fake = Ollama(parameters="stop  x\nnum_ctx    16384\ntemperature 1")
    fake.loaded = 2048
    async with running(fake) as server:
        provider = provider_at(server.url, http)
        assert (await provider.describe(MODEL)).context_size == 2048
        await say(provider, user("word " * 4000))
    assert body_of(server.requests[-1])["options"] == {"num_ctx": 2048}
    assert "/api/generate" not in [request.path for request in server.requests]


async def test_the_window_is_raised_to_what_a_request_needs_and_stays_there(http):
    async with running(Ollama(default_window=4096)) as server:
        provider = provider_at(server.url, http)
        assert (await provider.describe(MODEL)).context_size == 32768  # of the 40960 it was trained with
        for words in (10, 4000, 10, 100_000):
            await say(provider, user("word " * words))
        windows = [body_of(request)["options"]["num_ctx"] for request in server.requests if request.path == "/api/chat"]
    assert windows == [4096, 16384, 16384, 32768]


async def test_a_prompt_that_was_cut_is_told_of(http):
    class Cutting(Ollama):
        def done(self):
            return {**super().done(), "prompt_eval_count": 2048}

    fake = Cutting(parameters="num_ctx 2048")
    async with running(fake) as server:
        provider = provider_at(server.url, http)
        await provider.describe(MODEL)
        notes = [chunk.text for chunk in await say(provider, user("word " * 40_000)) if isinstance(chunk, Status)]
        assert notes and "has cut the prompt" in notes[0] and "2048" in notes[0]
        assert not [chunk for chunk in await say(provider, user("word")) if isinstance(chunk, Status)]


async def test_the_window_is_what_the_model_file_sets_if_it_is_not_loaded(http):
    async with running(Ollama(parameters='num_ctx                        16384\nstop "x"')) as server:
        assert (await provider_at(server.url, http).describe(MODEL)).context_size == 16384


async def test_a_window_of_thousands_of_digits_is_none(http):
    async with running(Ollama(parameters=f"num_ctx {'9' * 5000}", default_window=4096)) as server:
        assert (await provider_at(server.url, http).describe(MODEL)).context_size == 32768


async def test_a_model_of_unknown_window_is_loaded_and_asked(http):
    """The 40960 it was trained with are not what it runs with."""
    async with running(Ollama(default_window=4096)) as server:
        provider = provider_at(server.url, http)
        await provider.describe(MODEL)
        await say(provider)
    assert "/api/generate" in [request.path for request in server.requests]
    assert body_of(server.requests[-1])["options"] == {"num_ctx": 4096}


async def test_a_model_that_never_is_loaded_here_has_the_window_it_was_trained_with(http):
    class Cloud(Ollama):
        def get_api_ps(self, request: Request) -> list[bytes]:
            return [json_answer({"models": []})]

        def post_api_generate(self, request: Request) -> list[bytes]:
            return [json_answer({"error": "does not support generate"}, 400)]

    async with running(Cloud()) as server:
        assert (await provider_at(server.url, http).describe(MODEL)).context_size == 40960


async def test_a_configured_window_is_believed_and_sent_along(http):
    async with running(Ollama()) as server:
        provider = provider_at(server.url, http, context_size=9000)
        assert (await provider.describe(MODEL)).context_size == 9000
        await say(provider)
    assert body_of(server.requests[-1])["options"] == {"num_ctx": 9000}


async def test_without_a_configured_window_none_is_sent(http):
    async with running(Ollama()) as server:
        await say(provider_at(server.url, http))
    assert body_of(server.requests[-1])["options"] == {}


async def test_a_name_without_a_tag_is_the_latest(http):
    class Latest(Ollama):
        model = "llama3:latest"

        def missing(self, request: Request) -> list[bytes]:
            return []

    fake = Latest()
    fake.loaded = 1234
    async with running(fake) as server:
        await provider_at(server.url, http).describe("llama3")
    assert "/api/generate" not in [request.path for request in server.requests]  # it was found among the loaded ones


@pytest.mark.parametrize(
    ("listed", "tools", "vision", "embeddings"),
    [
        (["completion", "tools"], True, False, False),
        (["completion", "vision"], False, True, False),
        (["embedding"], False, False, True),
        (None, True, False, False),
    ],
)
async def test_capabilities_are_the_listed_ones_and_old_servers_are_tried(listed, tools, vision, embeddings, http):
    class Shown(Ollama):
        def post_api_show(self, request: Request) -> list[bytes]:
            return [json_answer({"capabilities": listed, "model_info": {}})]

    async with running(Shown()) as server:
        can = (await provider_at(server.url, http).describe(MODEL)).capabilities
    assert (can.native_tools, can.vision, can.embeddings) == (tools, vision, embeddings)
    assert can.constrained == {Constraint.FORMAT}


async def test_a_missing_model_says_how_to_get_it(http):
    async with running(Ollama()) as server:
        with pytest.raises(ModelNotFound) as caught:
            await provider_at(server.url, http).describe("nope")
    assert (caught.value.message, caught.value.hint) == ("ollama has no model nope", "ollama pull nope")


async def test_models_are_listed_by_name_or_as_configured(http):
    async with running(Ollama()) as server:
        assert [info.id for info in await provider_at(server.url, http).list_models()] == [MODEL]
        configured = provider_at(server.url, http, models=("a", "b"))
        assert [info.id for info in await configured.list_models()] == ["a", "b"]


async def test_the_request_holds_images_schema_and_sampling(http):
    shown, linked = ImagePart(data="QUJD"), ImagePart("image/jpeg", url="https://x.example/a.jpg")
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=7, seed=1, stop=("END",), json_schema={"type": "object"})
    messages = (
        UserMessage((TextPart("look"), shown, linked)),
        AssistantMessage("", (ToolCall("c1", "t", "not json"),)),
        ToolMessage("c1", "t", (TextPart("r"), shown)),
    )
    async with running(Ollama()) as server:
        await say(provider_at(server.url, http), *messages, sampling=sampling)
    sent = body_of(server.requests[0])
    assert sent["messages"][0] == {"role": "user", "content": "look[image: image/jpeg]", "images": ["QUJD"]}
    assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"invalid_arguments": "not json"}
    assert [message["content"] for message in sent["messages"][2:]] == ["r[image: image/png]", "[images of t]"]
    assert sent["messages"][3] == {"role": "user", "content": "[images of t]", "images": ["QUJD"]}
    options = {"temperature": 0.5, "top_p": 0.9, "num_predict": 7, "seed": 1, "stop": ["END"]}
    assert (sent["format"], sent["options"], sent["stream"]) == ({"type": "object"}, options, True)


async def test_how_likely_tokens_were_is_asked_for_and_told(http):
    odds = {"token": "x", "logprob": -0.5, "top_logprobs": [{"token": "y", "logprob": -1.5}]}

    class Telling(Ollama):
        def post_api_chat(self, request: Request) -> list[bytes]:
            return chunked(line(message={"content": "x"}, logprobs=[odds]), DONE, kind=NDJSON)

    async with running(Telling()) as server:
        asked, unasked = [
            await say(provider_at(server.url, http), user("hi"), sampling=Sampling(logprobs=count))
            for count in (1, None)
        ]
    first, second = map(body_of, server.requests)
    assert (first["logprobs"], first["top_logprobs"]) == (True, 1) and not {"logprobs", "top_logprobs"} & second.keys()
    other = {"token": "y", "logprob": -1.5, "bytes": [121]}
    assert asked[0] == TextDelta("x", [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": [other]}])
    assert unasked[0] == TextDelta("x")


async def test_knobs_are_options_by_the_names_that_ollama_has_and_others_stay_away(http):
    knobs = Knobs(top_k=40, min_p=0.1, repeat_penalty=1.1, mirostat=2, dry_multiplier=0.8, chat_template_kwargs={})
    sampling = Sampling(frequency_penalty=0.5, presence_penalty=0.25, knobs=knobs)
    async with running(Ollama()) as server:
        await say(provider_at(server.url, http), user("hi"), sampling=sampling)
    sent = body_of(server.requests[-1])
    penalties = {"frequency_penalty": 0.5, "presence_penalty": 0.25}
    assert sent["options"] == {"top_k": 40, "min_p": 0.1, "repeat_penalty": 1.1, "mirostat": 2, **penalties}
    assert not {"dry_multiplier", "chat_template_kwargs", "top_k"} & sent.keys()


async def test_several_calls_in_one_line_and_over_lines_are_numbered_on(http):
    def calls(*names: str) -> bytes:
        return line(message={"tool_calls": [{"function": {"name": name, "arguments": {"n": 1}}} for name in names]})

    chunks = await say_raw(http, calls("a", "b"), calls("c"), DONE)
    fragments = [chunk for chunk in chunks if isinstance(chunk, CallFragment)]
    assert [(f.index, f.name, f.arguments) for f in fragments] == [
        (0, "a", '{"n":1}'),
        (1, "b", '{"n":1}'),
        (2, "c", '{"n":1}'),
    ]
    assert chunks[-2:] == [UsageChunk(Usage(3, 2)), StepFinished(StepEnd.TOOL_CALLS)]


@pytest.mark.parametrize(
    ("reason", "end"),
    [("stop", StepEnd.STOP), ("length", StepEnd.LENGTH), (None, StepEnd.STOP), ("?", StepEnd.UNKNOWN)],
)
async def test_the_reason_it_gives_is_the_end_of_the_step(reason, end, http):
    chunks = await say_raw(http, line(message={"content": "x"}), line(done=True, done_reason=reason))
    assert chunks[-1] == StepFinished(end)


@pytest.mark.parametrize("count", [-1, 10**30])
async def test_tokens_that_no_call_can_have_taken_are_not_counted(count, http):
    done = line(done=True, done_reason="stop", prompt_eval_count=count, eval_count=2)
    chunks = await say_raw(http, line(message={"content": "x"}), done)
    assert UsageChunk(Usage(0, 2)) in chunks


async def test_tokens_that_were_cached_are_told(http):
    done = line(done=True, done_reason="stop", prompt_eval_count=100, prompt_eval_cached_count=90, eval_count=2)
    chunks = await say_raw(http, line(message={"content": "x"}), done)
    assert UsageChunk(Usage(100, 2, 90)) in chunks


async def test_an_error_line_after_some_words_is_an_error(http):
    with pytest.raises(ProviderUnavailable, match="ollama answered 500: model runner has unexpectedly stopped"):
        await say_raw(http, line(message={"content": "x"}), line(error="model runner has unexpectedly stopped"))


async def test_a_stream_that_ends_before_it_is_done_is_mentioned(http):
    chunks = await say_raw(http, line(message={"content": "x"}))
    assert chunks[1:] == [
        Status("ollama ended the answer without saying that it was done"),
        StepFinished(StepEnd.UNKNOWN),
    ]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "ollama ended its answer without saying anything"),
        ([b"<html>login</html>\n"], "ollama sent a line that cannot be read .*: an HTML page"),
        ([b'{"message": {"conte\n'], "ollama sent a line that cannot be read"),
        ([b"x" * 9_000_000], "ollama: a line is longer than 8388608 bytes"),
    ],
)
async def test_what_is_no_answer_is_an_error_with_a_sentence(lines, sentence, http):
    with pytest.raises(ProviderProtocolError, match=sentence):
        await say_raw(http, *lines)


async def test_lines_in_any_pieces_and_endings_are_read(http):
    stream = line(message={"content": "Grüße"}).replace(b"\n", b"\r\n") + b"\n" + DONE.rstrip()
    chunks = await say_raw(http, *(bytes([byte]) for byte in stream))
    assert chunks == [TextDelta("Grüße"), UsageChunk(Usage(3, 2)), StepFinished(StepEnd.STOP)]


async def test_a_connection_that_stays_open_after_it_is_done_is_not_waited_for(http):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(*chunked(line(message={"content": "x"}), DONE, kind=NDJSON)[:-1])
        assert await peer.left() == "eof"

    async with raw_server(script) as server:
        assert (await say(provider_at(server.url, http), deadline_s=5))[-1] == StepFinished(StepEnd.STOP)


async def test_a_model_without_tools_refuses_in_its_own_words(http):
    refused = json_answer({"error": f"registry.ollama.ai/library/{MODEL} does not support tools"}, 400)
    with pytest.raises(ProviderRejected, match="does not support tools"):
        await say_raw(http, refused, whole=True)


@pytest.mark.parametrize(
    "odd",
    [
        {"embeddings": [[1.0]]},
        {"embeddings": "x"},
        {"embeddings": [["a"], ["b"]]},
        {"embeddings": [[10**400], [1]]},
        [],
        {},
    ],
)
async def test_embeddings_that_are_not_all_there_are_an_error(odd, http):
    class Odd(Ollama):
        def post_api_embed(self, request: Request) -> list[bytes]:
            return [json_answer(odd)]

    async with running(Odd()) as server:
        with pytest.raises(ProviderProtocolError, match="embeddings"):
            await provider_at(server.url, http).embed(MODEL, ["a", "b"])


async def test_what_embeddings_took_is_told(http):
    async with running(Ollama()) as server:
        embedded = await provider_at(server.url, http).embed(MODEL, ["a", "bb"])
    assert ([vector[0] for vector in embedded.vectors], embedded.usage) == ([1, 2], Usage(4))


@pytest.mark.parametrize("listing", [b"[]", b"{}", b'{"models": 3}', b"<html>", b"\xff"])
async def test_a_listing_that_is_none_is_an_error(listing, http):
    class Odd(Ollama):
        def get_api_tags(self, request: Request) -> list[bytes]:
            return [answer(200, listing)]

    async with running(Odd()) as server:
        with pytest.raises(ProviderProtocolError):
            await provider_at(server.url, http).list_models()
