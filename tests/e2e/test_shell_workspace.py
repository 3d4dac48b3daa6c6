"""The model's workspace follows the user to another project, on a real terminal with a real bash."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aish.config.user_decisions import trust_project_file
from e2e.test_shell import config, did, shell
from support.eventually import eventually
from support.recording_upstream import RecordingUpstream, call, recording_upstream, text
from support.terminal import DEADLINE_S, Terminal

NEW = {"edits": [{"path": "made.txt", "revision": "new", "new": "by the model\n"}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    person = tmp_path / "person"
    (person / "home").mkdir(parents=True)
    for name in ("work", "other"):
        (person / name / ".git").mkdir(parents=True)
        (person / name / "src").mkdir()
        (person / name / "AGENTS.md").write_text(f"The rules of {name}.\n")
        (person / name / "pyproject.toml").touch()
    data = person / "home" / ".local" / "share" / "aish"
    data.mkdir(parents=True)
    (data / "history.jsonl").touch()
    return person


def use(home: Path, upstream: RecordingUpstream, more: str = "") -> str:
    config(home, f'[providers.up]\nkind = "openai"\nurl = "{upstream.url}"\n{more}')
    return "up:some-model"


def trust(home: Path, *names: str) -> None:
    for name in names:
        trust_project_file(home / name / "AGENTS.md", env={"HOME": str(home / "home")})


def turns(upstream: RecordingUpstream) -> list[dict]:
    return [seen.body for seen in upstream.requests if "messages" in seen.body]


def words_of(message: dict) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


async def test_after_a_cd_the_tools_and_the_trusted_instructions_are_those_of_the_other_project(home):
    trust(home, "work", "other")
    with recording_upstream() as upstream:
        for reply in (text("One."), call("ide__edit", NEW), text("Two."), text("Three."), text("Four.")):
            upstream.reply(reply)
        async with shell(home, "--model", use(home, upstream), "--mode", "edits") as term:
            await did(term, "?first", "One.")
            await term.enter("cd ../other/src")
            await term.prompts("src (edits) ›")
            await term.enter("?second")
            await term.sees("Two.")
            await term.prompts()
            assert re.search(r"workspace: \S+/other \(was \S+/work\), mode edits", term.unbroken)
            assert (home / "other" / "made.txt").read_text() == "by the model\n"
            assert not (home / "work" / "made.txt").exists()
            await term.enter("cd ..")
            await term.prompts("other (edits) ›")
            await did(term, "?third", "Three.")
            assert term.text.count("workspace: ") == 1
            await term.enter("cd ../work")
            await term.prompts("work (edits) ›")
            await did(term, "?fourth", "Four.")
    one, two, _, three, four = turns(upstream)
    assert "The rules of work." in words_of(one["messages"][0])
    for earlier, later in ((one, two), (two, three), (three, four)):
        assert later["tools"] == earlier["tools"]
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
    moved = words_of(two["messages"][-1])
    assert "[workspace]" in moved and f"Workspace: {home}/other" in moved and "The rules of other." in moved
    assert "[workspace]" not in words_of(three["messages"][-1])
    back = words_of(four["messages"][-1])
    assert f"Workspace: {home}/work" in back and "at the beginning" in back and "The rules" not in back


async def test_instructions_of_the_other_project_reach_no_model_before_they_are_trusted(home):
    trust(home, "work")
    skill = home / "other" / ".agents" / "skills" / "release" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: how to release\n---\nTag it.\n")
    (home / "other" / ".aish.toml").write_text('[gate]\nmode = "auto"\n')
    with recording_upstream() as upstream:
        upstream.reply(text("One."), times=3)
        async with shell(home, "--model", use(home, upstream)) as term:
            await did(term, "?first", "One.")
            await term.enter("cd ../other")
            await term.prompts("other ›")
            await did(term, "?second", "not used until you trust it (:trust):")
            await term.enter(":trust")
            await term.sees("trust what stands in there now?")
            listed = term.unbroken.rpartition(":trust")[2]
            assert all(name in listed for name in ("other/.aish.toml", "other/AGENTS.md", "release/SKILL.md"))
            await term.enter("y")
            await term.prompts("other ›")
            await did(term, "?third", "One.")
            await eventually(lambda: len(turns(upstream)) == 3)
    _, second, third = turns(upstream)
    assert "rules of other" not in json.dumps(second) and "how to release" not in json.dumps(second)
    assert "The rules of other." in words_of(third["messages"][-1])
    assert "how to release" in words_of(third["messages"][-1])


async def test_what_runs_unasked_may_write_to_the_workspace_of_now_only(home):
    trust(home, "work", "other")
    line = f"touch here; touch {home}/work/there; pwd"
    with recording_upstream() as upstream:
        upstream.reply(call("shell__run", {"command": line}))
        upstream.reply(text("Done."))
        async with shell(home, "--model", use(home, upstream), "--mode", "ask") as term:
            await term.enter("cd ../other")
            await term.prompts("other ›")
            await term.enter("?go")
            await term.prompts("e[x]plain:")
            await term.enter("y")
            await term.sees("Done.")
            await term.prompts()
            assert (home / "other" / "here").exists()
            await term.enter(":rewind")
            await term.sees("1 file changed since")


async def test_the_workspace_command_shows_pins_sets_and_goes_back(home):
    trust(home, "work", "other")
    (home / "plain").mkdir()

    async def says(term: Terminal, line: str, pattern: str) -> None:
        await term.enter(line)
        await eventually(lambda: re.search(pattern, term.unbroken), DEADLINE_S)
        await term.prompts()

    async with shell(home) as term:
        await says(term, ":workspace", "workspace .*/work, follows you")
        await says(term, ":workspace pin", "pinned: it stays when you go elsewhere")
        await term.enter("cd ../other")
        await term.prompts("other ›")
        await says(term, ":workspace", "workspace .*/work, pinned")
        await says(term, ":workspace follow", r"workspace: .*/other \(was .*/work\)")
        await says(term, ":workspace ../plain", r"workspace: .*/plain \(was .*/other\)")
        await says(term, ":workspace", "workspace .*/plain, pinned")
        await says(term, ":workspace back", r"workspace: .*/other \(was .*/plain\)")
        await says(term, ":workspace nowhere", "is not a folder")


async def test_with_the_setting_off_the_workspace_stays_where_aish_was_started(home):
    trust(home, "work", "other")
    config(home, "[shell]\nfollow = false\n")
    async with shell(home) as term:
        await term.enter("cd ../other")
        await term.prompts("other ›")
        await term.enter(":workspace")
        await term.sees("does not follow you (shell.follow)")
        await did(term, "? add 2 and 3", "The result of runtime__add is")
        assert "workspace:" not in term.text


async def test_a_cd_of_the_model_moves_no_workspace(home):
    trust(home, "work", "other")
    with recording_upstream() as upstream:
        upstream.reply(call("shell__run", {"command": f"cd {home}/other && pwd"}))
        upstream.reply(text("Gone."))
        upstream.reply(text("Here."))
        async with shell(home, "--model", use(home, upstream)) as term:
            await did(term, "?go", "Gone.")
            await did(term, "?again", "Here.")
            assert "workspace:" not in term.text
