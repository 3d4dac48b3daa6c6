from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import msgspec
import pytest

from aish.errors import (
    ModelNotFound,
    ProviderBusy,
    ProviderError,
    ProviderProtocolError,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from aish.net.http.client import HttpClient
from aish.ports import Provider, TextRelay
from aish.providers.endpoint import Endpoint
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.pool import REST_S, PoolProvider
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import StepEnd, StepFinished
from aish.types.events import TextDelta
from aish.types.messages import AssistantMessage, user
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import StepRequest
from support.backends import ANSWER, Vllm, json_answer, running
from support.raw_server import Request

REQUEST = StepRequest("m", (user("hi"),), deadline_s=5)
END = StepFinished(StepEnd.STOP)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Member(ScriptedProvider):
    """Says its name, unless it is told to fail; counts how often it was asked."""

    def __init__(self, name: str, *items, info: ModelProfile | ProviderError | None = None) -> None:
        super().__init__(name, {"m": lambda request: self.items})
        self.items = list(items) or [TextDelta(name)]
        self.info = info
        self.closed = 0

    async def describe(self, model: str) -> ModelProfile:
        if isinstance(self.info, ProviderError):
            raise self.info
        return self.info or await super().describe(model)

    async def aclose(self) -> None:
        self.closed += 1


class Slow(Member):
    """Each request takes it so long, by this clock."""

    def __init__(self, name: str, *items, clock: Clock, takes_s: float) -> None:
        super().__init__(name, *items)
        self.clock = clock
        self.takes_s = takes_s

    def stream(self, request: StepRequest, relay: TextRelay | None = None):
        self.clock.now_s += self.takes_s
        return super().stream(request, relay)


def make(*members: Provider, clock: Clock | None = None) -> PoolProvider:
    return PoolProvider("pool", members, monotonic_s=clock or Clock())


_NUMBERS = itertools.count()


def a_new_conversation() -> StepRequest:
    return msgspec.structs.replace(REQUEST, session=f"sess_{next(_NUMBERS)}")


async def say(pool: PoolProvider, request: StepRequest | None = None) -> str:
    request = request or a_new_conversation()
    async with asyncio.timeout(10), pool.stream(request) as chunks:
        return "".join([chunk.text async for batch in chunks for chunk in batch if isinstance(chunk, TextDelta)])


async def test_the_least_busy_one_is_asked():
    a, b, c = Member("a"), Member("b"), Member("c")
    pool = make(a, b, c)
    async with AsyncExitStack() as stack:
        said = []
        for _ in range(4):
            chunks = await stack.enter_async_context(pool.stream(a_new_conversation()))
            said.append((await anext(chunks))[0].text)
        assert said == ["a", "b", "c", "a"]
    assert await say(pool) == "b"  # which has read fewer conversations than a


async def test_a_session_stays_with_its_member_while_that_is_healthy_however_busy_it_is():
    clock = Clock()
    a, b, c = Member("a"), Member("b"), Member("c")
    pool = make(a, b, c, clock=clock)
    sessions = [a_new_conversation() for _ in range(3)]
    assert [await say(pool, one) for one in sessions] == ["a", "b", "c"]
    async with AsyncExitStack() as stack:
        for _ in range(10):
            await anext(await stack.enter_async_context(pool.stream(sessions[1])))
        assert [await say(pool, one) for one in reversed(sessions * 5)] == ["c", "b", "a"] * 5
    b.items = [ProviderUnavailable("x")]
    assert await say(pool, sessions[1]) == "a"
    b.items = [TextDelta("b")]
    clock.now_s += REST_S
    assert await say(pool, sessions[1]) == "a"  # which has read it meanwhile


async def test_a_conversation_that_the_client_keeps_is_known_by_its_beginning():
    pool = make(Member("a"), Member("b"))
    first, second = user("what is tea?"), user("what is coffee?")
    more = (AssistantMessage("a plant"), user("and where?"))
    asked = [StepRequest("m", messages, deadline_s=5, session=f"turn_{n}") for n, messages in enumerate(
        [(first,), (second,), (second, *more), (first, *more)])]  # fmt: skip
    assert [await say(pool, request) for request in asked] == ["a", "b", "b", "a"]


async def test_many_callers_who_begin_in_the_same_words_are_spread():
    pool = make(Member("a"), Member("b"))
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(pool.stream(REQUEST)) for _ in range(20)]
        said = [(await anext(stream))[0].text for stream in streams]
    assert said.count("b") >= 7


async def test_only_so_many_conversations_are_remembered():
    members = [Member("a"), Member("b"), Member("c")]
    pool = PoolProvider("pool", members, monotonic_s=Clock(), max_conversations=2)
    sessions = [a_new_conversation() for _ in range(3)]
    assert [await say(pool, one) for one in sessions] == ["a", "b", "c"]
    assert [await say(pool, one) for one in sessions[1:]] == ["b", "c"]
    assert await say(pool, sessions[0]) == "a"  # forgotten, and a has the fewest


@pytest.mark.parametrize(
    "error",
    [ProviderUnavailable("x"), ProviderTimeout("x"), ProviderBusy("x"), ProviderProtocolError("x"), ModelNotFound("x")],
)
async def test_one_that_fails_before_its_first_chunk_is_passed_over(error):
    a, b = Member("a", error), Member("b")
    assert await say(make(a, b)) == "b"
    assert len(a.requests) == len(b.requests) == 1


async def test_one_that_fails_after_its_first_chunk_is_the_failure_of_the_answer():
    a, b = Member("a", TextDelta("half"), ProviderUnavailable("lost")), Member("b")
    async with make(a, b).stream(REQUEST) as chunks:
        assert await anext(chunks) == [TextDelta("half")]
        with pytest.raises(ProviderUnavailable, match="lost"):
            await anext(chunks)
    assert b.requests == []


async def test_when_the_time_of_the_request_is_up_no_other_is_tried():
    late = ProviderTimeout("late", is_deadline=True)
    a, b, c = Member("a", ModelNotFound("x")), Member("b", late), Member("c")
    with pytest.raises(ProviderTimeout, match="late"):
        await say(make(a, b, c))
    assert c.requests == []


async def test_a_refused_request_is_not_tried_elsewhere():
    a, b = Member("a", ProviderRejected("bad field")), Member("b")
    with pytest.raises(ProviderRejected):
        await say(make(a, b))
    assert b.requests == []


async def test_one_that_failed_rests_and_comes_back():
    clock = Clock()
    a, b = Member("a", ProviderUnavailable("x")), Member("b")
    pool = make(a, b, clock=clock)
    await say(pool)
    a.items = [TextDelta("a")]
    assert await say(pool) == "b"
    clock.now_s += REST_S
    assert await say(pool) == "a"


async def test_one_that_comes_back_is_tried_by_one_request_before_it_gets_more():
    clock = Clock()
    a, b = Member("a", TextDelta("a"), 60.0), Member("b", TextDelta("b"), 60.0)
    pool = make(a, b, clock=clock)
    async with AsyncExitStack() as stack:

        async def begun() -> str:
            return (await anext(await stack.enter_async_context(pool.stream(a_new_conversation()))))[0].text

        assert [await begun(), await begun()] == ["a", "b"]
        a.items = [ProviderUnavailable("x")]
        assert await begun() == "b"
        clock.now_s += REST_S
        a.items = [5.0, TextDelta("a")]
        trying = asyncio.create_task(begun())
        await asyncio.sleep(0)
        assert await begun() == "b"  # although a has less to do
        trying.cancel()
        await asyncio.wait({trying})
        a.items = [TextDelta("a"), 60.0]
        assert [await begun(), await begun()] == ["a", "a"]


async def test_embeddings_under_way_make_an_endpoint_busy():
    going = asyncio.Event()

    class Embedding(Member):
        async def embed(self, model, inputs):
            going.set()
            await asyncio.sleep(60)

    a, b = Embedding("a"), Member("b")
    pool = make(a, b)
    embedding = asyncio.create_task(pool.embed("m", ["x"]))
    async with asyncio.timeout(5):
        await going.wait()
    assert await say(pool) == "b"
    embedding.cancel()
    await asyncio.wait({embedding})
    assert await say(pool) == "a"


@pytest.mark.parametrize(("asked_s", "rest_s"), [(3.0, 3.0), (3600.0, 60.0), (None, REST_S)])
async def test_a_busy_one_rests_as_long_as_it_asks_within_reason(asked_s, rest_s):
    clock = Clock()
    a, b = Member("a", ProviderBusy("x", retry_after_s=asked_s)), Member("b")
    pool = make(a, b, clock=clock)
    await say(pool)
    a.items = [TextDelta("a")]
    clock.now_s += rest_s - 0.5
    assert await say(pool) == "b"
    clock.now_s += 0.5
    assert await say(pool) == "a"


async def test_one_that_lacks_the_model_does_not_rest():
    a, b = Member("a", ModelNotFound("x")), Member("b")
    pool = make(a, b)
    await say(pool)
    a.items = [TextDelta("a")]
    assert await say(pool) == "a"


async def test_when_all_rest_the_longest_rested_is_tried_all_the_same():
    clock = Clock()
    a, b = Member("a", ProviderUnavailable("a down")), Member("b", ProviderUnavailable("b down"))
    pool = make(a, b, clock=clock)
    with pytest.raises(ProviderUnavailable, match="b down"):
        await say(pool)
    a.items, b.items = [TextDelta("a")], [TextDelta("b")]
    assert await say(pool) == "a"


async def test_when_all_fail_what_says_most_is_told():
    with pytest.raises(ModelNotFound):
        await say(make(Member("a", ModelNotFound("x")), Member("b", ProviderUnavailable("down"))))


async def test_failing_over_does_not_stretch_the_deadline():
    clock = Clock()
    a, b = Slow("a", ProviderUnavailable("x"), clock=clock, takes_s=4), Member("b")
    await say(make(a, b, clock=clock))
    assert b.requests[0].deadline_s == 1.0
    c, d = Slow("c", ProviderUnavailable("late"), clock=clock, takes_s=4), Member("d")
    with pytest.raises(ProviderUnavailable, match="late"):
        await say(make(c, d, clock=clock), StepRequest("m", (user("hi"),), deadline_s=3))
    assert d.requests == []


async def test_the_window_is_the_smallest_and_the_capabilities_are_those_of_all():
    wide = ModelProfile("a", "m", 32768, Capabilities(native_tools=True, vision=True, tokenize=True))
    narrow = ModelProfile("b", "m", 4096, Capabilities(native_tools=True, vision=False, tokenize=True))
    unknown = ModelProfile("c", "m", None, Capabilities(tokenize=True))
    pool = make(*(Member(info.provider, info=info) for info in (wide, narrow, unknown)))
    assert await pool.describe("m") == ModelProfile("pool", "m", 4096, Capabilities(tokenize=True))


async def test_a_pool_of_weak_models_is_weak():
    pool = make(
        *(Member(name, info=ModelProfile(name, "m", parameters=size)) for name, size in (("a", 9**9), ("b", None)))
    )
    assert (await pool.describe("m")).is_weak


async def test_one_that_is_away_when_all_are_described_is_left_out_and_rests():
    a, b = Member("a", info=ProviderUnavailable("x")), Member("b")
    pool = make(a, b)
    assert (await pool.describe("m")).name == "pool:m"
    a.info = None
    assert await say(pool) == "b"


async def test_no_member_that_knows_the_model_is_model_not_found():
    away, without = Member("a", info=ProviderUnavailable("down")), Member("b", info=ModelNotFound("none"))
    with pytest.raises(ModelNotFound):
        await make(away, without).describe("m")


async def test_a_pool_of_none_says_so():
    pool = make()
    for ask in (pool.list_models(), pool.describe("m"), pool.embed("m", ["x"]), say(pool)):
        with pytest.raises(ProviderUnavailable, match="pool has no endpoints"):
            await ask
    assert await pool.count_tokens("m", "x") is None


async def test_when_one_has_taken_all_the_time_of_a_call_no_other_is_asked():
    clock = Clock()
    a, b = Slow("a", ProviderTimeout("not over within 14 s"), clock=clock, takes_s=14), Member("b")
    pool = PoolProvider("pool", [a, b], call_s=14, monotonic_s=clock)
    request = StepRequest("m", (user("hi"),), deadline_s=600)
    with pytest.raises(ProviderTimeout, match="not over within 14 s"):
        await say(pool, request)
    assert b.requests == []
    assert await say(PoolProvider("pool", [a, b], call_s=15, monotonic_s=clock), request) == "b"


async def test_closing_closes_every_member():
    a, b = Member("a"), Member("b")
    await make(a, b).aclose()
    assert (a.closed, b.closed) == (1, 1)


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        yield client


async def test_real_endpoints_fail_over_and_list_and_embed(http):
    class Loading(Vllm):
        def respond(self, request: Request) -> list[bytes]:
            return [json_answer({"error": {"message": "Loading model"}}, 503)]

    async with running(Loading()) as loading, running(Vllm()) as ready:
        members = [OpenAIProvider("pool", Endpoint(url=server.url), http) for server in (loading, ready)]
        pool = PoolProvider("pool", members)
        request = StepRequest(Vllm.model, (user("hi"),), deadline_s=5)
        assert await say(pool, request) == "".join(ANSWER)
        assert await say(pool, request) == "".join(ANSWER)
        assert [info.id for info in await pool.list_models()] == [Vllm.model]
        assert len((await pool.embed(Vllm.model, ["x"])).vectors) == 1
        assert await pool.count_tokens(Vllm.model, "one two") == 2
        assert len(loading.requests) == 1
