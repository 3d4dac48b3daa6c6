"""Keys, approvals, records, metrics, reload: what those who run the server rely on."""

import asyncio
import json
import time
from collections import Counter

import msgspec
import pytest

from aish.config.schema.config import Config, RoutingConfig, StoreConfig
from aish.config.schema.models import PresetConfig
from aish.engine.model.selection import Routing
from aish.errors import ProviderUnavailable, UsageError
from aish.frontends.http.auth.keys import create_key, revoke_key
from aish.frontends.http.server.app import App
from aish.frontends.http.sessions.approvals import Approval
from aish.frontends.mcp.http import mcp_mount
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.safety.redaction.redactor import Redactor
from aish.storage.memory import MemoryStore
from aish.types.chunks import UsageChunk
from aish.types.decisions import Question, QuestionKind
from aish.types.events import TextDelta, TurnEnd, encode_events
from aish.types.records import Document, SessionRecord, TurnRecord
from aish.types.tools import Effect
from aish.types.usage import Category, Usage, UsageRecord
from support.engines import Bench, Tools, call, said
from support.eventually import eventually
from support.feed_client import listening
from support.http_face import FakeRuntime, face, function

JSON = "application/json"
BODY = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}


async def test_without_keys_anybody_here_may_ask_with_any_key():
    async with face(Bench([TextDelta("x")])) as http:
        assert (await http.chat()).status == 200
        assert (await http.ask("POST", "/v1/chat/completions", BODY, authorization="Bearer none")).status == 200


async def test_what_calls_cost_long_ago_is_kept_as_sums():
    bench = Bench()
    for number in range(20):
        bench.store.record_usage(UsageRecord(f"use_{number}", number, "", "m", Category.MAIN, Usage(7)))
    async with face(bench):
        await eventually(lambda: len(bench.store._usage) == 1)
    spent = await bench.store.sum_spending()
    assert (spent.calls, spent.prompt_tokens) == (20, 140)


async def test_sessions_that_nobody_uses_are_forgotten_where_that_is_wanted():
    bench = Bench()
    now_ms = time.time_ns() // 1_000_000
    for number in range(250):
        await bench.store.create_session(SessionRecord(f"sess_{number}", created_ms=0, updated_ms=number))
    await bench.store.create_session(SessionRecord("sess_used", created_ms=0, updated_ms=now_ms))
    async with face(bench):
        pass
    assert len(await bench.store.list_sessions(limit=1000)) == 251
    runtime = FakeRuntime(bench)
    runtime.config = Config(store=StoreConfig(keep_days=10_000))  # from 1997 on
    async with face(bench, runtime=runtime):
        await eventually(lambda: len(bench.store._sessions) == 1)
    assert [session.id for session in await bench.store.list_sessions(limit=9)] == ["sess_used"]


ORIGIN = "https://chat.example.org"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/mcp"])
async def test_a_page_of_an_allowed_site_may_send_what_its_sdk_sends(path):
    bench = Bench()
    await create_key(bench.store, "ann")
    asked = "authorization, content-type, x-stainless-os, mcp-protocol-version"
    async with face(bench, origins=(ORIGIN,)) as http:
        http.app = App(http.service, {"/mcp": mcp_mount(lambda: http.service.engine)})
        told = await http.ask("OPTIONS", path, origin=ORIGIN, access_control_request_headers=asked)
        other = await http.ask("OPTIONS", path, origin="https://else.example.org", access_control_request_headers=asked)
    assert (told.status, told.headers["access-control-allow-origin"]) == (204, ORIGIN)
    assert told.headers["access-control-allow-headers"] == asked
    assert (other.status, other.headers["x-should-retry"]) == (403, "false")
    assert "access-control-allow-origin" not in other.headers


async def test_a_page_of_an_allowed_site_may_read_what_turn_answered_it():
    async with face(Bench([TextDelta("x")]), origins=(ORIGIN,)) as http:
        reply = await http.ask("POST", "/v1/chat/completions", BODY, origin=ORIGIN)
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert "x-turn-id" in reply.headers["access-control-expose-headers"]


async def test_another_face_is_reached_by_our_names_and_what_it_answers_is_counted():
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with face(Bench(), hosts=("far.example.org",), origins=(ORIGIN,)) as http:
        http.app = App(http.service, {"/mcp": mcp_mount(lambda: http.service.engine)})
        ours = {"host": "far.example.org", "origin": ORIGIN}
        reply = await http.ask("POST", "/mcp", ping, content_type=JSON, accept="*/*", **ours)
        page = http.service.metrics.page().decode()
    assert reply.status == 200, reply.body
    assert reply.json["result"] == {}
    assert reply.headers["x-request-id"].startswith("req_")
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert 'aish_requests_total{route="/mcp",status="200"} 1.0' in page


async def test_a_key_that_is_used_up_may_look_at_what_it_has_stop_it_and_delete_it():
    bench = Bench([TextDelta("dear"), UsageChunk(Usage(60, 20_000))], [60.0])
    key, _ = await create_key(bench.store, "ann", tokens_per_day=20_000)
    asked = {"model": "scripted:model", "input": "x", "background": True}
    second = [{"role": "assistant", "content": "dear"}, {"role": "user", "content": "more"}]
    async with face(bench) as http:

        async def ask(method, path, body=None):
            return await http.ask(method, path, body, authorization=f"Bearer {key}")

        long = (await ask("POST", "/v1/responses", {**asked, "input": second})).json["id"]
        dear = (await ask("POST", "/v1/responses", asked)).json["id"]

        async def is_done():
            return (await ask("GET", f"/v1/responses/{dear}")).json["status"] == "completed"

        async def is_used_up():
            return (await ask("POST", "/v1/responses", asked)).status == 402

        await eventually(is_done)
        await eventually(is_used_up)
        assert (await ask("GET", f"/v1/responses/{dear}")).json["output"][0]["content"][0]["text"] == "dear"
        assert (await ask("POST", f"/v1/responses/{long}/cancel")).json["status"] == "cancelled"
        assert (await ask("DELETE", f"/v1/responses/{dear}")).status == 200
        assert (await ask("GET", "/v1/spending")).json["today"]["tokens"] >= 120


async def test_with_a_key_in_the_store_one_is_needed_and_a_revoked_one_is_none(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.auth.authentication._CACHE_S", 0.0)
    bench = Bench([TextDelta("x")])
    key, record = await create_key(bench.store, "ann")
    async with face(bench) as http:
        wrong = await http.ask("POST", "/v1/chat/completions", BODY, authorization="Bearer wrong")
        for refused in (await http.chat(), wrong):
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert refused.headers["x-should-retry"] == "false"
        assert (await http.ask("POST", "/v1/chat/completions", BODY, authorization=f"Bearer {key}")).status == 200
        assert (await http.ask("POST", "/v1/chat/completions", BODY, x_api_key=key)).status == 200
        assert (await http.ask("GET", "/healthz")).status == 200
        await create_key(bench.store, "bob")
        assert await revoke_key(bench.store, record.id)
        assert (await http.ask("POST", "/v1/chat/completions", BODY, authorization=f"Bearer {key}")).status == 401
    assert key not in str(bench.store._documents)


async def test_the_oldest_of_very_many_keys_can_be_revoked():
    bench = Bench()
    for number in range(1001):
        await create_key(bench.store, f"n{number}")
    assert await revoke_key(bench.store, "n0")
    assert not await revoke_key(bench.store, "n0")


async def test_a_server_that_others_reach_does_not_start_without_keys():
    with pytest.raises(UsageError, match="needs a key"):
        async with face(Bench(), must_have_keys=True):
            pass
    async with face(Bench(), must_have_keys=True, keys=["k"]):
        pass


async def test_it_does_not_open_when_the_last_key_is_revoked(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.auth.authentication._CACHE_S", 0.0)
    bench = Bench([TextDelta("x")])
    key, record = await create_key(bench.store, "ann")
    async with face(bench, must_have_keys=True) as http:
        assert (await http.ask("GET", "/v1/models", x_api_key=key)).status == 200
        assert await revoke_key(bench.store, record.id)
        assert (await http.ask("GET", "/v1/models", x_api_key=key)).status == 401
        assert (await http.ask("GET", "/v1/models")).status == 401


async def test_a_key_covers_tools_for_mcp_clients_too():
    bench = Bench(tools=Tools().add("t__x").add("u__y"))
    key, _ = await create_key(bench.store, "b", tools=("t__*",))
    every, _ = await create_key(bench.store, "a")
    async with face(bench) as http:
        app = App(http.service, {"/mcp": mcp_mount(lambda: http.service.engine)})

        async def asked(key, method, **params):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await http.visit("POST", "/mcp", body, x_api_key=key, content_type=JSON).run(app)).json

        listed = [(await asked(one, "tools/list"))["result"]["tools"] for one in (key, every)]
        assert [[tool["name"] for tool in tools] for tools in listed] == [["t__x"], ["t__x", "u__y"]]
        refused = await asked(key, "tools/call", name="u__y", arguments={})
        assert "error" in refused or refused["result"]["isError"]
        assert not (await asked(every, "tools/call", name="u__y", arguments={}))["result"].get("isError")
    assert [name for name, _ in bench.tools.calls] == ["u__y"]


async def test_a_key_covers_models_tools_rate_and_budget():
    usage = UsageChunk(Usage(60, 60))
    bench = Bench([TextDelta("x"), usage], tools=Tools().add("t__x").add("u__y"))
    scoped, _ = await create_key(bench.store, "a", models=("other:*",))
    tools, _ = await create_key(bench.store, "b", tools=("t__*",))
    rare, _ = await create_key(bench.store, "c", per_minute=1)
    poor, _ = await create_key(bench.store, "d", tokens_per_day=100)

    async with face(bench) as http:

        async def ask(key, **fields):
            reply = await http.ask("POST", "/v1/chat/completions", {**BODY, **fields}, authorization=f"Bearer {key}")
            return reply.status, (reply.json.get("error") or {}).get("type")

        assert await ask(scoped) == (403, "permission_error")
        await ask(tools, tools=[function("t__x"), function("u__y")])
        assert [tool.name for tool in bench.scripted.requests[-1].tools] == ["t__x"]
        assert [status for status, _ in [await ask(rare), await ask(rare)]] == [200, 429]
        assert [await ask(poor), await ask(poor)] == [(200, None), (402, "invalid_request_error")]


async def test_many_requests_at_once_do_not_spend_more_than_their_key_may():
    bench = Bench([0.01, TextDelta("x"), UsageChunk(Usage(10, 40))])
    key, _ = await create_key(bench.store, "d", tokens_per_day=100)
    body = {**BODY, "max_tokens": 40}
    async with face(bench) as http:
        asked = [http.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}") for _ in range(40)]
        statuses = Counter([reply.status for reply in await asyncio.gather(*asked)])
        refused = await http.ask(
            "POST", "/v1/chat/completions", {**body, "stream": True}, authorization=f"Bearer {key}"
        )
        spent = await http.ask("GET", "/v1/spending", authorization=f"Bearer {key}")
    assert statuses == {200: 2, 402: 38}
    assert refused.status == 402
    assert spent.json["today"]["tokens"] == 100


async def test_sessions_of_one_key_are_nobody_elses():
    bench = Bench([TextDelta("secret")])
    ann, _ = await create_key(bench.store, "ann")
    bob, _ = await create_key(bench.store, "bob")
    boss, _ = await create_key(bench.store, "boss", admin=True)
    async with face(bench) as http:
        body = {**BODY, "session_id": "s"}
        await http.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {ann}")
        assert (await http.ask("GET", "/v1/sessions/s", authorization=f"Bearer {ann}")).status == 200
        assert (await http.ask("GET", "/v1/sessions/s", authorization=f"Bearer {bob}")).status == 404
        listed = [(await http.ask("GET", "/v1/sessions", x_api_key=key)).json["data"] for key in (ann, bob, boss)]
        assert [len(data) for data in listed] == [1, 0, 1]
        assert listed[0][0]["id"] == "s"
        assert (await http.ask("DELETE", "/v1/sessions/s", x_api_key=bob)).status == 404
        assert (await http.ask("DELETE", "/v1/sessions/s", x_api_key=ann)).json["deleted"] is True


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize(
    ("models", "status"), [(("scripted:*",), 502), (("*",), 200), (("scripted:*", "spare:*"), 200)]
)
async def test_a_key_falls_back_only_on_a_model_that_it_covers(path, models, status):
    down = ScriptedProvider("scripted", {"model": from_steps([[ProviderUnavailable("gone")]])})
    spare = ScriptedProvider("spare", {"model": from_steps([[TextDelta("here")]])})
    fallback = "spare:model"
    bench = Bench(provider=down, others=[spare], settings={"routing": Routing(fallback=fallback)})
    runtime = FakeRuntime(bench)
    runtime.config = msgspec.structs.replace(runtime.config, routing=RoutingConfig(fallback=fallback))
    key, _ = await create_key(bench.store, "a", models=models)
    body = {**BODY, "input": "x", "max_tokens": 5}
    async with face(bench, runtime=runtime) as http:
        assert (await http.ask("POST", path, body, authorization=f"Bearer {key}")).status == status
    assert len(spare.requests) == (status == 200)


@pytest.mark.parametrize(
    ("models", "names"), [(("*",), ["deep", "fast", "scripted:model"]), (("fast",), ["fast"]), (("deep",), ["deep"])]
)
async def test_presets_are_among_the_models_and_a_key_sees_those_that_it_covers(models, names):
    bench = Bench([TextDelta("x")])
    runtime = FakeRuntime(bench)
    presets = {"deep": PresetConfig(model="cloud:big"), "fast": PresetConfig(model="scripted:model", context_size=99)}
    runtime.config = msgspec.structs.replace(runtime.config, presets=presets)
    key, _ = await create_key(bench.store, "a", models=models)
    async with face(bench, runtime=runtime) as http:
        listed = (await http.ask("GET", "/v1/models", x_api_key=key)).json["data"]
    assert [model["id"] for model in listed] == names
    said = {model["id"]: (model["owned_by"], model["context_length"]) for model in listed}
    assert said.get("fast", ("scripted", 99)) == ("scripted", 99)
    assert said.get("deep", ("cloud", None)) == ("cloud", None)


async def waiting_approval(http):
    async def find():
        return (await http.ask("GET", "/v1/approvals")).json["data"]

    await eventually(find)
    (approval,) = await find()
    return approval


@pytest.mark.parametrize(("choice", "ran"), [("yes", 1), ("no", 0)])
async def test_a_call_that_needs_consent_waits_until_it_is_answered(choice, ran):
    async def write(arguments, context):
        return said("written")

    bench = Bench([call("t__w")], [TextDelta("done")], tools=Tools().add("t__w", write, effect=Effect.WRITE))
    async with face(bench) as http:
        asking = asyncio.create_task(http.chat(tools=[function("t__w")]))
        approval = await waiting_approval(http)
        assert approval["question"]["tool"] == "t__w"
        path = f"/v1/approvals/{approval['id']}"
        assert (await http.ask("POST", path, {"choice": "perhaps"})).status == 400
        assert (await http.ask("POST", path, {"choice": choice})).status == 200
        assert (await http.ask("POST", path, {"choice": "yes"})).status in (404, 409)
        assert (await asking).status == 200
        assert (await http.ask("GET", "/v1/approvals")).json["data"] == []
    assert len(bench.tools.calls) == ran


async def test_a_question_about_files_shows_what_would_change():
    class Previews(Tools):
        async def preview(self, name, arguments, call):
            return "--- a/x\n+++ b/x\n-old\n+new"

    bench = Bench([call("t__w")], [TextDelta("done")], tools=Previews().add("t__w", effect=Effect.WRITE))
    async with face(bench) as http:
        asking = asyncio.create_task(http.chat(tools=[function("t__w")]))
        approval = await waiting_approval(http)
        assert approval["question"]["preview"] == "--- a/x\n+++ b/x\n-old\n+new"
        await http.ask("POST", f"/v1/approvals/{approval['id']}", {"choice": "no"})
        assert (await asking).status == 200


async def test_a_question_nobody_answers_is_a_no():
    bench = Bench([call("t__w")], [TextDelta("done")], tools=Tools().add("t__w", effect=Effect.WRITE))
    async with face(bench, approval_timeout_s=0.05) as http:
        await http.chat(tools=[function("t__w")])
        assert (await http.ask("GET", "/v1/approvals")).json["data"] == []
    assert "no answer within" in bench.scripted.requests[1].messages[-1].text
    assert bench.tools.calls == []


async def test_an_edit_that_does_not_fit_leaves_the_question_open():
    number = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = Tools().add("t__w", effect=Effect.WRITE, schema=number)
    bench = Bench([call("t__w", '{"n": 1}')], [TextDelta("done")], tools=tools)
    async with face(bench) as http:
        asking = asyncio.create_task(http.chat(tools=[function("t__w")]))
        approval = await waiting_approval(http)
        assert approval["question"]["schema"] == number
        path = f"/v1/approvals/{approval['id']}"
        refused = await http.ask("POST", path, {"choice": "edit", "arguments": {"n": "seven"}})
        assert (refused.status, refused.json["error"]["param"]) == (400, "arguments")
        assert "t__w: n: " in refused.json["error"]["message"]
        assert (await http.ask("POST", path, {"choice": "edit", "arguments": {"n": 7}})).status == 200
        assert (await asking).status == 200
    assert tools.calls == [("t__w", {"n": 7})]


async def test_there_is_nothing_to_edit_where_it_is_asked_whether_to_go_on():
    step = [call("t__r", "{}")]
    bench = Bench(step, step, step, [TextDelta("done")], tools=Tools().add("t__r"))
    async with face(bench) as http:
        asking = asyncio.create_task(http.chat(tools=[function("t__r")]))
        approval = await waiting_approval(http)
        path = f"/v1/approvals/{approval['id']}"
        refused = await http.ask("POST", path, {"choice": "edit", "arguments": {}})
        assert (refused.status, refused.json["error"]["param"]) == (400, "choice")
        assert (await http.ask("POST", path, {"choice": "yes"})).status == 200
        assert (await asking).status == 200
    assert len(bench.tools.calls) == 3


@pytest.mark.parametrize(
    ("asker", "left_ms", "status"),
    [("host/alive/1", 60_000, 200), ("host/dead/1", 60_000, 404), ("host/alive/1", -1, 404)],
)
async def test_a_question_whose_asker_has_died_or_given_up_is_not_asked_any_more(asker, left_ms, status):
    bench, now_ms = Bench(), time.time_ns() // 1_000_000
    question = Question("c", QuestionKind.EFFECT, "t__w", "write", {}, "why")
    approval = Approval("appr_1", question, now_ms, now_ms + left_ms, asker)
    await bench.store.put(Document("approval", approval.id, msgspec.json.encode(approval)))
    async with face(bench) as http:
        assert len((await http.ask("GET", "/v1/approvals")).json["data"]) == (status == 200)
        async with listening(http) as feed:
            await http.chat(session_id="s", stream=True)
            await eventually(lambda: feed.finished() and (feed.approvals or status == 404))
            assert bool(feed.approvals) == (status == 200)
        assert (await http.ask("POST", "/v1/approvals/appr_1", {"choice": "yes"})).status == status


async def test_an_answer_another_process_took_is_noticed(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.sessions.approvals._POLL_S", 0.02)
    bench = Bench([call("t__w")], [TextDelta("done")], tools=Tools().add("t__w", effect=Effect.WRITE))
    async with face(bench) as one, face(bench) as other:
        asking = asyncio.create_task(one.chat(tools=[function("t__w")]))
        approval = await waiting_approval(other)
        await other.ask("POST", f"/v1/approvals/{approval['id']}", {"choice": "yes"})
        assert (await asking).status == 200
    assert len(bench.tools.calls) == 1


async def test_a_trace_holds_everything_that_happened():
    bench = Bench([call("t__x")], [TextDelta("done")], tools=Tools().add("t__x"))
    async with face(bench) as http:
        chunks = await http.chunks(tools=[function("t__x")], trace=True)
        (turn,) = {c["aish"]["event"]["turn"] for c in chunks if "aish" in c}
        trace = (await http.ask("GET", f"/v1/traces/{turn}")).json
        assert (await http.ask("GET", "/v1/traces/turn_nope")).status == 404
    assert trace["end"] == "answered"
    kinds = [event["body"]["type"] for event in trace["events"]]
    assert kinds[0] == "turn_started" and kinds[-1] == "turn_finished" and "tool_result" in kinds
    assert [message["role"] for message in trace["input"]] == ["user"]
    assert [message["role"] for message in trace["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert trace["messages"][-1]["text"] == "done"


class LateStore(MemoryStore):
    """What another process has queued, `late`, is written once a turn has been looked for."""

    late = None
    looks = 0

    async def find_turn(self, turn):
        found, late = await super().find_turn(turn), self.late
        self.looks, self.late = self.looks + 1, None
        if late is not None:
            await late
        return found


def of_another(owner="host/alive/1"):
    return TurnRecord("turn_1", "", 0, "m", 1_800_000_000_000, (), owner=owner)


@pytest.mark.parametrize("begun", [True, False])
async def test_a_trace_has_the_end_that_another_process_has_told_and_is_about_to_write(begun):
    store = LateStore()
    events = await Bench([TextDelta("done")]).run()
    lines = encode_events(events)
    ended = {"end": TurnEnd.ANSWERED, "finished_ms": 1_800_000_000_001, "messages": (), "usage": Usage()}
    if begun:
        store.begin_turn(of_another())
        store.append_events("turn_1", 1, len(events), lines)
        store.late = store.finish_turn("turn_1", **ended)
    else:
        store.late = store.record_turn(msgspec.structs.replace(of_another(), **ended), len(events), lines)
    async with face(Bench(store=store, settings={"shared": True})) as http:
        trace = (await http.ask("GET", "/v1/traces/turn_1")).json
    assert (trace["end"], trace["events"][-1]["body"]["type"]) == ("answered", "turn_finished")
    assert store.looks == 2


async def test_a_turn_that_goes_on_elsewhere_is_waited_for_a_moment_only(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.sessions.session_traces._LAG_S", 0.1)
    store = LateStore()
    async with face(Bench(store=store, settings={"shared": True})) as http:
        assert (await http.ask("GET", "/v1/traces/turn_1")).status == 404
        store.begin_turn(of_another())
        trace = (await http.ask("GET", "/v1/traces/turn_1")).json
    assert (trace["end"], trace["events"]) == (None, [])
    assert store.looks > 3


@pytest.mark.parametrize("owner", ["host/1/1", "host/dead/1", None])
async def test_an_end_that_nobody_else_can_write_is_not_waited_for(owner):
    store = LateStore()
    if owner is not None:
        store.begin_turn(of_another(owner))
    async with face(Bench(store=store)) as http:
        assert (await http.ask("GET", "/v1/traces/turn_1")).status == (404 if owner is None else 200)
    assert store.looks == 1


async def test_in_a_session_nothing_is_waited_for():
    store = LateStore()
    await store.create_session(SessionRecord("s", 1, 1))
    await store.start_turn(msgspec.structs.replace(of_another(), session="s"))
    async with face(Bench(store=store, settings={"shared": True})) as http:
        assert (await http.ask("GET", "/v1/traces/turn_1")).json["end"] is None
    assert store.looks == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_trace_joins_no_secret_that_came_in_pieces(stream):
    bench = Bench([TextDelta("the key: sk-proj-abcdEFGH12345678"), TextDelta("90abcdEFGH1234567890")])
    async with face(bench) as http:
        turn = (await http.chat(stream=stream)).headers["x-turn-id"]
        trace = (await http.ask("GET", f"/v1/traces/{turn}")).json
    assert trace["messages"][-1]["text"].startswith("the key: ")
    assert "sk-proj" not in trace["messages"][-1]["text"]


async def test_what_is_counted():
    bench = Bench([call("t__x")], [TextDelta("done"), UsageChunk(Usage(5, 7))], tools=Tools().add("t__x"))
    async with face(bench) as http:
        await http.chat(tools=[function("t__x")])
        page = (await http.ask("GET", "/metrics")).body.decode()
    for line in (
        'aish_turns_total{end="answered",model="scripted:model"} 1.0',
        'aish_tool_calls_total{status="ok",tool="t__x"} 1.0',
        'aish_tokens_total{direction="out",model="scripted:model"} ',
        'aish_requests_total{route="/v1/chat/completions",status="200"} 1.0',
        'aish_first_token_seconds_count{model="scripted:model"} 1.0',
    ):
        assert line in page, page


async def test_what_is_counted_of_everybody_is_not_for_every_key():
    bench = Bench([])
    ann, _ = await create_key(bench.store, "ann")
    boss, _ = await create_key(bench.store, "boss", admin=True)
    scraper, _ = await create_key(bench.store, "prometheus", metrics=True, models=(), tools=())
    async with face(bench) as http:
        asked = {key: await http.ask("GET", "/metrics", authorization=f"Bearer {key}") for key in (ann, boss, scraper)}
        said = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
        refused = await http.ask("POST", "/v1/chat/completions", said, authorization=f"Bearer {scraper}")
    assert [reply.status for reply in asked.values()] == [403, 200, 200]
    assert "--metrics" in asked[ann].json["error"]["message"]
    assert (refused.status, refused.json["error"]["code"]) == (403, "model_not_allowed")


async def test_a_reload_serves_new_requests_anew_and_lets_old_ones_end():
    old, new = Bench([0.2, TextDelta("old")]), Bench([TextDelta("new")])
    runtime = FakeRuntime(old)
    runtime.reloads_to = FakeRuntime(new)
    async with face(old, runtime=runtime) as http:
        slow = asyncio.create_task(http.chat())
        await eventually(lambda: http.service.active_requests)
        await http.service.reload(runtime.reload())
        assert (await http.chat()).json["choices"][0]["message"]["content"] == "new"
        assert not runtime.closed
        assert (await slow).json["choices"][0]["message"]["content"] == "old"
        await eventually(lambda: runtime.closed)


async def test_the_old_engine_serves_until_the_new_one_has_its_tools():
    old, new = [Bench(*[[TextDelta(name)]] * 2) for name in ("old", "new")]
    runtime, next_runtime = FakeRuntime(old), FakeRuntime(new)
    next_runtime.settled.clear()
    async with face(old, runtime=runtime) as http:
        reloading = asyncio.create_task(http.service.reload(next_runtime))
        await eventually(lambda: next_runtime.waited_for)
        assert (await http.chat()).json["choices"][0]["message"]["content"] == "old"
        next_runtime.settled.set()
        await reloading
        assert (await http.chat()).json["choices"][0]["message"]["content"] == "new"


async def test_a_reload_that_is_broken_off_leaves_nothing_open():
    bench = Bench([TextDelta("old")])
    next_runtime = FakeRuntime(Bench())
    next_runtime.settled.clear()
    async with face(bench) as http:
        reloading = asyncio.create_task(http.service.reload(next_runtime))
        await eventually(lambda: next_runtime.waited_for)
        reloading.cancel()
        await asyncio.wait({reloading})
        assert next_runtime.closed
        assert (await http.chat()).json["choices"][0]["message"]["content"] == "old"


async def test_what_is_asked_before_the_tools_are_there_waits_for_them():
    bench = Bench([TextDelta("done")])
    runtime = FakeRuntime(bench)
    runtime.mcp_servers["slow"] = None
    runtime.settled.clear()
    async with face(bench, runtime=runtime) as http:
        asking = asyncio.create_task(http.chat())
        ready = await http.ask("GET", "/readyz")
        assert (ready.status, ready.json) == (503, {"status": "starting"})
        assert (await http.ask("GET", "/healthz")).status == 200
        assert not asking.done() and not bench.scripted.requests
        runtime.settled.set()
        assert (await asking).status == 200
        assert (await http.ask("GET", "/readyz")).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:8600"}, 200),
        ({"host": "127.0.0.1:8600"}, 200),
    ],
)
async def test_pages_of_other_sites_are_refused(headers, status):
    async with face(Bench([TextDelta("x")])) as http:
        assert (await http.ask("GET", "/v1/models", **headers)).status == status


async def test_more_requests_than_allowed_are_told_to_come_back():
    async with face(Bench([0.3, TextDelta("x")]), max_requests=1) as http:
        slow = asyncio.create_task(http.chat())
        await eventually(lambda: http.service.active_requests)
        reply = await http.chat()
        assert reply.status == 503 and reply.headers["retry-after"] == "1"
        assert (await slow).status == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nope", 404), ("PUT", "/v1/models", 405)])
async def test_what_is_not_there(method, path, status):
    async with face(Bench()) as http:
        reply = await http.ask(method, path)
    assert reply.status == status and json.loads(reply.body)["error"]["message"]


async def test_a_defect_is_a_500_without_a_traceback(monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError("secret detail")

    bench = Bench()
    monkeypatch.setattr(bench.engine.router, "list_models", broken)
    async with face(bench) as http:
        reply = await http.ask("GET", "/v1/models")
    assert reply.status == 500 and b"secret detail" not in reply.body


async def test_the_description_lists_every_route_and_the_bodies_they_take():
    async with face(Bench()) as http:
        page = (await http.ask("GET", "/openapi.json")).json
    assert page["openapi"].startswith("3.")
    assert {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/healthz"} <= set(page["paths"])
    body = page["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "messages" in page["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_a_known_secret_is_in_nothing_that_is_kept(path):
    secret = "hunter2-correct-horse"
    tools = Tools().add("t__x")
    steps = [call("t__x", index=0), call("mine", f'{{"k": "{secret}"}}', index=1)]
    bench = Bench([TextDelta(f"your key is {secret}"), *steps], tools=tools, redactor=Redactor([secret]))
    ours, theirs = function("t__x"), function("mine")
    if path == "/v1/responses":
        ours, theirs = ({"type": "function", **f["function"]} for f in (ours, theirs))
    said = [{"role": "user", "content": f"keep {secret}"}]
    body = {"model": "scripted:model", "tools": [ours, theirs], "messages": said, "input": said}
    async with face(bench) as http:
        reply = await http.ask("POST", path, body, idempotency_key="k", x_session_id="s")
    assert reply.status == 200 and secret in reply.body.decode()
    kept = [document.body for document in bench.store._documents.values()]
    assert kept and not any(secret.encode() in body for body in kept)
    assert secret not in str(bench.store._turns) and secret not in str(bench.store._events)
