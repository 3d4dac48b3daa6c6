"""Each backend that speaks the OpenAI protocol, with the habits it has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aish.errors import ModelNotFound, ProviderError, ProviderRejected, ProviderUnavailable
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.events import Status, TextDelta, TurnEnd, UsageReported
from aish.types.messages import AssistantMessage, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage, user
from aish.types.models import Constraint
from aish.types.requests import Sampling, StepRequest
from aish.types.tools import ResultStatus
from aish.types.usage import Usage
from support.backends import (
    ANSWER,
    CALL,
    LlamaCpp,
    LMDeploy,
    LMStudio,
    Mnn,
    OpenAIBackend,
    Vllm,
    body_of,
    json_answer,
    running,
)
from support.engines import Bench, Tools, bodies, finish, results

ALL = [LlamaCpp, Vllm, LMDeploy, LMStudio, Mnn]
WITH_TOOLS = [LlamaCpp, Vllm, LMDeploy, LMStudio]
MODEL = OpenAIBackend.model


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


def provider_at(url: str, http: HttpClient, **settings) -> OpenAIProvider:
    return OpenAIProvider("up", Endpoint(url=url, **settings), http)


async def say(provider: OpenAIProvider, request: StepRequest) -> list:
    async with provider.stream(request) as chunks:
        return [chunk async for batch in chunks for chunk in batch]


@pytest.mark.parametrize("fake", ALL)
async def test_text_is_streamed_and_the_turn_is_answered(fake, http):
    async with running(fake()) as server:
        bench = Bench(provider=provider_at(server.url, http))
        events = await bench.run(model=f"up:{MODEL}")
    assert [body.text for body in bodies(events, TextDelta)] == list(ANSWER)
    assert finish(events).reason is TurnEnd.ANSWERED
    assert bodies(events, Status) == []


@pytest.mark.parametrize("fake", WITH_TOOLS)
async def test_a_call_is_run_and_its_result_goes_back(fake, http):
    tools = Tools().add("math__add")
    async with running(fake()) as server:
        bench = Bench(provider=provider_at(server.url, http), tools=tools)
        events = await bench.run(model=f"up:{MODEL}")
    assert tools.calls == [("math__add", CALL)]
    assert [result.status for result in results(events)] == [ResultStatus.OK]
    history = await bench.engine.history(events[0].session)
    assert history[-1] == AssistantMessage("".join(ANSWER))
    sent = body_of(server.requests[-1])["messages"]
    assert [message["role"] for message in sent[-2:]] == ["assistant", "tool"]
    assert sent[-1]["tool_call_id"] == sent[-2]["tool_calls"][0]["id"]


@pytest.mark.parametrize("fake", ALL)
async def test_an_answer_that_has_ended_leaves_its_connection_for_the_next(fake, http):
    async with running(fake()) as server:
        provider = provider_at(server.url, http)
        for _ in range(3):
            await say(provider, StepRequest(MODEL, (user("hi"),)))
    assert (len(server.peers), len(server.requests)) == (1, 3)


@pytest.mark.parametrize("fake", WITH_TOOLS)
async def test_usage_is_what_the_backend_counted(fake, http):
    async with running(fake()) as server:
        events = await Bench(provider=provider_at(server.url, http)).run(model=f"up:{MODEL}")
    (report,) = bodies(events, UsageReported)
    assert (report.usage.prompt_tokens, report.usage.completion_tokens, report.usage.estimated) == (12, 5, False)


async def test_a_backend_that_counts_nothing_is_estimated_and_marked_so(http):
    async with running(Mnn()) as server:
        events = await Bench(provider=provider_at(server.url, http)).run(model=f"up:{MODEL}")
    assert bodies(events, UsageReported)[0].usage.estimated


async def test_a_server_that_never_reads_tools_is_told_of_them_in_the_prompt(http):
    async with running(Mnn()) as server:
        provider = ToolCallingProvider(provider_at(server.url, http))
        bench = Bench(provider=provider, tools=Tools().add("math__add"))
        await bench.run(model=f"up:{MODEL}")
    sent = body_of(server.requests[-1])
    assert "tools" not in sent
    assert "math__add" in sent["messages"][0]["content"]


@pytest.mark.parametrize(
    ("fake", "size"), [(LlamaCpp, 4096), (Vllm, 32768), (LMDeploy, None), (LMStudio, 8192), (Mnn, None)]
)
async def test_the_context_size_is_the_one_it_runs_with_or_unknown(fake, size, http):
    async with running(fake()) as server:
        assert (await provider_at(server.url, http).describe(MODEL)).context_size == size
        assert (await provider_at(server.url, http, context_size=1000).describe(MODEL)).context_size == 1000


async def test_what_lm_studio_could_load_a_model_with_is_not_its_context_size(http):
    async with running(LMStudio()) as server:
        assert (await provider_at(server.url, http).describe("waiting")).context_size is None


@pytest.mark.parametrize(
    ("fake", "vision", "constrained", "tokenize"),
    [
        (LlamaCpp, True, {Constraint.JSON_SCHEMA, Constraint.GRAMMAR}, True),
        (Vllm, False, {Constraint.JSON_SCHEMA}, True),
        (LMDeploy, False, {Constraint.JSON_SCHEMA}, True),
        (LMStudio, True, {Constraint.JSON_SCHEMA}, False),
        (Mnn, False, set(), False),
    ],
)
async def test_capabilities_are_what_is_known_of_each(fake, vision, constrained, tokenize, http):
    async with running(fake()) as server:
        can = (await provider_at(server.url, http).describe(MODEL)).capabilities
    assert (can.vision, set(can.constrained), can.tokenize) == (vision, constrained, tokenize)


@pytest.mark.parametrize("fake", ALL)
async def test_models_are_listed_by_name(fake, http):
    async with running(fake()) as server:
        assert (await provider_at(server.url, http).list_models())[0].name == f"up:{MODEL}"


@pytest.mark.parametrize("fake", [Vllm, LMDeploy, LMStudio, Mnn])
async def test_a_model_that_is_not_listed_is_not_found_and_the_hint_names_what_is(fake, http):
    async with running(fake()) as server:
        with pytest.raises(ModelNotFound) as caught:
            await provider_at(server.url, http).describe("nope")
    assert MODEL in caught.value.hint


@pytest.mark.parametrize("fake", [Vllm, LMDeploy])
async def test_a_refusal_of_the_model_in_the_answer_is_model_not_found_too(fake, http):
    async with running(fake()) as server:
        with pytest.raises(ModelNotFound, match="does not exist"):
            await say(provider_at(server.url, http), StepRequest("nope", (user("hi"),)))


async def test_llama_cpp_takes_any_name_for_the_model_it_has(http):
    async with running(LlamaCpp()) as server:
        assert (await provider_at(server.url, http).describe("anything")).context_size == 4096


@pytest.mark.parametrize("fake", [LlamaCpp, Vllm, LMDeploy])
async def test_tokens_are_counted_without_a_beginning(fake, http):
    async with running(fake()) as server:
        assert await provider_at(server.url, http).count_tokens(MODEL, "one two three") == 3


@pytest.mark.parametrize("fake", [LMStudio, Mnn])
async def test_a_backend_without_a_tokenizer_is_asked_once_only(fake, http):
    async with running(fake()) as server:
        provider = provider_at(server.url, http)
        assert await provider.count_tokens(MODEL, "one") is None
        asked = len(server.requests)
        assert await provider.count_tokens(MODEL, "two") is None
    assert len(server.requests) == asked == 2


async def test_a_tokenizer_that_is_busy_is_asked_again(http):
    class Loading(LlamaCpp):
        busy = True

        def post_tokenize(self, request):
            error = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
            return [json_answer(error, 503)] if self.busy else super().post_tokenize(request)

    fake = Loading()
    async with running(fake) as server:
        provider = provider_at(server.url, http)
        assert await provider.count_tokens(MODEL, "one") is None
        fake.busy = False
        assert await provider.count_tokens(MODEL, "one") == 1


@pytest.mark.parametrize("fake", [LlamaCpp, Vllm, LMDeploy, LMStudio])
async def test_embeddings_come_in_the_order_of_the_texts(fake, http):
    async with running(fake()) as server:
        embedded = await provider_at(server.url, http).embed(MODEL, ["a", "bbb"])
    assert [vector[0] for vector in embedded.vectors] == [1, 3]
    assert embedded.usage is None  # it says nothing of it


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"prompt_tokens": 5, "total_tokens": 5}, Usage(5)),
        ({"prompt_tokens": 5, "cost": 0.25}, Usage(5, cost=0.25)),
        ({"prompt_tokens": -1}, None),
        ("five", None),
        (None, None),
    ],
)
async def test_what_embeddings_took_is_as_the_backend_says(said, read, http):
    class BackendTokenCounter(Vllm):
        def post_v1_embeddings(self, request):
            return [json_answer({"data": [{"index": 0, "embedding": [1.0]}], "usage": said})]

    async with running(BackendTokenCounter()) as server:
        embedded = await provider_at(server.url, http).embed(MODEL, ["a"])
    assert embedded.usage == read


async def test_token_ids_are_embedded_as_they_are(http):
    async with running(Vllm()) as server:
        embedded = await provider_at(server.url, http).embed(Vllm.model, [[1, 2, 3], [4]])
    assert body_of(server.requests[-1])["input"] == [[1, 2, 3], [4]]
    assert [vector[0] for vector in embedded.vectors] == [3, 1]


async def test_a_backend_without_embeddings_says_so(http):
    async with running(Mnn()) as server:
        with pytest.raises(ProviderRejected, match="up answered 404"):
            await provider_at(server.url, http).embed(MODEL, ["a"])


@pytest.mark.parametrize(
    "answer",
    [
        {"data": [{"index": 0, "embedding": [1.0]}]},
        {"data": "no"},
        {"data": [1, 2]},
        {"data": [{"embedding": "x"}, {"embedding": None}]},
        [],
    ],
)
async def test_embeddings_that_are_not_all_there_are_an_error(answer, http):
    class Odd(Vllm):
        def post_v1_embeddings(self, request):
            return [json_answer(answer)]

    async with running(Odd()) as server:
        with pytest.raises(ProviderError, match="embeddings"):
            await provider_at(server.url, http).embed(MODEL, ["a", "b"])


async def test_configured_models_are_listed_and_still_described_by_the_backend(http):
    async with running(Vllm()) as server:
        provider = provider_at(server.url, http, models=("mine", MODEL))
        assert [info.id for info in await provider.list_models()] == ["mine", MODEL]
        assert server.requests == []
        assert (await provider.describe(MODEL)).context_size == 32768
        assert (await provider.describe("mine")).context_size is None
        with pytest.raises(ModelNotFound):
            await provider.describe("other")


async def test_a_backend_that_lists_nothing_is_believed_to_know_the_model(http):
    class Listless(Vllm):
        def get_v1_models(self, request):
            return [self.no_such_path(request)]

    async with running(Listless()) as server:
        assert (await provider_at(server.url, http).describe("whatever")).name == "up:whatever"


async def test_a_refused_key_is_not_taken_for_a_missing_model(http):
    class Locked(Vllm):
        def respond(self, request):
            return [json_answer({"error": {"message": "Invalid model API key: sk-secret-1"}}, 401)]

    async with running(Locked()) as server:
        provider = provider_at(server.url, http, key="sk-secret-1")
        with pytest.raises(ProviderRejected) as caught:
            await provider.describe(MODEL)
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret-1"
    assert "sk-secret" not in repr(caught.value) + caught.value.message + caught.value.hint
    assert "key_env" in caught.value.hint


async def test_a_backend_that_is_away_is_unavailable_rather_than_without_models(http):
    async with running(Vllm()) as server:
        url = server.url
    with pytest.raises(ProviderUnavailable):
        await provider_at(url, http).describe(MODEL)


async def test_configured_headers_win_over_ours(http):
    async with running(Vllm()) as server:
        await provider_at(server.url, http, key="ours-123", headers={"Authorization": "Basic abc"}).list_models()
    assert server.requests[0].headers["authorization"] == "Basic abc"
    assert server.requests[0].raw_head.lower().count(b"authorization") == 1


async def test_a_key_with_a_line_break_is_refused_without_being_shown(http):
    provider = provider_at("http://127.0.0.1:1", http, key="secret-key\n")
    with pytest.raises(ProviderRejected, match="up: the value of the header 'authorization'") as caught:
        await provider.list_models()
    assert "secret-key" not in repr(caught.value)


async def test_the_request_holds_the_whole_conversation_and_how_to_answer(http):
    image = ImagePart("image/png", data="QUJD")
    call = AssistantMessage("hm", tool_calls=())
    sampling = Sampling(temperature=0.0, max_tokens=7, stop=("END",), seed=3, json_schema={"type": "object"})
    messages = (UserMessage((TextPart("look"), image)), call, ToolMessage("c1", "t", (TextPart("r"), image)))
    async with running(Vllm()) as server:
        await say(provider_at(f"{server.url}/v1", http), StepRequest(MODEL, messages, sampling=sampling))
    sent = body_of(server.requests[0])
    assert sent["stream"] is True and sent["stream_options"] == {"include_usage": True}
    assert (sent["temperature"], sent["max_tokens"], sent["stop"], sent["seed"]) == (0.0, 7, ["END"], 3)
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert sent["messages"][0]["content"][1]["image_url"]["url"] == "data:image/png;base64,QUJD"
    assert sent["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "r[image: image/png]"}


async def test_images_of_results_follow_them_as_the_users(http):
    calls = AssistantMessage("", (ToolCall("c1", "t", "{}"), ToolCall("c2", "u", "{}")))
    drawn = ToolMessage("c1", "t", (TextPart("drawn"), ImagePart(data="QUJD")))
    messages = (user("draw"), calls, drawn, ToolMessage("c2", "u", (TextPart("no more"),)), AssistantMessage("a cat"))
    async with running(Vllm()) as server:
        await say(provider_at(f"{server.url}/v1", http), StepRequest(MODEL, (*messages, user("sure?"))))
    sent = body_of(server.requests[0])["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert sent[4]["content"] == [{"type": "text", "text": "[images of t]"}, image]


async def test_bytes_of_a_terminal_that_are_no_text_do_not_stop_a_question(http):
    async with running(Vllm()) as server:
        provider = provider_at(server.url, http)
        await say(provider, StepRequest(MODEL, (user("odd \udcff byte"),)))
        assert await provider.count_tokens(MODEL, "odd \udcff byte") == 3
    assert body_of(server.requests[0])["messages"][0]["content"] == "odd ? byte"
