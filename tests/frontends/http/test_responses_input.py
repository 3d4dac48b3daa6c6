"""The input of a response: items of every kind, with and without their type; what is wrong is named by its field."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aish.types.events import TextDelta
from aish.types.messages import AssistantMessage, ImagePart, SystemMessage, TextPart, ToolMessage, UserMessage
from aish.types.requests import ToolChoice
from support.engines import Bench, Tools
from support.responses_client import Site

ADD = {"type": "function", "name": "add", "parameters": {"type": "object"}}


async def read(input, **fields):
    bench = Bench(*[[TextDelta("x")]] * 4, tools=Tools().add("desk__note"))
    async with Site(bench).opened() as here:
        await here.create(input, **fields)
    return bench.scripted.requests[0]


async def test_items_without_a_type_are_messages_of_every_role():
    items = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "r"}]},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "v"},
    ]
    assert [*(await read(items)).messages] == [
        SystemMessage("s"),
        UserMessage((TextPart("u"),)),
        AssistantMessage("ar"),
        SystemMessage("d"),
        UserMessage((TextPart("v"),)),
    ]


async def test_images_are_taken_by_url_and_as_data():
    items = [
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.org/a.png"},
            ],
        }
    ]
    (message,) = (await read(items)).messages
    assert message.parts == (ImagePart("image/png", data="AAAA"), ImagePart("image/*", url="https://example.org/a.png"))


async def test_files_are_their_text_or_a_note():
    files = [
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        {"type": "input_file", "file_url": "https://example.org/b.pdf"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    (message,) = (await read([{"role": "user", "content": files}])).messages
    assert [part.text for part in message.parts] == [
        "a.txt\nhello",
        "a.pdf\n[document: application/pdf]",
        "[document: https://example.org/b.pdf]",
        "[document: file-1]",
    ]


async def test_calls_made_at_once_are_one_step_and_results_may_be_parts():
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "add", "arguments": "{}"} for n in (1, 2)]
    outputs = [
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
    ]
    items = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "ok"}, *calls, *outputs]
    _, assistant, first, second = (await read(items, tools=[ADD])).messages
    assert assistant.text == "ok" and [made.id for made in assistant.tool_calls] == ["c1", "c2"]
    assert (first, second) == (
        ToolMessage("c1", "add", (TextPart("one"),)),
        ToolMessage("c2", "add", (TextPart("two"),)),
    )


async def test_items_of_kinds_we_do_not_know_are_passed_over():
    items = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "compaction", "x": 1},
        {"role": "user", "content": "u"},
    ]
    assert len((await read(items)).messages) == 1


async def test_what_is_asked_of_the_model_arrives():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    asked = await read(
        "x",
        tools=[ADD],
        tool_choice={"type": "function", "name": "add"},
        parallel_tool_calls=False,
        temperature=0.1,
        top_p=0.2,
        max_output_tokens=7,
        reasoning={"effort": "low"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}},
        truncation="auto",
        include=["message.output_text.logprobs"],
    )
    sampling = asked.sampling
    assert asked.tool_choice == ToolChoice("required", "add") and asked.parallel_calls is False
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.1, 0.2, 7)
    assert sampling.json_schema == schema and sampling.reasoning_effort == "low"
    assert (await read("x", text={"format": {"type": "json_object"}})).sampling.json_object


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "mcp", "server_label": "desk", "name": "note"}, ToolChoice("required", "desk__note")),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, ToolChoice("none")),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "mcp", "server_label": "desk"}, {"type": "x"}],
            },
            ToolChoice(among=("desk__*", "x")),
        ),
        ({"type": "web_search_preview"}, ToolChoice()),
    ],
)
async def test_choices_of_tools_in_every_shape(choice, wanted):
    tools = [ADD, {"type": "mcp", "server_label": "desk"}]
    assert (await read("x", tools=tools, tool_choice=choice)).tool_choice == wanted


BAD = [
    ({"input": None}, "input"),
    ({"input": 3}, "input"),
    ({"input": [3]}, "input[0]"),
    ({"input": [{}]}, "input[0].type"),
    ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].file_data"),
    ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "input[0].content[0].image_url",
    ),
    ({"input": [{"type": "function_call", "name": "add"}]}, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
    ({"input": [{"type": "mcp_approval_response", "approval_request_id": "m"}]}, "input[0].approve"),
    ({"input": [{"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}]}, "input"),
    ({"stream": "yes"}, "stream"),
    ({"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}, "tool_choice.tools"),
    ({"metadata": {"a": 1}}, "metadata[...]"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    ({"truncation": "never"}, "truncation"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "mcp"}]}, "tools[0].server_label"),
    ({"tools": [{"type": "namespace", "name": "n"}]}, "tools[0].tools"),
    ({"tools": [{"type": "namespace", "name": "n" * 200, "tools": [ADD]}]}, "tools[0].name"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"background": True, "store": False}, "background"),
    ({"conversation": {}}, "conversation"),
    ({"conversation": "c", "previous_response_id": "r"}, "previous_response_id"),
    ({"use_server_history": True}, "use_server_history"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"max_tool_calls": -1}, "max_tool_calls"),
    ({"input": []}, "input"),
    ({"input": [{"type": "not_known"}]}, "input"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input"),
]


@pytest.mark.parametrize(("fields", "param"), BAD, ids=[str(fields)[:60] for fields, _ in BAD])
async def test_bad_input_is_a_400_that_names_the_field(fields, param):
    async with Site(Bench([TextDelta("x")])).opened() as here:
        status, error = await here.refused(**fields)
    assert (status, error["param"]) == (400, param), error


async def test_a_body_that_is_no_json_is_a_400():
    async with Site(Bench([TextDelta("x")])).opened() as here:
        for body in (b"{", b"\xff", b"[" * 100_000, b"null"):
            assert (await here.send("POST", "/v1/responses", body)).status == 400


@pytest.mark.parametrize("begin", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"], ids=["gzip", "zstd"])
async def test_a_body_that_is_compressed_is_told_apart_from_rubbish(begin):
    async with Site(Bench([TextDelta("x")])).opened() as here:
        refused = await here.send("POST", "/v1/responses", begin + b"...")
    assert refused.status == 415 and "compressed" in refused.json["error"]["message"]


_KEYS = (
    "type", "role", "content", "id", "call_id", "name", "arguments", "output", "summary", "approve", "status", "error",
    "approval_request_id", "server_label", "text", "image_url", "namespace", "encrypted_content", "input", "tools",
    "file_data", "file_url",
)  # fmt: skip
_WORDS = (
    "message", "function_call", "function_call_output", "reasoning", "mcp_call", "mcp_approval_request", "namespace",
    "mcp_approval_response", "item_reference", "mcp_list_tools", "user", "assistant", "input_text", "input_image",
    "input_file",
    "mcp", "custom_tool_call", "function", "desk", "note",
)  # fmt: skip
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.sampled_from(_WORDS))
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)
_ITEMS = st.lists(st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=6), max_size=4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=_ITEMS, tools=_ITEMS, choice=_JSON, reasoning=_JSON, text=_JSON)
async def test_whatever_is_sent_is_answered_or_refused_by_name(items, tools, choice, reasoning, text):
    body = {"model": "scripted:model", "input": items, "tools": tools, "tool_choice": choice}
    async with Site(Bench([TextDelta("x")], tools=Tools().add("desk__note"))).opened() as here:
        for fields in ({}, {"reasoning": reasoning}, {"text": text}, {"stream": True}):
            reply = await here.send("POST", "/v1/responses", {**body, **fields})
            assert reply.status in (200, 400, 404), reply.body
            assert reply.status == 200 or reply.json["error"]["message"]
