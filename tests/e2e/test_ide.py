"""A scripted model reads, asks for references, renames, looks at diagnostics and formats, in a real project of each
language: at the command line and through `aish serve`, with real language servers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aish.types.events import ToolResult
from support.code_projects import PROJECTS
from support.command import Command
from support.eventually import eventually
from support.free_port import free_port
from support.language_servers import search_path
from support.serving import request
from support.terminal import terminal

LANGUAGES = {
    "python": ("basedpyright", "ruff"),
    "typescript": ("typescript",),
    "c": ("clangd",),
}
NEW = {"python": "open_account", "typescript": "openAccount", "c": "open_account"}
READY_S = 30.0


class World:
    def __init__(self, home: Path, language: str, *, asks: bool = False) -> None:
        self.language = language
        self.project = PROJECTS[language]()
        self.root = self.project.write(home / "project")
        self.aish = Command(home, {"AISH_DISCOVERY__ENABLED": "false", "PATH": search_path(*LANGUAGES[language])})
        path, line = max(place for place in self.project.references if "user_" in place[0])
        self.at = {"path": path, "line": line, "symbol": self.project.symbol}
        self.model = self.aish.write_script("s", self.script())
        config = home / ".config" / "aish" / "config.toml"
        more = '[gate]\nauto_approve = ["ide__*"]\n[serve]\ntools = ["ide__*"]\n'
        patient = "[ide]\nwait_s = 60\n"  # a machine that does much else
        config.write_text(config.read_text() + patient + ("" if asks else more))

    def script(self):
        path = self.at["path"]
        calls = [
            ("ide__read_file", {"path": path}),
            ("ide__references", self.at),
            ("ide__rename", {**self.at, "new_name": NEW[self.language]}),
            ("ide__diagnostics", {"path": path}),
            ("ide__format", {"path": path}),
        ]
        steps = [
            [{"call": {"index": 0, "id": f"call_{n}", "name": name, "arguments": json.dumps(arguments)}}]
            for n, (name, arguments) in enumerate(calls)
        ]
        return [*steps, [{"text": "done"}]]

    def texts(self):
        return {path: (self.root / path).read_text("utf-8") for path in self.project.files}

    def check_renamed(self):
        new = PROJECTS[self.language](NEW[self.language])
        for path in self.project.files:
            if path != self.at["path"] and path != "compile_commands.json":  # the one is formatted, the other has paths
                assert (self.root / path).read_text("utf-8") == new.files[path], path


@pytest.fixture(params=LANGUAGES)
def world(request, private_home) -> World:
    return World(private_home, request.param)


def test_a_model_reads_finds_renames_checks_and_formats_at_the_command_line(world):
    done = world.aish.run("--model", world.model, "--json", "rename it", cwd=world.root)
    assert done.code == 0, done.err
    results = [event.body for event in done.events if isinstance(event.body, ToolResult)]
    texts = ["".join(part.text for part in result.parts) for result in results]
    assert [result.status for result in results] == ["ok"] * 5, texts
    read, references, renamed, diagnostics, formatted = texts
    assert world.project.symbol in read
    assert f"total={len(world.project.references)} " in references
    assert f"files={len(world.project.reference_files)}" in renamed
    assert "status=fresh" in diagnostics and "no problems" in diagnostics
    assert "status=fresh" in formatted
    world.check_renamed()


def test_a_model_does_the_same_through_the_server_and_no_language_server_outlives_it(world):
    port = free_port()
    command = [sys.executable, "-m", "aish", "serve", "--listen", f"127.0.0.1:{port}", "--workspace", str(world.root)]
    log = world.aish.home / "serve.log"
    with log.open("wb") as output:
        served = subprocess.Popen(
            command, stdout=output, stderr=output, env=world.aish.environment(), cwd=world.root, start_new_session=True
        )
    try:
        _wait_ready(port, served, log)
        body = {"model": world.model, "messages": [{"role": "user", "content": "rename it"}], "trace": True}
        status, answer = request(port, "POST", "/v1/chat/completions", body)
        assert status == 200, answer
        assert json.loads(answer)["choices"][0]["message"]["content"] == "done"
        world.check_renamed()
    finally:
        served.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            served.wait(timeout=30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(served.pid, signal.SIGKILL)
        served.wait(timeout=10)
    assert _left_behind(world.root) == []


@pytest.mark.parametrize("language", LANGUAGES)
async def test_in_the_shell_a_person_sees_the_diff_agrees_and_takes_it_back(private_home, language):
    world = World(private_home, language, asks=True)
    before = world.texts()
    env = {**world.aish.environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "aish", "--model", world.model]
    async with terminal(command, env=env, cwd=world.root) as term:
        await term.prompts()
        await term.enter("? rename it")
        for tool in ("ide__rename", "ide__format"):
            await term.sees(f"{tool} can change things", 60.0)
            await term.prompts(":")
            term.press("y\r")
        await term.sees("\ndone\n", 60.0)
        await term.prompts()
        diff = {line.strip() for line in term.text.splitlines()}
        assert any(line.startswith("+") and NEW[language] in line for line in diff), term.text
        assert any(line.startswith("-") and world.project.symbol in line for line in diff)
        world.check_renamed()
        await term.enter(":undo list")
        await eventually(lambda: len(re.findall(r"^[0-9a-f]{17}  ", term.text, re.MULTILINE)) == 2, 20.0)
        await term.prompts()
        for number in (1, 2):
            await term.enter(":undo")
            await eventually(lambda number=number: term.text.count("undone: ") == number, 20.0)
            await term.prompts()
        assert world.texts() == before
        await term.enter(":undo")
        await term.sees("there is nothing to undo")


def _wait_ready(port: int, served: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if request(port, "GET", "/readyz")[0] == 200:
                return
        assert served.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def _left_behind(root: Path) -> list[str]:
    """Processes that still work in the project."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == root.resolve():
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def test_tools_for_code_are_offered_where_there_is_a_project_and_nowhere_else(private_home):
    aish = Command(private_home, {"AISH_DISCOVERY__ENABLED": "false"})
    aish.write_config("")
    (private_home / "empty").mkdir()
    (private_home / "project" / ".git").mkdir(parents=True)
    script = [
        [{"call": {"index": 0, "id": "c", "name": "ide__search", "arguments": '{"pattern": "x"}'}}],
        [{"text": "ok"}],
    ]
    model = aish.write_script("s", script)
    outside = aish.run("--model", model, "--json", "go", cwd=private_home / "empty")
    inside = aish.run("--model", model, "--json", "go", cwd=private_home / "project")
    statuses = [
        next(event.body.status for event in done.events if isinstance(event.body, ToolResult))
        for done in (outside, inside)
    ]
    assert statuses == ["unknown_tool", "ok"]


def test_the_doctor_says_where_a_server_is_or_how_to_get_one(private_home):
    path = search_path("ty")
    aish = Command(private_home, {"AISH_DISCOVERY__ENABLED": "false", "PATH": path})
    (private_home / ".git").mkdir()
    aish.write_config('[ide.languages.python]\nserver = "ty"\n')
    said = aish.run("doctor").out
    assert f"python: ty: {path.split(':')[0]}/ty (PATH)" in said
    assert "typescript: typescript: not found; npm install --save-dev typescript@7" in said


def test_a_turn_that_uses_no_tool_for_code_loads_none_of_what_they_need(private_home):
    aish = Command(private_home, {"AISH_DISCOVERY__ENABLED": "false"})
    (private_home / ".git").mkdir()
    model = aish.write_script("s", [[{"text": "hello"}]])
    code = (
        "import sys\nfrom aish.cli import run\n"
        f"assert run(['--model', {model!r}, 'go']) == 0\n"
        "print(*(name for name in sys.modules if name.startswith('aish.tools.code')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=aish.environment(),
        cwd=private_home,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded == {f"aish.tools.code{part}" for part in ("", ".toolset", ".ide_tool_names")}
