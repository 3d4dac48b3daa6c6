"""The mode of a request over HTTP: what it may name, how far a key may go, and answers that need the word."""

from __future__ import annotations

import asyncio

import pytest

from aish.frontends.http.auth.keys import create_key
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.types.decisions import Mode
from aish.types.events import TextDelta
from aish.types.tools import Effect
from support.engines import Bench, Tools, call
from support.eventually import eventually
from support.http_face import face, function

DONE = [TextDelta("done")]
LINE = {"type": "object", "properties": {"command": {"type": "string"}}}


def tools() -> Tools:
    return (
        Tools()
        .add("ide__edit", effect=Effect.WRITE, undoable=True)
        .add("t__w", effect=Effect.WRITE)
        .add("shell__run", effect=Effect.EXEC, schema=LINE)
    )


def bench(*steps) -> Bench:
    gate = PolicyGate(shell=ShellContext(cwd="/work", home="/home/u"), confines_tenants=lambda: True)
    return Bench(*steps, tools=tools(), gate=gate)


BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "tools": [function("ide__edit")]},
    "/v1/responses": {"input": "x", "tools": [function("ide__edit")]},
    "/v1/messages": {
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 50,
        "tools": [{"name": "ide__edit"}],
    },
    "/v1/runs": {"goal": "x"},
}


@pytest.mark.parametrize("path", BODIES)
async def test_an_unknown_mode_is_refused_and_the_field_is_named(path):
    async with face(bench(DONE)) as http:
        reply = await http.ask("POST", path, {"model": "scripted:model", **BODIES[path], "mode": "yolo"})
    assert reply.status == 400
    assert "mode" in str(reply.json) and "ask, edits, auto, plan" in str(reply.json)


@pytest.mark.parametrize(("mode", "ran"), [("edits", 1), ("auto", 1), ("ask", 0), ("plan", 0), (None, 0)])
async def test_the_mode_of_a_chat_request_decides_what_runs_unasked(mode, ran):
    made = bench([call("ide__edit", '{"path": "a"}')], DONE)
    async with face(made, approvals="deny") as http:
        extra = {} if mode is None else {"mode": mode}
        assert (await http.chat(tools=[function("ide__edit")], **extra)).status == 200
    assert len(made.tools.calls) == ran


async def test_a_key_goes_no_further_than_the_server_allows_and_an_administrators_does():
    made = bench(*[DONE] * 3)
    (ann, _), (boss, _) = [await create_key(made.store, name, admin=name == "boss") for name in ("ann", "boss")]
    body = {"model": "scripted:model", **BODIES["/v1/chat/completions"]}
    async with face(made) as http:
        refused = await http.ask("POST", "/v1/chat/completions", {**body, "mode": "edits"}, x_api_key=ann)
        assert refused.status == 400 and "serve.max_mode" in str(refused.json) and "'mode'" in str(refused.json)
        for key, mode in ((ann, "plan"), (ann, "ask"), (boss, "auto")):
            reply = await http.ask("POST", "/v1/chat/completions", {**body, "mode": mode}, x_api_key=key)
            assert reply.status == 200


async def test_a_key_may_go_as_far_as_max_mode_says():
    made = bench([call("ide__edit", '{"path": "a"}')], DONE)
    ann, _ = await create_key(made.store, "ann")
    body = {"model": "scripted:model", **BODIES["/v1/chat/completions"], "mode": "edits"}
    async with face(made, approvals="deny", max_mode=Mode.EDITS) as http:
        assert (await http.ask("POST", "/v1/chat/completions", body, x_api_key=ann)).status == 200
    assert len(made.tools.calls) == 1


async def waiting(http):
    async def find():
        return (await http.ask("GET", "/v1/approvals")).json["data"]

    await eventually(find)
    return (await find())[0]


async def test_what_the_gate_insists_on_needs_the_word_and_a_click_is_not_enough():
    made = bench([call("shell__run", '{"command": "rm -rf ~"}')], DONE)
    async with face(made) as http:
        asking = asyncio.create_task(http.chat(tools=[function("shell__run")]))
        approval = await waiting(http)
        assert approval["question"]["danger"] == "catastrophe"
        path = f"/v1/approvals/{approval['id']}"
        for given in ({"choice": "yes"}, {"choice": "yes", "confirm": "y"}, {"choice": "edit", "arguments": {}}):
            reply = await http.ask("POST", path, given)
            assert reply.status == 400 and "confirm" in str(reply.json)
        assert made.tools.calls == []
        assert (await http.ask("POST", path, {"choice": "yes", "confirm": "yes"})).status == 200
        assert (await asking).status == 200
    assert len(made.tools.calls) == 1


async def test_a_halted_run_goes_on_with_a_catastrophe_only_with_the_word():
    made = bench([call("shell__run", '{"command": "rm -rf ~"}')], [TextDelta("GOAL: complete")])
    async with face(made) as http:
        run = (await http.ask("POST", "/v1/runs", {"goal": "x", "model": "scripted:model"})).json
        path = f"/v1/runs/{run['id']}"

        async def has_state(state: str):
            return (await http.ask("GET", path)).json["state"] == state

        await eventually(lambda: has_state("halted"))
        body = {"answer": {"choice": "proceed"}}
        refused = await http.ask("POST", f"{path}/resume", body)
        assert refused.status == 400 and "confirm" in str(refused.json) and made.tools.calls == []
        assert (await http.ask("POST", f"{path}/resume", {**body, "confirm": "yes"})).status == 202
        await eventually(lambda: has_state("finished"))
    assert made.tools.calls == [("shell__run", {"command": "rm -rf ~"})]


async def test_one_answer_covers_the_calls_of_a_step_that_the_question_lists():
    step = [call("ide__edit", f'{{"path": "{name}"}}', index=index, id=name) for index, name in enumerate("ab")]
    made = bench(step, DONE)
    async with face(made) as http:
        asking = asyncio.create_task(http.chat(tools=[function("ide__edit")]))
        approval = await waiting(http)
        assert [other["call"] for other in approval["question"]["others"]] == ["b"]
        assert (await http.ask("POST", f"/v1/approvals/{approval['id']}", {"choice": "step"})).status == 200
        assert (await asking).status == 200
    assert [arguments["path"] for _, arguments in made.tools.calls] == ["a", "b"]


async def test_a_yes_for_the_session_covers_its_later_calls_and_step_needs_others():
    made = bench([call("t__w")], [call("t__w", '{"n": 1}')], DONE)
    async with face(made) as http:
        asking = asyncio.create_task(http.chat(tools=[function("t__w")], session_id="s"))
        approval = await waiting(http)
        path = f"/v1/approvals/{approval['id']}"
        assert (await http.ask("POST", path, {"choice": "step"})).status == 400
        assert (await http.ask("POST", path, {"choice": "session"})).status == 200
        assert (await asking).status == 200
    assert len(made.tools.calls) == 2


def test_the_console_can_name_each_mode():
    from pathlib import Path

    import aish.frontends.http.console as console

    text = (Path(console.__file__).parent / "static" / "pickers.js").read_text()
    assert all(f'["{mode}", ' in text for mode in Mode)


async def test_a_run_takes_its_mode_and_a_tenants_run_halts_at_what_its_key_may_not():
    made = bench([call("ide__edit", '{"path": "a"}')], [TextDelta("GOAL COMPLETE")])
    ann, _ = await create_key(made.store, "ann")
    async with face(made) as http:
        reply = await http.ask(
            "POST", "/v1/runs", {"goal": "x", "model": "scripted:model", "mode": "auto"}, x_api_key=ann
        )
        assert reply.status == 400 and "serve.max_mode" in str(reply.json)
        reply = await http.ask("POST", "/v1/runs", {"goal": "x", "model": "scripted:model"}, x_api_key=ann)
        assert reply.status == 202

        async def halted():
            run = (await http.ask("GET", f"/v1/runs/{reply.json['id']}", x_api_key=ann)).json
            return run["state"] == "halted" and run

        await eventually(halted)
    assert made.tools.calls == []
