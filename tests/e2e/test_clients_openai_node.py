"""The official SDK for Node against `aish serve`: its helpers are the strictest readers of both APIs.

Installs Node 22 and the SDK under `.cache/clients` when they are not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clients import MODEL, Client, node_sdk, npm_modules
from support.mcp_peers import node_server
from support.recording_upstream import Cut, Reply, Text, call, calls, failure, text
from support.serving import DIRECT, NOTE, WAIT, Served, serving

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]  # the first one to run installs
ours = pytest.mark.skipif(DIRECT, reason="CLIENTS_DIRECT: there is no server in between")

ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
CHAT_ADD = {"type": "function", "function": {key: ADD[key] for key in ("name", "parameters")}}
HEARTBEATS = "heartbeat_s = 0.2\n"

CHAT = """
const stream = client.chat.completions.stream(request);
const deltas = [];
stream.on('content', (delta) => deltas.push(delta));
const final = await stream.finalChatCompletion();
say({deltas, final});
"""
RESPONSES = """
const stream = client.responses.stream(request);
const events = [];
for await (const event of stream) events.push(event);
const final = await stream.finalResponse();
say({events, final, text: final.output_text});
"""


@pytest.fixture(scope="session")
def everything() -> tuple[str, ...]:
    """Made before any test has a home of its own, so that npm finds its settings."""
    npm_modules()
    return node_server("everything")


@pytest.fixture
def aish_server(everything: tuple[str, ...], private_home: Path) -> Iterator[Served]:
    with serving(private_home, everything, config=HEARTBEATS) as served:
        yield served


@pytest.fixture
def client(aish_server: Served, private_home: Path) -> Client:
    return Client(private_home / "client", aish_server.url)


def asked(client: Client, script: str, **fields: Any) -> Any:
    body = {"model": MODEL, **fields}
    return node_sdk(client, f"const request = {json.dumps(body)};\n" + script)


def chat(client: Client, **fields: Any) -> Any:
    return asked(client, CHAT, **{"messages": [{"role": "user", "content": "hi"}], **fields})


def responses(client: Client, **fields: Any) -> Any:
    return asked(client, RESPONSES, **{"input": "hi", **fields})


def test_the_chat_helper_gets_the_text_token_for_token(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("The ", "answer ", "✓."))
    got = chat(client, stream_options={"include_usage": True})
    assert got["deltas"] == ["The ", "answer ", "✓."]
    assert got["final"]["choices"][0]["message"]["content"] == "The answer ✓."
    assert got["final"]["usage"]["total_tokens"] == 17


def test_the_chat_helper_gets_calls_of_the_clients_own_tools(aish_server: Served, client: Client):
    aish_server.upstream.reply(calls(("add", {"a": 1}), ("add", {"a": 2})))
    made = chat(client, tools=[CHAT_ADD])["final"]["choices"][0]["message"]["tool_calls"]
    assert len({one["id"] for one in made}) == 2
    assert [json.loads(one["function"]["arguments"]) for one in made] == [{"a": 1}, {"a": 2}]


def test_a_tool_loop_of_the_sdk_runs_to_its_end(aish_server: Served, client: Client):
    aish_server.upstream.reply(call("add", {"a": 7}), text("It is 8."))
    script = """
const add = {type: 'function', function: {name: 'add', parse: JSON.parse, function: ({a}) => String(a + 1),
             parameters: {type: 'object', properties: {a: {type: 'integer'}}}}};
const runner = client.chat.completions.runTools({...request, stream: true, tools: [add]});
say(await runner.finalContent());
"""
    assert asked(client, script, messages=[{"role": "user", "content": "hi"}]) == "It is 8."
    assert aish_server.upstream.requests[-1].messages[-1]["content"] == "8"
    assert len(aish_server.upstream.requests) == 2


@ours
def test_the_chat_helper_never_sees_a_tool_of_the_server(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "x"}, before="Well. "), text("Done."))
    got = chat(client)
    assert [delta.lstrip("\n") for delta in got["deltas"]] == ["Well. ", "Done."]  # a paragraph each round
    assert not got["final"]["choices"][0]["message"].get("tool_calls")
    assert aish_server.desk.notes == ["x"]


@ours
def test_the_sdks_own_loop_and_ours_share_a_step(aish_server: Served, client: Client):
    aish_server.upstream.reply(calls((NOTE, {"text": "ours"}), ("add", {"a": 7})), text("Both."))
    script = """
const add = {type: 'function', function: {name: 'add', parse: JSON.parse, function: ({a}) => String(a + 1),
             parameters: {type: 'object', properties: {a: {type: 'integer'}}}}};
const runner = client.chat.completions.runTools({...request, stream: true, tools: [add]});
say(await runner.finalContent());
"""
    assert asked(client, script, messages=[{"role": "user", "content": "hi"}]) == "Both."
    sent = aish_server.upstream.requests[-1].messages
    assert [one["content"] for one in sent if one["role"] == "tool"] == ["noted: ours", "8"]
    assert len(aish_server.upstream.requests) == 2


def test_the_responses_helper_reads_text(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("r1 ", "r2"))
    got = responses(client)
    assert [e["delta"] for e in got["events"] if e["type"] == "response.output_text.delta"] == ["r1 ", "r2"]
    assert got["text"] == "r1 r2"


def test_the_responses_helper_reads_a_function_call(aish_server: Served, client: Client):
    aish_server.upstream.reply(call("add", {"a": 7}))
    made = responses(client, tools=[ADD])["final"]["output"][0]
    assert made["call_id"] and (made["type"], json.loads(made["arguments"])) == ("function_call", {"a": 7})


@ours
def test_the_responses_helper_reads_a_tool_of_the_server(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "x"}), text("Done."))
    got = responses(client)
    assert [item["type"] for item in got["final"]["output"]] == ["mcp_call", "message"]
    assert "noted: x" in got["final"]["output"][0]["output"] and got["text"] == "Done."


@ours
def test_both_helpers_sit_out_a_long_tool_call(aish_server: Served, client: Client):
    aish_server.desk.go()  # it comes back at once; the heartbeats before it are tested elsewhere
    aish_server.upstream.reply(call(WAIT, {}), text("Done."), call(WAIT, {}), text("Done."))
    assert chat(client)["deltas"] == ["Done."]
    assert responses(client)["text"] == "Done."


def test_embeddings_come_in_the_form_the_sdk_asks_for_by_itself(aish_server: Served, client: Client):
    script = "say((await client.embeddings.create(request)).data.map((row) => row.embedding));"
    assert asked(client, script, input=["abc", "d"]) == [[3, 0.5, -1.25, 3], [1, 0.5, -1.25, 3]]


CAUGHT = """
try {
  const result = await client.chat.completions.create(request);
  if (request.stream) for await (const chunk of result) ;
  say('no error');
} catch (error) { say([error.constructor.name, error.status ?? null, error.message]); }
"""


@ours
def test_an_unknown_model_is_a_404(aish_server: Served, client: Client):
    kind, status, message = asked(client, CAUGHT, model="nobody:nothing", messages=[{"role": "user", "content": "x"}])
    assert (kind, status) == ("NotFoundError", 404) and "nobody:nothing" in message


@pytest.mark.parametrize("status", [402, 403])
def test_a_refusal_keeps_its_status_and_is_not_repeated(aish_server: Served, client: Client, status: int):
    aish_server.upstream.reply(failure(status, "no money left"))
    _, got, message = asked(client, CAUGHT, messages=[{"role": "user", "content": "x"}])
    assert got == status and "no money left" in message
    assert len(aish_server.upstream.requests) == 1


@ours
def test_a_stream_that_breaks_off_is_an_error(aish_server: Served, client: Client):
    aish_server.upstream.always(Reply((Text("half "), Cut())))
    kind, _, message = asked(client, CAUGHT, stream=True, messages=[{"role": "user", "content": "x"}])
    assert kind == "APIError" and message
