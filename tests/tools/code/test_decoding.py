"""Whatever a server sends is read, or is an error with words: no other exception, nothing without a bound."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import AishError, BadResponse
from aish.tools.code.backends.lsp_edits import _fix_for
from aish.tools.code.backends.lsp_locations import ServerFiles
from aish.tools.code.files.source import decode
from aish.tools.code.lsp import diagnostics, results
from aish.tools.code.lsp.server_messages import ServerMessages
from aish.tools.workspace import Workspace

_KEYS = st.sampled_from([
    "uri", "range", "start", "end", "line", "character", "targetUri", "targetRange", "targetSelectionRange", "contents",
    "value", "kind", "language", "message", "severity", "code", "name", "location", "selectionRange", "children",
    "diagnostics", "version", "token", "title", "items", "section", "registrations", "id", "method", "edit",
])  # fmt: skip
_LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=8) | st.sampled_from(["begin", "end"])
)
JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=6), max_leaves=25
)
RAW = JSON.map(lambda value: msgspec.Raw(json.dumps(value).encode()))


@given(RAW)
def test_any_answer_is_read_or_refused(raw):
    for read in (results.decode_locations, results.decode_hover, results.decode_symbols):
        try:
            read(raw)
        except BadResponse:
            continue


@given(JSON)
def test_any_list_of_problems_is_read(items):
    for problem in results.decode_diagnostics(items):
        assert isinstance(problem.message, str)
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            diagnostics.decode_compiler_diagnostic(item)


@given(
    st.sampled_from([
        "client/registerCapability", "client/unregisterCapability", "workspace/configuration", "workspace/applyEdit",
        "workspace/workspaceFolders", "window/showMessageRequest", "nobody/knows",
    ]),
    RAW,
)  # fmt: skip
async def test_any_request_of_a_server_is_answered_or_refused(method, params):
    handler = ServerMessages({"uri": "file:///r", "name": "r"}, {"python": {"analysis": {}}})
    try:
        await handler.request(method, params)
    except AishError:
        return


@given(
    st.lists(st.tuples(st.sampled_from(["textDocument/publishDiagnostics", "$/progress", "window/logMessage"]), RAW))
)
async def test_any_notification_of_a_server_is_survived(messages):
    handler = ServerMessages({"uri": "file:///r", "name": "r"}, {})
    for method, params in messages:
        handler.notification(method, params)
    assert isinstance(handler.busy, str)


async def test_what_a_server_pushes_is_bounded():
    handler = ServerMessages({"uri": "file:///r", "name": "r"}, {})
    problem = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "message": "m"}
    many = msgspec.Raw(json.dumps({"uri": "file:///r/a.py", "diagnostics": [problem] * 5000}).encode())
    handler.notification("textDocument/publishDiagnostics", many)
    assert len(handler.find_pushed("file:///r/a.py").problems) == 1000
    for number in range(3000):
        params = {"uri": f"file:///r/{number}.py", "diagnostics": []}
        handler.notification("textDocument/publishDiagnostics", msgspec.Raw(json.dumps(params).encode()))
        begin = {"token": number, "value": {"kind": "begin", "title": "t"}}
        handler.notification("$/progress", msgspec.Raw(json.dumps(begin).encode()))
    assert handler.find_pushed("file:///r/a.py") is None
    assert len(handler._pushed) == 2000 and len(handler._busy) == 200


def test_what_is_nested_without_end_is_refused_or_cut():
    deep = "[" * 900 + '"x"' + "]" * 900
    raw = msgspec.Raw(f'{{"contents": {deep}}}'.encode())
    try:
        assert len(results.decode_hover(raw)) < 10
    except BadResponse:
        return


@pytest.mark.parametrize(
    "uri",
    [
        "jar:file:///lib.jar!/A.class", "untitled:Untitled-1", "deno:/https/x.ts", "http://127.0.0.1/a.py",
        "file://elsewhere/a.py", "file:///etc/passwd", "file:a.py", "../a.py", "",
    ],
)  # fmt: skip
def test_what_is_no_file_of_the_workspace_is_outside(uri, tmp_path):
    space = Workspace(tmp_path)
    raw = msgspec.Raw(json.dumps([{"uri": uri or "file:", "range": _RANGE}]).encode())
    (place,) = ServerFiles(space, "utf-16").convert_locations(results.decode_locations(raw))
    space.close()
    assert place.outside and not place.text


_RANGE = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}


def test_the_same_offer_for_two_places_can_be_told_apart_and_has_a_bound():
    source, seen = decode("a.py", b"x == None\ny == None\n"), Counter[tuple[str, str]]()
    fixes = [_fix_for(source, {"title": "Replace" * 1000, "kind": "quickfix"}, seen) for _ in range(2)]
    assert fixes[0].key != fixes[1].key and len(fixes[0].title) <= 200
