"""What the console lists and looks at: sessions page by page and as a file, traces from some event on, tools."""

import json

import pytest

from aish.frontends.http.auth.keys import create_key
from aish.types.events import TextDelta
from aish.types.tools import Effect
from support.engines import Bench, Tools, policy_gate
from support.http_face import face

STEPS = [[TextDelta("a"), TextDelta("b")]] * 9


async def test_sessions_are_listed_page_by_page():
    async with face(Bench(*STEPS)) as http:
        for number in range(5):
            await http.chat(session_id=f"s{number}")
        seen, before = [], ""
        for _ in range(5):
            page = (await http.ask("GET", f"/v1/sessions?limit=2&before={before}")).json
            seen += [session["id"] for session in page["data"]]
            before = page["next"]
            if before is None:
                break
        assert seen == ["s4", "s3", "s2", "s1", "s0"]


async def test_the_pages_of_a_key_are_full_of_its_own_sessions():
    bench = Bench(*STEPS)
    ann, _ = await create_key(bench.store, "ann")
    bob, _ = await create_key(bench.store, "bob")
    async with face(bench) as http:
        for number in range(3):
            for key in (ann, bob):
                body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
                asked = await http.ask(
                    "POST", "/v1/chat/completions", {**body, "session_id": f"s{number}"}, x_api_key=key
                )
                assert asked.status == 200
        page = (await http.ask("GET", "/v1/sessions?limit=2", x_api_key=ann)).json
        rest = (await http.ask("GET", f"/v1/sessions?limit=2&before={page['next']}", x_api_key=ann)).json
        assert [session["id"] for session in page["data"] + rest["data"]] == ["s2", "s1", "s0"]
        assert rest["next"] is None


@pytest.mark.parametrize("query", ["before=x", "before=1e9:s", "before=-1:s", "before=" + "9" * 40, "limit=0"])
async def test_a_wrong_page_is_a_clear_refusal(query):
    async with face(Bench()) as http:
        reply = await http.ask("GET", f"/v1/sessions?{query}")
        assert reply.status == 400
        assert reply.json["error"]["param"] in ("before", "limit")


async def test_a_session_is_exported_as_its_recorded_lines():
    bench = Bench(*STEPS)
    key, _ = await create_key(bench.store, "ann")
    async with face(bench) as http:
        for _ in range(2):
            body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}], "session_id": "my/s"}
            await http.ask("POST", "/v1/chat/completions", body, x_api_key=key)
        reply = await http.ask("GET", "/v1/sessions/my/s/export", x_api_key=key)
        assert reply.status == 200
        assert reply.headers["content-disposition"] == 'attachment; filename="my-s.jsonl"'
        shown = (await http.ask("GET", "/v1/sessions/my/s", x_api_key=key)).json
        recorded = [await bench.store.read_events(turn["id"]) for turn in shown["turns"]]
        assert len(recorded) == 2
        assert reply.body == b"".join(recorded)
        assert reply.ended
        assert (await http.ask("GET", "/v1/sessions/none/export", x_api_key=key)).status == 404


async def test_a_trace_is_read_on_from_an_event():
    async with face(Bench(*STEPS)) as http:
        turn = (await http.chat(session_id="s")).headers["x-turn-id"]
        whole = (await http.ask("GET", f"/v1/traces/{turn}")).json["events"]
        rest = (await http.ask("GET", f"/v1/traces/{turn}?after={whole[1]['seq']}")).json["events"]
        assert rest == whole[2:]
        assert (await http.ask("GET", f"/v1/traces/{turn}?after=x")).status == 400


async def test_tools_are_listed_with_what_they_do_and_by_what_a_key_covers():
    tools = Tools().add("git__log").add("git__push", effect=Effect.WRITE).add("web__get")
    bench = Bench(tools=tools, gate=policy_gate(write="ask"))
    key, _ = await create_key(bench.store, "ann", tools=("git__*",))
    async with face(bench) as http:
        data = (await http.ask("GET", "/v1/tools", x_api_key=key)).json["data"]
    assert [(tool["name"], tool["effect"], tool["server"]) for tool in data] == [
        ("git__log", "read", "git"),
        ("git__push", "write", "git"),
    ]
    assert json.dumps(data[0]["description"]) == '"does git__log"'


async def test_what_nobody_could_consent_to_is_not_listed():
    tools = Tools().add("git__log").add("git__push", effect=Effect.WRITE)
    async with face(Bench(tools=tools, gate=policy_gate(write="ask")), approvals="deny") as http:
        assert [tool["name"] for tool in (await http.ask("GET", "/v1/tools")).json["data"]] == ["git__log"]
