"""Agents and prompt files on a real terminal: listed, run, asked about, and rewound with the turn that called them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aish.config.extensions import enable_extension, read_extension
from aish.config.user_decisions import trust_project_file
from e2e.test_shell import config, did, shell
from support.eventually import eventually


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "person"
    for folder in ("home", "work"):
        (place / folder).mkdir(parents=True)
    data = place / "home" / ".local" / "share" / "aish"
    data.mkdir(parents=True)
    (data / "history.jsonl").touch()
    return place


def call(name: str, **arguments: Any) -> list[Any]:
    return [{"call": {"index": 0, "id": "", "name": name, "arguments": json.dumps(arguments)}}]


def says(text: str) -> list[Any]:
    return [{"text": f"{text}\n"}]


def models(home: Path, **scripts: list[Any]) -> str:
    """A scripted provider for each name. The first one answers."""
    text = ""
    for name, steps in scripts.items():
        file = home / name / "script.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(steps))
        text += f'[providers.{name}]\nkind = "scripted"\nfile = "{file}"\n'
    config(home, text)
    return f"{next(iter(scripts))}:script"


def write(home: Path, name: str, text: str) -> Path:
    file = home / "home" / ".config" / "aish" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def write_agent(home: Path, name: str, head: str) -> None:
    write(home, f"agents/{name}.md", f"---\ndescription: does {name}\n{head}\n---\nYou are {name}.\n")


def run(home: Path, *words: str) -> str:
    env = {"HOME": str(home / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "aish", *words]
    done = subprocess.run(command, cwd=home / "work", env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def asked(home: Path) -> list[str]:
    """The questions in the store, as JSON."""
    with sqlite3.connect(home / "home/.local/share/aish/aish.db") as store:
        return [bytes(row[0]).decode() for row in store.execute("SELECT input FROM turns ORDER BY started_ms")]


async def test_an_agent_that_a_model_calls_is_seen_asked_about_and_rewound_with_the_turn(home):
    (home / "work/notes").write_text("the user's notes")
    write_agent(home, "fixer", "tools: shell__run\nmodel: helper:script")
    fixes = [call("shell__run", command="rm notes"), says("removed the notes")]
    name = models(home, play=[call("agents__run", agent="fixer", task="clean up"), says("it is clean")], helper=fixes)
    async with shell(home, "--model", name) as term:
        await term.enter("? clean up")
        await term.sees("for the agent fixer")
        await term.prompts("e[x]plain:")
        await term.enter("y")
        await term.sees("it is clean")
        await term.prompts()
        assert "removed the notes" in term.text and not (home / "work/notes").exists()
        await did(term, ":sessions", "1 turn ")
        assert "fixer:" not in term.text
        await did(term, ":rewind", "1 file changed since")
        await term.enter(":rewind 1 files")
        await term.sees("brought back")
        await term.prompts()
    assert (home / "work/notes").read_text() == "the user's notes"
    assert "fixer: clean up" in run(home, "sessions", "list", "--agents")
    assert "fixer: clean up" not in run(home, "sessions", "list")


async def test_the_calls_of_an_agent_stream_into_the_frame_of_its_call(home):
    write_agent(home, "finder", "model: helper:script")
    (home / "work/heron").write_text("x")
    found = [call("shell__run", command="ls"), [{"wait_s": 3}, {"text": "a heron\n"}]]
    name = models(home, play=[call("agents__run", agent="finder", task="look"), says("done")], helper=found)
    async with shell(home, "--model", name) as term:
        await term.enter("? what is here")
        await term.sees("✓ shell__run")
        await term.sees("a heron")
        await term.prompts()


async def test_agents_are_listed_and_given_tasks_by_name(home):
    write_agent(home, "finder", "model: helper:script")
    (home / "work/.aish/agents").mkdir(parents=True)
    project = home / "work/.aish/agents/theirs.md"
    project.write_text("---\ndescription: of the project\n---\nx\n")
    name = models(home, play=[says("so it is a heron")], helper=[says("a heron")])
    async with shell(home, "--model", name, ready=False) as term:
        await term.sees("This project has an agent for models")
        await term.sees("│ agent theirs: of the project")
        term.press("l\r")
        await term.prompts()
        await did(term, ":agents", "finder: does finder")
        assert "explore: " in term.text and "theirs is not used" in term.text
        await did(term, ":agent finder what is it", "a heron")
        await did(term, "? and what did it say", "so it is a heron")
        await did(term, ":agent nowhere x", "there is no agent nowhere")
        await did(term, ":cost detail", "agent")
    assert sum("[it reported]\\na heron" in text for text in asked(home)) == 1


async def test_a_prompt_file_is_a_command_with_arguments_mentions_completion_and_help(home):
    write(home, "commands/look.md", "---\ndescription: looks at a file\nargument-hint: FILE\n---\nLook at $1: @$1\n")
    write(home, "commands/git/review.md", "Review $ARGUMENTS.\n")
    write(home, "commands/help.md", "Mine.\n")
    (home / "work/heron").write_text("a grey bird")
    async with shell(home, "--model", models(home, play=[says("seen"), says("reviewed")])) as term:
        assert ":help is built in" in term.text
        await did(term, ":help", "Yours")
        assert ":look" in term.text and "FILE" in term.text and "looks at a file" in term.text
        await did(term, ":look heron", "seen")
        term.press(":git:re\t")
        await eventually(lambda: term.last_line.endswith(":git:review"))
        await did(term, "the last change", "reviewed")
        await did(term, ":lok heron", "did you mean :look")
    first, second = asked(home)
    assert "Look at heron" in first and "a grey bird" in first
    assert "Review the last change." in second


async def test_a_prompt_file_of_a_project_is_asked_only_after_it_is_trusted(home):
    file = home / "work/.claude/commands/hello.md"
    file.parent.mkdir(parents=True)
    file.write_text("Say hello to $ARGUMENTS.\n")
    name = models(home, play=[says("hello you")])
    assert "ignored until you trust it" in run(home, "--model", name, ":hello you")
    trust_project_file(file, env={"HOME": str(home / "home")})
    assert "hello you" in run(home, "--model", name, ":hello you")
    first, second = asked(home)
    assert ":hello you" in first and "Say hello to you." in second


async def test_agents_and_commands_of_an_enabled_extension_are_there(home):
    folder = home / "tickets"
    for part, text in (
        ("agents/clerk.md", "---\ndescription: files tickets\n---\nFile."),
        ("commands/close.md", "Close $1."),
    ):
        (folder / part).parent.mkdir(parents=True)
        (folder / part).write_text(text)
    (folder / "extension.toml").write_text('name = "tickets"\nagents = "agents"\ncommands = "commands"\n')
    enable_extension(read_extension(str(folder)), {"HOME": str(home / "home")})
    async with shell(home, "--model", models(home, play=[says("closed")])) as term:
        await did(term, ":agents", "clerk: files tickets")
        await did(term, ":close 7", "closed")
    assert "Close 7." in asked(home)[0]
