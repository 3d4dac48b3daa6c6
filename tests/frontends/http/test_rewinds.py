"""`/v1/sessions/{id}/checkpoints` and `/rewind`: who may bring back what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aish.frontends.http.auth.keys import create_key
from aish.ports import CallContext
from aish.tools.checkpoints.checkpoints import CheckpointSettings, WorkspaceCheckpoints
from aish.types.events import TextDelta
from aish.types.tools import Arguments, Effect, ToolOutput
from support.engines import Bench, Tools, call, policy_gate, said
from support.http_face import Face, face


def bench_in(base: Path, *, turns: int = 3) -> Bench:
    """Each answer writes its number into a file."""
    root = base / "work"
    root.mkdir()
    count = iter(range(1, 100))

    async def write(arguments: Arguments, context: CallContext) -> ToolOutput:
        (root / "a").write_text(str(next(count)))
        return said("written")

    checkpoints = WorkspaceCheckpoints(CheckpointSettings(base / "state", base / "home"), lambda: root)
    steps = [step for _ in range(turns) for step in ([call("t__write")], [TextDelta("done")])]
    tools = Tools().add("t__write", write, effect=Effect.WRITE)
    return Bench(*steps, tools=tools, gate=policy_gate(write="allow"), settings={"checkpoints": lambda: checkpoints})


async def ask(http: Face, text: str, **headers: str) -> None:
    body = {"model": "scripted:model", "messages": [{"role": "user", "content": text}], "session_id": "s"}
    reply = await http.ask("POST", "/v1/chat/completions", {**body, "use_server_history": True}, **headers)
    assert reply.status == 200


async def test_a_session_lists_its_checkpoints_and_is_rewound(tmp_path):
    async with face(bench_in(tmp_path), tools=("*",)) as http:
        for text in ("one", "two"):
            await ask(http, text)
        listed = (await http.ask("GET", "/v1/sessions/s/checkpoints")).json["data"]
        assert [(one["id"], one["title"], one["changed"]) for one in listed] == [("1", "one", 1), ("2", "two", 1)]
        [files] = listed[1]["files"]
        assert files["replaced"] == ["a"] and files["workspace"] == str(tmp_path / "work")
        reply = await http.ask("POST", "/v1/sessions/s/rewind", {"to": "2", "what": "both"})
        assert reply.status == 200
        assert (reply.json["undo"], reply.json["turns"]) == ("r1", 1)
        assert (tmp_path / "work/a").read_text() == "1"
        turns = (await http.ask("GET", "/v1/sessions/s")).json["turns"]
        assert [turn.get("rewound", False) for turn in turns] == [False, True]
        back = await http.ask("POST", "/v1/sessions/s/rewind", {"to": "r1", "what": "both"})
        assert back.json["turns"] == -1 and (tmp_path / "work/a").read_text() == "2"


@pytest.mark.parametrize("what", ["files", "both"])
async def test_a_key_rewinds_its_conversation_and_no_files(tmp_path, what):
    bench = bench_in(tmp_path)
    key, _ = await create_key(bench.store, "ann")
    async with face(bench, tools=("*",)) as http:
        await ask(http, "one", x_api_key=key)
        [listed] = (await http.ask("GET", "/v1/sessions/s/checkpoints", x_api_key=key)).json["data"]
        assert listed["files"] is None and listed["changed"] == 0
        refused = await http.ask("POST", "/v1/sessions/s/rewind", {"to": "1", "what": what}, x_api_key=key)
        assert refused.status == 403 and (tmp_path / "work/a").exists()
        done = await http.ask("POST", "/v1/sessions/s/rewind", {"to": "1", "what": "conversation"}, x_api_key=key)
        assert done.status == 200 and done.json["turns"] == 1
    assert (tmp_path / "work/a").exists()


async def test_an_administrator_rewinds_the_session_of_another_key(tmp_path):
    bench = bench_in(tmp_path)
    key, _ = await create_key(bench.store, "ann")
    admin, _ = await create_key(bench.store, "root", admin=True)
    async with face(bench, tools=("*",)) as http:
        await ask(http, "one", x_api_key=key)
        [session] = (await http.ask("GET", "/v1/sessions", x_api_key=admin)).json["data"]
        path = f"/v1/sessions/{session['id']}/rewind"
        reply = await http.ask("POST", path, {"to": "1", "what": "files"}, x_api_key=admin)
        assert reply.status == 200
    assert not (tmp_path / "work/a").exists()


async def test_the_session_of_another_key_is_not_there(tmp_path):
    bench = bench_in(tmp_path)
    ann, _ = await create_key(bench.store, "ann")
    bob, _ = await create_key(bench.store, "bob")
    async with face(bench, tools=("*",)) as http:
        await ask(http, "one", x_api_key=ann)
        for name in ("s", "ann/s"):
            seen = await http.ask("GET", f"/v1/sessions/{name}/checkpoints", x_api_key=bob)
            done = await http.ask(
                "POST", f"/v1/sessions/{name}/rewind", {"to": "1", "what": "conversation"}, x_api_key=bob
            )
            assert (seen.status, done.status) == (404, 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"to": "9", "what": "files"}, 400),
        ({"to": "1", "what": "everything"}, 400),
        ({"to": "1"}, 400),
        (b"{", 400),
    ],
)
async def test_a_wrong_rewind_is_a_clear_refusal(tmp_path, body: Any, status: int):
    async with face(bench_in(tmp_path), tools=("*",)) as http:
        await ask(http, "one")
        reply = await http.ask("POST", "/v1/sessions/s/rewind", body)
        assert reply.status == status and reply.json["error"]["message"]


async def test_files_that_were_not_kept_are_a_conflict(tmp_path):
    (tmp_path / "state").write_text("no folder")
    async with face(bench_in(tmp_path), tools=("*",)) as http:
        await ask(http, "one")
        [listed] = (await http.ask("GET", "/v1/sessions/s/checkpoints")).json["data"]
        assert "cannot be stored" in listed["problem"]
        reply = await http.ask("POST", "/v1/sessions/s/rewind", {"to": "1", "what": "files"})
        assert (reply.status, reply.json["error"]["code"]) == (409, "not_rewindable")
