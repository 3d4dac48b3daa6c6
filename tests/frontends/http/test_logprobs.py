"""How likely each token was, for whoever asks: as OpenAI tells it, streamed and whole, and only then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aish.safety.redaction.redactor import MARK
from aish.types.events import StepStarted, TextDelta, decode_event
from support.engines import Bench, Tools, call
from support.http_face import Face, face

KEY = "sk-proj-" + "abcdEFGH1234567890abcdEFGH1234567890"


def odds(token: str) -> dict[str, Any]:
    other = {"token": "no", "logprob": -2.5, "bytes": [110, 111]}
    return {"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": [other]}


def said(*tokens: str) -> list[TextDelta]:
    return [TextDelta(token, [odds(token)]) for token in tokens]


def data(body: bytes) -> list[dict[str, Any]]:
    lines = (line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: {"))
    return [json.loads(line) for line in lines]


async def respond(http: Face, **fields: Any):
    return await http.ask("POST", "/v1/responses", {"model": "scripted:model", "input": "hello", **fields})


async def test_a_whole_answer_tells_of_all_its_tokens():
    bench = Bench(said("yes", ", it", " is"))
    async with face(bench) as http:
        reply = await http.chat(logprobs=True, top_logprobs=1)
    choice = json.loads(reply.body)["choices"][0]
    assert choice["logprobs"] == {"content": [odds("yes"), odds(", it"), odds(" is")], "refusal": None}
    assert choice["message"]["content"] == "yes, it is"
    assert bench.scripted.requests[0].sampling.logprobs == 1


async def test_a_stream_tells_of_each_with_its_words_and_of_several_steps():
    steps = [TextDelta("I"), *said(" look"), call("t__look", "{}")], [*said("it", " is"), TextDelta(".")]
    async with face(Bench(*steps, tools=Tools().add("t__look"))) as http:
        reply = await http.chat(
            logprobs=True, stream=True, tools=[{"type": "function", "function": {"name": "t__look"}}]
        )
    choices = [chunk["choices"][0] for chunk in data(reply.body)]
    told = [(choice["delta"]["content"], choice["logprobs"]) for choice in choices if choice["delta"].get("content")]
    assert [text for text, _ in told] == ["I", " look", "\n\nit", " is", "."]
    tokens = [logprobs and logprobs["content"] for _, logprobs in told]
    assert tokens == [None, [odds(" look")], [odds("it")], [odds(" is")], None]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_tells_of_them_in_its_text(stream):
    wanted = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    bench = Bench(said("yes", " sir"))
    async with face(bench) as http:
        reply = await respond(http, stream=stream, **wanted)
    events = data(reply.body) if stream else []
    whole = events[-1]["response"] if stream else json.loads(reply.body)
    (part,) = whole["output"][0]["content"]
    assert (part["text"], part["logprobs"]) == ("yes sir", [odds("yes"), odds(" sir")])
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [(event["delta"], event["logprobs"]) for event in deltas] == (
        [("yes", [odds("yes")]), (" sir", [odds(" sir")])] if stream else []
    )
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert bench.scripted.requests[0].sampling.logprobs == 1


@pytest.mark.parametrize(
    ("fields", "asked"),
    [({}, None), ({"logprobs": False, "top_logprobs": 0}, None), ({"logprobs": True}, 0)],
    ids=["unsaid", "no", "yes"],
)
async def test_they_are_asked_for_where_the_client_does(fields, asked):
    bench = Bench([TextDelta("x")])
    async with face(bench) as http:
        reply = await http.chat(**fields)
    assert json.loads(reply.body)["choices"][0]["logprobs"] is None
    assert bench.scripted.requests[0].sampling.logprobs == asked


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": 5}, "logprobs"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_its_name(fields, field):
    async with face(Bench([TextDelta("x")])) as http:
        reply = await http.chat(**fields)
    assert reply.status == 400 and json.loads(reply.body)["error"]["param"] == field


async def test_the_tokens_of_a_secret_are_not_recorded():
    pieces = [KEY[place : place + 5] for place in range(0, len(KEY), 5)]
    bench = Bench(said("it is ", *pieces, " then"))
    events = await bench.run(kept=False, stream=True)
    written = [decode_event(line).body for line in (await bench.recorded(events)).splitlines()]
    words = [body for body in written if isinstance(body, TextDelta)]
    assert "".join(body.text for body in words) == f"it is {MARK} then"
    assert [body.logprobs for body in words if body.logprobs] == [[odds("it is ")], [odds(" then")]]
    assert any(isinstance(body, StepStarted) for body in written)
