"""Models that write calls as text, behind the server: its clients see what they would of any other model."""

from __future__ import annotations

import json

import pytest

from aish.providers.scripted import ScriptedProvider, from_steps
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.events import TextDelta
from support.engines import Bench, Tools
from support.http_face import face
from support.responses_client import Site, check_stream, of, text_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
OURS = {"type": "function", "function": {"name": "t__x"}}


def bench(*texts: str) -> Bench:
    steps = [[TextDelta(letter) for letter in text] for text in texts]
    inner = ScriptedProvider("scripted", {"model": from_steps(steps)})
    made = Bench(provider=ToolCallingProvider(inner), tools=Tools().add("t__x", schema=SCHEMA))
    made.scripted = inner
    return made


@pytest.mark.parametrize(
    ("mode", "call", "answer"),
    [
        ("native", '<tool_call>{"name": "t__x", "arguments": {"n": 3}}</tool_call>', "Done."),
        ("prompted", '```json\n{"name": "t__x", "arguments": {"n": 3}}\n```', "Done."),
        ("constrained", '{"name": "t__x", "arguments": {"n": 3}}', '{"answer": "Done."}'),
    ],
)
async def test_chat_streams_the_answer_after_a_tool_of_ours_in_every_mode(mode: str, call: str, answer: str):
    made = bench(call, answer)
    async with face(made) as http:
        chunks = await http.chunks(tools=[OURS], tool_mode=mode)
    said = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert (said.strip(), made.tools.calls) == ("Done.", [("t__x", {"n": 3})])
    assert bool(made.scripted.requests[0].tools) == (mode == "native")
    assert bool(made.scripted.requests[0].sampling.json_schema) == (mode == "constrained")


async def test_a_clients_function_is_called_mended_and_nothing_of_it_leaks_into_the_content():
    made = bench("Well.\n<tool_call>{'name': 'look', 'arguments': {'n': '3'}}</tool_call>")
    async with face(made) as http:
        (choice,) = (await http.chat(tools=[FUNCTION])).json["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("look", {"n": 3})
    assert choice["message"]["content"].strip() == "Well."
    assert choice["finish_reason"] == "tool_calls"


async def test_responses_stream_a_constrained_call_as_argument_deltas():
    made = bench('{"name": "look", "arguments": {"n": 3}}')
    function = {"type": "function", "name": "look", "parameters": SCHEMA}
    async with Site(made).opened() as here:
        events = await here.stream(tools=[function], tool_mode="constrained")
    check_stream(events)
    deltas = [event["delta"] for event in of(events, "function_call_arguments.delta")]
    assert len(deltas) > 1
    assert json.loads("".join(deltas)) == {"n": 3}
    assert text_of(events[-1]["response"]) == ""


async def test_repairs_are_counted_by_kind():
    made = bench("<tool_call>{'name': 't__x', 'arguments': {'n': '3'}}</tool_call>", "Done.")
    async with face(made) as http:
        await http.chat(tools=[OURS])
        page = (await http.ask("GET", "/metrics")).body.decode()
    assert 'aish_call_repairs_total{kind="quotes"} 1.0' in page
    assert 'aish_call_repairs_total{kind="type"} 1.0' in page
