"""The official Python SDK against `aish serve`: strict helpers, our tools and its own, errors, embeddings, responses.

Installs the SDK under `.cache/clients` when it is not there.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clients import MODEL, Client, group, node, python_sdk, sdk_python
from support.free_port import free_port
from support.mcp_peers import node_server
from support.mcp_peers import sdk_python as mcp_sdk_python
from support.recording_upstream import (
    Cut,
    Gate,
    Hold,
    Reply,
    Text,
    Thought,
    call,
    calls,
    ends_with_role,
    failure,
    text,
)
from support.serving import DIRECT, ECHO, FAIL, NOTE, WAIT, Served, request, serving

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]  # the first one to run installs
ours = pytest.mark.skipif(DIRECT, reason="CLIENTS_DIRECT: there is no server in between")

USER = [{"role": "user", "content": "hi"}]
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CHAT_ADD = {"type": "function", "function": {key: ADD[key] for key in ("name", "parameters")}}
HEARTBEATS = "heartbeat_s = 0.2\n"
URLS = 'mcp_urls = ["http://127.0.0.1:*"]\n'
SDK_SERVER = Path(__file__).parents[1] / "support" / "sdk_http_server.py"


@pytest.fixture(scope="session")
def everything() -> tuple[str, ...]:
    """Made before any test has a home of its own, so that npm and pip find their settings."""
    sdk_python()
    mcp_sdk_python()
    node()
    return node_server("everything")


@pytest.fixture
def aish_server(everything: tuple[str, ...], private_home: Path) -> Iterator[Served]:
    with serving(private_home, everything, config=HEARTBEATS + URLS) as served:
        yield served


@pytest.fixture
def client(aish_server: Served, private_home: Path) -> Client:
    return Client(private_home / "client", aish_server.url)


# Chat completions.

STREAM = """
with client.chat.completions.stream(**request) as stream:
    deltas = [event.delta for event in stream if event.type == "content.delta" and event.delta]
    final = stream.get_final_completion()
say({"deltas": deltas, "final": final.model_dump(mode="json")})
"""
CHUNKS = """
say([chunk.model_dump(mode="json", exclude_unset=True) for chunk in client.chat.completions.create(**request)])
"""


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def asked(client: Client, script: str, **fields: Any) -> Any:
    """`request` in the script is the fields of a request."""
    body = {"model": MODEL, **fields}
    return python_sdk(client, f"import json\nrequest = json.loads({json.dumps(json.dumps(body))})\n" + script)


def streamed(client: Client, **fields: Any) -> tuple[list[str], Any]:
    """What the strict helper makes of a stream: the pieces of text as they came, and the finished choice."""
    got = asked(client, STREAM, **{"messages": USER, **fields})
    return got["deltas"], got["final"]


def test_a_stream_arrives_token_for_token_with_its_usage(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("The ", "answer ", "is ", "42 ✓."))
    deltas, final = streamed(client, stream_options={"include_usage": True})
    assert deltas == ["The ", "answer ", "is ", "42 ✓."]
    assert final["choices"][0]["message"]["content"] == "The answer is 42 ✓."
    assert final["choices"][0]["finish_reason"] == "stop"
    assert (final["usage"]["prompt_tokens"], final["usage"]["completion_tokens"]) == (12, 5)


def test_every_chunk_has_what_the_strictest_client_reads(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("a", "b"))
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage = asked(client, CHUNKS, messages=USER, **options)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert all(len(chunk["choices"]) == 1 and chunk["choices"][0]["index"] == 0 for chunk in chunks)
    assert all(isinstance(chunk["choices"][0]["delta"], dict) for chunk in chunks)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [
        chunk["choices"][0].get("finish_reason") for chunk in chunks if chunk["choices"][0].get("finish_reason")
    ] == ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert usage["choices"] == [] and usage["usage"]["total_tokens"] == 17


def test_usage_is_sent_only_where_it_was_asked_for(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("a"))
    chunks = asked(client, CHUNKS, messages=USER, stream=True)
    assert all(chunk["choices"] for chunk in chunks)


def test_a_whole_answer_has_text_usage_and_an_end(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("all ", "of it"))
    script = "say(client.chat.completions.create(**request).model_dump(mode='json'))"
    got = asked(client, script, messages=USER)
    assert got["choices"][0]["message"]["content"] == "all of it"
    assert got["choices"][0]["finish_reason"] == "stop"
    assert got["usage"]["total_tokens"] == 17


def test_reasoning_is_passed_on_beside_the_text(aish_server: Served, client: Client):
    aish_server.upstream.reply(Reply((Thought("let me "), Thought("think"), Text("Yes."))))
    chunks = asked(client, CHUNKS, messages=USER, stream=True)
    thoughts = [chunk["choices"][0]["delta"].get("reasoning_content") for chunk in chunks]
    assert "".join(filter(None, thoughts)) == "let me think"
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "Yes."


def test_a_tool_of_the_client_is_called_by_the_client_and_its_result_goes_on(aish_server: Served, client: Client):
    aish_server.upstream.reply(call("add", {"a": 7}), text("It is 8."))
    _, final = streamed(client, tools=[CHAT_ADD])
    message = final["choices"][0]["message"]
    assert final["choices"][0]["finish_reason"] == "tool_calls"
    made = message["tool_calls"][0]
    assert made["id"] and (made["type"], made["function"]["name"]) == ("function", "add")
    assert json.loads(made["function"]["arguments"]) == {"a": 7}
    back = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": [_plain(made)]},
        {"role": "tool", "tool_call_id": made["id"], "content": "8"},
    ]
    deltas, _ = streamed(client, tools=[CHAT_ADD], messages=back)
    assert deltas == ["It is 8."]
    sent = aish_server.upstream.requests[-1].messages
    assert [one["role"] for one in sent[-3:]] == ["user", "assistant", "tool"]
    assert (sent[-1]["tool_call_id"], sent[-1]["content"]) == (sent[-2]["tool_calls"][0]["id"], "8")


def _plain(made: dict[str, Any]) -> dict[str, Any]:
    """Without what only the helper adds."""
    function = {key: made["function"][key] for key in ("name", "arguments")}
    return {"id": made["id"], "type": "function", "function": function}


@ours
def test_a_tool_of_the_server_runs_unseen_between_two_pieces_of_one_stream(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(ECHO, {"message": "one"}, before="Let me look. "))
    aish_server.upstream.reply(call(NOTE, {"text": "two"}))
    aish_server.upstream.reply(text("Done", "."))
    chunks = asked(client, CHUNKS, messages=USER, stream=True)
    assert all("tool_calls" not in chunk["choices"][0]["delta"] for chunk in chunks)
    pieces = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert [piece.lstrip("\n") for piece in pieces if piece] == ["Let me look. ", "Done", "."]  # a paragraph each round
    ends = [chunk["choices"][0].get("finish_reason") for chunk in chunks]
    assert [end for end in ends if end] == ["stop"] and ends[-1] == "stop"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert aish_server.desk.notes == ["two"]
    first, second, third = aish_server.upstream.requests
    assert {ECHO, NOTE, WAIT, FAIL} <= set(first.offered)
    assert second.messages[-1]["role"] == "tool" and "one" in second.messages[-1]["content"]
    assert third.messages[-1]["content"] == "noted: two"


@ours
def test_a_tool_of_the_server_runs_in_a_whole_answer_too(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "x"}), text("Done."))
    got = asked(client, "say(client.chat.completions.create(**request).model_dump(mode='json'))", messages=USER)
    assert got["choices"][0]["message"]["content"] == "Done."
    assert not got["choices"][0]["message"].get("tool_calls")
    assert got["usage"]["prompt_tokens"] == 24  # of both model calls
    assert aish_server.desk.notes == ["x"]


@ours
def test_a_failing_tool_of_the_server_is_told_to_the_model(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(FAIL, {}), text("It broke."))
    assert streamed(client)[0] == ["It broke."]
    assert "it broke" in aish_server.upstream.requests[-1].messages[-1]["content"]


@ours
def test_one_step_with_a_tool_of_each_keeps_both_results_in_order(aish_server: Served, client: Client):
    aish_server.upstream.reply(calls((NOTE, {"text": "ours"}), ("add", {"a": 1})))
    aish_server.upstream.reply(text("Both done."))
    _, final = streamed(client, tools=[CHAT_ADD])
    made = final["choices"][0]["message"]["tool_calls"]
    assert [one["function"]["name"] for one in made] == ["add"]
    assert final["choices"][0]["finish_reason"] == "tool_calls"
    assert aish_server.desk.notes == ["ours"]
    back = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": [_plain(made[0])]},
        {"role": "tool", "tool_call_id": made[0]["id"], "content": "2"},
    ]
    deltas, _ = streamed(client, tools=[CHAT_ADD], messages=back)
    assert deltas == ["Both done."]
    sent = aish_server.upstream.requests[-1].messages
    step = next(one for one in sent if one.get("tool_calls"))
    assert [one["function"]["name"] for one in step["tool_calls"]] == [NOTE, "add"]
    assert [one["content"] for one in sent if one["role"] == "tool"] == ["noted: ours", "2"]
    assert aish_server.desk.notes == ["ours"]


@ours
def test_a_trace_comes_in_a_chunk_that_no_client_stumbles_over(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "t"}), text("Done."))
    chunks = asked(client, CHUNKS, messages=USER, stream=True, extra_body={"trace": True})
    traces = [chunk for chunk in chunks if not chunk["choices"]]
    assert traces and any(NOTE in json.dumps(chunk) for chunk in traces)
    assert all("tool_calls" not in chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"])


@ours
def test_pings_keep_a_chat_alive_while_a_tool_runs(aish_server: Served):
    aish_server.upstream.reply(call(WAIT, {}), text("Done."))
    connection = http.client.HTTPConnection("127.0.0.1", aish_server.port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": MODEL, "messages": USER, "stream": True}))
    response = connection.getresponse()  # the head is there although nothing was said
    assert response.headers["content-type"].startswith("text/event-stream")
    aish_server.desk.wait_until_waited_at()
    pings = 0
    while pings < 3:
        line = response.readline()
        assert line, "the stream ended while the tool ran"
        pings += line.startswith(b":")
    aish_server.desk.go()
    rest = response.read().decode()
    connection.close()
    assert "Done." in rest and rest.rstrip().endswith("data: [DONE]")


@ours
def test_a_client_that_leaves_stops_the_upstream(aish_server: Served, client: Client):
    gate = Gate()
    aish_server.upstream.reply(Reply((Text("one"), Hold(gate), Text("two"))))
    script = """
stream = client.chat.completions.create(**request)
for chunk in stream:
    if chunk.choices[0].delta.content:
        break
stream.close()
say(chunk.choices[0].delta.content)
"""
    assert asked(client, script, messages=USER, stream=True) == "one"
    assert aish_server.upstream.gone.wait(10)
    assert aish_server.upstream.requests[0].left_early


@ours
def test_the_first_piece_is_there_before_the_second_leaves_the_upstream(aish_server: Served):
    gate = Gate()
    aish_server.upstream.reply(Reply((Text("one"), Hold(gate), Text("two"))))
    connection = http.client.HTTPConnection("127.0.0.1", aish_server.port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": MODEL, "messages": USER, "stream": True}))
    response = connection.getresponse()
    while b'"one"' not in response.readline():
        pass
    gate.open()
    assert b'"two"' in response.read()
    connection.close()


# Errors.

CAUGHT = """
try:
    result = client.{call}(**request)
    if request.get("stream"):
        list(result)
    say("no error")
except openai.APIStatusError as exc:
    say([type(exc).__name__, exc.status_code, exc.body])
except openai.APIError as exc:
    say([type(exc).__name__, None, {{"message": exc.message}}])
"""
CHAT_CAUGHT = CAUGHT.format(call="chat.completions.create")


@ours
def test_an_unknown_model_is_a_404_in_the_shape_of_the_api(aish_server: Served, client: Client):
    kind, status, body = asked(client, CHAT_CAUGHT, model="nobody:nothing", messages=USER)
    assert (kind, status, body["code"]) == ("NotFoundError", 404, "model_not_found")
    assert "nobody:nothing" in body["message"]
    assert aish_server.upstream.requests == []


@pytest.mark.parametrize(("status", "kind"), [(402, "APIStatusError"), (403, "PermissionDeniedError")])
def test_a_refusal_of_the_upstream_keeps_its_status_and_is_asked_for_once(
    aish_server: Served, client: Client, status: int, kind: str
):
    aish_server.upstream.reply(failure(status, "no money left"))
    caught, got, body = asked(client, CHAT_CAUGHT, messages=USER)
    assert (caught, got) == (kind, status)
    assert "no money left" in body["message"]
    assert body["type"] != "server_error"  # opencode would retry it
    assert len(aish_server.upstream.requests) == 1


@ours
@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("messages", {"messages": "hi"}),
        ("messages", {"messages": []}),
        ("temperature", {"messages": USER, "temperature": "hot"}),
        ("tools", {"messages": USER, "tools": {"a": 1}}),
        ("stream", {"messages": USER, "stream": "perhaps"}),
    ],
)
def test_a_wrong_field_is_a_400_that_names_it(aish_server: Served, field: str, fields: dict[str, Any]):
    status, data = request(aish_server.port, "POST", "/v1/chat/completions", {"model": MODEL, **fields})
    error = json.loads(data)["error"]
    assert status == 400 and error["type"] == "invalid_request_error"
    assert field in f"{error.get('param')} {error['message']}"


def test_unknown_fields_and_unknown_kinds_of_tools_do_no_harm(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("fine"))
    body = {"messages": USER, "tools": [{"type": "web_search"}], "extra_body": {"no_such_field": {"a": 1}}}
    got = asked(client, "say(client.chat.completions.create(**request).choices[0].message.content)", **body)
    assert got == "fine"


@ours
def test_an_upstream_that_dies_in_mid_stream_is_an_error_and_not_an_end(aish_server: Served, client: Client):
    aish_server.upstream.always(Reply((Text("half "), Cut())))
    kind, _, body = asked(client, CHAT_CAUGHT, messages=USER, stream=True)
    assert kind == "APIError" and body["message"]
    assert len(aish_server.upstream.requests) == 1  # what was said cannot be unsaid: no retry


@ours
def test_an_upstream_that_dies_before_its_first_word_is_a_502(aish_server: Served, client: Client):
    aish_server.upstream.always(Reply((Cut(),)))
    _, status, _ = asked(client, CHAT_CAUGHT, messages=USER)
    assert status in (502, 503)


@ours
def test_a_retried_request_does_not_run_a_tool_twice(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "once"}), when=ends_with_role("user"), times=2)
    aish_server.upstream.reply(text("Done."), when=ends_with_role("tool"), times=2)
    body = {"messages": USER, "extra_headers": {"Idempotency-Key": "the-same"}}
    script = "say(client.chat.completions.create(**request).choices[0].message.content)"
    assert [asked(client, script, **body) for _ in range(2)] == ["Done.", "Done."]
    assert aish_server.desk.notes == ["once"]


# Embeddings and models.


def test_embeddings_come_in_the_form_the_sdk_asks_for_by_itself(aish_server: Served, client: Client):
    script = "say([row.embedding for row in client.embeddings.create(**request).data])"
    assert asked(client, script, input=["abc", "d"]) == [[3.0, 0.5, -1.25, 3.0], [1.0, 0.5, -1.25, 3.0]]


@pytest.mark.parametrize("form", ["float", "base64"])
def test_embeddings_come_as_floats_and_as_base64(aish_server: Served, form: str):
    body = {"model": MODEL, "input": "abc", "encoding_format": form}
    status, data = request(aish_server.port, "POST", "/v1/embeddings", body)
    vector = json.loads(data)["data"][0]["embedding"]
    assert status == 200
    assert vector == ([3.0, 0.5, -1.25, 3.0] if form == "float" else "AABAQAAAAD8AAKC/AABAQA==")


@ours
def test_models_are_listed_and_each_is_found_by_its_name(aish_server: Served, client: Client):
    script = "names = [m.id for m in client.models.list()]\nsay([names, client.models.retrieve(names[0]).id])"
    names, found = python_sdk(client, script)
    assert f"up:{MODEL}" in names or MODEL in names
    assert found == names[0]


# Responses.

RESPONSES = """
with client.responses.stream(**request) as stream:
    events = [event.model_dump(mode="json", warnings=False) for event in stream]
    final = stream.get_final_response()
say({"events": events, "final": final.model_dump(mode="json", warnings=False), "text": final.output_text})
"""
CREATE = "say(client.responses.create(**request).model_dump(mode='json', warnings=False))"


def kinds(got: Any) -> list[str]:
    return [event["type"] for event in got["events"]]


def of(got: Any, kind: str) -> list[Any]:
    return [event for event in got["events"] if event["type"] == kind]


def test_the_strict_helper_reads_a_stream_of_responses(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("The ", "answer ", "✓."))
    got = asked(client, RESPONSES, input="hi")
    assert [event["delta"] for event in of(got, "response.output_text.delta")] == ["The ", "answer ", "✓."]
    assert kinds(got)[0] == "response.created" and kinds(got)[-1] == "response.completed"
    order = ("response.output_item.added", "response.content_part.added", "response.output_text.delta")
    order += ("response.output_text.done", "response.content_part.done", "response.output_item.done")
    places = [kinds(got).index(kind) for kind in order]
    assert places == sorted(places)
    assert got["text"] == "The answer ✓." and got["final"]["status"] == "completed"
    assert got["final"]["usage"]["input_tokens"] == 12 and got["final"]["usage"]["output_tokens"] == 5
    numbers = [event["sequence_number"] for event in got["events"] if "sequence_number" in event]
    assert numbers == sorted(set(numbers))


def test_a_function_of_the_client_comes_as_a_function_call_and_its_output_goes_on(aish_server: Served, client: Client):
    aish_server.upstream.reply(call("add", {"a": 7}), text("It is 8."))
    got = asked(client, RESPONSES, input="hi", tools=[ADD])
    made = next(item for item in got["final"]["output"] if item["type"] == "function_call")
    assert made["call_id"] and (made["name"], json.loads(made["arguments"])) == ("add", {"a": 7})
    deltas = [event["delta"] for event in of(got, "response.function_call_arguments.delta")]
    assert "".join(deltas) == made["arguments"] and len(deltas) > 1
    item = {key: made[key] for key in ("type", "call_id", "name", "arguments")}
    output = {"type": "function_call_output", "call_id": made["call_id"], "output": "8"}
    again = asked(client, RESPONSES, input=[{"role": "user", "content": "hi"}, item, output], tools=[ADD])
    assert again["text"] == "It is 8."


@ours
def test_a_tool_of_the_server_is_an_mcp_call_with_its_arguments_in_deltas(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "hello"}, before="Well. "), text("Done."))
    got = asked(client, RESPONSES, input="hi")
    added = next(e["item"] for e in of(got, "response.output_item.added") if e["item"]["type"] == "mcp_call")
    assert added["arguments"] == ""
    done = next(e["item"] for e in of(got, "response.output_item.done") if e["item"]["type"] == "mcp_call")
    assert (done["server_label"], done["name"]) == ("desk", "note")
    assert json.loads(done["arguments"]) == {"text": "hello"} and "noted: hello" in done["output"]
    order = ("response.mcp_call.in_progress", "response.mcp_call_arguments.delta", "response.mcp_call_arguments.done")
    places = [kinds(got).index(kind) for kind in (*order, "response.mcp_call.completed")]
    assert places == sorted(places)
    types = [item["type"] for item in got["final"]["output"]]
    assert types == ["message", "mcp_call", "message"]
    assert not [kind for kind in kinds(got) if "function_call" in kind]
    assert kinds(got).count("response.completed") == kinds(got).count("response.created") == 1
    assert got["final"]["usage"]["input_tokens"] == 24


@pytest.fixture
def brought(everything: tuple[str, ...], private_home: Path) -> Iterator[dict[str, Any]]:
    """A server made with the official SDK, as a request brings it along."""
    port, env = free_port(), {"PATH": os.environ["PATH"], "HOME": str(private_home)}
    words = [mcp_sdk_python(), SDK_SERVER, str(port)]
    with group(words, env, private_home):
        deadline = time.monotonic() + 60
        while not answers(port):
            assert time.monotonic() < deadline, "the MCP server does not listen"
            time.sleep(0.05)
        url = f"http://127.0.0.1:{port}/mcp"
        yield {"type": "mcp", "server_label": "peer", "server_url": url, "require_approval": "never"}


@ours
def test_a_server_that_a_request_brings_along_answers_in_responses_and_in_chat(
    aish_server: Served, client: Client, brought: dict[str, Any]
):
    aish_server.upstream.reply(call("peer__add", {"a": 2, "b": 3}), text("Five."))
    got = asked(client, RESPONSES, input="hi", tools=[brought])
    assert [item["type"] for item in got["final"]["output"]] == ["mcp_list_tools", "mcp_call", "message"]
    listing, made, _ = got["final"]["output"]
    assert (listing["server_label"], [tool["name"] for tool in listing["tools"]]) == ("peer", ["add", "grow"])
    assert (made["server_label"], made["name"], made["output"]) == ("peer", "add", "5")
    aish_server.upstream.reply(call("peer__add", {"a": 2, "b": 4}), text("Six."))
    deltas, _ = streamed(client, tools=[brought])
    assert "".join(deltas) == "Six."
    sent = aish_server.upstream.requests[-1].messages
    assert [one["content"] for one in sent if one["role"] == "tool"] == ["6"]


@ours
def test_a_server_that_a_request_brings_and_that_is_not_there_is_an_error_asked_about_once(
    aish_server: Served, client: Client
):
    tool = {"type": "mcp", "server_label": "peer", "server_url": f"http://127.0.0.1:{free_port()}/mcp"}
    script = """
import openai
try:
    client.responses.create(**request)
except openai.APIStatusError as exc:
    say({"status": exc.status_code, "code": exc.code, "param": exc.param})
"""
    got = asked(client, script, input="hi", tools=[tool])
    assert got == {"status": 424, "code": "mcp_server_failed", "param": "tools[0]"}
    assert aish_server.upstream.requests == []


@ours
def test_one_step_with_a_tool_of_each_in_responses(aish_server: Served, client: Client):
    aish_server.upstream.reply(calls((NOTE, {"text": "ours"}), ("add", {"a": 1})))
    aish_server.upstream.reply(text("Both."))
    got = asked(client, CREATE, input="hi", tools=[ADD])
    assert [item["type"] for item in got["output"]] == ["mcp_call", "function_call"]
    output = {"type": "function_call_output", "call_id": got["output"][1]["call_id"], "output": "2"}
    again = asked(client, CREATE, input=[output], previous_response_id=got["id"], tools=[ADD])
    assert again["output"][-1]["content"][0]["text"] == "Both."
    sent = aish_server.upstream.requests[-1].messages
    assert [one["content"] for one in sent if one["role"] == "tool"] == ["noted: ours", "2"]
    assert aish_server.desk.notes == ["ours"]


@ours
def test_a_response_is_kept_found_continued_and_deleted(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("Hello Ann."), text("You are Ann."))
    script = """
first = client.responses.create(model=model, input="I am Ann", instructions="Be kind")
found = client.responses.retrieve(first.id)
second = client.responses.create(model=model, input="Who am I?", previous_response_id=first.id)
items = [item.type for item in client.responses.input_items.list(second.id)]
client.responses.delete(first.id)
try:
    client.responses.retrieve(first.id)
    gone = False
except openai.NotFoundError:
    gone = True
say([found.output_text, second.output_text, items, gone])
"""
    found, second, items, gone = python_sdk(client, script)
    assert (found, second, gone) == ("Hello Ann.", "You are Ann.", True)
    assert items
    told = json.dumps(aish_server.upstream.requests[-1].messages)
    assert "I am Ann" in told and "Hello Ann." in told and "Be kind" not in told


@ours
def test_a_response_in_the_background_is_polled_to_its_end(aish_server: Served, client: Client):
    gate = Gate()
    aish_server.upstream.reply(Reply((Text("slow "), Hold(gate), Text("but sure"))))
    script = """
import time
begun = client.responses.create(model=model, input="hi", background=True)
print(json.dumps(begun.id), flush=True)
"""
    response_id = python_sdk(client, script)
    gate.reached()
    status, data = request(aish_server.port, "GET", f"/v1/responses/{response_id}")
    assert status == 200 and json.loads(data)["status"] == "in_progress"
    gate.open()
    poll = f"""
import time
deadline = time.monotonic() + 30
while (now := client.responses.retrieve({response_id!r})).status in ("queued", "in_progress"):
    assert time.monotonic() < deadline
    time.sleep(0.05)
say([now.status, now.output_text])
"""
    assert python_sdk(client, poll) == ["completed", "slow but sure"]


@ours
def test_a_response_in_the_background_is_cancelled(aish_server: Served, client: Client):
    gate = Gate()
    aish_server.upstream.reply(Reply((Text("slow "), Hold(gate), Text("never said"))))
    begin = "say(client.responses.create(model=model, input='hi', background=True).id)"
    response_id = python_sdk(client, begin)
    gate.reached()
    assert python_sdk(client, f"say(client.responses.cancel({response_id!r}).status)") == "cancelled"
    assert aish_server.upstream.gone.wait(10)


@ours
def test_a_stream_of_responses_stays_alive_while_a_tool_runs(aish_server: Served):
    aish_server.upstream.reply(call(WAIT, {}), text("Done."))
    connection = http.client.HTTPConnection("127.0.0.1", aish_server.port, timeout=60)
    connection.request("POST", "/v1/responses", json.dumps({"model": MODEL, "input": "hi", "stream": True}))
    response = connection.getresponse()
    aish_server.desk.wait_until_waited_at()
    beats = 0
    while beats < 3:  # more than the one at the start
        line = response.readline()
        assert line, "the stream ended while the tool ran"
        beats += line.startswith(b"data:") and json.loads(line[5:])["type"] == "response.in_progress"
    aish_server.desk.go()
    assert b"response.completed" in response.read()
    connection.close()


@ours
def test_a_response_whose_upstream_dies_fails_in_words(aish_server: Served):
    aish_server.upstream.always(Reply((Text("half "), Cut())))
    body = {"model": MODEL, "input": "hi", "stream": True}
    _, data = request(aish_server.port, "POST", "/v1/responses", body)
    events = [json.loads(line[5:]) for line in data.decode().splitlines() if line.startswith("data: {")]
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"] and events[-1]["response"]["status"] == "failed"


@ours
def test_an_unknown_model_in_responses_is_a_404(aish_server: Served, client: Client):
    kind, status, body = asked(client, CAUGHT.format(call="responses.create"), model="nobody:nothing", input="hi")
    assert (kind, status, body["code"]) == ("NotFoundError", 404, "model_not_found")
