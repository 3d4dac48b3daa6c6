from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from aish.errors import ToolError, UsageError
from aish.net.http.client import HttpClient
from aish.tools.mcp.server import ServerState, ToolExposure
from aish.tools.mcp.servers import McpServers
from aish.tools.mcp.types import ServerSpec
from aish.tools.registry import Registry
from aish.types.decisions import Answer, Choice
from aish.types.events import TextDelta
from aish.types.messages import text_of
from aish.types.tools import Effect, ResultStatus
from support.engines import Bench, call, results
from support.eventually import eventually
from support.hostile import SUPPORT, Hostile

DEADLINE_S = 30.0


class Context:
    session, turn, call, owner, is_proved, is_unasked = "s", "t", "c", "", False, False
    rights = None

    def status(self, text: str) -> None:
        pass


@asynccontextmanager
async def fleet() -> AsyncIterator[tuple[McpServers, Registry]]:
    registry = Registry()
    async with asyncio.timeout(DEADLINE_S), HttpClient() as http:
        servers = McpServers(registry, http)
        try:
            yield servers, registry
        finally:
            await servers.aclose()


def named(spec: ServerSpec, name: str) -> ServerSpec:
    return msgspec.structs.replace(spec, name=name)


async def test_connecting_returns_at_once_and_the_tools_appear_when_the_server_is_ready(hostile: Hostile):
    async with fleet() as (servers, registry):
        server = servers.connect(hostile.spec())
        assert server.state is ServerState.CONNECTING
        assert not registry.specs()
        assert await servers.wait_until_started(DEADLINE_S) == []
        assert server.state is ServerState.READY
        assert "files__echo" in [spec.name for spec in registry.specs()]
        output = await registry.call("files__echo", {"text": "hi"}, Context())
        assert "hi" in output.parts[0].text


async def test_dead_and_silent_servers_do_not_hold_up_the_others_and_say_why(hostile: Hostile):
    async with fleet() as (servers, _):
        for number in range(3):
            servers.connect(named(hostile.spec(), f"good{number}"))
        servers.connect(named(hostile.spec("exit_at_start"), "dies"))
        servers.connect(named(hostile.spec("silent", start_timeout_s=0.3), "silent"))
        servers.connect(ServerSpec("missing", command=("/no/such/program",)))
        servers.connect(ServerSpec("web", url="http://127.0.0.1:9/mcp"))
        assert await servers.wait_until_started(DEADLINE_S) == []
        states = {name: server.state for name, server in servers.servers.items()}
        assert [state for name, state in states.items() if name.startswith("good")] == [ServerState.READY] * 3
        failures = {name: server.failure.message for name, server in servers.servers.items() if server.failure}
        assert sorted(failures) == ["dies", "missing", "silent", "web"]
        assert "exit(3)" in failures["dies"] and "initialize" in failures["dies"]
        assert "timeout" in failures["silent"]
        assert "/no/such/program" in failures["missing"]
        assert "connection refused" in failures["web"]


async def test_waiting_for_servers_has_an_end(hostile: Hostile):
    async with fleet() as (servers, _):
        servers.connect(named(hostile.spec("silent", start_timeout_s=20.0, close_wait_s=0.1), "slow"))
        assert await servers.wait_until_started(0.05) == ["slow"]


async def test_a_server_that_crashes_in_a_call_is_started_again(hostile: Hostile):
    async with fleet() as (servers, registry):
        server = servers.connect(hostile.spec("crash_on_call"))
        await servers.wait_until_started(DEADLINE_S)
        with pytest.raises(ToolError) as caught:
            await registry.call("files__crash", {}, Context())
        assert caught.value.status is ResultStatus.SERVER_GONE
        await eventually(lambda: server.state is not ServerState.READY)
        await eventually(lambda: server.state is ServerState.READY)
        assert (await registry.call("files__echo", {"text": "back"}, Context())).parts


async def test_a_server_that_keeps_crashing_stays_down_until_asked(hostile: Hostile, monkeypatch):
    monkeypatch.setattr("aish.tools.mcp.server._FIRST_PAUSE_S", 0.01)
    async with fleet() as (servers, registry):
        server = servers.connect(hostile.spec("crash_on_call"))
        while server.state is not ServerState.FAILED:
            await eventually(lambda: server.state in (ServerState.READY, ServerState.FAILED))
            if server.state is ServerState.READY:
                with pytest.raises(ToolError):
                    await registry.call("files__crash", {}, Context())
                await eventually(lambda: server.state is not ServerState.READY)
        assert not registry.specs()  # no model is offered what cannot be called
        with pytest.raises(ToolError) as caught:
            await registry.call("files__echo", {"text": "x"}, Context())
        assert caught.value.status is ResultStatus.SERVER_GONE
        again = await servers.reconnect("files")
        await servers.wait_until_started(DEADLINE_S)
        assert again.state is ServerState.READY
        assert registry.find("files__echo") is not None


async def test_a_server_that_does_not_come_up_at_once_after_a_crash_is_tried_again(hostile: Hostile, monkeypatch):
    monkeypatch.setattr("aish.tools.mcp.server._FIRST_PAUSE_S", 0.01)
    spec = hostile.spec("crash_on_call")
    once_not = f'echo >> starts; test "$(wc -l < starts)" -eq 2 && exit 3; exec {shlex.join(spec.command)}'
    folder = hostile.pid_file.parent
    async with fleet() as (servers, registry):
        server = servers.connect(msgspec.structs.replace(spec, command=("sh", "-c", once_not), cwd=folder))
        await servers.wait_until_started(DEADLINE_S)
        with pytest.raises(ToolError):
            await registry.call("files__crash", {}, Context())
        await eventually(lambda: (folder / "starts").read_text() == 3 * "\n", DEADLINE_S)
        await eventually(lambda: server.state is ServerState.READY)


async def test_two_servers_come_and_go_in_any_order_while_a_third_is_in_a_call(hostile: Hostile):
    async with fleet() as (servers, registry):
        for name in ("a", "b", "c"):
            servers.connect(named(hostile.spec("silent_call") if name == "c" else hostile.spec(), name))
        await servers.wait_until_started(DEADLINE_S)
        waiting = asyncio.create_task(registry.call("c__slow", {}, Context()))
        await servers.disconnect("a")
        servers.connect(named(hostile.spec(), "d"))
        await servers.disconnect("b")
        servers.connect(named(hostile.spec(), "a"))
        await servers.wait_until_started(DEADLINE_S)
        assert not waiting.done()
        assert (await registry.call("a__echo", {"text": "x"}, Context())).parts
        assert (await registry.call("d__echo", {"text": "x"}, Context())).parts
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=5)


async def test_a_server_that_is_still_connecting_is_let_go_at_once(hostile: Hostile):
    async with fleet() as (servers, _):
        server = servers.connect(hostile.spec("silent", start_timeout_s=60.0, close_wait_s=0.1))
        await eventually(lambda: bool(hostile.pids()))
        async with asyncio.timeout(4):
            await servers.disconnect("files")
            await server.wait_until_started()
        assert server.state is ServerState.CLOSED


async def test_a_server_that_does_not_give_its_changed_list_is_let_go_at_once(hostile: Hostile):
    async with fleet() as (servers, registry):
        server = servers.connect(hostile.spec("silent_relist", close_wait_s=0.1))
        await servers.wait_until_started(DEADLINE_S)

        async def is_asked_again() -> bool:
            seen = await server.session.call_tool("seen", {})
            return text_of(seen.parts).count("tools/list") == 2

        await registry.call("files__change", {}, Context())
        await eventually(is_asked_again)
        async with asyncio.timeout(4):
            await servers.disconnect("files")


async def test_a_disconnected_servers_tools_are_gone_and_its_name_is_free(hostile: Hostile):
    async with fleet() as (servers, registry):
        servers.connect(hostile.spec())
        await servers.wait_until_started(DEADLINE_S)
        await servers.disconnect("files")
        assert not registry.specs()
        with pytest.raises(UsageError):
            servers.get("files")


async def test_a_name_is_used_once_and_a_refused_server_is_never_started(hostile: Hostile):
    async with fleet() as (servers, _):
        servers.connect(hostile.spec())
        for name in ("files", "a__b"):
            with pytest.raises(UsageError):
                servers.connect(named(hostile.spec(), name))
        await servers.wait_until_started(DEADLINE_S)
        assert list(servers.servers) == ["files"]


async def test_a_changed_list_is_read_again_and_counted_as_a_new_generation(hostile: Hostile):
    async with fleet() as (servers, registry):
        server = servers.connect(hostile.spec("list_changed"))
        await servers.wait_until_started(DEADLINE_S)
        before, generation = len(registry.specs()), server.generation
        await registry.call("files__grow", {}, Context())
        await eventually(lambda: len(registry.specs()) > before)
        assert server.generation == generation + 1


async def test_a_refresh_by_hand_tells_how_many_tools_there_are_or_why_not(hostile: Hostile):
    async with fleet() as (servers, registry):
        servers.connect(hostile.spec())
        servers.connect(ServerSpec("missing", command=("/no/such/program",)))
        await servers.wait_until_started(DEADLINE_S)
        found = await servers.refresh(["files", "missing"])
        assert found["files"] == len(registry.specs())
        assert isinstance(found["missing"], ToolError)


async def test_tools_are_allowed_and_denied_by_name(hostile: Hostile):
    async with fleet() as (servers, registry):
        servers.connect(hostile.spec(), ToolExposure(allow=("echo", "add"), deny=("add",)))
        await servers.wait_until_started(DEADLINE_S)
        assert [spec.name for spec in registry.specs()] == ["files__echo"]


async def test_a_servers_word_that_a_tool_only_reads_is_not_taken_unless_the_user_says_so(hostile: Hostile):
    hints = msgspec.structs.replace(hostile.spec(), command=(sys.executable, str(SUPPORT / "mcp_hints.py")))
    async with fleet() as (servers, registry):
        servers.connect(named(hints, "careful"))
        servers.connect(named(hints, "trusting"), ToolExposure(trust_hints=True))
        await servers.wait_until_started(DEADLINE_S)
        effects = {spec.name: spec.effect for spec in registry.specs()}
        assert effects["careful__look"] is Effect.WRITE
        assert effects["careful__destroy"] is Effect.EXEC
        assert effects["trusting__look"] is Effect.READ
        assert effects["trusting__destroy"] is Effect.EXEC


async def test_an_mcp_tool_serves_a_model_through_the_engines_gate(hostile: Hostile):
    async with fleet() as (servers, registry):
        servers.connect(hostile.spec())
        await servers.wait_until_started(DEADLINE_S)
        bench = Bench([call("files.echo", '{"text": "hi"}')], [TextDelta("ok")])
        bench.engine.tools = registry
        (refused,) = results(await bench.run())
        assert refused.status is ResultStatus.NOT_ALLOWED

        async def yes(question):
            return Answer(Choice.YES)

        (allowed,) = results(await bench.run(ask=yes))
        assert (allowed.status, allowed.name) == (ResultStatus.OK, "files__echo")
