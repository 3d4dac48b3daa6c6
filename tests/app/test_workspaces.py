"""The workspace of now: which folder it is, and what moves with it."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from aish.app.container import Container
from aish.app.workspaces import find_project, find_workspace_of
from aish.config.load import load_config
from aish.config.user_decisions import trust_project_file
from aish.errors import ConfigError, UsageError
from aish.frontends.runtime import LaunchContext
from aish.types.decisions import Answer, Choice, EffectRequest, Mode, Verdict
from aish.types.messages import text_of, user
from aish.types.requests import TurnRequest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = (tmp_path / "home").resolve()
    for name in ("first", "second"):
        (home / name / ".git").mkdir(parents=True)
        (home / name / "src").mkdir()
    return home


def container(folder: Path, home: Path) -> Container:
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return Container(LaunchContext(folder, env), load_config(cwd=folder, env=env))


@asynccontextmanager
async def opened(folder: Path, home: Path):
    """A container with an open engine, and a user who has a shell."""
    runtime = container(folder, home)
    user = SimpleNamespace(cwd=str(folder), search_path="/usr/bin:/bin", model_cwd=lambda turn: user.cwd)
    runtime.workspaces.now.commands._live = user

    async def go(folder: Path) -> Path | None:
        user.cwd = str(folder)
        return await runtime.workspaces.follow(folder)

    async with runtime.engine(mcp=()) as engine:
        yield runtime, engine, go


def now(folder: Path, *, is_chosen: bool = False) -> SimpleNamespace:
    return SimpleNamespace(folder=folder, is_chosen=is_chosen)


def test_the_project_of_a_folder_is_its_repository_else_the_nearest_folder_with_a_mark(home):
    nested = home / "first" / "part"
    (nested / "deep").mkdir(parents=True)
    (nested / "pyproject.toml").touch()
    loose = home / "loose"
    (loose / "inner").mkdir(parents=True)
    (loose / "Makefile").touch()
    assert find_project(nested / "deep", home) == home / "first"
    assert find_project(loose / "inner", home) == loose
    assert find_project(home / "first", home) == home / "first"


def test_a_home_what_is_above_it_and_what_others_may_write_are_no_project(home):
    for folder in (home, home.parent):
        (folder / ".git").mkdir(exist_ok=True)
    (home / "notes").mkdir()
    assert find_project(home / "notes", home) is None
    assert find_project(home, home) is None and find_project(home.parent, home) is None
    (home / "second").chmod(0o777)
    assert find_project(home / "second" / "src", home) is None


def test_the_workspace_stays_while_the_user_is_in_it_and_follows_to_another_project(home):
    first, second = home / "first", home / "second"
    (first / "vendored" / ".git").mkdir(parents=True)
    assert find_workspace_of(first / "vendored", now(first), first, home) == first
    assert find_workspace_of(second / "src", now(first), first, home) == second
    assert find_workspace_of(home, now(second), first, home) == second
    assert find_workspace_of(Path("/usr"), now(second), first, home) == second


def test_a_folder_that_is_no_project_gives_way_to_the_projects_in_it_and_is_come_back_to(home):
    assert find_workspace_of(home / "second", now(home), home, home) == home / "second"
    shelf = home / "shelf"
    (shelf / "one" / ".git").mkdir(parents=True)
    assert find_workspace_of(shelf / "one", now(shelf), shelf, home) == shelf / "one"
    assert find_workspace_of(shelf / "one", now(shelf, is_chosen=True), shelf, home) == shelf
    assert find_workspace_of(shelf, now(shelf / "one"), shelf, home) == shelf


async def test_tools_gate_and_sandbox_move_and_what_the_model_was_shown_stays(home):
    first, second = home / "first", home / "second"
    (second / "notes").write_text("of the second\n")
    async with opened(first, home) as (runtime, engine, go):
        specs = engine.tools.specs()
        assert runtime.shell_context.roots == (str(first),)
        assert await go(second / "src") == first
        assert runtime.workspaces.folder == second and runtime.workspaces.before == first
        assert engine.tools.specs() == specs
        found = await engine.call_tool("ide__read_file", '{"path": "notes"}')
        assert "of the second" in text_of(found.parts)
        assert runtime.shell_context.roots == (str(second),)
        sandbox = runtime.workspaces.now.commands.sandbox
        assert not await sandbox.probe() or (second in sandbox.writable and first not in sandbox.writable)
        assert await go(first) == second and await go(first / "src") is None


async def test_a_project_adds_the_tools_for_code_that_a_home_does_not_have(home):
    async with opened(home, home) as (_, engine, go):
        assert not [spec for spec in engine.tools.specs() if spec.source == "ide"]
        await go(home / "first")
        assert [spec for spec in engine.tools.specs() if spec.source == "ide"]


async def test_settings_hold_in_the_workspace_whose_they_are(home):
    """A rule that the user trusts for one project allows nothing in another one."""
    settings = home / "first" / ".aish.toml"
    settings.write_text('[[gate.rules]]\nverdict = "allow"\ncommands = ["make"]\n')
    trust_project_file(settings, env={"HOME": str(home)})
    async with opened(home / "first", home) as (runtime, _, go):
        assert runtime.explain("shell__run", {"command": "make x"}).verdict is Verdict.ALLOW
        await go(home / "second")
        assert runtime.explain("shell__run", {"command": "make x"}).verdict is Verdict.ASK


async def test_a_workspace_whose_settings_are_broken_is_not_gone_to(home):
    settings = home / "second" / ".aish.toml"
    settings.write_text('[gate]\nmode = "wild"\n')
    trust_project_file(settings, env={"HOME": str(home)})
    async with opened(home / "first", home) as (runtime, _, go):
        with pytest.raises(ConfigError):
            await go(home / "second")
        assert runtime.workspaces.folder == home / "first"


async def test_yes_for_a_session_holds_where_it_was_given_and_always_for_a_tool_everywhere(home):
    choices = [Choice.SESSION, Choice.YES, Choice.ALWAYS]

    async def ask(question):
        return Answer(choices.pop(0))

    async def decide(runtime, tool, arguments):
        effect = EffectRequest("c", runtime._find_spec(tool), arguments, session="s")
        await runtime.workspaces.now.gate.authorise(effect, ask)

    async with opened(home / "first", home) as (runtime, _, go):
        await decide(runtime, "shell__run", {"command": "make x"})
        await decide(runtime, "shell__run", {"command": "make y"})
        assert len(choices) == 2
        await go(home / "second")
        await decide(runtime, "shell__run", {"command": "make y"})
        assert len(choices) == 1
        await decide(runtime, "files__put", {"name": "x"})
        await go(home / "first")
        await decide(runtime, "files__put", {"name": "x"})
        await decide(runtime, "shell__run", {"command": "make z"})
        assert choices == []


async def test_a_pinned_workspace_stays_and_a_chosen_one_until_the_user_has_left_it(home):
    first, second = home / "first", home / "second"
    plain = home / "plain"
    plain.mkdir()
    async with opened(first, home) as (runtime, engine, go):
        places = runtime.workspaces
        places.pin(on=True)
        assert await go(second) is None
        places.pin(on=False)
        assert await go(second) == first
        await places.choose(plain, second)
        assert places.folder == plain and places.is_pinned
        assert [spec for spec in engine.tools.specs() if spec.source == "ide"]
        assert await go(first) is None
        await places.choose(first, first)
        assert not places.is_pinned and await go(second) == first
        with pytest.raises(UsageError, match="is not a folder"):
            await places.choose(home / "nowhere", second)
        with pytest.raises(UsageError, match="is no workspace"):
            await places.choose(Path("/"), second)


async def test_a_workspace_that_is_gone_gives_way_to_that_of_the_start_and_a_new_one_in_its_place_is_opened(home):
    first, second = home / "first", home / "second"

    async def read(engine) -> str:
        return text_of((await engine.call_tool("ide__read_file", '{"path": "notes"}')).parts)

    async with opened(first, home) as (runtime, engine, go):
        await go(second)
        runtime.workspaces.pin(on=True)
        (second / "notes").write_text("old\n")
        assert "old" in await read(engine)
        second.rename(home / "moved")
        assert await go(home) == second and runtime.workspaces.folder == first
        for text in ("new", "newer"):
            (second / ".git").mkdir(parents=True)
            (second / "notes").write_text(f"{text}\n")
            await go(second)
            assert text in await read(engine) and runtime.workspaces.folder == second
            second.rename(home / text)


async def test_a_new_clone_whose_settings_are_broken_leaves_the_workspace_as_it_was(home, monkeypatch):
    second = home / "second"
    async with opened(home / "first", home) as (runtime, _, go):
        await go(second)
        before, closed = runtime.workspaces.now, []

        async def close() -> None:
            closed.append(before)

        assert before.ide is not None
        monkeypatch.setattr(before.ide, "aclose", close)
        second.rename(home / "moved")
        (second / ".git").mkdir(parents=True)
        settings = second / ".aish.toml"
        settings.write_text('[gate]\nmode = "wild"\n')
        trust_project_file(settings, env={"HOME": str(home)})
        with pytest.raises(ConfigError):
            await go(second)
        assert runtime.workspaces.now is before and runtime.workspaces._kept[second] is before and not closed
        settings.unlink()
        await go(second)
        assert runtime.workspaces.now is not before and closed == [before]


async def test_few_workspaces_are_kept_open_and_the_first_one_always(home):
    async with opened(home / "first", home) as (runtime, _, go):
        before = runtime.workspaces.now
        for number in range(8):
            (home / f"p{number}" / ".git").mkdir(parents=True)
            await go(home / f"p{number}")
        await go(home / "first")
        assert runtime.workspaces.now is before and len(runtime.workspaces._kept) <= 5


def turn_in(session: str, *, caller: str = "", kept: bool = True) -> TurnRequest:
    parent = "turn_of_caller" if caller else ""
    return TurnRequest((user("hello"),), session=session, kept=kept, charged_to=caller, parent=parent)


async def test_a_session_keeps_its_beginning_whatever_its_agents_and_unkept_turns_do(home):
    async with opened(home / "first", home) as (runtime, _, go):
        places = runtime.workspaces
        begun = places.context_of(turn_in(""))
        assert places.context_of(turn_in("child", caller="mine")) is begun
        await go(home / "second")
        assert places.context_of(turn_in("mine")) is begun
        assert places.context_of(turn_in("child", caller="mine")) is begun
        for number in range(100):
            places.context_of(turn_in(f"child{number}", caller="mine"))
            places.context_of(turn_in(f"other{number}"))
            places.context_of(turn_in("mine"))
        assert places.context_of(turn_in("mine")) is begun


async def test_a_turn_that_is_not_kept_is_no_beginning_of_a_session(home):
    async with opened(home / "first", home) as (runtime, _, go):
        places = runtime.workspaces
        begun = places.context_of(turn_in(""))
        await go(home / "second")
        assert places.context_of(turn_in("", kept=False)) is not begun
        assert places.context_of(turn_in("mine")) is begun


async def test_a_mode_of_a_request_holds_in_the_workspace_of_now(home):
    async with opened(home / "first", home) as (runtime, _, go):
        await go(home / "second")
        spec = runtime._find_spec("ide__edit")
        arguments = {"edits": [{"path": "x", "revision": "new", "new": "y"}]}
        effect = EffectRequest("c", spec, arguments, mode=Mode.EDITS)
        assert (await runtime.workspaces.now.gate.authorise(effect, None)).verdict is Verdict.ALLOW
