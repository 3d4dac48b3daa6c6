"""Anything at all, sent to everything `/openapi.json` names: it is answered, or refused in the shape of its API.
Never a 500, and every stream comes to its end."""

import asyncio
import copy
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aish.types.events import TextDelta
from support.asgi import Reply
from support.engines import Bench, Tools, call
from support.http_face import face

FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
ENDS = {
    "/v1/chat/completions": ("[DONE]",),
    "/v1/responses": ("response.completed", "response.failed", "response.incomplete"),
    "/v1/messages": ("message_stop", "error"),
}
MODEL = "scripted:model"
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
IMAGE = "data:image/png;base64,iVBORw0KGgo="
# A request that uses most of what there is to use; the fuzz is in what is then changed.
BODIES = {
    "/v1/chat/completions": {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": IMAGE}}],
            },
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
        "tools": [TOOL, {"type": "mcp", "server_label": "t", "allowed_tools": ["x"], "require_approval": "never"}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 5,
        "temperature": 1,
        "stop": ["a"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        "session_id": "s",
        "max_steps": 3,
        "max_tool_calls": 3,
        "trace": True,
    },
    "/v1/responses": {
        "model": MODEL,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "r"},
            {"type": "mcp_call", "id": "m1", "server_label": "t", "name": "x", "arguments": "{}", "output": "o"},
        ],
        "instructions": "i",
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object"}},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
            {"type": "mcp", "server_label": "t", "require_approval": {"never": {"tool_names": ["x"]}}},
        ],
        "tool_choice": "auto",
        "stream": True,
        "store": True,
        "background": False,
        "previous_response_id": None,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
    },
    "/v1/messages": {
        "model": MODEL,
        "max_tokens": 50,
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "r"}]}]},
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "stream": True,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "/v1/embeddings": {"model": MODEL, "input": ["a"], "encoding_format": "base64", "dimensions": 3},
    "/tokenize": {"model": MODEL, "content": "a"},
    "/v1/conversations": {"items": [{"role": "user", "content": "x"}], "metadata": {"a": "b"}},
}  # fmt: skip
BODIES["/v1/responses/input_tokens"] = BODIES["/v1/responses"]
BODIES["/v1/messages/count_tokens"] = BODIES["/v1/messages"]

REMOVED = object()
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [-1, 0, 10**30, -(10**19), 1e308, 0.5, "", "\0", "x" * 3000, "a\r\nb: c", "\u202e", "none", "user"]
    ),
    st.sampled_from(
        [[], [None], [[]], {}, {"a": {}}, [1, "a"], {"type": "x"}, {"type": "function"}, [{"type": "mcp"}]]
    ),
    st.text(max_size=5),
    st.just(REMOVED),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
RAW = st.sampled_from(
    [b"", b"{", b"null", b"\xff", b"\0", b"[" * 50_000, b'{"model":' * 5_000, b'{"a":NaN}', b'"\\ud800"']
)
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.sampled_from(
    ["resp_x", "../..", "%00", "a/b"]
)
QUERIES = st.sampled_from(
    [
        *(
            "",
            "limit=0",
            "limit=-1",
            "limit=x",
            "limit=" + "9" * 5000,
            "order=up",
            "after=zz",
            "stream=true",
            "&&==%zz",
        ),
        *(
            "stream=true&starting_after=-1",
            "stream=true&starting_after=" + "9" * 5000,
            "search=%25%27%00",
            "include=\\",
        ),
    ]
)


async def _page():
    async with face(Bench()) as http:
        return (await http.ask("GET", "/openapi.json")).json


PAGE = asyncio.run(_page())
ENDLESS = {"/v1/events"}  # test_feed.py has its own
OPERATIONS = [
    (method.upper(), path) for path, methods in PAGE["paths"].items() for method in methods if path not in ENDLESS
]


def places(value, at=()):
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, (*at, key))


def changed(value, at, new):
    value = copy.deepcopy(value)
    *way, last = at
    target = value
    for key in way:
        target = target[key]
    if new is REMOVED:
        del target[last]
    else:
        target[last] = new
    return value


@st.composite
def spoiled(draw, body):
    for _ in range(draw(st.integers(0, 2))):
        everywhere = [at for at in places(body) if at]
        if everywhere:
            body = changed(body, draw(st.sampled_from(everywhere)), draw(ODD))
    return body


def by_schema(schema):
    """What the page says may be sent."""
    if "$ref" in schema:
        return st.deferred(lambda: by_schema(PAGE["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]))
    if "anyOf" in schema:
        return st.one_of([by_schema(one) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            fields = {name: by_schema(one) for name, one in schema.get("properties", {}).items()}
            required = {name: fields.pop(name) for name in schema.get("required", ()) if name in fields}
            return st.fixed_dictionaries(required, optional=fields)
        case "array":
            return st.lists(by_schema(schema.get("items") or {}), max_size=3)
        case "string":
            return st.text(max_size=5) | st.sampled_from([MODEL, "user", "assistant", "tool"])
        case "integer":
            return st.integers()
        case "number":
            return st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return JSON


def bodies(path):
    described = PAGE["paths"][path].get("post", {}).get("requestBody")
    schema = described["content"]["application/json"]["schema"] if described else {}
    return st.one_of(spoiled(BODIES.get(path, {})), by_schema(schema), JSON, RAW)


def bench():
    """A model that calls a tool of ours and then says something, as often as it is asked."""
    return Bench(*([call("t__x")], [TextDelta("x")]) * 4, tools=Tools().add("t__x"))


def check(path: str, reply: Reply) -> None:
    assert reply.ended and reply.status < 500, (reply.status, reply.body)
    if reply.headers.get("content-type", "").startswith("text/event-stream"):
        last = reply.body.decode().rstrip("\n").rsplit("\n\n", 1)[-1].rpartition("data: ")[2]
        assert (last if last == "[DONE]" else json.loads(last)["type"]) in ENDS[path.removeprefix("/api")]
    elif reply.status >= 400:
        error = reply.json["error"]
        assert error["message"] and error["type"]
        assert "Traceback" not in error["message"]
        assert not path.startswith("/v1/messages") or reply.json["type"] == "error"


async def send(method, path, body, **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with face(bench(), tools=("t__*",)) as http:
        return await http.ask(method, path, data, **headers)


@pytest.mark.parametrize("path", sorted(ENDS))
@FUZZ
@given(data=st.data())
async def test_a_request_for_an_answer(path, data):
    check(path, await send("POST", path, data.draw(bodies(path))))


@FUZZ
@given(data=st.data())
async def test_every_operation(data):
    method, template = data.draw(st.sampled_from(OPERATIONS))
    path = template
    for name in ("id", "item", "turn", "model", "alias"):
        path = path.replace(f"{{{name}}}", quote(data.draw(IDS), safe="") if f"{{{name}}}" in path else "")
    body = data.draw(bodies(template)) if method == "POST" else b""
    check(template, await send(method, f"{path}?{data.draw(QUERIES)}", body))


@FUZZ
@given(headers=st.dictionaries(
    st.sampled_from(["idempotency_key", "x_session_id", "session_id", "x_client_request_id", "authorization", "accept",
                     "x_api_key", "content_type", "x_request_id"]),
    st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=300), max_size=4))  # fmt: skip
async def test_headers(headers):
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "x"}]}
    check("/v1/chat/completions", await send("POST", "/v1/chat/completions", body, **headers))
