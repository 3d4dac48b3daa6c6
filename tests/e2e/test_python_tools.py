"""A tool in a Python file is there for the shell, for clients of a running server and for other agents, at once."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from aish.tools.mcp.connect import open_session
from aish.tools.mcp.types import ServerSpec
from aish.types.messages import text_of
from e2e.test_shell import did, home, model, shell
from support.command import Command, ended
from support.eventually import eventually
from support.free_port import free_port

__all__ = ["home"]

CODE = """from aish import tool


@tool(effect="read")
def weekday(date: str) -> str:
    "The day of the week of a date such as 2026-11-19."
    import datetime
    return datetime.date.fromisoformat(date).strftime("{form}")
"""
CALL = [
    [{"call": {"index": 0, "id": "c1", "name": "my__weekday", "arguments": '{"date": "2026-11-19"}'}}],
    [{"text": "done"}],
]
DEADLINE_S = 60.0


def write_tool(folder: Path, form: str = "%A") -> Path:
    path = folder / ".config" / "aish" / "tools" / "weekday.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CODE.replace("{form}", form))
    return path


@pytest.fixture
def command(tmp_path: Path) -> Command:
    folder = tmp_path / "user"
    folder.mkdir()
    return Command(folder)


def test_a_tool_is_written_listed_and_tried_from_the_command_line(command: Command):
    ran = command.run("tools")
    assert ran.code == 0 and "no tools in Python yet" in ran.out
    ran = command.run("tools", "new", "hello")
    path = command.home / ".config/aish/tools/hello.py"
    assert ran.code == 0 and ran.out == f"wrote {path}\n"
    assert "✓ my__hello  [read]" in command.run("tools", "list").out
    ran = command.run("tools", "test", "hello", '{"text": "hi", "times": "2"}')
    assert (ran.code, ran.out) == (0, "hi hi\n")
    ran = command.run("tools", "test", "hello", '{"txt": "hi"}')
    assert ran.code == 1 and "do not fit the schema" in ran.out
    assert command.run("tools", "test", "nothing").code == 2
    assert command.run("tools", "new", "hello").code == 2
    for name in ("../evil", "class", "größe", "a__b", "_x"):
        assert command.run("tools", "new", name).code == 2, name
    path.write_text("import nothing_like_this\n")
    ran = command.run("tools")
    assert ran.code == 1 and f"{path}:1: ModuleNotFoundError" in ran.err
    assert "hello" not in command.run("tools", "list", "--json").out


def test_a_tool_of_a_project_has_to_be_trusted(command: Command, tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    assert command.run("tools", "new", "--project", "hello", cwd=project).code == 0
    ran = command.run("tools", cwd=project)
    assert "is ignored until you trust it" in ran.out and "project__hello" not in ran.out
    ran = command.run("config", "trust", cwd=project)
    assert ran.code == 0 and "def hello" in ran.out
    assert "✓ project__hello" in command.run("tools", cwd=project).out
    (project / ".aish/tools/hello.py").write_text("import os\n")
    assert "is ignored until you trust it" in command.run("tools", cwd=project).out


def test_an_extension_is_shown_before_it_is_enabled(command: Command):
    folder = Path(__file__).parents[2] / "examples/tickets/aish_tickets"
    ran = command.run("extensions", "check", str(folder))
    assert ran.code == 0 and "tickets__close_ticket  [write]" in ran.out and "hook     before_tool" in ran.out
    marked = command.home / "marked"
    shutil.copytree(folder, marked)
    (marked / "tickets.py").write_text(f"open({str(command.home / 'ran')!r}, 'w')\n")
    ran = command.run("extensions", "add", str(marked))
    assert ran.code == 2 and "needs a yes" in ran.err and not (command.home / "ran").exists()
    assert command.run("extensions", "add", "--yes", str(folder)).code == 0
    assert "✓ tickets  1.0  enabled" in command.run("extensions").out
    (command.home / "tickets.json").write_text(json.dumps([{"id": n, "title": f"t{n}"} for n in (1, 2)]))
    ran = command.run("tools", "test", "close_ticket", '{"id": 1}')
    assert ran.code == 3 and "refused by a hook: #1 is the pinned ticket" in ran.out
    assert command.run("tools", "test", "close_ticket", '{"id": 2}').out == "closed #2: t2\n"
    assert command.run("extensions", "remove", "tickets").code == 0
    assert command.run("tools", "test", "close_ticket", '{"id": 2}').code == 2
    assert command.run("extensions", "remove", "tickets").code == 2


async def test_the_open_shell_takes_a_new_tool_and_an_edit_with_the_next_question(home: Path):
    steps = [*CALL, CALL[0], CALL[1]]
    async with shell(home, "--model", model(home, steps)) as term:
        await did(term, "? first", "no tool named my__weekday")
        path = write_tool(home / "home")
        await did(term, ":reset", "a new conversation")
        await did(term, "? second", "Thursday")
        path.write_text(path.read_text().replace("%A", "%d.%m."))
        await did(term, ":reset", "a new conversation")
        await did(term, "? third", "19.11.")
        path.write_text("1 / 0\n")
        await did(term, "? fourth", "weekday.py:1: ZeroDivisionError")


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


async def test_a_running_server_offers_a_new_tool_to_chat_completions(command: Command):
    port, name = free_port(), command.write_script("play", CALL)
    server = command.start("serve", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    try:
        await eventually(lambda: _is_ready(url), DEADLINE_S)
        write_tool(command.home)
        body = {
            "model": name,
            "trace": True,
            "messages": [{"role": "user", "content": "go"}],
            "tools": [{"type": "function", "function": {"name": "my__weekday"}}],
        }
        await eventually(lambda: _has_tool(url), DEADLINE_S)
        reply = await asyncio.to_thread(post, f"{url}/v1/chat/completions", body)
        assert reply["choices"][0]["message"]["content"] == "done"
        assert "tool_calls" not in reply["choices"][0]["message"]
        write_tool(command.home).write_text("1 / 0\n")
        await eventually(lambda: _lost_tool(url), DEADLINE_S)
    finally:
        ran = await asyncio.to_thread(ended, server)
    assert "Traceback" not in ran.err and "weekday.py:1: ZeroDivisionError" in ran.err


async def _is_ready(url: str) -> bool:
    try:
        return bool(await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/healthz", timeout=5).read()))
    except OSError:
        return False


async def _lost_tool(url: str) -> bool:
    return not await _has_tool(url)


async def _has_tool(url: str) -> bool:
    listed = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{url}/v1/tools", timeout=5).read())
    return any(tool["name"] == "my__weekday" for tool in json.loads(listed)["data"])


async def test_another_agent_gets_a_new_tool_over_mcp_without_a_restart(command: Command):
    environment = {"HOME": str(command.home), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    spec = ServerSpec("aish", (sys.executable, "-m", "aish", "mcp", "serve"), env=environment, cwd=command.home)
    async with asyncio.timeout(DEADLINE_S), open_session(spec) as session:
        assert "my__weekday" not in [tool.name for tool in session.tools]
        write_tool(command.home)
        await eventually(lambda: _lists(session), DEADLINE_S)
        output = await session.call_tool("my__weekday", {"date": "2026-11-19"})
        assert text_of(output.parts) == "Thursday"


async def _lists(session: Any) -> bool:
    return "my__weekday" in [tool.name for tool in await session.refresh_tools()]


COMMANDS = """
from aish import Prompt, command


@command("twice")
def twice(text: str) -> str:
    "Says it twice."
    return f"{text} {text}"


@command("standup")
def standup(days: int = 1) -> Prompt:
    "What was done."
    return Prompt(f"the last {days} days")
"""


def write_commands(folder: Path) -> None:
    path = folder / ".config" / "aish" / "tools" / "commands.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(COMMANDS)


async def test_commands_in_python_are_commands_of_the_shell(home: Path):
    write_commands(home / "home")
    async with shell(home) as term:
        await did(term, ":twice so and", "so and so and")
        await did(term, ":standup 3", "The result of runtime__echo is the last 3 days.")
        await did(term, ":standup 1 2", "too many arguments: it takes [DAYS]")
        await did(term, ":help twice", "Says it twice.")
        await did(term, ":twicce", "did you mean :twice?")


def test_commands_in_python_run_from_the_command_line(command: Command):
    write_commands(command.home)
    ran = command.run("twice", "so", "and")
    assert (ran.code, ran.out) == (0, "so and so and\n")
    name = command.write_script("play", [[{"text": "It was quiet."}]])
    ran = command.run("--model", name, "standup", "3")
    assert (ran.code, ran.out.strip()) == (0, "It was quiet.")
    assert command.run("--model", name, "standup", "x").code == 1


def test_an_extension_brings_instructions_skills_commands_and_agents(command: Command):
    folder = Path(__file__).parents[2] / "examples/tickets/aish_tickets"
    assert command.run("extensions", "add", "--yes", str(folder)).code == 0
    name = command.write_script("play", [[{"text": "ok"}]])
    assert command.run("--model", name, ":triage", "the old ones").out.strip() == "ok"
    ran = command.run("--model", name, "--json", "hello")
    assert ran.code == 0
    ran = command.run("sessions", "show", "latest")
    assert "hello" in ran.out


async def test_a_project_with_tools_is_asked_about_at_the_start_of_the_shell(home: Path):
    path = home / "work" / ".aish" / "tools" / "weekday.py"
    path.parent.mkdir(parents=True)
    path.write_text(CODE.replace("{form}", "%A"))
    steps = [[{"call": {"index": 0, "id": "c1", "name": "project__weekday", "arguments": '{"date": "2026-11-19"}'}}]]
    async with shell(home, "--model", model(home, [*steps, CALL[1]]), ready=False) as term:
        await term.sees("This project has tools in Python")
        await term.sees("They run as you, outside of the sandbox.")
        await term.enter("y")
        await term.prompts()
        await did(term, "? go", "Thursday")


ASKS = """
from aish import tool


@tool(effect="read")
async def choose(ctx) -> str:
    "Asks."
    return f"chosen: {await ctx.ask('Which one?', ['red', 'blue'])}"
"""


async def test_a_tool_may_ask_the_user_for_something(home: Path):
    path = home / "home" / ".config" / "aish" / "tools" / "choose.py"
    path.parent.mkdir(parents=True)
    path.write_text(ASKS)
    steps = [[{"call": {"index": 0, "id": "c1", "name": "my__choose", "arguments": "{}"}}], CALL[1]]
    async with shell(home, "--model", model(home, steps)) as term:
        await term.enter("? go")
        await term.sees("my__choose asks: Which one?")
        await term.sees("2  blue")
        await term.enter("green")
        await term.sees("that is none of these")
        await did(term, "2", "chosen: blue")
        await did(term, ":reset", "a new conversation")
        await term.enter("? again")
        await eventually(lambda: term.last_line.endswith("your answer:"), DEADLINE_S)
        await did(term, "", "chosen: None")


def test_where_no_one_can_be_asked_a_tool_gets_no_answer(command: Command):
    path = command.home / ".config" / "aish" / "tools" / "choose.py"
    path.parent.mkdir(parents=True)
    path.write_text(ASKS)
    assert command.run("tools", "test", "choose").out == "chosen: None\n"
