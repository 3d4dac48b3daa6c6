"""The server's side of the protocol, without a transport: what each request is answered, in both eras."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.engine.tools.structured_results import MAX_BYTES
from aish.errors import ToolError
from aish.frontends.mcp.protocol import ToolServer
from aish.frontends.mcp.requests import (
    META_CAPABILITIES,
    META_SERVER,
    META_VERSION,
    Request,
    check_envelope,
    read_request,
    read_rpc_messages,
)
from aish.net.jsonrpc_message import RpcError
from aish.ports import CallContext
from aish.types.messages import ImagePart
from aish.types.tools import Arguments, Effect, ResultStatus, ToolOutput
from support.engines import Bench, Tools, said
from support.nesting import nested

META = {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}


class Desk:
    """Asks a server and keeps what it reported meanwhile."""

    def __init__(self, toolset: Tools, **options: Any) -> None:
        self.tools = toolset
        self.server = ToolServer(Bench(tools=toolset).engine, **options)
        self.reported: list[Any] = []

    async def ask(self, method: str, params: dict[str, Any] | None = None, *, stateless: bool = False) -> Any:
        given = {**(params or {}), **({"_meta": {**META, **(params or {}).get("_meta", {})}} if stateless else {})}
        request = Request(7, method, given, stateless)
        async with asyncio.timeout(20):
            answer = await self.server.answer(request, lambda note: self.reported.append(json.loads(note)))
        message = json.loads(answer.body)
        assert message["id"] == 7
        assert message.get("error", {}).get("code", 0) == answer.code
        return message

    async def result(self, method: str, params: dict[str, Any] | None = None, *, stateless: bool = False) -> Any:
        return (await self.ask(method, params, stateless=stateless))["result"]

    async def code(self, method: str, params: dict[str, Any] | None = None, *, stateless: bool = False) -> int:
        return int((await self.ask(method, params, stateless=stateless))["error"]["code"])


@pytest.fixture
def desk() -> Desk:
    return Desk(Tools().add("notes__read").add("notes__write", effect=Effect.WRITE).add("files__read"))


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_initialize_agrees_to_a_revision_it_knows(desk: Desk, version: str):
    result = await desk.result("initialize", {"protocolVersion": version})
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "aish"


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", "", None, 5])
async def test_initialize_offers_its_newest_handshake_revision_for_any_other(desk: Desk, version: object):
    assert (await desk.result("initialize", {"protocolVersion": version}))["protocolVersion"] == "2025-11-25"


async def test_list_changed_is_declared_only_where_the_transport_tells(desk: Desk):
    told = Desk(desk.tools, list_changed=True)
    assert (await told.result("initialize"))["capabilities"] == {"tools": {"listChanged": True}}
    assert (await told.result("server/discover", stateless=True))["capabilities"] == {"tools": {}}


async def test_only_tools_that_run_without_asking_a_person_are_listed(desk: Desk):
    listed = (await desk.result("tools/list"))["tools"]
    assert [tool["name"] for tool in listed] == ["notes__read", "files__read"]
    assert listed[0]["inputSchema"]["type"] == "object"
    assert listed[0]["annotations"]["readOnlyHint"] is True


async def test_globs_choose_what_is_listed_and_what_can_be_called(desk: Desk):
    chosen = Desk(desk.tools, tools=("files.*",))
    assert [tool["name"] for tool in (await chosen.result("tools/list"))["tools"]] == ["files__read"]
    assert await chosen.code("tools/call", {"name": "notes__read"}) == -32602
    assert desk.tools.calls == []


async def test_a_tool_the_gate_would_ask_about_cannot_be_called(desk: Desk):
    assert await desk.code("tools/call", {"name": "notes__write"}) == -32602
    assert desk.tools.calls == []


async def test_long_lists_come_in_pages_that_join_to_the_whole():
    tools = Tools()
    for number in range(7):
        tools.add(f"t__{number}")
    desk = Desk(tools, page_tools=3)
    names: list[str] = []
    cursor: dict[str, Any] = {}
    for size in (3, 3, 1):
        page = await desk.result("tools/list", cursor)
        assert len(page["tools"]) == size
        names += [tool["name"] for tool in page["tools"]]
        cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
    assert names == [f"t__{number}" for number in range(7)]
    assert cursor == {}


@pytest.mark.parametrize("cursor", ["nonsense", 5, {}, ""])
async def test_a_cursor_it_never_gave_is_refused(desk: Desk, cursor: object):
    assert await desk.code("tools/list", {"cursor": cursor}) == -32602


async def test_a_call_gives_text_and_images():
    async def picture(arguments: Arguments, context: CallContext) -> ToolOutput:
        return ToolOutput((*said("look").parts, ImagePart("image/gif", "R0lG"), ImagePart(url="https://a/b.png")))

    result = await Desk(Tools().add("a__draw", picture)).result("tools/call", {"name": "a__draw", "arguments": {}})
    assert result == {
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "data": "R0lG", "mimeType": "image/gif"},
            {"type": "text", "text": "[image] https://a/b.png"},
        ],
        "isError": False,
    }


NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BROKEN = {"type": "object", "properties": {"n": {"type": "nonsense"}}}


def giving(structured: dict[str, Any] | None, *, is_error: bool = False) -> Any:
    async def body(arguments: Arguments, context: CallContext) -> ToolOutput:
        return ToolOutput(said("words").parts, is_error, structured)

    return body


@pytest.mark.parametrize("stateless", [False, True])
async def test_what_a_tool_promises_of_its_results_is_listed_and_kept(stateless: Any):
    desk = Desk(Tools().add("a__b", giving({"n": 5}), output_schema=NUMBERED))
    [tool] = (await desk.result("tools/list", stateless=stateless))["tools"]
    assert tool["outputSchema"] == NUMBERED
    result = await desk.result("tools/call", {"name": "a__b"}, stateless=stateless)
    assert result["structuredContent"] == {"n": 5}
    assert (result["isError"], result["content"]) == (False, [{"type": "text", "text": "words"}])


async def test_a_tool_that_promises_nothing_is_listed_without_a_schema_of_results(desk: Desk):
    assert all("outputSchema" not in tool for tool in (await desk.result("tools/list"))["tools"])
    assert (await desk.result("tools/call", {"name": "notes__read"})).keys() == {"content", "isError"}


async def test_a_promise_that_nothing_can_be_held_against_is_not_made():
    desk = Desk(Tools().add("a__b", giving({"n": "x"}), output_schema=BROKEN))
    assert "outputSchema" not in (await desk.result("tools/list"))["tools"][0]
    assert (await desk.result("tools/call", {"name": "a__b"}))["structuredContent"] == {"n": "x"}


async def test_what_was_not_promised_is_handed_on_too():
    result = await Desk(Tools().add("a__b", giving({"n": "x"}))).result("tools/call", {"name": "a__b"})
    assert (result["structuredContent"], result["isError"]) == ({"n": "x"}, False)


@pytest.mark.parametrize(
    ("given", "why"), [(None, "gave none"), ({"n": "x"}, "not of type"), ({"n": 1, "x": "y" * MAX_BYTES}, "bytes")]
)
@pytest.mark.parametrize("stateless", [False, True])
async def test_a_result_without_what_was_promised_is_an_error_that_says_so(given: Any, why: str, stateless: Any):
    desk = Desk(Tools().add("a__b", giving(given), output_schema=NUMBERED))
    result = await desk.result("tools/call", {"name": "a__b"}, stateless=stateless)
    assert result["isError"] is True and "structuredContent" not in result
    note, words = (block["text"] for block in result["content"])
    assert note.startswith("[aish] the tool has run, ") and why in note
    assert words == "words"


async def test_an_error_of_the_tool_comes_without_what_it_promised():
    desk = Desk(Tools().add("a__b", giving({"reason": "mood"}, is_error=True), output_schema=NUMBERED))
    result = await desk.result("tools/call", {"name": "a__b"})
    assert result == {"content": [{"type": "text", "text": "words"}], "isError": True}


async def _fails(arguments: Arguments, context: CallContext) -> ToolOutput:
    raise ToolError("it broke")


async def _admits(arguments: Arguments, context: CallContext) -> ToolOutput:
    return said("it broke", is_error=True)


@pytest.mark.parametrize("body", [_fails, _admits])
async def test_a_tool_that_fails_is_a_result_and_no_protocol_error(body: Any):
    result = await Desk(Tools().add("a__b", body)).result("tools/call", {"name": "a__b"})
    assert result["isError"] is True
    assert "it broke" in result["content"][0]["text"]


async def test_arguments_that_do_not_fit_the_schema_are_a_result_the_model_can_mend():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = Tools().add("a__b", schema=schema)
    result = await Desk(tools).result("tools/call", {"name": "a__b", "arguments": {"n": "x"}})
    assert result["isError"] is True
    assert "schema" in result["content"][0]["text"]
    assert tools.calls == []


@pytest.mark.parametrize("schema", [{"properties": {"n": {"type": "string"}}}, {"properties": {"n": {}}}, {}])
async def test_arguments_nested_too_deeply_are_a_result_too(schema: Any):
    tools = Tools().add("a__b", schema=schema)
    result = await Desk(tools).result("tools/call", {"name": "a__b", "arguments": {"n": nested(300)}})
    assert result["isError"] is True
    assert "nested too deeply, 200 levels at most" in result["content"][0]["text"]
    assert tools.calls == []
    await Desk(tools).result("tools/call", {"name": "a__b", "arguments": {"n": nested(199)}})
    assert bool(tools.calls) == (schema != {"properties": {"n": {"type": "string"}}})


async def test_arguments_nested_deeper_than_any_stack_are_invalid(desk: Desk):
    assert await desk.code("tools/call", {"name": "notes__read", "arguments": {"n": nested(5000)}}) == -32602


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": "notes__read", "arguments": []}, {"name": "gone__tool"}])
async def test_a_call_that_names_no_tool_or_no_object_is_invalid(desk: Desk, params: dict[str, Any]):
    assert await desk.code("tools/call", params) == -32602


@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "sampling/createMessage", "logging/setLevel", ""])
async def test_what_is_not_declared_is_not_there(desk: Desk, method: str):
    assert await desk.code(method) == -32601
    assert await desk.code(method, stateless=True) == -32601


async def _steps(arguments: Arguments, context: CallContext) -> ToolOutput:
    for line in ("one", "two"):
        context.status(line)
    return said("done")


async def test_status_lines_are_progress_for_a_client_that_gave_a_token():
    desk = Desk(Tools().add("a__b", _steps))
    await desk.result("tools/call", {"name": "a__b", "_meta": {"progressToken": "p"}})
    notes = [note["params"] for note in desk.reported]
    assert [note["message"] for note in notes] == ["one", "two"]
    assert [note["progress"] for note in notes] == [1, 2]
    assert {note["progressToken"] for note in notes} == {"p"}


@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": True}, {"progressToken": []}])
async def test_without_a_token_there_is_no_progress(meta: dict[str, Any]):
    desk = Desk(Tools().add("a__b", _steps))
    await desk.result("tools/call", {"name": "a__b", "_meta": meta})
    assert desk.reported == []


async def test_more_calls_than_the_bound_wait_for_their_place():
    release = asyncio.Event()

    async def wait(arguments: Arguments, context: CallContext) -> ToolOutput:
        await release.wait()
        return said("done")

    desk = Desk(Tools().add("a__b", wait), max_calls=1)
    first, second, third = (asyncio.ensure_future(desk.result("tools/call", {"name": "a__b"})) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    assert await desk.result("ping") == {}
    assert not first.done() and not third.done()
    release.set()
    assert (await first)["isError"] is False
    assert (await third)["isError"] is False


async def test_nothing_of_an_internal_error_reaches_the_client():
    class Broken:
        def visible_tools(self, globs: Any = ("*",), *, interactive: bool) -> Any:
            raise RuntimeError("secret path /home/somebody")

        async def call_tool(self, *words: Any, **options: Any) -> Any:
            raise RuntimeError("secret path /home/somebody")

    server = ToolServer(Broken())
    for method, params in (("tools/list", {}), ("tools/call", {"name": "a__b"})):
        answer = await server.answer(Request(1, method, params), lambda note: None)
        assert answer.code == -32603
        assert b"secret" not in answer.body and b"Traceback" not in answer.body


# The stateless era.


async def test_stateless_results_say_that_they_are_complete_and_whose(desk: Desk):
    for method, params in (("server/discover", {}), ("tools/list", {}), ("tools/call", {"name": "notes__read"})):
        result = await desk.result(method, params, stateless=True)
        assert result["resultType"] == "complete"
        assert result["_meta"][META_SERVER]["name"] == "aish"


async def test_discover_names_what_it_speaks_and_offers(desk: Desk):
    result = await desk.result("server/discover", stateless=True)
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"] == {"tools": {}}
    assert (result["ttlMs"], result["cacheScope"]) == (5000, "private")


async def test_an_unknown_revision_is_told_the_known_ones(desk: Desk):
    answer = await desk.ask("tools/list", {"_meta": {META_VERSION: "2099-01-01"}}, stateless=True)
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


@pytest.mark.parametrize("method", ["initialize", "ping"])
async def test_what_the_stateless_era_removed_is_not_there(desk: Desk, method: str):
    assert await desk.code(method, stateless=True) == -32601


async def test_discover_is_no_part_of_the_handshake_era(desk: Desk):
    assert await desk.code("server/discover") == -32601


@pytest.mark.parametrize(
    "meta",
    [
        None,
        5,
        {},
        {META_VERSION: "2026-07-28"},
        {META_CAPABILITIES: {}},
        {META_VERSION: 5, META_CAPABILITIES: {}},
        {META_VERSION: "2026-07-28", META_CAPABILITIES: []},
    ],
)
def test_a_stateless_request_without_its_envelope_is_invalid(meta: object):
    with pytest.raises(RpcError) as caught:
        check_envelope(Request(1, "tools/list", {"_meta": meta}, stateless=True))
    assert caught.value.code == -32602


# Reading.


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
        (b"[" * 100_000, -32700),
        (b"5", -32600),
        (b'"ping"', -32600),
        (b"null", -32600),
        (b"[]", -32600),
        (b"[1,2]", -32600),
    ],
)
def test_what_is_no_message_is_told_apart_from_what_is_no_json(body: bytes, code: int):
    with pytest.raises(RpcError) as caught:
        read_rpc_messages(body)
    assert caught.value.code == code


@given(st.binary(max_size=200))
def test_reading_never_fails_otherwise(body: bytes):
    try:
        for message in read_rpc_messages(body):
            read_request(message, stateless=lambda method, params: False)
    except RpcError as exc:
        assert exc.code in (-32700, -32600, -32602)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_ids_that_are_neither_text_nor_whole_numbers_are_refused(id: object):
    [message] = read_rpc_messages(json.dumps({"id": id, "method": "ping", "params": {}}).encode())
    if isinstance(id, str) or type(id) is int:
        assert read_request(message, stateless=lambda method, params: False).id == id
    else:
        with pytest.raises(RpcError):
            read_request(message, stateless=lambda method, params: False)


async def test_what_a_tool_itself_does_not_allow_is_its_result():
    async def refuse(arguments: Any, context: Any) -> Any:
        raise ToolError("a pipe is not a regular file", status=ResultStatus.NOT_ALLOWED)

    result = await Desk(Tools().add("files__read", refuse)).result("tools/call", {"name": "files__read"})
    assert result["isError"] is True and "not a regular file" in result["content"][0]["text"]
