"""Servers over stdio that misbehave in every way seen or feared. The fixture checks that nothing is left or leaked."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from aish.errors import ToolError
from aish.tools.mcp.errors import FaultKind
from aish.tools.mcp.session import McpClientSession
from aish.tools.mcp.types import ServerSpec
from aish.types.messages import text_of
from aish.types.tools import ResultStatus
from support.eventually import eventually
from support.hostile import SECRET, Hostile, group_exists
from support.processes import is_running


async def seen(session: McpClientSession) -> list[dict[str, Any]]:
    """What the server has got so far, in order."""
    messages: list[dict[str, Any]] = json.loads(text_of((await session.call_tool("seen", {})).parts))
    return messages


async def was_cancelled(session: McpClientSession, name: str) -> bool:
    messages = await seen(session)
    call = next(message for message in messages if message.get("params", {}).get("name") == name)
    cancelled = [message["params"] for message in messages if message["method"] == "notifications/cancelled"]
    return call["id"] in [params["requestId"] for params in cancelled]


# Starting


async def test_a_program_that_does_not_exist_is_named_with_the_phase(hostile: Hostile) -> None:
    error = await hostile.refuse(command=("/no/such/server",))
    assert (error.phase, error.kind) == ("spawn", FaultKind.UNREACHABLE)
    assert "/no/such/server was not found" in str(error)


async def test_a_server_that_dies_at_the_start_shows_its_exit_code_and_traceback(hostile: Hostile) -> None:
    error = await hostile.refuse("exit_at_start")
    assert (error.phase, error.kind, error.code) == ("initialize", FaultKind.EXIT, 3)
    assert "no module named left_pad" in error.stderr_tail


async def test_a_server_that_dies_of_the_handshake_shows_its_exit_code(hostile: Hostile) -> None:
    error = await hostile.refuse("exit_on_initialize")
    assert (error.phase, error.kind, error.code) == ("initialize", FaultKind.EXIT, 4)


async def test_a_server_that_never_answers_the_handshake_times_out(hostile: Hostile) -> None:
    error = await hostile.refuse("silent", start_timeout_s=0.5)
    assert (error.phase, error.kind) == ("initialize", FaultKind.TIMEOUT)


async def test_the_handshake_is_never_cancelled_by_a_notification(hostile: Hostile, tmp_path: Path) -> None:
    seen_file = tmp_path / "seen"
    await hostile.refuse("silent", start_timeout_s=0.5, env={"SEEN_FILE": str(seen_file)}, close_wait_s=5.0)
    assert seen_file.read_text() == "initialize"


async def test_a_server_that_never_lists_times_out_in_the_phase_list(hostile: Hostile) -> None:
    error = await hostile.refuse("silent_list", list_timeout_s=0.3)
    assert (error.phase, error.kind) == ("list", FaultKind.TIMEOUT)


async def test_a_cancelled_start_leaves_no_process(hostile: Hostile) -> None:
    async def start() -> None:
        async with hostile.open("silent"):
            pass

    starting = asyncio.create_task(start())
    await eventually(hostile.pids)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_the_child_gets_little_environment_and_what_is_configured(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-servers")
    monkeypatch.setenv("NODE_PATH", "/lib/node")
    async with hostile.open(env={"GREETING": "hello"}, inherit=("NODE_*",)) as session:
        seen = json.loads(text_of((await session.call_tool("env", {})).parts))
    assert "AWS_SECRET_ACCESS_KEY" not in seen
    assert (seen["GREETING"], seen["NODE_PATH"]) == ("hello", "/lib/node")


# Ending


async def test_a_stubborn_server_is_killed(hostile: Hostile) -> None:
    async with hostile.open("stubborn", close_wait_s=0.1) as session:
        assert len(session.tools) == 3
    assert not any(group_exists(pid) for pid in hostile.pids())
    assert hostile.warnings == ["shutdown: it did not leave when told to, and was killed"]


async def test_what_a_server_started_ends_with_it(hostile: Hostile) -> None:
    async with hostile.open("forks", close_wait_s=0.1) as session:
        grandchild = int(session.tools[-1].description)
        assert is_running(grandchild)
    await eventually(lambda: not is_running(grandchild))


async def test_what_a_server_left_behind_when_it_went_ends_too(hostile: Hostile) -> None:
    async with hostile.open("forks_and_exits", close_wait_s=0.1) as session:
        grandchild = int(next(tool.description for tool in session.tools if tool.name == "pid"))
        error = await hostile.fail_call(session, "leave")
        assert (error.phase, error.kind, error.code) == ("call", FaultKind.EXIT, 0)
    await eventually(lambda: not is_running(grandchild))


async def test_sessions_can_be_closed_in_any_order_and_from_any_task(hostile: Hostile) -> None:
    async with hostile.open() as outer:
        for _ in range(2):
            leaving, entered = asyncio.Event(), asyncio.Event()

            async def hold(entered: asyncio.Event = entered, leaving: asyncio.Event = leaving) -> None:
                async with hostile.open():
                    entered.set()
                    await leaving.wait()

            holding = asyncio.create_task(hold())
            await entered.wait()
            leaving.set()
            await holding
        assert text_of((await outer.call_tool("echo", {"text": "still here"})).parts) == "still here"


# Calls


async def test_a_crash_during_a_call_fails_every_call_at_once(hostile: Hostile) -> None:
    async with hostile.open("silent_call", "crash_on_call") as session:
        waiting = asyncio.create_task(session.call_tool("slow", {}))
        error = await hostile.fail_call(session, "crash")
        assert (error.kind, error.code, error.status) == (FaultKind.EXIT, 139, ResultStatus.SERVER_GONE)
        assert "index out of range" in error.stderr_tail
        with pytest.raises(ToolError):
            await waiting
        assert (await hostile.fail_call(session, "echo")).kind is FaultKind.EXIT
        assert (await session.wait_closed()).code == 139


async def test_a_call_without_an_answer_times_out_and_the_server_is_told(hostile: Hostile) -> None:
    async with hostile.open("silent_call") as session:
        error = await hostile.fail_call(session, "slow", timeout_s=0.2)
        assert (error.phase, error.kind, error.status) == ("call", FaultKind.TIMEOUT, ResultStatus.TIMEOUT)
        assert "slow" in str(error)
        await eventually(lambda: was_cancelled(session, "slow"))


async def test_a_cancelled_call_tells_the_server(hostile: Hostile) -> None:
    async with hostile.open("silent_call") as session:
        waiting = asyncio.create_task(session.call_tool("slow", {}))
        await session.call_tool("seen", {})  # the first was sent before this one
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await eventually(lambda: was_cancelled(session, "slow"))


async def test_a_server_that_stops_reading_times_out(hostile: Hostile) -> None:
    async with hostile.open("deaf", close_wait_s=0.1) as session:
        with pytest.raises(ToolError) as caught:
            await session.call_tool("echo", {"text": "x" * 1_000_000}, timeout_s=0.3)
    assert caught.value.status is ResultStatus.TIMEOUT


async def test_a_server_that_closes_its_output_is_given_up(hostile: Hostile) -> None:
    async with hostile.open("closes_stdout", close_wait_s=0.1) as session:
        error = await hostile.fail_call(session, "close")
    assert (error.phase, error.kind) == ("call", FaultKind.UNREACHABLE)


async def test_more_calls_than_allowed_at_once_wait_for_their_turn(hostile: Hostile) -> None:
    async with hostile.open("silent_call", max_in_flight=2) as session:
        slow = [asyncio.create_task(session.call_tool("slow", {}, timeout_s=0.3)) for _ in range(2)]
        await asyncio.sleep(0)
        late = await hostile.fail_call(session, "echo", timeout_s=0.1)
        assert late.kind is FaultKind.TIMEOUT
        await asyncio.gather(*slow, return_exceptions=True)
        assert text_of((await session.call_tool("echo", {"text": "now"})).parts) == "now"


# What it writes


@pytest.mark.parametrize("mode", ["banner", "string_ids", "stderr_flood"])
async def test_noise_and_odd_ids_do_not_stop_a_server_from_working(hostile: Hostile, mode: str) -> None:
    async with hostile.open(mode) as session:
        assert text_of((await session.call_tool("echo", {"text": "hi"})).parts) == "hi"


async def test_a_flood_on_stderr_is_drained_and_only_its_tail_kept(hostile: Hostile) -> None:
    async with hostile.open("stderr_flood") as session:
        await eventually(lambda: "noise 19999" in session.stderr_tail())
        assert len(session.stderr_tail()) < 40_000


@pytest.mark.parametrize("name", ["huge", "huge_id_last"])
async def test_a_line_too_long_fails_its_own_call_and_no_other(hostile: Hostile, name: str) -> None:
    async with hostile.open("huge_line") as session:
        error = await hostile.fail_call(session, name)
        assert (error.phase, error.kind) == ("call", FaultKind.TOO_LARGE)
        assert name in str(error)
        assert text_of((await session.call_tool("echo", {"text": "hi"})).parts) == "hi"


async def test_a_long_line_within_the_bound_is_read(hostile: Hostile) -> None:
    async with hostile.open("huge_line") as session:
        assert len(text_of((await session.call_tool("large", {})).parts)) == 4 * 1024 * 1024


@pytest.mark.parametrize(("mode", "name"), [("bad_utf8", "bytes"), ("deep", "deep")])
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(hostile: Hostile, mode: str, name: str) -> None:
    async with hostile.open(mode) as session:
        error = await hostile.fail_call(session, name)
        assert (error.phase, error.kind) == ("call", FaultKind.PROTOCOL)
        assert text_of((await session.call_tool("echo", {"text": "hi"})).parts) == "hi"


async def test_an_answer_with_another_id_never_hangs_and_is_counted(hostile: Hostile) -> None:
    async with hostile.open("wrong_id") as session:
        error = await hostile.fail_call(session, "wrong", timeout_s=0.3)
    assert error.kind is FaultKind.TIMEOUT
    assert "1 answers to no request" in str(error)


async def test_half_an_answer_times_out(hostile: Hostile) -> None:
    async with hostile.open("no_newline") as session:
        assert (await hostile.fail_call(session, "half", timeout_s=0.3)).kind is FaultKind.TIMEOUT


async def test_an_error_without_an_id_belongs_to_the_only_call(hostile: Hostile) -> None:
    async with hostile.open("null_id_error") as session:
        error = await hostile.fail_call(session, "parse")
    assert (error.kind, error.code) == (FaultKind.RPC, -32700)


async def test_a_second_answer_to_one_call_is_ignored(hostile: Hostile) -> None:
    async with hostile.open("twice") as session:
        assert text_of((await session.call_tool("twice", {})).parts) == "first"
        assert text_of((await session.call_tool("echo", {"text": "hi"})).parts) == "hi"


async def test_an_answer_in_a_batch_is_found(hostile: Hostile) -> None:
    async with hostile.open("batch") as session:
        assert text_of((await session.call_tool("batch", {})).parts) == "from a batch"


async def test_an_answer_with_neither_result_nor_error_is_a_protocol_error(hostile: Hostile) -> None:
    async with hostile.open("neither") as session:
        assert (await hostile.fail_call(session, "neither")).kind is FaultKind.PROTOCOL
        words = await hostile.fail_call(session, "error_text")
    assert (words.kind, words.code) == (FaultKind.RPC, -32603)
    assert "just words" in str(words)


async def test_an_answer_in_single_bytes_is_read(hostile: Hostile) -> None:
    async with hostile.open("splits") as session:
        assert text_of((await session.call_tool("slowly", {})).parts) == "böse"


# What it asks of us


async def test_a_server_that_asks_is_refused_and_pings_are_answered(hostile: Hostile) -> None:
    async with hostile.open("asks_back") as session:
        answers = json.loads(text_of((await session.call_tool("ask", {})).parts))
    assert answers == {
        "sampling/createMessage": -32601,
        "elicitation/create": -32601,
        "roots/list": -32601,
        "no/such": -32601,
        "ping": {},
    }


async def test_no_capability_is_advertised(hostile: Hostile) -> None:
    async with hostile.open("silent_call") as session:
        messages = await seen(session)
    assert messages[0]["params"]["capabilities"] == {}


async def test_a_flood_of_requests_holds_up_nobody(hostile: Hostile) -> None:
    async with hostile.open("request_flood") as session:
        assert text_of((await session.call_tool("flood", {})).parts) == "done"


# Secrets


async def test_a_token_in_stderr_and_errors_is_taken_out(hostile: Hostile) -> None:
    error = await hostile.refuse("stderr_secret", protocol="legacy")
    assert (error.kind, error.code) == (FaultKind.RPC, -32000)
    assert "token [redacted] is not valid" in str(error)
    assert error.stderr_tail.count("[redacted]") == 2


async def test_a_token_in_the_error_of_a_call_is_taken_out(hostile: Hostile) -> None:
    async with hostile.open("leaky_call") as session:
        error = await hostile.fail_call(session, "leak")
    assert error.detail == "leak: token [redacted] has no quota"


def test_a_spec_shows_no_value_that_may_be_secret() -> None:
    spec = ServerSpec(
        "web",
        url=f"https://u:{SECRET}@host/mcp?key={SECRET}",
        token=SECRET,
        env={"API_TOKEN": SECRET},
        headers={"x-key": SECRET},
        command=("run", f"--token={SECRET}"),
    )
    assert SECRET not in repr(spec)
    assert "API_TOKEN" in repr(spec)
    assert SECRET in spec.secrets()


async def test_a_line_with_a_well_known_kind_of_key_is_redacted_though_nobody_configured_it(hostile: Hostile) -> None:
    key = "ghp_" + "a1B2" * 9
    code = f"import sys; sys.stderr.write('login {key}'); sys.exit(1)"
    error = await hostile.refuse(command=(os.environ.get("PYTHON", "python3"), "-c", code))
    assert error.stderr_tail == "login [redacted]"
