"""The messages API, as Anthropic's clients see it."""

import json

import pytest

from aish.errors import ProviderUnavailable
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, TextDelta
from aish.types.messages import AssistantMessage, SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage
from aish.types.tools import Effect
from aish.types.usage import Usage
from support.engines import Bench, Tools, call, policy_gate
from support.http_face import face

BODY = {"model": "scripted:model", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
READ = {"name": "read", "description": "d", "input_schema": {"type": "object"}}


async def ask(http, **fields):
    return await http.ask("POST", "/v1/messages", {**BODY, **fields})


async def events(http, **fields):
    reply = await ask(http, stream=True, **fields)
    assert reply.status == 200, reply.body
    blocks = [block for block in reply.body.decode().split("\n\n") if block]
    read = []
    for block in blocks:
        name, _, data = block.partition("\ndata: ")
        assert name.removeprefix("event: ") == json.loads(data)["type"]
        read.append(json.loads(data))
    return read


def blocks_of(seen):
    """As a client puts them together that knows one block at a time."""
    found, opened = [], None
    for event in seen:
        match event["type"]:
            case "content_block_start":
                assert opened is None
                opened = event["index"]
                found.append([event["content_block"].get("name", "text"), ""])
            case "content_block_delta":
                assert opened == event["index"]
                found[-1][1] += event["delta"].get("partial_json", event["delta"].get("text"))
            case "content_block_stop":
                assert opened == event["index"]
                opened = None
    assert opened is None
    return [tuple(one) for one in found]


LATER = {"name": "later", "input_schema": {"type": "object"}}
A = [call("read", '{"a"', id="a"), call("", ": 1}", id="")]
B = [call("later", '{"b"', index=1, id="b"), call("", ": 2}", index=1)]


@pytest.mark.parametrize(
    "said",
    [
        [*A, *B],
        [A[0], B[0], A[1], B[1]],
        [A[0], B[0], B[1], A[1]],
        [
            call("read", "", id="a"),
            call("later", "", index=1, id="b"),
            call("", '{"a": 1}'),
            call("", '{"b": 2}', index=1),
        ],
        [A[0], TextDelta("x"), A[1], *B],
        [A[0], *B, TextDelta("x"), A[1]],
    ],
    ids=["after", "between", "within", "started", "words", "both"],
)
async def test_calls_that_come_at_once_are_told_one_after_the_other(said):
    async with face(Bench(said)) as http:
        seen = blocks_of(await events(http, tools=[READ, LATER]))
    calls = [block for block in seen if block[0] != "text"]
    assert calls == [("read", '{"a": 1}'), ("later", '{"b": 2}')]
    assert [block for block in seen if block[0] == "text"] in ([], [("text", "x")])


async def test_a_call_that_is_not_whole_keeps_nothing_back_when_the_step_ends():
    said = [call("read", "Paris", id="a"), *B, TextDelta("x")]
    async with face(Bench(said)) as http:
        seen = blocks_of(await events(http, tools=[READ, LATER]))
    assert seen == [("read", "Paris"), ("later", '{"b": 2}'), ("text", "x")]


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"a":' * 100_000 + "}", "[1]"], ids=["open", "closed", "list"])
@pytest.mark.parametrize("stream", [True, False])
async def test_arguments_that_are_no_input_are_told_all_the_same(stream, arguments):
    async with face(Bench([call("read", arguments, id="a"), *B])) as http:
        if stream:
            assert blocks_of(await events(http, tools=[READ, LATER])) == [("read", arguments), ("later", '{"b": 2}')]
        else:
            content = (await ask(http, tools=[READ, LATER])).json["content"]
            assert [block["input"] for block in content] == [{}, {"b": 2}]


@pytest.mark.parametrize("stream", [True, False])
async def test_what_we_say_where_the_model_said_nothing_does_not_begin_with_empty_lines(stream):
    bench = Bench([call("t__x")], tools=Tools().add("t__x"))
    async with face(bench) as http:
        ours = {"name": "t__x", "input_schema": {"type": "object"}}
        if stream:
            [(_, said)] = blocks_of(await events(http, tools=[ours], max_steps=1))
        else:
            said = (await ask(http, tools=[ours], max_steps=1)).json["content"][0]["text"]
    assert said.startswith("[aish] stopped after 1 step,")


async def test_the_life_of_a_stream():
    async with face(Bench([ReasoningDelta("hm"), TextDelta("a"), TextDelta("b"), UsageChunk(Usage(3, 2))])) as http:
        seen = await events(http)
        whole = (await ask(http)).json["content"]
    assert [e["type"] for e in seen] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert seen[0]["message"]["role"] == "assistant" and seen[0]["message"]["content"] == []
    assert [e["index"] for e in seen if e["type"] == "content_block_start"] == [0, 1]
    assert seen[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    signed = {"type": "signature_delta", "signature": "aish"}
    assert [e["delta"] for e in seen[2:4]] == [{"type": "thinking_delta", "thinking": "hm"}, signed]
    assert whole == [{"type": "thinking", "thinking": "hm", "signature": "aish"}, {"type": "text", "text": "ab"}]
    assert "".join(e["delta"].get("text", "") for e in seen if e["type"] == "content_block_delta") == "ab"
    assert seen[-2]["delta"]["stop_reason"] == "end_turn" and seen[-2]["usage"]["output_tokens"] == 2


async def test_the_clients_tools_come_as_tool_use():
    async with face(Bench([TextDelta("see"), call("read", '{"a"'), call("", ": 1}")])) as http:
        seen = await events(http, tools=[READ])
        whole = (await ask(http, tools=[READ])).json
    block = next(e["content_block"] for e in seen if e.get("content_block", {}).get("type") == "tool_use")
    assert block["name"] == "read" and block["input"] == {}
    pieces = [e["delta"]["partial_json"] for e in seen if e.get("delta", {}).get("type") == "input_json_delta"]
    assert json.loads("".join(pieces)) == {"a": 1}
    assert seen[-2]["delta"]["stop_reason"] == "tool_use" == whole["stop_reason"]
    assert whole["content"][1]["input"] == {"a": 1}


async def test_tools_we_run_are_hidden_unless_an_mcp_server_was_asked_for():
    def bench():
        return Bench([call("git__log")], [TextDelta("done")], tools=Tools().add("git__log"))

    async with face(bench()) as http:
        whole = (await ask(http, tools=[{"name": "git__log", "input_schema": {"type": "object"}}])).json
    assert [block["type"] for block in whole["content"]] == ["text"]
    async with face(bench()) as http:
        seen = await events(http, tools=[{"type": "mcp_toolset", "mcp_server_name": "git"}])
    shown = [e["content_block"] for e in seen if e["type"] == "content_block_start"]
    assert [block["type"] for block in shown] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert shown[0]["server_name"] == "git" and shown[0]["name"] == "log"
    assert [e["index"] for e in seen if e["type"] == "content_block_stop"] == [0, 1, 2]


async def test_what_clients_send_is_read():
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "ok"},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "file"}]},
            {"type": "text", "text": "and?"},
        ]},
    ]  # fmt: skip
    bench = Bench(*[[TextDelta("x")]] * 3)
    async with face(bench) as http:
        system = [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]
        await ask(http, messages=messages, system=system, tools=[READ, {"type": "web_search_20250305", "name": "w"}])
        del messages[2]["content"][1]
        await ask(http, messages=messages)
    request, at_work = bench.scripted.requests
    assert request.messages == (
        SystemMessage("be\n\nbrief"),
        UserMessage((TextPart("look"),)),
        AssistantMessage("ok", (ToolCall("toolu_1", "read", '{"a":1}'),), reasoning="hm"),
        ToolMessage("toolu_1", "read", (TextPart("file"),)),
        UserMessage((TextPart("and?"),)),
    )
    assert at_work.messages[1].reasoning == "hm"
    assert [tool.name for tool in request.tools] == ["read"]
    assert request.sampling.max_tokens == 100


def said(*blocks):
    return {"messages": [{"role": "user", "content": [*blocks]}]}


def document(**source):
    return {"type": "document", "source": source}


TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
DOCUMENTS = [
    ({**document(type="text", media_type="text/plain", data="hello"), "title": "Note"}, "Note\nhello"),
    ({**document(type="text", data="hello"), "title": None, "context": "old"}, "old\nhello"),
    (document(type="content", content=TEXTS), "a\nb"),
    (document(type="content", content=[*TEXTS, {"type": "image", "source": {}}]), "a\nb\n[image: image/*]"),
    (document(type="content", content="ab"), "ab"),
    (document(type="base64", media_type="text/plain", data="aGVsbG8="), "hello"),
    (document(type="base64", media_type="application/pdf", data="JVBERg=="), "[document: application/pdf]"),
    (document(type="base64", media_type="x" * 999, data=""), f"[document: {'x' * 200}]"),
    (document(type="url", url="https://example.org/a.pdf"), "[document: https://example.org/a.pdf]"),
    (document(type="file", file_id="file_1"), "[document: file_1]"),
    ({"type": "search_result", "title": "T", "source": "https://t", "content": TEXTS}, "T\nhttps://t\na\nb"),
]


@pytest.mark.parametrize(("block", "text"), DOCUMENTS)
async def test_documents_are_their_text_or_a_note(block, text):
    use = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    messages = [
        {"role": "user", "content": [block]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block]}]},
    ]
    bench = Bench([TextDelta("x")], [TextDelta("x")])
    async with face(bench) as http:
        assert (await ask(http, messages=messages, tools=[READ])).status == 200
    first, _, last = bench.scripted.requests[0].messages
    assert first.text == text == last.text


SEARCHED = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]},
    {"role": "user", "content": [{
        "type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "later"}],
    }]},
]  # fmt: skip
ADDED = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "later"}}


@pytest.mark.parametrize(
    ("messages", "more", "offered"),
    [
        (BODY["messages"], [], ["read"]),
        (SEARCHED, [], ["read", "later"]),
        ([*BODY["messages"], {"role": "system", "content": [ADDED]}], [], ["read", "later"]),
        (BODY["messages"], [{"type": "tool_search_tool_bm25_20251119", "name": "search"}], ["read", "later"]),
    ],
    ids=["unknown", "found", "added", "searched by others"],
)
async def test_a_tool_that_is_loaded_late_is_offered_once_it_is_referred_to(messages, more, offered):
    bench = Bench([TextDelta("x")], [TextDelta("x")])
    async with face(bench) as http:
        reply = await ask(http, messages=messages, tools=[READ, {**LATER, "defer_loading": True}, *more])
    assert reply.status == 200, reply.body
    (request,) = bench.scripted.requests
    assert [tool.name for tool in request.tools] == offered
    assert request.messages[-1].text == ("[tool: later]" if messages is SEARCHED else "hi")


async def test_the_form_of_an_answer_and_its_effort_are_passed_on():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    bench = Bench(*[[TextDelta("{}")]] * 3)
    async with face(bench) as http:
        for effort in ("low", "max", None):
            config = {"format": {"type": "json_schema", "schema": schema}, "effort": effort}
            assert (await ask(http, output_config=config)).status == 200
    said = [(request.sampling.json_schema, request.sampling.reasoning_effort) for request in bench.scripted.requests]
    assert said == [(schema, "low"), (schema, "high"), (schema, "")]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": []}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0]"),
        (said(document(type="base64", media_type="text/plain", data="%")), "messages[0].content[0].source.data"),
        (said(document(type="text")), "messages[0].content[0].source"),
        (said(document(type="content", content=[3])), "messages[0].content[0].source.content[0]"),
        (said({"type": "document"}), "messages[0].content[0].source"),
        (said({"type": "tool_reference"}), "messages[0].content[0].tool_name"),
        (said({"type": "search_result"}), "messages[0].content[0].content"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        ({"output_config": {"effort": 3}}, "output_config.effort"),
        ({"tools": [{"name": 3}]}, "tools[0].name"),
    ],
)
async def test_errors_have_anthropics_shape_and_name_the_field(fields, field):
    async with face(Bench([TextDelta("x")])) as http:
        reply = await ask(http, **fields)
    assert reply.status == 400
    assert reply.json["type"] == "error" and reply.json["error"]["type"] == "invalid_request_error"
    assert reply.json["error"]["message"].startswith(field)


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "id": "thread_1"}])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
async def test_threads_are_refused_in_the_words_that_make_clients_send_everything(path, thread):
    async with face(Bench([TextDelta("x")])) as http:
        reply = await http.ask("POST", path, {**BODY, "messages": [], "thread": thread})
        assert (await ask(http, thread=None)).status == 200
    error = reply.json["error"]
    assert (reply.status, reply.json["type"], error["type"]) == (400, "error", "invalid_request_error")
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


async def test_a_failure_in_the_middle_is_an_error_event():
    async with face(Bench([TextDelta("half"), ProviderUnavailable("lost")])) as http:
        seen = await events(http)
    assert seen[-1]["type"] == "error" and "lost" in seen[-1]["error"]["message"]


async def test_a_cut_answer_says_so():
    async with face(Bench([TextDelta("x"), StepFinished(StepEnd.LENGTH)])) as http:
        assert (await ask(http)).json["stop_reason"] == "max_tokens"


async def test_tokens_are_counted_without_asking_the_model():
    bench = Bench([TextDelta("x")])
    async with face(bench) as http:
        reply = await http.ask("POST", "/v1/messages/count_tokens", {**BODY, "max_tokens": None})
        tokens = await http.ask("POST", "/tokenize", {"model": "scripted:model", "content": "one two three"})
    assert reply.json["input_tokens"] > 0 and bench.scripted.requests == []
    assert tokens.json == {"count": 3, "max_model_len": 8192, "estimated": False}


async def test_a_failure_after_an_effect_is_not_one_that_clients_retry():
    tools = Tools().add("t__w", effect=Effect.WRITE)
    steps = [call("t__w")], [TextDelta("wrote"), ProviderUnavailable("lost")]
    async with face(Bench(*steps, tools=tools, gate=policy_gate(write="allow")), tools=("t__*",)) as http:
        told = await events(http)
    assert told[-1]["error"]["type"] == "invalid_request_error"
