"""Agents on the server: `agent:NAME` as a model, the rights of keys, and the traces of what agents did."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

from aish.agents.roster import AgentRoster
from aish.agents.toolset import AgentTools
from aish.frontends.http.auth.keys import create_key
from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.tools.registry import Registry
from aish.types.events import TextDelta
from aish.types.models import AgentDefinition
from aish.types.tools import Effect
from support.engines import Bench, Tools, call
from support.http_face import Face, FakeRuntime, face

READER = AgentDefinition("reader", "reads things", "You read.", model="scripted:reader")
WRITER = AgentDefinition("writer", "writes", "You write.", tools=("box__*",), model="scripted:writer")


class World:
    def __init__(self, **scripts: list[list[Item]]) -> None:
        self.box = Tools().add("look").add("change", effect=Effect.WRITE)
        self.roster = AgentRoster(find_more=lambda: (READER, WRITER))
        self.registry = Registry()
        self.registry.add("box", self.box)
        self.registry.add("agents", AgentTools(self.roster, lambda: self.bench.engine))
        self.scripted = ScriptedProvider("scripted", {name: from_steps(steps) for name, steps in scripts.items()})
        self.bench = Bench(
            provider=self.scripted,
            tools=self.registry,  # type: ignore[arg-type]
            settings={"as_agent": lambda request: self.roster.as_agent(request, self.registry)},
            find_alias=self.roster.find_model,
        )

    def face(self, **serve: Any) -> AbstractAsyncContextManager[Face]:
        runtime = FakeRuntime(self.bench, **serve)
        runtime.agents = self.roster
        return face(self.bench, runtime=runtime)


def says(text: str) -> list[Item]:
    return [TextDelta(text)]


def run(agent: str) -> list[Item]:
    return [call("agents__run", json.dumps({"agent": agent, "task": "look"}), id="c1")]


async def test_a_model_name_answers_as_the_agent_with_its_own_tools() -> None:
    world = World(reader=[[call("box__look")], says("a heron")])
    async with world.face() as http:
        reply = await http.chat("what is there?", model="agent:reader")
        assert reply.json["choices"][0]["message"]["content"] == "a heron"
        assert reply.json["model"] == "agent:reader"
    first = world.scripted.requests[0]
    assert first.model == "reader" and "You read." in first.messages[0].text
    assert [tool.name for tool in first.tools] == ["box__look"] and len(world.box.calls) == 1


async def test_agents_are_among_the_models_and_described() -> None:
    world = World(reader=[says("x")], writer=[says("y")])
    async with world.face() as http:
        listed = (await http.ask("GET", "/v1/models")).json["data"]
        assert [model["id"] for model in listed if model["id"].startswith("agent:")] == [
            "agent:explore",
            "agent:reader",
            "agent:writer",
        ]
        assert (await http.ask("GET", "/v1/models/agent:reader")).json["owned_by"] == "scripted"
        assert (await http.chat(model="agent:none")).status == 404


async def test_the_other_apis_answer_as_agents_too() -> None:
    world = World(reader=[says("a heron")])
    async with world.face() as http:
        reply = await http.ask("POST", "/v1/responses", {"model": "agent:reader", "input": "look"})
        assert "a heron" in json.dumps(reply.json["output"])
        body = {"model": "agent:reader", "max_tokens": 99, "messages": [{"role": "user", "content": "look"}]}
        reply = await http.ask("POST", "/v1/messages", body)
        assert reply.json["content"][0]["text"] == "a heron"


async def test_the_trace_of_a_call_names_the_turn_of_the_agent() -> None:
    world = World(model=[run("reader"), says("ok")], reader=[says("a heron")])
    async with world.face(tools=("*",)) as http:
        reply = await http.chat(session_id="mine")
        turn = dict(reply.headers)["x-turn-id"]
        events = (await http.ask("GET", f"/v1/traces/{turn}")).json["events"]
        (child,) = [body["child_turn"] for event in events if "child_turn" in (body := event["body"])]
        trace = (await http.ask("GET", f"/v1/traces/{child}")).json
        assert trace["end"] == "answered" and trace["session"] != "mine"
        assert [one["id"] for one in (await http.ask("GET", "/v1/sessions")).json["data"]] == ["mine"]
        session = (await http.ask("GET", f"/v1/sessions/{trace['session']}")).json
        assert session["parent"] == turn and session["title"] == "reader: look"


async def test_a_key_gives_an_agent_no_tool_and_no_model_that_it_does_not_cover() -> None:
    world = World(model=[run("reader"), says("ok")], reader=[says("a heron")], writer=[says("wrote")])
    narrow, _ = await create_key(world.bench.store, "narrow", models=("scripted:model",))
    fitting, _ = await create_key(world.bench.store, "fitting", models=("agent:writer",), tools=("box__look",))
    async with world.face(tools=("*",)) as http:
        asked = {"messages": [{"role": "user", "content": "go"}]}
        reply = await http.ask("POST", "/v1/chat/completions", {"model": "agent:reader", **asked}, x_api_key=narrow)
        assert reply.status == 403
        body = {"model": "scripted:model", "session_id": "mine", **asked}
        reply = await http.ask("POST", "/v1/chat/completions", body, x_api_key=narrow)
        assert reply.status == 200 and [one.model for one in world.scripted.requests] == ["model", "model"]
        reply = await http.ask("POST", "/v1/chat/completions", {"model": "agent:writer", **asked}, x_api_key=fitting)
        assert reply.json["choices"][0]["message"]["content"] == "wrote"
        assert [tool.name for tool in world.scripted.requests[-1].tools] == ["box__look"]


async def test_a_tenant_sees_the_sessions_of_its_own_agents_only() -> None:
    world = World(model=[run("reader"), says("ok")], reader=[says("a heron")])
    ann, _ = await create_key(world.bench.store, "ann")
    bob, _ = await create_key(world.bench.store, "bob")
    async with world.face(tools=("*",)) as http:
        body = {"model": "scripted:model", "session_id": "mine", "messages": [{"role": "user", "content": "go"}]}
        await http.ask("POST", "/v1/chat/completions", body, x_api_key=ann)
        (child,) = [one for one in await world.bench.store.list_sessions(limit=9, parent=None) if one.parent]
        (turn,) = await world.bench.store.list_turns(child.id)
        assert (await http.ask("GET", f"/v1/traces/{turn.id}", x_api_key=ann)).status == 200
        assert (await http.ask("GET", f"/v1/traces/{turn.id}", x_api_key=bob)).status == 404
        assert [one["id"] for one in (await http.ask("GET", "/v1/sessions", x_api_key=ann)).json["data"]] == ["mine"]
