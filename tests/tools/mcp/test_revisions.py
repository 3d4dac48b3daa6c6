"""Both eras of the protocol over stdio: the handshake, the stateless one, and finding out which."""

from __future__ import annotations

import json

import pytest

from aish.errors import UsageError
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.errors import FaultKind
from aish.tools.mcp.types import ListChanged, ServerSpec
from aish.types.messages import text_of
from support.eventually import eventually
from support.hostile import Hostile


async def test_a_known_older_version_is_agreed_on_without_a_word(hostile: Hostile) -> None:
    async with hostile.open("version_2024") as session:
        assert session.facts.protocol_version == "2024-11-05"
    assert hostile.warnings == []


@pytest.mark.parametrize(("mode", "got"), [("version_2099", "2099-01-01"), ("version_missing", "None")])
async def test_an_unknown_version_is_noted_and_accepted(hostile: Hostile, mode: str, got: str) -> None:
    async with hostile.open(mode) as session:
        assert text_of((await session.call_tool("echo", {"text": "hi"})).parts) == "hi"
    assert hostile.warnings == [f"protocol version mismatch (sent 2025-11-25, got {got}); proceeding"]


async def test_the_handshake_offers_the_latest_and_is_concluded(hostile: Hostile) -> None:
    async with hostile.open("silent_call") as session:
        messages = json.loads(text_of((await session.call_tool("seen", {})).parts))
    assert [message["method"] for message in messages[:3]] == ["initialize", "notifications/initialized", "tools/list"]
    assert messages[0]["params"]["protocolVersion"] == "2025-11-25"
    assert messages[0]["params"]["clientInfo"]["name"] == "aish"


@pytest.mark.parametrize("mode", ["modern_only", "modern_after_exit"])
async def test_a_server_of_the_stateless_era_is_found_out_by_a_new_process(hostile: Hostile, mode: str) -> None:
    async with hostile.open(mode) as session:
        assert session.facts.protocol_version == "2026-07-28"
        assert session.facts.name == "modern"
        messages = json.loads(text_of((await session.call_tool("seen", {})).parts))
    assert len(hostile.pids()) == 2
    assert [message["method"] for message in messages] == ["server/discover", "tools/list", "tools/call"]
    for message in messages:
        meta = message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "aish"


async def test_changes_are_asked_for_in_the_stateless_era_and_no_call_waits_for_that(hostile: Hostile) -> None:
    async with hostile.open("modern_changes", protocol="2026-07-28", max_in_flight=1) as session:
        await eventually(lambda: ListChanged(session.server, "tools") in hostile.events)
        assert text_of((await session.call_tool("echo", {"text": "hi"})).parts) == "hi"
        assert "new" in [tool.name for tool in await session.refresh_tools()]


async def test_a_server_known_to_be_stateless_is_started_once(hostile: Hostile) -> None:
    async with hostile.open("modern_only", protocol="2026-07-28") as session:
        assert session.facts.protocol_version == "2026-07-28"
    assert len(hostile.pids()) == 1


async def test_a_legacy_server_is_never_sent_the_probe_that_would_kill_it(hostile: Hostile) -> None:
    async with hostile.open("exit_on_discover") as session:
        assert session.facts.protocol_version == "2025-11-25"
    assert len(hostile.pids()) == 1


async def test_legacy_means_legacy(hostile: Hostile) -> None:
    error = await hostile.refuse("modern_only", protocol="legacy")
    assert (error.phase, error.kind, error.code) == ("initialize", FaultKind.RPC, -32022)
    assert len(hostile.pids()) == 1


async def test_a_tool_that_wants_input_from_a_person_gets_none(hostile: Hostile) -> None:
    async with hostile.open("modern_only", protocol="2026-07-28") as session:
        output = await session.call_tool("ask_person", {})
    assert output.is_error
    assert "asks for input" in text_of(output.parts)


async def test_a_server_needs_a_command_or_a_url() -> None:
    for spec in (ServerSpec("x"), ServerSpec("x", command=("a",), url="http://b")):
        with pytest.raises(UsageError):
            async with open_session(spec):
                pass
