"""MCP servers that other people use, each listed and called through the command line, and nothing of them left after.

Installs them under `.cache/mcp-servers` when they are not there; `-m "not real_servers"` leaves these tests out.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aish.net.http.client import HttpClient
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.errors import McpError
from aish.tools.mcp.types import ListChanged, ServerSpec
from aish.types.messages import text_of
from support.command import Command
from support.eventually import eventually
from support.free_port import free_port
from support.mcp_peers import node_server, python_server, sdk_python

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]  # the first one to run installs

MARK = "AISH_REAL_SERVER_TEST"
SUPPORT = Path(__file__).parents[1] / "support"
SDK_SERVER, SDK_CLIENT = SUPPORT / "sdk_http_server.py", SUPPORT / "sdk_client.py"


@pytest.fixture(scope="session")
def commands() -> dict[str, tuple[str, ...]]:
    """Made before any test has a home of its own, so that npm and pip find their settings."""
    names = {name: node_server(name) for name in ("everything", "filesystem", "memory")}
    return names | {name: python_server(name) for name in ("git", "time", "sqlite")}


@pytest.fixture
def servers(commands: dict[str, tuple[str, ...]], tmp_path: Path) -> dict[str, tuple[str, ...]]:
    subprocess.run(["git", "init", "--quiet", tmp_path / "repo"], check=True, timeout=30)
    (tmp_path / "repo" / "note.txt").write_text("a line\n")
    more = {
        "filesystem": (str(tmp_path / "repo"),),
        "git": ("--repository", str(tmp_path / "repo")),
        "sqlite": ("--db-path", str(tmp_path / "test.db")),
    }
    return {name: (*command, *more.get(name, ())) for name, command in commands.items()}


@pytest.fixture
def aish(private_home: Path, tmp_path: Path, servers: dict[str, tuple[str, ...]]) -> Iterator[Command]:
    mark = str(tmp_path)
    env = {MARK: mark, "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    sections = [
        f"[mcp.servers.{name}]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"
        f"env = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in env.items())} }}\n"
        for name, words in servers.items()
    ]
    command = Command(private_home)
    command.write_config("\n".join(sections))
    yield command
    assert survivors(mark) == []


def survivors(mark: str) -> list[str]:
    """Processes that carry the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_every_server_that_works_is_ready_and_the_broken_one_says_why(aish: Command):
    done = aish.run("mcp", "list", "--json")
    listed = {server["name"]: server for server in map(json.loads, done.out.splitlines())}
    assert done.code == 1
    assert {name for name, server in listed.items() if server["state"] == "ready"} == {
        *("everything", "filesystem", "memory", "git", "time"),
    }
    assert all(server["tools"] > 0 for server in listed.values() if server["state"] == "ready")
    assert listed["sqlite"]["state"] == "failed"
    assert "sqlite: " in listed["sqlite"]["error"] and "exit" in listed["sqlite"]["error"]


def test_the_last_words_of_the_broken_server_are_shown(aish: Command):
    done = aish.run("mcp", "list")
    assert "its last words: AttributeError" in done.out
    assert "Traceback" in aish.run("mcp", "log", "sqlite").out


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("everything.echo", {"message": "hello there"}, "hello there"),
        ("filesystem.read_text_file", {"path": "{repo}/note.txt"}, "a line"),
        ("memory.read_graph", {}, "entities"),
        ("git.git_status", {"repo_path": "{repo}"}, "note.txt"),
        ("time.get_current_time", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
    ],
)
def test_a_tool_of_it_is_called(aish: Command, tmp_path: Path, tool: str, arguments: dict[str, str], expected: str):
    filled = {key: value.format(repo=tmp_path / "repo") for key, value in arguments.items()}
    done = aish.run("mcp", "call", tool, json.dumps(filled))
    assert (done.code, done.err) == (0, "")
    assert expected in done.out


def test_progress_images_resources_and_prompts_arrive(aish: Command):
    long = aish.run("mcp", "call", "everything.trigger-long-running-operation", '{"duration": 0.2, "steps": 2}')
    assert long.code == 0
    assert len(aish.run("mcp", "resources", "everything").out.splitlines()) > 3
    assert "simple-prompt" in aish.run("mcp", "prompts", "everything").out


@pytest.mark.parametrize("name", ["git", "time"])
async def test_servers_of_both_eras_answer_in_the_stateless_one(servers: dict[str, tuple[str, ...]], name: str):
    async with open_session(ServerSpec(name, command=servers[name], protocol="2026-07-28")) as session:
        assert session.facts.protocol_version == "2026-07-28"
        assert session.tools


async def test_a_server_that_dies_at_its_start_fails_by_name_and_phase(servers: dict[str, tuple[str, ...]]):
    with pytest.raises(McpError) as caught:
        async with open_session(ServerSpec("sqlite", command=servers["sqlite"])):
            pass
    assert caught.value.message.startswith("MCP server sqlite: ")
    assert "AttributeError" in caught.value.stderr_tail


@pytest.fixture
def sdk_port(commands: dict[str, Any]) -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen([sdk_python(), SDK_SERVER, str(port)])
    yield port
    process.terminate()
    process.wait(timeout=20)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(("protocol", "version"), [("auto", "2025-11-25"), ("2026-07-28", "2026-07-28")])
async def test_a_server_of_the_official_sdk_answers_over_http(sdk_port: int, protocol: Any, version: str):
    await eventually(lambda: listens(sdk_port), 60)
    spec = ServerSpec("peer", url=f"http://127.0.0.1:{sdk_port}/mcp", protocol=protocol)
    async with HttpClient() as http, open_session(spec, http=http) as session:
        assert session.facts.protocol_version == version
        assert [tool.name for tool in session.tools] == ["add", "grow"]
        assert text_of((await session.call_tool("add", {"a": 2, "b": 3})).parts) == "5"


async def test_a_server_of_the_official_sdk_tells_of_its_new_tools_in_the_stateless_era(sdk_port: int):
    await eventually(lambda: listens(sdk_port), 60)
    spec, events = ServerSpec("peer", url=f"http://127.0.0.1:{sdk_port}/mcp", protocol="2026-07-28"), list[Any]()
    async with HttpClient() as http, open_session(spec, http=http, on_event=events.append) as session:
        for number in range(500):  # the first may come before the subscription does
            await session.call_tool("grow", {"name": f"tool{number}"})
            if events:
                break
        assert ListChanged("peer", "tools") in events
        assert "tool0" in [tool.name for tool in await session.refresh_tools()]


BOTH_ERAS = pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])


def seen_by_sdk(home: Path, mode: str, tools: str, *calls: tuple[str, dict[str, Any]]) -> Any:
    """What the official SDK sees of our own server."""
    serve = (sys.executable, "-m", "aish", "mcp", "serve", "--tools", tools)
    words = [sdk_python(), SDK_CLIENT, mode, json.dumps(calls), *serve]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False, cwd=home)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@BOTH_ERAS
def test_the_official_sdk_lists_and_calls_our_own_server(
    commands: dict[str, Any], private_home: Path, mode: str, version: str
):
    assert seen_by_sdk(private_home, mode, "runtime.*", ("runtime__add", {"a": 2, "b": 3})) == {
        "version": version,
        "tools": dict.fromkeys(["runtime__add", "runtime__echo", "runtime__time"]),
        "results": [{"texts": ["5"], "structured": None, "is_error": False}],
    }


@BOTH_ERAS
def test_the_official_sdk_takes_the_structured_results_of_servers_behind_us(
    commands: dict[str, Any], private_home: Path, mode: str, version: str
):
    Command(private_home).write_config(
        f'[mcp]\nauto_approve = ["notes__*"]\n[mcp.servers.notes]\ncommand = "{sys.executable}"\n'
        f'args = ["{SUPPORT / "mcp_structured.py"}"]\n'
    )
    calls = ("notes__count", {"n": 2}), ("notes__forget", {}), ("notes__lie", {}), ("notes__free", {})
    seen = seen_by_sdk(private_home, mode, "notes.*", *calls)
    assert seen["version"] == version
    assert seen["tools"]["notes__count"]["required"] == ["numbers"] and seen["tools"]["notes__free"] is None
    assert [result["structured"] for result in seen["results"]] == [
        {"numbers": [{"n": 0}, {"n": 1}]}, None, None, {"anything": [1, 2]},
    ]  # fmt: skip
    assert [result["is_error"] for result in seen["results"]] == [False, True, True, False]
