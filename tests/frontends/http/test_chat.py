"""Chat completions, as clients see them."""

import asyncio
import json

import pytest

from aish.errors import ProviderBusy, ProviderTimeout, ProviderUnavailable
from aish.frontends.http.turns.delivery import TraceSummary
from aish.providers.scripted import ScriptedProvider
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import Event, PlanAccepted, PlanRejected, ReasoningDelta, StepStarted, TextDelta, ToolResult
from aish.types.messages import AssistantMessage, ImagePart, SystemMessage, TextPart, ToolMessage, UserMessage
from aish.types.tools import Effect, ResultStatus
from aish.types.usage import Usage
from support.engines import Bench, Tools, call, policy_gate, said
from support.eventually import eventually
from support.http_face import face, function, sse

ALLOW_WRITES = policy_gate(write="allow")


def texts(chunks):
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


def ours(name="t__x"):
    return Tools().add(name)


async def test_every_chunk_has_what_strict_clients_want():
    async with face(Bench([TextDelta("a"), TextDelta("b"), UsageChunk(Usage(3, 2))])) as http:
        chunks = await http.chunks(stream_options={"include_usage": True})
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert {chunk["model"] for chunk in chunks} == {"scripted:model"}
    assert all(isinstance(chunk["created"], int) for chunk in chunks)
    assert all(choice["index"] == 0 and "delta" in choice for c in chunks for choice in c["choices"])
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]] == [None, None, None, "stop"]
    assert chunks[-2]["choices"][0]["delta"] == {}
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] == 5


async def test_usage_is_left_out_unless_asked_for():
    async with face(Bench([TextDelta("a"), UsageChunk(Usage(3, 2))])) as http:
        assert all("usage" not in chunk for chunk in await http.chunks())


async def test_an_answer_as_a_whole():
    async with face(Bench([ReasoningDelta("hm"), TextDelta("a"), TextDelta("b"), UsageChunk(Usage(3, 2))])) as http:
        reply = await http.chat()
    (choice,) = reply.json["choices"]
    assert choice["message"] == {"role": "assistant", "content": "ab", "refusal": None, "reasoning_content": "hm"}
    assert choice["finish_reason"] == "stop"
    assert reply.json["usage"]["prompt_tokens"] == 3
    assert reply.headers["x-request-id"].startswith("req_")


async def test_tools_we_run_are_never_shown_as_calls_and_the_answer_goes_on():
    bench = Bench([TextDelta("let me see"), call("t__x")], [call("t__x")], [TextDelta("done")], tools=ours())
    async with face(bench) as http:
        chunks = await http.chunks(tools=[function("t__x")])
    assert texts(chunks) == "let me see\n\ndone"
    assert not any("tool_calls" in c["choices"][0]["delta"] for c in chunks if c["choices"])
    assert len(bench.tools.calls) == 2
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_with_trace_they_come_in_chunks_without_choices():
    bench = Bench([call("t__x")], [TextDelta("done")], tools=ours())
    async with face(bench) as http:
        chunks = await http.chunks(tools=[function("t__x")], trace=True)
    kinds = [c["aish"]["event"]["body"]["type"] for c in chunks if "aish" in c]
    assert kinds == ["tool_call_ready", "decision_made", "tool_result"]
    assert all(c["choices"] == [] for c in chunks if "aish" in c)


async def test_the_clients_calls_are_given_to_it_in_fragments():
    bench = Bench([call("read", '{"pa'), call("", 'th": 1}'), call("grep", "{}", index=1)])
    async with face(bench) as http:
        chunks = await http.chunks(tools=[function("read"), function("grep")])
    fragments = [f for c in chunks for f in c["choices"][0]["delta"].get("tool_calls", ())]
    assert [f["index"] for f in fragments] == [0, 0, 0, 1, 1]
    assert fragments[0]["function"] == {"name": "read", "arguments": ""} and fragments[0]["type"] == "function"
    assert "".join(f["function"]["arguments"] for f in fragments if f["index"] == 0) == '{"path": 1}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert all(f["id"].startswith("call_") for f in fragments if "id" in f)


async def test_a_mixed_step_runs_ours_and_the_model_sees_both_results():
    bench = Bench([call("read", index=0), call("t__x", index=1)], [TextDelta("done")], tools=ours())
    tools = [function("read"), function("t__x")]
    async with face(bench) as http:
        first = (await http.chat(tools=tools)).json["choices"][0]
        assert first["finish_reason"] == "tool_calls"
        (made,) = first["message"]["tool_calls"]
        assert made["function"]["name"] == "read"
        back = [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": made["id"], "content": "theirs"},
        ]
        reply = await http.chat(messages=back, tools=tools)
    assert reply.json["choices"][0]["message"]["content"] == "done"
    assert [m.text for m in bench.scripted.requests[1].messages if isinstance(m, ToolMessage)] == ["theirs", "done"]
    assert len(bench.tools.calls) == 1


async def test_a_call_outside_the_requests_tools_becomes_an_error_the_model_reads():
    bench = Bench([call("t__y")], [TextDelta("sorry")], tools=ours().add("t__y"))
    async with face(bench) as http:
        await http.chat(tools=[function("t__x")])
    assert "not allowed in this request" in bench.scripted.requests[1].messages[-1].text
    assert bench.tools.calls == []


async def test_tools_can_be_injected_for_clients_that_name_none():
    bench = Bench([TextDelta("x")], tools=ours().add("u__y"))
    async with face(bench, tools=("t__*",)) as http:
        await http.chat()
    assert [tool.name for tool in bench.scripted.requests[0].tools] == ["t__x"]


async def test_tools_of_an_mcp_server_are_named_by_its_label():
    bench = Bench([TextDelta("x")], tools=Tools().add("git__log").add("git__push").add("fs__read"))
    async with face(bench) as http:
        await http.chat(tools=[{"type": "mcp", "server_label": "git", "allowed_tools": ["log"]}])
    assert [tool.name for tool in bench.scripted.requests[0].tools] == ["git__log"]


async def test_unknown_kinds_of_tools_and_unknown_fields_are_passed_over():
    bench = Bench([TextDelta("x")])
    tools = [{"type": "web_search", "external_web_access": True}, {"type": "namespace", "name": "n", "tools": []}]
    async with face(bench) as http:
        reply = await http.chat(tools=tools, client_metadata={"a": 1}, prompt_cache_key="k", store=False)
    assert reply.status == 200 and bench.scripted.requests[0].tools == ()


async def test_what_real_clients_send_is_read():
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "file"}]},
        {"role": "user", "content": "and?"},
    ]  # fmt: skip
    bench = Bench(*[[TextDelta("x")]] * 3)
    async with face(bench) as http:
        await http.chat(
            messages=messages, max_completion_tokens=7, temperature=0, stop="END", parallel_tool_calls=False, seed=3
        )
    (request,) = bench.scripted.requests
    assert request.messages == (
        SystemMessage("be brief"),
        UserMessage((TextPart("look"), ImagePart("image/png", data="AAAA"))),
        request.messages[2],
        ToolMessage("c1", "read", (TextPart("file"),)),
        UserMessage((TextPart("and?"),)),
    )
    sampling = request.sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.stop, sampling.seed) == (7, 0.0, ("END",), 3)


def filed(**file):
    return json.dumps({"messages": [{"role": "user", "content": [{"type": "file", "file": file}]}]}).encode()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ({"filename": "a.md", "file_data": "data:text/markdown;charset=utf-8;base64,IyDDqQ=="}, "a.md\n# \u00e9"),
        ({"file_data": "data:application/json;base64,e30="}, "{}"),
        ({"file_data": "data:text/plain;base64,/w=="}, "\ufffd"),
        (
            {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            "a.pdf\n[document: application/pdf]",
        ),
        ({"filename": "a.bin", "file_data": "AAAA"}, "a.bin\n[document: application/octet-stream]"),
        ({"file_id": "file-1", "file_data": None}, "[document: file-1]"),
    ],
)
async def test_files_are_their_text_or_a_note(file, text):
    bench = Bench([TextDelta("x")])
    async with face(bench) as http:
        reply = await http.chat(messages=json.loads(filed(**file))["messages"])
    assert reply.status == 200 and bench.scripted.requests[0].messages[0].text == text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", None),
        (b'{"messages": 3}', "messages"),
        (b'{"messages": []}', "messages"),
        (b'{"model": "m"}', "messages"),
        (b"[" * 100_000, None),
        (b'{"messages": [{"role": "user", "content": 1}]}', "messages[0].content"),
        (b'{"messages": [{"role": "wizard", "content": "x"}]}', "messages[0].role"),
        (b'{"messages": [{"role": "tool", "content": "x"}]}', "messages[0].tool_call_id"),
        (b'{"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]}', "messages"),
        (b'{"messages": [{"role": "user", "content": [{"type": "audio"}]}]}', "messages[0].content[0].type"),
        (b'{"messages": [{"role": "user", "content": [{"type": "file"}]}]}', "messages[0].content[0].type"),
        (filed(filename="a.txt"), "messages[0].content[0].file.file_data"),
        (filed(file_data="data:text/plain;base64,%"), "messages[0].content[0].file.file_data"),
        (filed(file_data="data:text/plain,x"), "messages[0].content[0].file.file_data"),
        (b'{"messages": [{"role": "user", "content": "x"}], "n": 2}', "n"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', "temperature"),
        (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}', "max_tokens"),
        (b'{"messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 0}', "max_completion_tokens"),
        (b'{"messages": [{"role": "user", "content": "x"}], "max_steps": 0}', "max_steps"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": "perhaps"}', "tool_choice"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]}', "tools[0].function"),
        (b'{"messages": [{"role": "user", "content": "x"}], "use_server_history": true}', "use_server_history"),
        (b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}', "response_format"),
    ],
)
async def test_what_is_wrong_is_a_400_that_names_the_field(body, field):
    async with face(Bench([TextDelta("x")])) as http:
        reply = await http.ask("POST", "/v1/chat/completions", body)
    assert reply.status == 400
    error = reply.json["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    assert error["param"] == field


async def test_two_functions_of_one_name_are_refused():
    async with face(Bench()) as http:
        reply = await http.chat(tools=[function("read"), function("read")])
    assert (reply.status, reply.json["error"]["param"]) == (400, "tools[1].function")


async def test_bounds_on_what_is_sent():
    async with face(Bench(), max_body_bytes=1000, max_messages=3, max_tools=2) as http:
        assert (await http.chat("x" * 2000)).status == 413
        assert (await http.chat(messages=[{"role": "user", "content": "x"}] * 4)).json["error"]["param"] == "messages"
        assert (await http.chat(tools=[function(n) for n in "abc"])).json["error"]["param"] == "tools"


async def test_so_many_names_of_tools_and_no_more_may_be_written_by_a_client():
    bench = Bench([TextDelta("x")], tools=Tools().add("git__log"))
    names = [f"l{number}*" for number in range(1500)]
    async with face(bench) as http:
        server = {"type": "mcp", "server_label": "git", "allowed_tools": [*names, "log"]}
        assert (await http.chat(tools=[server])).status == 200
        assert (await http.chat(tools=[server, server])).json["error"]["param"] == "tools"
        among = [{"type": "mcp", "server_label": name} for name in names] * 2
        reply = await http.chat(
            tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": among}}
        )
        assert reply.json["error"]["param"] == "tool_choice.tools"
    assert [tool.name for tool in bench.scripted.requests[0].tools] == ["git__log"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "mcp", "server_label": "x" * 200}]}, "tools[0].server_label"),
        ({"tools": [{"type": "mcp", "server_label": ""}]}, "tools[0].server_label"),
        (
            {"tools": [{"type": "mcp", "server_label": "git", "allowed_tools": ["x" * 300]}]},
            "tools[0].allowed_tools",
        ),
        (
            {
                "tools": [
                    {
                        "type": "mcp",
                        "server_label": "git",
                        "require_approval": {"always": {"tool_names": ["x" * 300]}},
                    }
                ]
            },
            "tools[0].require_approval",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"server_label": "x" * 300}]}},
            "tool_choice.tools",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_names_that_a_client_makes_up_have_a_length(path, fields, param):
    """What is made of them is compiled, and there are thousands of them."""
    asked = {"model": "scripted:model", "input": "x", "messages": [{"role": "user", "content": "x"}], **fields}
    async with face(Bench([TextDelta("never")], tools=Tools().add("git__log"))) as http:
        reply = await http.ask("POST", path, asked)
    assert (reply.status, reply.json["error"]["param"]) == (400, param)


async def test_an_unknown_model_is_a_404():
    async with face(Bench()) as http:
        reply = await http.chat(model="nope", stream=True)
    assert reply.status == 404 and reply.json["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("stream", [True, False])
async def test_what_fails_before_the_first_token_has_its_own_status(stream):
    async with face(Bench([ProviderUnavailable("down")])) as http:
        reply = await http.chat(stream=stream)
    assert reply.status == 502 and "down" in reply.json["error"]["message"]


async def test_a_busy_upstream_says_when_to_come_back():
    async with face(Bench([ProviderBusy("full", retry_after_s=7)])) as http:
        later = await http.chat()
        assert later.status == 429 and "x-should-retry" not in later.headers


async def test_what_fails_later_ends_the_stream_with_an_error_that_clients_understand():
    async with face(Bench([TextDelta("half"), ProviderUnavailable("lost")])) as http:
        chunks = await http.chunks()
    assert texts([c for c in chunks if "choices" in c]) == "half"
    assert chunks[-1]["error"]["type"] == "server_error" and "lost" in chunks[-1]["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
async def test_after_an_effect_a_failure_is_not_one_that_clients_retry(stream):
    async def write(arguments, context):
        return said("written")

    tools = Tools().add("t__w", write, effect=Effect.WRITE)
    bench = Bench([call("t__w")], [ProviderUnavailable("lost")], tools=tools, gate=ALLOW_WRITES)
    async with face(bench) as http:
        reply = await http.chat(tools=[function("t__w")], stream=stream)
    assert reply.status in (200, 424)
    error = sse(reply)[-1]["error"] if stream and reply.status == 200 else reply.json["error"]
    assert error["type"] == "invalid_request_error"


async def test_a_failure_of_what_goes_on_from_an_effect_is_none_that_clients_retry_either():
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w")], [ProviderUnavailable("lost")], tools=tools, gate=ALLOW_WRITES)
    body = {
        "model": "scripted:model",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [function("t__w")],
    }
    async with face(bench) as http:
        asked = [await http.ask("POST", "/v1/chat/completions", body, x_client_request_id="r") for _ in range(3)]
    assert [(reply.status, reply.headers["x-should-retry"]) for reply in asked] == [(424, "false")] * 3
    assert len(tools.calls) == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_a_client_is_told_that_the_effect_of_its_broken_request_is_unknown(path, stream):
    hangs = asyncio.Event()

    async def write(arguments, context):
        await hangs.wait()
        return said("written")

    tools = Tools().add("t__x", write, effect=Effect.WRITE)
    bench = Bench([call("t__x")], [TextDelta("done")], tools=tools, gate=ALLOW_WRITES)
    body = {"model": "scripted:model", "stream": stream, "max_tokens": 50}
    asked = {"input": "x"} if path == "/v1/responses" else {"messages": [{"role": "user", "content": "x"}]}
    async with face(bench, tools=("*",)) as http:
        visit = http.visit("POST", path, {**body, **asked}, x_session_id="s")
        lost = asyncio.create_task(visit.run(http.app))
        await eventually(lambda: bench.tools.calls)
        visit.leave()
        await lost
        for _ in range(2):
            again = await http.ask("POST", path, {**body, **asked}, x_session_id="s")
            assert again.status == 424
            assert again.headers["x-should-retry"] == "false"
            assert "while it ran t__x (/v1/traces/turn_" in again.json["error"]["message"]
        hangs.set()
        other = await http.ask("POST", path, {**body, **asked}, x_session_id="another")
    assert other.status == 200
    assert len(bench.tools.calls) == 2


async def test_a_limit_ends_the_answer_and_says_so():
    bench = Bench([call("t__x")], tools=ours())
    async with face(bench) as http:
        chunks = await http.chunks(tools=[function("t__x")], max_steps=1)
    assert "[aish] stopped after 1 step," in texts(chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


async def test_the_time_limit_of_a_turn_is_said_as_part_of_the_answer():
    late = ProviderTimeout("not over in time", is_deadline=True)
    async with face(Bench([TextDelta("so far"), late]), limits={"wall_s": 3}) as http:
        chunks = await http.chunks()
        [whole] = (await http.chat()).json["choices"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"] == "length"
    said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert said == whole["message"]["content"] == "so far\n\n[aish] stopped after 3 s, the time limit for one turn"


async def test_a_cut_answer_says_length():
    async with face(Bench([TextDelta("a"), StepFinished(StepEnd.LENGTH)])) as http:
        assert (await http.chat()).json["choices"][0]["finish_reason"] == "length"


async def test_a_client_that_leaves_takes_its_turn_with_it():
    bench = Bench([TextDelta("a"), 30.0])
    async with face(bench) as http:
        visit = http.visit("POST", "/v1/chat/completions", {
            "model": "scripted:model", "stream": True, "messages": [{"role": "user", "content": "x"}]})  # fmt: skip
        running = asyncio.create_task(visit.run(http.app))
        await visit.news.wait()
        visit.leave()
        await running
        assert http.service.active_requests == 0
    assert not visit.reply.ended


async def test_what_a_model_said_before_it_fell_silent_is_recorded():
    """Others follow the turn through the store."""
    async with face(Bench([TextDelta("Begun."), 30.0])) as http:
        visit = http.visit("POST", "/v1/chat/completions", {
            "model": "scripted:model", "stream": True, "messages": [{"role": "user", "content": "x"}]})  # fmt: skip
        running = asyncio.create_task(visit.run(http.app))
        await visit.news.wait()
        turn = visit.reply.headers["x-turn-id"]

        async def recorded():
            return b"Begun." in await http.service.store.read_events(turn)

        async with asyncio.timeout(10):
            while not await recorded():  # noqa: ASYNC110 - a store tells nobody
                await asyncio.sleep(0.01)
        visit.leave()
        await running


async def test_headers_do_not_wait_for_a_slow_model_and_silence_is_filled(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.server.reply_stream.HEADERS_S", 0.05)
    monkeypatch.setattr("aish.net.event_loop.PERIOD_S", 0.02)
    async with face(Bench([0.5, TextDelta("late")]), heartbeat_s=0.1) as http:
        visit = http.visit("POST", "/v1/chat/completions", {
            "model": "scripted:model", "stream": True, "messages": [{"role": "user", "content": "x"}]})  # fmt: skip
        reply = await visit.run(http.app)
    assert b": ping\n\n" in reply.body
    assert reply.body.index(b'"role"') < reply.body.index(b": ping") < reply.body.index(b"late")


async def test_after_an_effect_and_some_text_too():
    """Text came after the effect: the stream had begun, so the error is in it."""
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w")], [TextDelta("wrote"), ProviderUnavailable("lost")], tools=tools, gate=ALLOW_WRITES)
    async with face(bench) as http:
        chunks = await http.chunks(tools=[function("t__w")])
    assert chunks[-1]["error"]["type"] == "invalid_request_error" and "lost" in chunks[-1]["error"]["message"]


async def test_a_session_remembers_for_clients_that_want_it():
    bench = Bench([TextDelta("one")], [TextDelta("two")])
    async with face(bench) as http:
        await http.chat("a", session_id="mine")
        await http.chat("b", session_id="mine", use_server_history=True)
        shown = (await http.ask("GET", "/v1/sessions/mine")).json
    assert [getattr(m, "text", "") for m in bench.scripted.requests[1].messages] == ["a", "one", "b"]
    assert len(shown["turns"]) == 2


async def test_a_session_that_is_new_is_made_for_them_too():
    bench = Bench([TextDelta("one")], [TextDelta("two")])
    async with face(bench) as http:
        fields = {"session_id": "mine", "use_server_history": True}
        assert [(await http.chat(said, **fields)).status for said in "ab"] == [200, 200]
    assert [getattr(m, "text", "") for m in bench.scripted.requests[1].messages] == ["a", "one", "b"]


async def test_a_session_the_client_names_in_a_header_counts_when_that_is_on():
    bench = Bench(*[[TextDelta("x")]] * 2)
    async with face(bench, client_sessions=True) as http:
        body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
        await http.ask("POST", "/v1/chat/completions", body, x_session_id="ses_9")
        assert (await http.ask("GET", "/v1/sessions/ses_9")).status == 200


async def test_two_requests_on_one_session_come_one_after_the_other():
    bench = Bench([0.05, TextDelta("one")], [TextDelta("two")])
    async with face(bench) as http:
        fields = {"session_id": "s", "use_server_history": True}
        await http.chat("first", session_id="s")
        both = await asyncio.gather(http.chat("a", **fields), http.chat("b", **fields))
    assert [reply.status for reply in both] == [200, 200]
    assert len(bench.scripted.requests[-1].messages) == 5


async def test_a_demand_for_a_tool_and_for_a_schema_reaches_the_model():
    bench = Bench([TextDelta("{}")])
    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    async with face(bench) as http:
        await http.chat(
            tools=[function("read")],
            tool_choice={"type": "function", "function": {"name": "read"}},
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        )
    (request,) = bench.scripted.requests
    assert request.tool_choice.named == "read" and request.sampling.json_schema == schema


async def test_the_api_prefix_changes_nothing():
    async with face(Bench([TextDelta("x")])) as http:
        body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
        assert (await http.ask("POST", "/api/v1/chat/completions", body)).status == 200


async def test_the_history_kept_by_the_client_is_not_stored_again():
    bench = Bench([TextDelta("x")])
    messages = [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": "reply"},
        {"role": "user", "content": "new"},
    ]
    async with face(bench) as http:
        reply = await http.chat(messages=messages, trace=True)
        turn = reply.json["aish"]["events"] or None
        assert turn is None
    assert bench.scripted.requests[0].messages[1] == AssistantMessage("reply")
    stored = (await bench.store.read_events(reply.headers["x-turn-id"])).decode()
    assert "new" in stored and "old" not in stored
    assert "old" not in str(await bench.store.find_turn(reply.headers["x-turn-id"]))


async def test_a_trace_is_summed_up_in_a_header_and_the_whole_is_named():
    bench = Bench([call("t__x")], [TextDelta("done")], tools=ours())
    async with face(bench) as http:
        reply = await http.chat(tools=[function("t__x")], trace=True)
        summary = json.loads(reply.headers["x-runtime-trace"])
        assert (await http.ask("GET", summary["more"])).json["end"] == "answered"
    assert summary["steps"] == 2 and [c["tool"] for c in summary["tool_calls"]] == ["t__x"]
    assert reply.headers["x-turn-id"] == summary["turn"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_each_api_says_where_its_trace_is_and_sums_it_up_where_it_can(path, stream):
    bench = Bench([call("t__x")], [TextDelta("done")], tools=ours())
    said = {"messages": [{"role": "user", "content": "x"}], "input": "x", "max_tokens": 5}
    async with face(bench, tools=("t__x",)) as http:
        body = {"model": "scripted:model", **said, "trace": True, "stream": stream}
        reply = await http.ask("POST", path, body)
        summary = json.loads(reply.headers["x-runtime-trace"])
        assert (await http.ask("GET", summary["more"])).json["end"] == "answered"
    assert reply.headers["x-turn-id"] == summary["turn"]
    assert [each["tool"] for each in summary.get("tool_calls", [])] == ([] if stream else ["t__x"])


def test_a_summary_tells_the_plan_and_how_often_it_was_written_anew_and_fits_a_header():
    steps = [{"id": "a", "tool": "t__x"}, {"id": "b", "tool": "t__y"}]
    called = [ToolResult(f"größe-{n}", ResultStatus.OK, (), duration_ms=1.0) for n in range(1000)]
    bodies = [StepStarted("m"), PlanRejected(("no",)), PlanAccepted({"steps": steps}), *called]
    summary = TraceSummary()
    summary.observe([Event("", "turn_1", seq, 0, body, step=1) for seq, body in enumerate(bodies, 1)])
    name, value = summary.header()
    told = json.loads(value)
    assert (name, len(value) <= 4096, value.isascii()) == (b"x-runtime-trace", True, True)
    assert (told["plan"], told["rewrites"], told["more"]) == (["t__x", "t__y"], 1, "/v1/traces/turn_1")
    assert told["tool_calls"][0] == {"tool": "größe-0", "status": "ok", "ms": 1.0}


async def test_a_plan_is_in_the_trace_with_how_often_it_was_written_anew():
    def plan(request):
        name = "t__lost" if len(planner.requests) == 1 else "t__x"
        return [TextDelta(json.dumps({"direct": False, "steps": [{"id": "a", "tool": name, "args": {}}]}))]

    planner = ScriptedProvider("planner", {"p": plan})
    bench = Bench([TextDelta("done")], tools=ours(), others=[planner])
    async with face(bench) as http:
        reply = await http.chat(tools=[function("t__x")], trace=True, planner={"model": "planner:p"})
    summary = json.loads(reply.headers["x-runtime-trace"])
    assert (summary["plan"], summary["rewrites"]) == (["t__x"], 1)
    kinds = [event["body"]["type"] for event in reply.json["aish"]["events"]]
    assert kinds[:4] == ["plan_proposed", "plan_rejected", "plan_proposed", "plan_accepted"]


async def test_an_mcp_server_we_do_not_have_is_not_connected_to():
    async with face(Bench(tools=ours())) as http:
        named = {"type": "mcp", "server_label": "far", "server_url": "https://far.example/mcp"}
        assert (await http.chat(tools=[named])).status == 403
        assert (await http.chat(tools=[{"type": "mcp", "server_label": "far"}])).status == 400


async def test_only_the_allowed_tools_may_be_called():
    bench = Bench([call("a__b"), call("mine", index=1)], [TextDelta("done")], tools=Tools().add("a__b").add("a__c"))
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "a__c"}}]}
    async with face(bench) as http:
        offered = [function("a__b"), function("a__c"), function("mine")]
        reply = await http.chat(tools=offered, tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
        assert reply.status == 200 and reply.json["choices"][0]["message"]["content"] == "done"
        wrong = await http.chat(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto"}})
        assert wrong.status == 400 and "tool_choice.tools" in wrong.json["error"]["message"]
    assert [spec.name for spec in bench.scripted.requests[0].tools] == ["a__c"]
    assert bench.tools.calls == []


async def test_a_choice_that_nothing_offered_can_meet_is_a_400():
    async with face(Bench([TextDelta("never")], tools=Tools().add("a__b"))) as http:
        named = {"type": "function", "function": {"name": "a__z"}}
        wrong = await http.chat(tools=[function("a__b")], tool_choice=named)
        assert wrong.status == 400 and "a__z, which is not offered" in wrong.json["error"]["message"]
        nothing = await http.chat(tool_choice="required")
        assert nothing.status == 400 and "no tool is offered" in nothing.json["error"]["message"]


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (TRACE, TRACE),
        (TRACE.upper(), ""),
        (TRACE + "-more", ""),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", ""),
        ("ff" + TRACE[2:], ""),
        ("nonsense", ""),
    ],
)
async def test_the_trace_of_whoever_asks_goes_along(given, passed):
    bench = Bench([TextDelta("hi")], [TextDelta("ho")])
    async with face(bench) as here:
        usual = {"model": "scripted:model", "messages": [{"role": "user", "content": "hi"}]}
        assert (await here.ask("POST", "/v1/chat/completions", usual, traceparent=given)).status == 200
        asked = {"model": "scripted:model", "input": "hi"}
        assert (await here.ask("POST", "/v1/responses", asked, traceparent=given)).status == 200
    assert [request.traceparent for request in bench.scripted.requests] == [passed, passed]


async def test_a_key_that_is_pasted_as_a_session_is_refused_and_kept_nowhere():
    key = "sk-proj-abcdEFGH1234567890abcdEFGH1234567890"
    bench = Bench([TextDelta("hi")])
    async with face(bench) as http:
        usual = {"model": "m", "messages": [{"role": "user", "content": "a"}], "session_id": key}
        reply = await http.ask("POST", "/v1/chat/completions", usual)
        assert reply.status == 400 and "looks like a key" in reply.body.decode()
        assert key not in reply.body.decode()
    assert await bench.store.list_sessions(limit=9) == []
