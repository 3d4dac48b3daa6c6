"""The stream of a response: what each row of reference/clients.md needs of it, checked event by event."""

import asyncio
import json

import pytest

from aish.errors import ProviderUnavailable
from aish.types.chunks import StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, TextDelta
from aish.types.messages import ImagePart, TextPart
from aish.types.tools import Effect, ToolOutput
from aish.types.usage import Usage
from support.engines import Bench, Tools, call, policy_gate, said
from support.responses_client import Site, check_stream, events_of, kinds, of, text_of

ADD = {
    "type": "function",
    "name": "add",
    "description": "adds",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
    "strict": True,
}
# What codex 0.166 sends.
CODEX = {
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto"},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "prompt_cache_key": "k",
    "client_metadata": {"x": "y"},
}


def site(*steps):
    return Site(Bench(*steps)).opened()


async def test_an_image_that_a_tool_gave_leaves_its_mark():
    async def draw(arguments, context):
        return ToolOutput((TextPart("drawn "), ImagePart(data="aGk=")))

    bench = Bench([call("t__draw")], [TextDelta("done")], tools=Tools().add("t__draw", draw))
    async with Site(bench).opened() as here:
        events = await here.stream(tools=[{"type": "function", "name": "t__draw"}])
    [item] = [item for item in events[-1]["response"]["output"] if item["type"] == "mcp_call"]
    assert item["output"] == "drawn [image: image/png]"


async def test_text_streams_as_one_lifecycle_with_every_event_the_helpers_wait_for():
    async with site([TextDelta("The "), TextDelta("answer ✓."), UsageChunk(Usage(12, 5, 3, 2))]) as here:
        events = await here.stream()
    check_stream(events)
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    final = events[-1]["response"]
    assert final["status"] == "completed" and text_of(final) == "The answer ✓."
    assert final["usage"] == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 17,
    }


async def test_the_object_has_every_field_that_strict_types_ask_for():
    async with site([TextDelta("hi")]) as here:
        events = await here.stream(instructions="Be kind", metadata={"a": "b"}, max_output_tokens=9, temperature=0.5)
    wanted = {
        "id", "object", "created_at", "status", "model", "output", "usage", "tools", "tool_choice", "text", "error",
        "parallel_tool_calls", "incomplete_details", "instructions", "metadata", "temperature", "top_p", "background",
        "max_output_tokens", "max_tool_calls", "previous_response_id", "reasoning", "store", "truncation", "user",
        "completed_at", "conversation", "service_tier", "top_logprobs",
    }  # fmt: skip
    for event in events:
        if "response" in event:
            assert wanted <= event["response"].keys()
            assert event["response"]["instructions"] == "Be kind" and event["response"]["metadata"] == {"a": "b"}
            assert event["response"]["object"] == "response" and event["response"]["temperature"] == 0.5


async def test_a_tool_of_ours_is_an_mcp_call_never_a_function_call():
    steps = [TextDelta("Well. "), call("desk__note", '{"te'), call("", 'xt": 1}')], [TextDelta("Done.")]
    bench = Bench(*steps, tools=Tools().add("desk__note"))
    async with Site(bench, tools=["desk__*"]).opened() as here:
        events = await here.stream()
    check_stream(events)
    assert not [kind for kind in kinds(events) if "function_call" in kind]
    added = next(e["item"] for e in of(events, "output_item.added") if e["item"]["type"] == "mcp_call")
    assert added["arguments"] == "" and (added["server_label"], added["name"]) == ("desk", "note")
    assert [e["delta"] for e in of(events, "mcp_call_arguments.delta")] == ['{"te', 'xt": 1}']
    done = next(e["item"] for e in of(events, "output_item.done") if e["item"]["type"] == "mcp_call")
    assert (done["output"], done["error"], done["status"]) == ("done", None, "completed")
    order = ("mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done", "mcp_call.completed")
    places = [kinds(events).index(kind) for kind in order]
    assert places == sorted(places)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "mcp_call", "message"]


async def test_a_function_whose_name_is_a_tool_of_ours_is_run_by_us():
    bench = Bench([call("desk__note")], [TextDelta("Done.")], tools=Tools().add("desk__note"))
    async with Site(bench).opened() as here:
        events = await here.stream(tools=[{**ADD, "name": "desk__note"}])
    check_stream(events)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["mcp_call", "message"]
    assert len(bench.tools.calls) == 1


async def test_a_tool_of_ours_that_fails_is_a_failed_mcp_call_with_its_words():
    async def fail(arguments, context):
        return said("no such file", is_error=True)

    bench = Bench([call("desk__note")], [TextDelta("Oh.")], tools=Tools().add("desk__note", fail))
    async with Site(bench, tools=["*"]).opened() as here:
        events = await here.stream()
    check_stream(events)
    assert "mcp_call.failed" in kinds(events)
    item = events[-1]["response"]["output"][0]
    assert item["status"] == "failed" and item["output"] is None
    assert item["error"] == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "no such file"}],
    }


async def test_a_tool_nobody_has_is_answered_by_us_and_the_client_never_asked_to_run_it():
    async with site([call("invented")], [TextDelta("Sorry.")]) as here:
        events = await here.stream(tools=[ADD])
    check_stream(events)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["mcp_call", "message"]


async def test_a_function_of_the_client_comes_in_deltas_and_is_done_with_its_call_id():
    async with site([call("add", '{"a"'), call("", ": 7}")]) as here:
        events = await here.stream(tools=[ADD])
    check_stream(events)
    deltas = [event["delta"] for event in of(events, "function_call_arguments.delta")]
    (item,) = events[-1]["response"]["output"]
    assert item["type"] == "function_call" and item["name"] == "add" and item["status"] == "completed"
    assert len(deltas) == 2 and "".join(deltas) == item["arguments"] == '{"a": 7}'
    assert item["call_id"] and item["id"] and item["id"] != item["call_id"]
    assert of(events, "output_item.done")[0]["item"] == item
    assert events[-1]["type"] == "response.completed"


async def test_a_function_called_without_arguments_gets_an_empty_object():
    async with site([call("add", "")]) as here:
        events = await here.stream(tools=[ADD])
    check_stream(events)
    assert events[-1]["response"]["output"][0]["arguments"] == "{}"


async def test_calls_whose_fragments_mix_stay_apart():
    steps = [
        call("add", '{"a"', index=0),
        call("add", '{"a":', index=1),
        call("", ": 1}", index=0),
        call("", " 2}", index=1),
    ]
    async with site(steps) as here:
        events = await here.stream(tools=[ADD])
    check_stream(events)
    assert [item["arguments"] for item in events[-1]["response"]["output"]] == ['{"a": 1}', '{"a": 2}']


async def test_thoughts_are_a_reasoning_item_of_their_own():
    async with site([ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("Yes.")]) as here:
        events = await here.stream()
    check_stream(events)
    thought, message = events[-1]["response"]["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hm"}] and thought["summary"] == []
    assert text_of(events[-1]["response"]) == "Yes." and message["type"] == "message"
    assert len(of(events, "reasoning_text.delta")) == 2


async def test_thoughts_are_a_summary_for_clients_that_ask_for_one():
    async with site([ReasoningDelta("hm"), TextDelta("Yes.")]) as here:
        events = await here.stream(**CODEX)
    check_stream(events)
    thought = events[-1]["response"]["output"][0]
    assert thought["summary"] == [{"type": "summary_text", "text": "hm"}]
    order = ["reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done"]
    assert [kind for kind in kinds(events) if "summary" in kind] == [*order, "reasoning_summary_part.done"]


async def test_what_codex_sends_is_taken_with_its_namespaces_and_its_web_search():
    space = {"type": "namespace", "name": "crm", "description": "d", "tools": [{**ADD, "name": "find"}]}
    web = {"type": "web_search", "external_web_access": True}
    items = [
        {"type": "message", "id": "m1", "role": "developer", "content": [{"type": "input_text", "text": "Rules."}]},
        {"type": "message", "id": "m2", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    ]
    bench = Bench([call("crm__find", '{"a": 1}')])
    async with Site(bench).opened() as here:
        events = await here.stream(items, tools=[ADD, space, web], **CODEX)
    check_stream(events)
    asked = bench.scripted.requests[0]
    assert [tool.name for tool in asked.tools] == ["add", "crm__find"]
    assert [type(message).__name__ for message in asked.messages] == ["SystemMessage", "UserMessage"]
    (item,) = events[-1]["response"]["output"]
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "crm", "find")
    back = [*items, item, {"type": "function_call_output", "call_id": item["call_id"], "output": "found"}]
    async with Site(Bench([], [TextDelta("ok")])).opened() as here:
        await here.stream(back, tools=[ADD, space, web], **CODEX)
        assistant, result = here.bench.scripted.requests[0].messages[2:]
    assert assistant.tool_calls[0].name == "crm__find" and result.text == "found"


async def test_two_functions_of_one_name_are_refused_by_their_place():
    async with site([]) as here:
        status, error = await here.refused(tools=[ADD, ADD])
    assert status == 400 and error["param"] == "tools[1]"


@pytest.mark.parametrize(
    ("fields", "end", "reason"),
    [({}, StepEnd.LENGTH, "max_output_tokens"), ({"max_steps": 1}, None, "max_steps")],
)
async def test_what_is_cut_is_incomplete_and_says_why(fields, end, reason):
    said_ = [TextDelta("half"), StepFinished(end)] if end else [TextDelta("half"), call("t__x")]
    bench = Bench(said_, tools=Tools().add("t__x"))
    async with Site(bench, tools=["*"]).opened() as here:
        events = await here.stream(**fields)
    check_stream(events)
    assert events[-1]["type"] == "response.incomplete"
    final = events[-1]["response"]
    assert final["status"] == "incomplete" and final["incomplete_details"]["reason"] == reason


async def test_the_number_of_calls_is_limited_by_max_tool_calls():
    tools = Tools().add("t__x")
    bench = Bench([call("t__x", index=0), call("t__x", '{"b": 1}', index=1)], tools=tools)
    async with Site(bench, tools=["*"]).opened() as here:
        events = await here.stream(max_tool_calls=1)
    check_stream(events)
    assert len(tools.calls) == 1
    assert events[-1]["response"]["incomplete_details"]["reason"] == "max_tool_calls"
    assert [item["status"] for item in events[-1]["response"]["output"]] == ["completed", "failed"]


async def test_a_failure_after_the_stream_began_is_response_failed_with_words():
    async with site([TextDelta("half "), ProviderUnavailable("the backend went away")]) as here:
        events = await here.stream()
    check_stream(events)
    assert events[-1]["type"] == "response.failed"
    final = events[-1]["response"]
    assert final["status"] == "failed" and "went away" in final["error"]["message"]
    assert final["error"]["code"] == "server_error"
    assert final["output"][0]["status"] == "incomplete" and text_of(final) == "half "


async def test_a_failure_after_an_effect_is_one_that_codex_does_not_repeat():
    tools = Tools().add("t__w", effect=Effect.WRITE)
    bench = Bench([call("t__w")], [ProviderUnavailable("gone")], tools=tools, gate=policy_gate(write="allow"))
    async with Site(bench, tools=["*"]).opened() as here:
        events = await here.stream()
    assert events[-1]["response"]["error"]["code"] == "invalid_prompt"


async def test_a_failure_before_anything_was_said_has_a_status():
    async with site([ProviderUnavailable("the backend is down")]) as here:
        for stream in (True, False):
            status, error = await here.refused(stream=stream)
            assert status == 502 and "is down" in error["message"]
        status, error = await here.refused(model="nobody:nothing", stream=True)
    assert status == 404 and error["code"] == "model_not_found"


async def test_a_silent_stream_repeats_in_progress_with_the_number_of_the_last_event():
    release = asyncio.Event()

    async def wait(arguments, context):
        await release.wait()
        return said("done")

    bench = Bench([call("t__x")], [TextDelta("ok")], tools=Tools().add("t__x", wait))
    async with Site(bench, tools=["*"], heartbeat_s=0.02).opened() as here:
        visit = here.visit("POST", "/v1/responses", {"model": "scripted:model", "input": "x", "stream": True})
        running = asyncio.create_task(visit.run(here))
        async with asyncio.timeout(10):
            while visit.reply.body.count(b"event: response.in_progress") < 4:
                visit.news.clear()
                await visit.news.wait()
        release.set()
        await running
    events = events_of(visit.reply.body)
    beats = [event for event in events[2:] if event["type"] == "response.in_progress"]
    assert beats and {beat["sequence_number"] for beat in beats} <= {event["sequence_number"] for event in events}
    check_stream([event for place, event in enumerate(events) if place < 2 or event not in beats])
    assert b": ping" not in visit.reply.body


async def test_a_client_that_goes_away_takes_its_turn_with_it():
    started = asyncio.Event()
    ended = asyncio.Event()

    async def wait(arguments, context):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    bench = Bench([TextDelta("a"), call("t__x")], tools=Tools().add("t__x", wait))
    async with Site(bench, tools=["*"]).opened() as here:
        visit = here.visit("POST", "/v1/responses", {"model": "scripted:model", "input": "x", "stream": True})
        running = asyncio.create_task(visit.run(here))
        async with asyncio.timeout(10):
            await started.wait()
            visit.leave()
            await ended.wait()
            await running
    assert b"response.completed" not in visit.reply.body


async def test_the_same_answer_comes_whole_without_a_stream():
    async with site([TextDelta("The "), TextDelta("answer")]) as here:
        response = await here.create()
    assert response["status"] == "completed" and text_of(response) == "The answer"
    assert json.dumps(response["output"][0]["content"][0]["annotations"]) == "[]"
