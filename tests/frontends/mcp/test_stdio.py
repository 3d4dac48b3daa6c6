"""The server frontend over stdio: on two pipes within the process, and as the real command in one of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aish.frontends.mcp.protocol import ToolServer
from aish.frontends.mcp.requests import META_CAPABILITIES, META_VERSION
from aish.frontends.mcp.stdio import StdioServer
from aish.ports import CallContext
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.types import ListChanged, ServerSpec
from aish.types.messages import text_of
from aish.types.tools import Arguments, ToolOutput
from support.command import Command
from support.engines import Bench, Tools, said
from support.eventually import eventually
from support.processes import is_running

DEADLINE_S = 20.0
SECRET = "tok-51c0ffee-9a7d"
STATELESS = {"_meta": {META_VERSION: "2026-07-28", META_CAPABILITIES: {}}}


class Client:
    """Writes lines and reads lines, nothing else."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer = writer
        self._reader = reader
        self._last_id = 0

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(DEADLINE_S):
            await self._writer.drain()

    async def send(self, **message: Any) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def read(self) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return json.loads(await self._reader.readline())

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self._last_id += 1
        await self.send(id=self._last_id, method=method, params=params or {})
        answer = await self.read()
        assert answer["id"] == self._last_id
        return answer

    async def rest(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            return await self._reader.read()

    def hang_up(self) -> None:
        self._writer.close()


@asynccontextmanager
async def serving(tools: Tools, **options: Any) -> AsyncIterator[Client]:
    """A server on two pipes. Leaving hangs up and waits for its end."""
    source_fd, writing = os.pipe()
    reading, sink_fd = os.pipe()
    engine = Bench(tools=tools).engine
    server = StdioServer(
        ToolServer(engine, list_changed=True), source_fd=source_fd, sink_fd=sink_fd, watch_s=0.02, **options
    )
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(writing, "wb"))
    client = Client(asyncio.StreamWriter(transport, protocol, None, loop), reader)

    async def until_its_end() -> None:
        await server.serve()
        os.close(source_fd)
        os.close(sink_fd)

    task = asyncio.ensure_future(until_its_end())
    try:
        yield client
    finally:
        client.hang_up()
        async with asyncio.timeout(DEADLINE_S):
            await task
        pipe.close()


class Gate:
    """A tool that waits, and says when it was stopped."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __call__(self, arguments: Arguments, context: CallContext) -> ToolOutput:
        self.begun.set()
        context.status("waiting")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return said("done")


async def test_both_eras_are_served_on_one_line():
    async with serving(Tools().add("a__b")) as client:
        assert (await client.ask("initialize", {"protocolVersion": "2025-06-18"}))["result"][
            "protocolVersion"
        ] == "2025-06-18"
        await client.send(method="notifications/initialized")
        assert (await client.ask("ping"))["result"] == {}
        assert (await client.ask("tools/call", {"name": "a__b"}))["result"]["content"][0]["text"] == "done"
        assert (await client.ask("server/discover", STATELESS))["result"]["supportedVersions"] == ["2026-07-28"]
        assert (await client.ask("tools/list", STATELESS))["result"]["resultType"] == "complete"
        assert (await client.ask("server/discover"))["error"]["code"] == -32602


@pytest.mark.parametrize(("version", "knows"), [("2024-11-05", False), ("2025-03-26", False), ("2025-06-18", True)])
async def test_revisions_without_structured_results_are_told_the_words(version: str, knows: Any):
    async def forgetful(arguments: Arguments, context: CallContext) -> ToolOutput:
        return said("words")

    tools = Tools().add("a__b", forgetful, output_schema={"type": "object", "required": ["n"]})
    async with serving(tools) as client:
        await client.ask("initialize", {"protocolVersion": version})
        (listed,) = (await client.ask("tools/list"))["result"]["tools"]
        result = (await client.ask("tools/call", {"name": "a__b"}))["result"]
    assert ("outputSchema" in listed, result["isError"]) == (knows, knows)
    assert result["content"][-1]["text"] == "words"


async def test_calls_run_side_by_side_and_a_ping_overtakes_them():
    gate = Gate()
    async with serving(Tools().add("a__wait", gate)) as client:
        await client.send(id="slow", method="tools/call", params={"name": "a__wait"})
        await gate.begun.wait()
        assert (await client.ask("ping"))["result"] == {}
        gate.go.set()
        assert (await client.read())["id"] == "slow"


async def test_a_burst_of_calls_is_answered_in_full():
    async with serving(Tools().add("a__b")) as client:
        for number in range(300):
            await client.send(id=number, method="tools/call", params={"name": "a__b"})
        answers = [await client.read() for _ in range(300)]
        assert sorted(answer["id"] for answer in answers) == list(range(300))
        assert all("result" in answer for answer in answers)


async def test_cancelling_stops_the_tool_and_nothing_is_answered():
    gate = Gate()
    async with serving(Tools().add("a__wait", gate)) as client:
        await client.send(id=90, method="tools/call", params={"name": "a__wait"})
        await gate.begun.wait()
        for wrong in ({}, {"requestId": 91}, {"requestId": "90"}, {"requestId": [90]}):
            await client.send(method="notifications/cancelled", params=wrong)
        await client.send(method="notifications/cancelled", params={"requestId": 90})
        async with asyncio.timeout(DEADLINE_S):
            await gate.stopped.wait()
        assert (await client.ask("ping"))["result"] == {}
        client.hang_up()
        assert await client.rest() == b""


async def test_progress_comes_before_the_answer():
    gate = Gate()
    gate.go.set()
    async with serving(Tools().add("a__wait", gate)) as client:
        params = {"name": "a__wait", "_meta": {"progressToken": 5}}
        await client.send(id=1, method="tools/call", params=params)
        assert (await client.read())["params"] == {"progressToken": 5, "progress": 1, "message": "waiting"}
        assert (await client.read())["id"] == 1


async def test_an_id_in_use_is_refused():
    gate = Gate()
    async with serving(Tools().add("a__wait", gate)) as client:
        await client.send(id=1, method="tools/call", params={"name": "a__wait"})
        await gate.begun.wait()
        await client.send(id=1, method="ping")
        assert (await client.read())["error"]["code"] == -32600
        gate.go.set()
        assert (await client.read())["result"]["isError"] is False


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello\n", -32700),
        (b'{"id":1\n', -32700),
        (b"\xff\xff\xff\n", -32700),
        (b"5\n", -32600),
        (b'{"id":{},"method":"ping"}\n', -32600),
        (b'{"id":1,"method":5}\n', -32600),
        (b'{"id":1,"method":"tools/list","params":[1]}\n', -32602),
        (b'{"id":1,"method":"nothing"}\n', -32601),
    ],
)
async def test_nonsense_is_answered_and_the_line_lives_on(line: bytes, code: int):
    async with serving(Tools()) as client:
        await client.write(line)
        assert (await client.read())["error"]["code"] == code
        assert (await client.ask("ping"))["result"] == {}


async def test_a_line_longer_than_the_bound_is_refused_and_the_next_is_served():
    async with serving(Tools()) as client:
        sending = asyncio.ensure_future(client.write(b'{"id":1,"method":"' + b"x" * (9 << 20) + b'"}\n'))
        assert "too large" in (await client.read())["error"]["message"]
        await sending
        assert (await client.ask("ping"))["result"] == {}


async def test_answers_and_notifications_of_the_client_are_no_requests():
    async with serving(Tools()) as client:
        await client.send(id=5, result={})
        await client.send(method="notifications/whatever", params={"a": 1})
        await client.write(b"\n  \n")
        assert (await client.ask("ping"))["result"] == {}


async def test_a_batch_is_answered_with_an_array():
    async with serving(Tools().add("a__b")) as client:
        members = [
            {"id": 1, "method": "ping"},
            {"method": "notifications/initialized"},
            {"id": "x", "method": "tools/call", "params": {"name": "a__b"}},
            {"id": 3, "method": "nothing"},
        ]
        await client.write(json.dumps(members).encode() + b"\n")
        answers = await client.read()
        assert [answer["id"] for answer in answers] == [1, "x", 3]
        assert answers[2]["error"]["code"] == -32601


async def test_a_list_that_changes_is_announced_once_to_who_has_asked():
    tools = Tools().add("a__b")
    async with serving(tools) as client:
        await client.ask("tools/list")
        tools.add("a__c")
        assert (await client.read())["method"] == "notifications/tools/list_changed"
        names = [tool["name"] for tool in (await client.ask("tools/list"))["result"]["tools"]]
        assert names == ["a__b", "a__c"]


async def test_the_end_of_input_stops_what_runs_and_ends_the_server():
    gate = Gate()
    async with serving(Tools().add("a__wait", gate)) as client:
        await client.send(id=1, method="tools/call", params={"name": "a__wait"})
        await gate.begun.wait()
        client.hang_up()
        async with asyncio.timeout(DEADLINE_S):
            await gate.stopped.wait()


async def test_a_last_line_without_its_end_counts():
    async with serving(Tools()) as client:
        await client.write(b'{"id":1,"method":"ping"}')
        client.hang_up()
        assert json.loads(await client.rest())["result"] == {}


# The real command.


def spec(home: Path, *words: str, **fields: Any) -> ServerSpec:
    command = (sys.executable, "-m", "aish", "mcp", "serve", *words)
    return ServerSpec("self", command=command, env={"HOME": str(home)}, cwd=home, **fields)


@pytest.mark.parametrize(("protocol", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")])
async def test_our_own_client_lists_and_calls_our_own_server(private_home: Path, protocol: Any, version: str):
    async with open_session(spec(private_home, "--tools", "runtime.*", protocol=protocol)) as session:
        assert session.facts.protocol_version == version
        assert {tool.name for tool in session.tools} == {"runtime__add", "runtime__echo", "runtime__time"}
        output = await session.call_tool("runtime__add", {"a": 2, "b": 3})
        assert text_of(output.parts) == "5"


async def test_a_command_that_writes_is_refused_because_nobody_is_there_to_ask(private_home: Path):
    async with open_session(spec(private_home)) as session:
        output = await session.call_tool("shell__run", {"command": "touch made"})
        assert output.is_error
        assert "there was no user to ask" in text_of(output.parts)
    assert not (private_home / "made").exists()


async def test_servers_behind_us_are_offered_once_the_user_approves_them(private_home: Path):
    stub = Path(__file__).parents[2] / "support" / "mcp_stub.py"
    Command(private_home).write_config(
        f'[mcp]\nauto_approve = ["notes__echo"]\n[mcp.servers.notes]\ncommand = "{sys.executable}"\nargs = ["{stub}"]\n'
    )
    events: list[object] = []
    async with open_session(spec(private_home, "--tools", "notes.*"), on_event=events.append) as session:
        assert [tool.name for tool in session.tools] == ["notes__echo"]
        output = await session.call_tool("notes__echo", {"text": "through two servers"})
        assert text_of(output.parts) == "through two servers"
    assert not any(isinstance(event, ListChanged) for event in events)


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_structured_results_of_servers_behind_us_are_handed_on(private_home: Path, protocol: Any):
    server = Path(__file__).parents[2] / "support" / "mcp_structured.py"
    Command(private_home).write_config(
        f'[mcp]\nauto_approve = ["notes__*"]\n[mcp.servers.notes]\ncommand = "{sys.executable}"\nargs = ["{server}"]\n'
        f'env = {{ NOTES_TOKEN = "{SECRET}" }}\n'
    )
    async with open_session(spec(private_home, "--tools", "notes.*", protocol=protocol)) as session:
        promised = {tool.name for tool in session.tools if tool.output_schema is not None}
        assert promised == {f"notes__{name}" for name in ("count", "show", "forget", "lie", "refuse")}

        async def call(name: str, **arguments: Any) -> ToolOutput:
            return await session.call_tool(f"notes__{name}", arguments)

        assert (await call("count", n=2)).structured == {"numbers": [{"n": 0}, {"n": 1}]}
        assert (await call("show", value="HOME")).structured == {"value": str(private_home)}
        assert (await call("show", value="NOTES_TOKEN")).structured == {"value": "[redacted]"}
        assert (await call("free")).structured == {"anything": [1, 2]}
        for broken in (await call("forget"), await call("lie")):
            assert (broken.is_error, broken.structured) == (True, None)
            assert text_of(broken.parts).startswith("[aish] the tool has run, but without the structured result")
        refused = await call("refuse")
        assert (refused.is_error, text_of(refused.parts), refused.structured) == (True, "refused", None)


def start(home: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "aish", "mcp", "serve", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=Command(home).environment(),
        cwd=home,
    )


def request(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def test_requests_piped_in_are_answered_and_it_ends(private_home: Path):
    process = start(private_home)
    out, err = process.communicate(request(1, "ping") + request(2, "tools/list"), timeout=DEADLINE_S)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
    assert (process.returncode, err) == (0, b"")


def test_globs_that_name_no_tool_are_told_of(private_home: Path):
    process = start(private_home, "--tools", "nope.*")
    out, err = process.communicate(request(1, "tools/list"), timeout=DEADLINE_S)
    assert json.loads(out)["result"]["tools"] == []
    assert err == b"aish: there is no tool that nope.* names\n"


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_sigterm_ends_it_and_what_it_runs(private_home: Path):
    Command(private_home).write_config('[gate]\nauto_approve = ["shell__run"]\n')
    process = start(private_home)
    assert process.stdin and process.stdout and process.stderr
    with process.stdin, process.stdout, process.stderr:
        for id in (1, 2):
            process.stdin.write(request(id, "tools/call", name="shell__run", arguments={"command": f"sleep 60{id}"}))
        process.stdin.flush()
        await eventually(lambda: len(children_of(process.pid)) >= 2, DEADLINE_S)
        children = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=DEADLINE_S) == 143
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
        await eventually(lambda: not any(is_running(pid) for pid in children))


def test_nothing_but_protocol_reaches_stdout(private_home: Path):
    """Even where something of ours prints, or a child inherits what it should not."""
    program = (
        "import os, sys\n"
        "from aish.frontends.mcp import stdio\n"
        "source_fd, sink_fd = stdio._redirect_standard_streams()\n"
        "print('from python', flush=True)\n"
        "os.system('echo from a child; cat')\n"
        "os.write(sink_fd, os.read(source_fd, 100))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"protocol", capture_output=True, timeout=DEADLINE_S, check=True
    )
    assert done.stdout == b"protocol"
    assert done.stderr.decode().splitlines() == ["from python", "from a child"]
