"""`:rewind` on a real terminal: what commands did comes back, and a rewind can be taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.test_shell import model, shell
from support.eventually import eventually


@pytest.fixture
def home(tmp_path: Path) -> Path:
    person = tmp_path / "person"
    for folder in ("home", "work"):
        (person / folder).mkdir(parents=True)
    return person


def command(line: str) -> list[Any]:
    return [{"call": {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": line})}}]


def files(home: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (home / "work").iterdir()}


async def test_what_commands_removed_and_wrote_comes_back_also_after_a_restart(home):
    (home / "work/notes").write_text("the user's notes")
    name = model(home, [command("rm notes; echo x > other"), [{"text": "cleaned up\n"}], [{"text": "nothing\n"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? clean up")
        await term.prompts("e[x]plain:")
        await term.enter("y")
        await term.sees("cleaned up")
        await term.prompts()
        assert files(home) == {"other": "x\n"}
        await term.enter(":rewind")
        await term.sees("2 files changed since")
    async with shell(home, "--model", name, "--continue") as term:
        await term.prompts()
        await term.enter(":rewind 1")
        await term.sees("+ notes")
        await term.sees("- other")
        await term.prompts("[q]uit ›")
        term.press("b")
        await term.sees("brought back: 2 files changed")
        await term.sees(":rewind r1 both takes this back")
        assert files(home) == {"notes": "the user's notes"}
        await term.enter(":history")
        await term.sees("nothing has been said yet")
        await term.enter(":rewind r1 both")
        await term.sees("the model sees 1 more turn again")
        assert files(home) == {"other": "x\n"}


async def test_a_chosen_proposal_is_rewound_with_the_turn_that_proposed_it(home):
    (home / "work/notes").write_text("the user's notes")
    name = model(home, [[{"text": "This removes them:\nCMD: rm notes\n"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? how do I remove the notes")
        await term.prompts("[q]uit ›")
        await term.enter("r")
        await eventually(lambda: files(home) == {}, 20.0)
        await term.prompts("work ›")
        await term.enter(":rewind 1 files")
        await term.sees("brought back: 1 file changed")
    assert files(home) == {"notes": "the user's notes"}


async def test_the_user_is_told_once_that_no_checkpoint_could_be_taken_and_the_turn_goes_on(home):
    """Here the workspace is the home directory."""
    name = model(
        home, [command("touch a"), [{"text": "made the first\n"}], command("touch b"), [{"text": "made the second\n"}]]
    )
    async with shell(home, "--model", name) as term:
        await term.enter("cd ~")
        for answer in ("made the first", "made the second"):
            await term.enter("? make it")
            await term.prompts("e[x]plain:")
            await term.enter("y")
            await term.sees(answer)
        assert term.text.count("cannot be rewound") == 1
        await term.enter(":rewind 1 files")
        await term.sees("the files cannot be brought back: the home directory is no workspace")
