"""Long work over HTTP: begun, halted, answered, taken over; and plans in a request."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from aish.autonomy.state import GoalState
from aish.config.schema.config import RoutingConfig
from aish.engine.model.selection import Routing
from aish.errors import ProviderUnavailable
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.storage.memory import MemoryStore
from aish.types.chunks import UsageChunk
from aish.types.events import TextDelta
from aish.types.runs import RunKind, RunRecord, RunState
from aish.types.tools import Effect
from aish.types.usage import Usage
from support.engines import Bench, Tools, call, policy_gate
from support.eventually import eventually
from support.http_face import Face, FakeRuntime, sse
from support.http_face import face as opened

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def tools() -> Tools:
    return Tools().add("shell__run", effect=Effect.EXEC, schema=COMMAND).add("x__read")


def bench(*texts: str, store: MemoryStore | None = None) -> Bench:
    return Bench(*([TextDelta(text)] for text in texts), tools=tools(), store=store)


async def start(face: Face, **fields: Any) -> dict[str, Any]:
    reply = await face.ask("POST", "/v1/runs", {"goal": "tidy up", "model": "scripted:model", **fields})
    assert reply.status == 202, reply.body
    started: dict[str, Any] = json.loads(reply.body)
    return started


async def ended(face: Face, id: str) -> dict[str, Any]:
    async def shown() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await face.ask("GET", f"/v1/runs/{id}")).body)
        return found

    async def is_over() -> bool:
        return (await shown())["state"] != "running"

    await eventually(is_over)
    return await shown()


async def test_a_goal_is_worked_on_in_the_background_and_its_journal_can_be_read() -> None:
    async with opened(bench("CMD: make all", "GOAL: complete")) as face:
        run = await start(face)
        done = await ended(face, run["id"])
        assert done["state"] == "finished"
        assert [(step["tool"], step["state"]) for step in done["steps"]] == [("shell__run", "done")]
        listed = json.loads((await face.ask("GET", "/v1/runs")).body)["data"]
        assert [one["id"] for one in listed] == [run["id"]]


async def test_a_halt_waits_for_an_answer_and_goes_on_with_it() -> None:
    under = bench("CMD: rm -r build", "GOAL: complete")
    async with opened(under) as face:
        run = await start(face)
        halted = await ended(face, run["id"])
        assert halted["state"] == "halted"
        assert halted["halt"]["question"]["arguments"] == {"command": "rm -r build"}
        refused = await face.ask("POST", f"/v1/runs/{run['id']}/resume", {})
        assert refused.status == 400
        assert b"needs one" in refused.body
        worse = {"answer": {"choice": "edit", "arguments": {"command": ["make"]}}}
        refused = await face.ask("POST", f"/v1/runs/{run['id']}/resume", worse)
        assert (refused.status, refused.json["error"]["param"]) == (400, "answer.arguments")
        reply = await face.ask("POST", f"/v1/runs/{run['id']}/resume", {"answer": {"choice": "proceed"}})
        assert reply.status == 202
        assert (await ended(face, run["id"]))["state"] == "finished"
        assert under.tools.calls == [("shell__run", {"command": "rm -r build"})]
        again = await face.ask("POST", f"/v1/runs/{run['id']}/resume", {"answer": {"choice": "proceed"}})
        assert again.status == 409


async def test_a_run_that_was_given_up_is_over() -> None:
    async with opened(bench("CMD: rm -r build")) as face:
        run = await start(face)
        await ended(face, run["id"])
        reply = await face.ask("POST", f"/v1/runs/{run['id']}/abandon")
        assert json.loads(reply.body)["state"] == "abandoned"


async def test_a_run_that_a_server_left_behind_goes_on_and_one_of_a_shell_does_not() -> None:
    store = MemoryStore()
    for id, where in (("run_server", "server"), ("run_shell", "shell")):
        body = msgspec.json.encode(GoalState(model="scripted:model", where=where))
        left = RunRecord(id, RunKind.NORRIS, f"sess_{id}", "g", RunState.RUNNING, body, owner="host/dead/1")
        await store.create_run(left, lease_s=600)
    async with opened(bench("GOAL: complete", store=store)) as face:
        assert (await ended(face, "run_server"))["state"] == "finished"
        shell = json.loads((await face.ask("GET", "/v1/runs/run_shell")).body)
        assert shell["state"] == "running"
        reply = await face.ask("POST", "/v1/runs/run_shell/resume")
        assert reply.status == 202
        assert (await ended(face, "run_shell"))["state"] == "finished"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"goal": ""}, "goal"),
        ({"goal": "x" * 30_000}, "goal"),
        ({"goal": "g", "max_steps": 0}, "max_steps"),
        ({"goal": "g", "max_minutes": -1}, "max_minutes"),
        ({"goal": "g", "tools": ["nothing"]}, "tools"),
        ({"goal": 7}, "goal"),
        ({}, "goal"),
    ],
)
async def test_a_bad_goal_is_refused_and_named(body: dict[str, Any], field: str) -> None:
    async with opened(bench("x")) as face:
        reply = await face.ask("POST", "/v1/runs", body)
        assert reply.status == 400
        assert field in json.loads(reply.body)["error"]["message"]


async def test_an_unknown_model_is_told_before_anything_begins() -> None:
    async with opened(bench("x")) as face:
        reply = await face.ask("POST", "/v1/runs", {"goal": "g", "model": "scripted:nothing"})
        assert reply.status == 404
        assert json.loads((await face.ask("GET", "/v1/runs")).body)["data"] == []


async def test_an_unknown_run_is_not_found() -> None:
    async with opened(bench("x")) as face:
        for method, path in (
            ("GET", "/v1/runs/run_x"),
            ("POST", "/v1/runs/run_x/resume"),
            ("POST", "/v1/runs/run_x/abandon"),
        ):
            assert (await face.ask(method, path, {})).status == 404


async def test_a_server_that_stops_gives_its_runs_back() -> None:
    store = MemoryStore()
    under = Bench([60.0], tools=tools(), store=store)
    async with opened(under) as face:
        run = await start(face)
    kept = await store.find_run(run["id"])
    assert kept is not None
    assert (kept.state, kept.owner) == (RunState.RUNNING, "")


async def test_what_a_run_uses_is_its_keys_and_a_key_that_is_used_up_halts_it() -> None:
    from aish.frontends.http.auth.keys import create_key

    spent = UsageChunk(Usage(60, 20_000))
    under = Bench([TextDelta("CMD: make"), spent], tools=tools())
    poor, _ = await create_key(under.store, "d", tokens_per_day=20_000)
    admin, _ = await create_key(under.store, "a", admin=True)
    async with opened(under) as face:
        goal = {"goal": "tidy up", "model": "scripted:model"}
        run = json.loads((await face.ask("POST", "/v1/runs", goal, authorization=f"Bearer {poor}")).body)

        async def is_over() -> bool:
            shown = await face.ask("GET", f"/v1/runs/{run['id']}", authorization=f"Bearer {admin}")
            run.update(json.loads(shown.body))
            return bool(run["state"] != "running")

        await eventually(is_over)
        assert run["state"] == "halted"
        assert "the budget of this key is used up for today: 20060 of 20000 tokens" in run["reason"]
        assert under.tools.calls == []
        refused = await face.ask("POST", "/v1/runs", goal, authorization=f"Bearer {poor}")
        assert refused.status == 402


@pytest.mark.parametrize(("models", "asked"), [(("scripted:*",), 0), (("*",), 1)])
async def test_a_run_falls_back_only_on_a_model_that_its_key_covers(models: tuple[str, ...], asked: int) -> None:
    from aish.frontends.http.auth.keys import create_key

    down = ScriptedProvider("scripted", {"model": from_steps([[ProviderUnavailable("gone")]])})
    spare = ScriptedProvider("spare", {"model": from_steps([[TextDelta("GOAL: complete")]])})
    settings = {"routing": Routing(fallback="spare:model")}
    under = Bench(provider=down, others=[spare], settings=settings, tools=tools())
    runtime = FakeRuntime(under)
    runtime.config = msgspec.structs.replace(runtime.config, routing=RoutingConfig(fallback="spare:model"))
    key, _ = await create_key(under.store, "d", models=models)
    async with opened(under, runtime=runtime) as face:
        mine = {"authorization": f"Bearer {key}"}
        goal = {"goal": "tidy up", "model": "scripted:model"}
        run = (await face.ask("POST", "/v1/runs", goal, **mine)).json

        async def is_over() -> bool:
            run.update((await face.ask("GET", f"/v1/runs/{run['id']}", **mine)).json)
            return bool(run["state"] != "running")

        await eventually(is_over)
    assert min(len(spare.requests), 1) == asked


async def test_a_run_whose_key_is_revoked_halts() -> None:
    from aish.frontends.http.auth.keys import create_key, revoke_key

    under = Bench([0.3, TextDelta("CMD: make")], tools=tools())
    key, record = await create_key(under.store, "d")
    admin, _ = await create_key(under.store, "a", admin=True)
    async with opened(under) as face:
        goal = {"goal": "tidy up", "model": "scripted:model"}
        run = (await face.ask("POST", "/v1/runs", goal, authorization=f"Bearer {key}")).json
        assert await revoke_key(under.store, record.id)

        async def is_over() -> bool:
            run.update((await face.ask("GET", f"/v1/runs/{run['id']}", authorization=f"Bearer {admin}")).json)
            return bool(run["state"] != "running")

        await eventually(is_over)
        assert (run["state"], "has been revoked" in run["reason"]) == ("halted", True)
    assert under.tools.calls == []


async def test_what_a_run_had_used_when_it_was_given_up_is_its_keys_too() -> None:
    from aish.frontends.http.auth.keys import create_key

    spent = UsageChunk(Usage(60, 60))
    under = Bench([call("x__read"), spent], [60.0], tools=tools())
    poor, _ = await create_key(under.store, "d", tokens_per_day=100_000)
    async with opened(under) as face:
        goal = {"goal": "tidy up", "model": "scripted:model"}
        mine = {"authorization": f"Bearer {poor}"}
        run = json.loads((await face.ask("POST", "/v1/runs", goal, **mine)).body)
        await eventually(lambda: len(under.scripted.requests) == 2)
        given_up = await face.ask("POST", f"/v1/runs/{run['id']}/abandon", {}, **mine)
        assert json.loads(given_up.body)["state"] == "abandoned"
        assert (await face.ask("GET", "/v1/spending", **mine)).json["today"]["tokens"] == 120
        figures = face.service.metrics.page().decode()
    assert 'aish_turns_total{end="cancelled",model="scripted:model"} 1.0' in figures
    assert 'aish_tokens_total{direction="in",model="scripted:model"} 60.0' in figures


async def test_a_key_finds_its_runs_behind_many_of_others() -> None:
    from aish.frontends.http.auth.keys import create_key

    store = MemoryStore()
    key, record = await create_key(store, "ann")
    for number, session in enumerate([f"{record.id}/sess_1", *["key_other/sess_2"] * 60]):
        left = RunRecord(f"run_{number:03}", RunKind.NORRIS, session, "g", RunState.FINISHED, b"{}")
        await store.create_run(left, lease_s=0)
    async with opened(bench("x", store=store)) as face:
        listed = json.loads((await face.ask("GET", "/v1/runs", authorization=f"Bearer {key}")).body)["data"]
        assert [one["id"] for one in listed] == ["run_000"]


PLAN = '{"direct": false, "steps": [{"id": "a", "tool": "x__read", "args": {"n": 1}}]}'


def planned() -> Bench:
    """The first call of the model is the planner's: both are calls with no assistant message before them."""
    from aish.providers.scripted import ScriptedProvider

    model = ScriptedProvider("scripted", {"model": lambda r: [TextDelta(PLAN if r.sampling.json_schema else "Done.")]})
    return Bench(tools=tools(), provider=model, gate=policy_gate())


@pytest.mark.parametrize("planner", [True, {"max_steps": 3}])
async def test_a_chat_request_with_a_planner_is_planned_and_shows_no_calls_to_the_client(planner: Any) -> None:
    under = planned()
    asked = {"type": "function", "function": {"name": "x__read"}}
    async with opened(under) as face:
        chunks = sse(await face.chat("do it", stream=True, tools=[asked], planner=planner))
        assert under.tools.calls == [("x__read", {"n": 1})]
        text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
        assert text == "Done."
        assert not any(c["choices"][0]["delta"].get("tool_calls") for c in chunks if c["choices"])


async def test_a_response_with_a_planner_has_its_calls_as_items() -> None:
    under = planned()
    async with opened(under) as face:
        body = {
            "model": "scripted:model",
            "input": "do it",
            "planner": True,
            "tools": [{"type": "function", "name": "x__read"}],
        }
        reply = await face.ask("POST", "/v1/responses", body)
        assert reply.status == 200, reply.body
        items = json.loads(reply.body)["output"]
        assert [item["type"] for item in items] == ["mcp_call", "message"]


@pytest.mark.parametrize("planner", ["yes", 7, {"max_steps": 0}, {"nonsense": 1}, {"plan": {"steps": "x"}}])
async def test_a_planner_field_that_is_wrong_is_refused(planner: Any) -> None:
    async with opened(planned()) as face:
        reply = await face.chat("do it", planner=planner)
        assert reply.status == 400
        assert "planner" in json.loads(reply.body)["error"]["message"]
