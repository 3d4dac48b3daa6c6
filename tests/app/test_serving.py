"""What a server tells models of its workspace: the instructions and skills that the user trusts, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aish.app import serving_runtime
from aish.config.user_decisions import trust_project_file
from aish.types.events import TurnEnd
from aish.types.messages import text_of, user
from aish.types.records import SessionRecord, TurnRecord
from aish.types.requests import TurnRequest
from aish.types.usage import Usage
from support.recording_upstream import recording_upstream, text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    (project / "AGENTS.md").write_text("Use tabs.\n")
    skill = project / ".agents" / "skills" / "release" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: how to release\n---\nTag it.\n")
    return project


async def asked(project: Path) -> dict[str, Any]:
    """The request that a model gets from a server that works in the project."""
    with recording_upstream() as upstream:
        upstream.reply(text("Fine."))
        async with serving_runtime((f"up={upstream.url}",), str(project)).engine(serving=True) as engine:
            request = TurnRequest(input=(user("hello"),), model="up:some-model", tools=("*",), kept=False, context=())
            async with engine.turn(request) as batches:
                async for _ in batches:
                    pass
        return next(seen.body for seen in upstream.requests if "messages" in seen.body)


def tool_descriptions(body: dict[str, Any]) -> dict[str, str]:
    return {tool["function"]["name"]: tool["function"]["description"] for tool in body.get("tools", ())}


def trust_all(project: Path) -> None:
    for file in project.rglob("*.md"):
        trust_project_file(file, env={"HOME": str(project.parent)})


async def test_a_server_tells_the_trusted_instructions_and_skills_of_its_workspace(project: Path) -> None:
    trust_all(project)
    body = await asked(project)
    system = body["messages"][0]
    assert system["role"] == "system" and "Use tabs." in system["content"]
    assert "[environment]" not in system["content"]
    assert tool_descriptions(body)["skills__read"].endswith("- release: how to release")


async def test_what_is_not_trusted_is_not_told(project: Path) -> None:
    body = await asked(project)
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert "skills__read" not in tool_descriptions(body)


class Asked:
    """What a tool is told of its call."""

    session, turn, call, owner, is_proved = "sess_a", "turn_a", "call_a", "", False

    def status(self, text: str) -> None: ...

    def output(self, text: str) -> None: ...


async def test_the_history_that_a_model_searches_is_that_of_its_engine(project: Path) -> None:
    runtime = serving_runtime((), str(project))
    async with runtime.engine() as stored:
        apart, unstored = runtime.engine_in(project, stored, {}), runtime.unstored_engine()
        for engine, said in ((stored, "kept"), (unstored, "not kept")):
            await engine.store.create_session(SessionRecord("sess_a", 1, 1, "a", "m"))
            await engine.store.start_turn(TurnRecord("turn_a", "sess_a", 0, "m", 1, ()))
            ended = {"end": TurnEnd.ANSWERED, "finished_ms": 2, "messages": (user(said),), "usage": Usage()}
            await engine.store.finish_turn("turn_a", **ended)
        for engine, said in ((unstored, "not kept"), (apart, "kept")):
            found = await engine.tools.call("history__search", {"query": "kept"}, Asked())
            assert text_of(found.parts) == f"turn 1, user: {said}"
