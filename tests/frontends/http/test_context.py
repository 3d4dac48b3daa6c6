"""Windows and budgets, as clients of the server meet them."""

from typing import Any

from aish.engine.model.ledger import Caps, Prices
from aish.errors import PromptTooLong
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.context import ContextRules
from aish.types.events import TextDelta
from aish.types.messages import SystemMessage
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import StepRequest
from aish.types.usage import Price, Usage
from support.engines import Bench
from support.http_face import face

DEAR = {"scripted:model": Price(1_000.0, 10_000.0)}


class Small(ScriptedProvider):
    def __init__(self) -> None:
        super().__init__("scripted", {"model": lambda request: [TextDelta("fine"), StepFinished(StepEnd.STOP)]})

    async def describe(self, model: str) -> ModelProfile:
        return ModelProfile(self.name, model, 200, Capabilities(tokenize=True))


def small(**rules: Any) -> tuple[Small, Bench]:
    provider = Small()
    return provider, Bench(provider=provider, settings={"rules": ContextRules(answer_room=40, **rules)})


def words(request: StepRequest) -> int:
    return sum(len(message.text.split()) + 3 for message in request.messages)


async def test_a_session_the_server_keeps_stays_within_the_window():
    provider, bench = small()
    async with face(bench) as http:
        for _ in range(12):
            reply = await http.chat("word " * 20, session_id="s", use_server_history=True)
            assert reply.status == 200
    assert all(words(request) <= 160 for request in provider.requests)
    assert len(provider.requests[-1].messages) == 11


async def test_a_conversation_the_client_keeps_is_its_own_unless_it_asks_for_truncation():
    provider, bench = small()
    said = [{"role": role, "content": "word " * 20} for _ in range(10) for role in ("user", "assistant")]
    body = {
        "model": "scripted:model",
        "input": [*said, {"role": "user", "content": "now"}],
        "instructions": "be brief",
    }
    async with face(bench) as http:
        assert (await http.ask("POST", "/v1/responses", body)).status == 200
        assert words(provider.requests[-1]) > 400
        assert (await http.ask("POST", "/v1/responses", {**body, "truncation": "auto"})).status == 200
    sent = provider.requests[-1]
    assert words(sent) <= 160 and len(sent.messages) == 6
    assert isinstance(sent.messages[0], SystemMessage) and sent.messages[-1].text == "now"


async def test_what_is_too_large_on_its_own_is_a_400_with_the_code_clients_know():
    _, bench = small(oversized="refuse")
    async with face(bench) as http:
        reply = await http.chat("word " * 1000, session_id="s", use_server_history=True)
        assert reply.status == 400
        error = reply.json["error"]
        assert error["code"] == "context_length_exceeded" and "room for 160" in error["message"]


async def test_what_the_backend_finds_too_long_has_the_same_code():
    async with face(Bench([PromptTooLong("up answered 400: the prompt is too long", status=400)])) as http:
        reply = await http.chat("hello")
        assert (reply.status, reply.json["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_call_that_could_break_the_cap_is_a_402_on_every_api():
    bench = Bench([TextDelta("never")], settings={"caps": Caps(day=1.0), "prices": Prices(DEAR)})
    said = [{"role": "user", "content": "x"}]
    async with face(bench) as http:
        chat = await http.chat("x", max_tokens=500)
        assert chat.status == 402 and "today's $1.00" in chat.json["error"]["message"]
        messages = {"model": "scripted:model", "max_tokens": 500, "messages": said}
        told = await http.ask("POST", "/v1/messages", messages)
        assert told.status == 402
        answered = await http.ask("POST", "/v1/responses", {"model": "scripted:model", "input": "x"})
        assert [reply.headers["x-should-retry"] for reply in (chat, told, answered)] == ["false"] * 3
        assert "today's $1.00" in answered.body.decode()
    assert bench.scripted.requests == []


async def test_what_requests_cost_is_recorded():
    bench = Bench([TextDelta("x"), UsageChunk(Usage(100, 10))], settings={"prices": Prices(DEAR)})
    async with face(bench) as http:
        assert (await http.chat()).status == 200
    spent = await bench.store.sum_spending()
    assert (spent.calls, spent.prompt_tokens) == (1, 100) and abs(spent.cost - 0.2) < 1e-9
