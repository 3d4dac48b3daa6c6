"""Keys that are no administrators' share a server: what one is allowed, and what it can reach, is not the others'."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from aish.frontends.http.auth.keys import create_key
from aish.frontends.http.server.app import App
from aish.frontends.mcp.http import mcp_mount
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.types.events import TextDelta
from aish.types.requests import TurnRequest
from aish.types.tools import Effect
from support.engines import Bench, Tools, call
from support.eventually import eventually
from support.http_face import face, function

LINE = {"type": "object", "properties": {"command": {"type": "string"}}}
NAMES = ("ann", "bob", "boss")


def tools() -> Tools:
    return Tools().add("t__w", effect=Effect.WRITE).add("shell__run", effect=Effect.EXEC, schema=LINE)


def gate(*, confined: bool = True) -> PolicyGate:
    return PolicyGate(shell=ShellContext(cwd="/work", home="/home/u"), confines_tenants=lambda: confined)


@asynccontextmanager
async def tenants(bench: Bench, **serve):
    """The frontend, and what each of the three sends as its key; boss is an administrator."""
    made = [await create_key(bench.store, name, admin=name == "boss") for name in NAMES]
    async with face(bench, **serve) as http:
        http.app = App(http.service, {"/mcp": mcp_mount(lambda: http.service.engine)})
        yield (
            http,
            *({"x_api_key": key} for key, _ in made),
            {name: record.id for name, (_, record) in zip(NAMES, made, strict=True)},
        )


async def asked(http, name: str, key: dict[str, str]):
    body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}], "tools": [function(name)]}
    return await http.ask("POST", "/v1/chat/completions", body, **key)


async def answered(http, choice: str, key: dict[str, str]) -> dict:
    async def find():
        return (await http.ask("GET", "/v1/approvals", **key)).json["data"]

    await eventually(find)
    (approval,) = await find()
    assert (await http.ask("POST", f"/v1/approvals/{approval['id']}", {"choice": choice}, **key)).status == 200
    return approval["question"]


def calls(times: int, name: str = "t__w", arguments: str = "{}") -> list:
    return [[call(name, arguments)], [TextDelta("done")]] * times


@pytest.mark.parametrize(("by_admin", "ran"), [(False, 2), (True, 3)])
async def test_always_counts_for_the_key_that_says_it_and_an_administrators_for_all(by_admin, ran):
    bench = Bench(*calls(3), tools=tools(), gate=gate())
    async with tenants(bench, approval_timeout_s=1.5) as (http, ann, bob, boss, ids):
        asking = asyncio.create_task(asked(http, "t__w", ann))
        question = await answered(http, "always", boss if by_admin else ann)
        assert question["owner"] == ids["ann"]
        assert (await asking).status == 200
        for key in (ann, bob):
            await asked(http, "t__w", key)
    assert len(bench.tools.calls) == ran


async def test_yes_for_a_turn_is_not_the_next_turns_nor_anothers():
    bench = Bench(*calls(3), tools=tools(), gate=gate())
    async with tenants(bench, approval_timeout_s=1.5) as (http, ann, bob, _, _):
        asking = asyncio.create_task(asked(http, "t__w", ann))
        await answered(http, "turn", ann)
        await asking
        for key in (ann, bob):
            await asked(http, "t__w", key)
    assert len(bench.tools.calls) == 1


async def test_without_a_sandbox_only_an_administrator_runs_commands():
    bench = Bench(*calls(3, "shell__run", '{"command": "ls"}'), tools=tools(), gate=gate(confined=False))
    async with tenants(bench) as (http, ann, _, boss, _):
        listed = [(await http.ask("GET", "/v1/tools", **key)).json["data"] for key in (ann, boss)]
        assert [["shell__run" in {tool["name"] for tool in one}] for one in listed] == [[False], [True]]
        await asked(http, "shell__run", ann)
        assert bench.tools.calls == []
        assert "shell__run" not in [tool.name for tool in bench.scripted.requests[-1].tools]
        await asked(http, "shell__run", boss)
    assert len(bench.tools.calls) == 1


async def test_tools_over_mcp_are_those_that_the_key_may_reach():
    bench = Bench(tools=tools(), gate=gate(confined=False))

    async def listed(http, key):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        reply = await http.ask("POST", "/mcp", body, content_type="application/json", accept="*/*", **key)
        return [tool["name"] for tool in reply.json["result"]["tools"]]

    async with tenants(bench) as (http, ann, _, boss, _):
        assert [await listed(http, key) for key in (ann, boss)] == [[], ["shell__run"]]
        body = {
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "shell__run", "arguments": {"command": "ls"}},
        }  # fmt: skip
        for key, ran in ((ann, 0), (boss, 1)):
            await http.ask("POST", "/mcp", body, content_type="application/json", accept="*/*", **key)
            assert len(bench.tools.calls) == ran


async def test_every_api_hands_on_whose_request_it_is(monkeypatch):
    seen: list[str] = []
    bench = Bench(*[[TextDelta("x")]] * 6, tools=tools(), gate=gate())
    turn = bench.engine.turn

    def noted(request: TurnRequest, **options):
        seen.append(request.owner)
        return turn(request, **options)

    monkeypatch.setattr(bench.engine, "turn", noted)
    message = [{"role": "user", "content": "x"}]
    requests = {
        "/v1/chat/completions": {"messages": message},
        "/v1/responses": {"input": "x"},
        "/v1/messages": {"messages": message, "max_tokens": 9},
    }
    async with tenants(bench) as (http, ann, _, boss, ids):
        for path, body in requests.items():
            for key in (ann, boss):
                reply = await http.ask("POST", path, {"model": "scripted:model", **body}, **key)
                assert reply.status == 200, json.dumps(reply.json)
        assert seen == [ids["ann"], ""] * 3


async def test_a_goal_goes_on_as_its_keys(monkeypatch):
    bench = Bench(*[[TextDelta("DONE")]] * 6, tools=tools(), gate=gate())
    async with tenants(bench) as (http, ann, _, boss, ids):
        for key, owner in ((ann, ids["ann"]), (boss, "")):
            reply = await http.ask("POST", "/v1/runs", {"goal": "x", "model": "scripted:model"}, **key)
            run = await bench.engine.runs.find(reply.json["id"])
            assert json.loads(run.body).get("owner", "") == owner
