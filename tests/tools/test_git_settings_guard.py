"""A command that ran unasked in a sandbox leaves nothing behind that the user's git would run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aish.errors import ToolError
from aish.process.sandbox import Sandbox, make_sandbox
from aish.tools import git_settings_guard
from aish.tools.builtin.shell import ShellTools
from aish.tools.git_config import is_harmless_change

QUIET = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


class Unasked:
    session, turn, call, owner, is_proved, is_unasked = "s", "t", "c", "", False, True
    rights = None

    def __init__(self) -> None:
        self.statuses: list[str] = []

    def status(self, text: str) -> None:
        self.statuses.append(text)

    def output(self, text: str) -> None:
        pass


class Approved(Unasked):
    is_unasked = False


def git(cwd: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words], cwd=cwd, env=QUIET, capture_output=True, text=True,
        timeout=20, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A repository with a submodule, a worktree and a hook; `effect` is what a planted program makes."""
    for name in ("sub", "work"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
        (tmp_path / name / "file").write_text("x")
        git(tmp_path / name, "add", "file")
        git(tmp_path / name, "commit", "-qm", "first")
    work = tmp_path / "work"
    git(work, "submodule", "add", "-q", str(tmp_path / "sub"), "sub")
    git(work, "commit", "-qam", "sub")
    git(work, "remote", "add", "origin", "https://example.com/x")
    hook = work / ".git" / "hooks" / "commit-msg"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    yield work


@pytest.fixture(params=["bwrap", "landlock"])
async def fence(request, work: Path) -> Sandbox:
    made = make_sandbox(request.param, work, network=False)
    if not await made.probe():
        pytest.skip(f"this machine has no {request.param}, or forbids it")
    return made


async def run(work: Path, fence: Sandbox, command: str, context: Unasked | None = None) -> str:
    made = ShellTools(cwd=lambda: work, workspace=work, sandbox=fence, env=QUIET)
    return (await made.call("run", {"command": command}, context or Unasked())).parts[0].text


def use_git(work: Path) -> None:
    """What a prompt and a person do."""
    for folder in (work, work / "sub"):
        git(folder, "status")
        git(folder, "checkout", "-q", "-b", "other")
        (folder / "file").write_text("changed")
        git(folder, "diff")
        git(folder, "commit", "-qam", "second")


PLANTS = {
    "monitor": "git config core.fsmonitor 'touch {effect}; false'",
    "the file itself": "printf '[core]\\n\\tfsmonitor = touch {effect}\\n' >> .git/config",
    "another file": "printf '[core]\\n\\tfsmonitor = touch {effect}\\n' > new; mv -f new .git/config",
    "include": "printf '[core]\\nfsmonitor=touch {effect}\\n' > inc; git config include.path ../inc",
    "settings of the worktree": "git config extensions.worktreeConfig true; "
    "printf '[core]\\nfsmonitor=touch {effect}\\n' > .git/config.worktree",
    "hook": "printf '#!/bin/sh\\ntouch {effect}\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
    "hook that exists": "printf '#!/bin/sh\\ntouch {effect}\\n' > .git/hooks/commit-msg",
    "folder of hooks": "mkdir h; printf '#!/bin/sh\\ntouch {effect}\\n' > h/post-checkout; chmod +x h/post-checkout; "
    "mv .git/hooks away; ln -s ../h .git/hooks",
    "common folder": "cp -r .git evil; printf '[core]\\nfsmonitor=touch {effect}\\n' >> evil/config; "
    "echo ../evil > .git/commondir",
    "another repository": "cp -r .git evil; printf '[core]\\nfsmonitor=touch {effect}\\n' >> evil/config; "
    "mv .git was; echo 'gitdir: evil' > .git",
    "link to another repository": "cp -r .git evil; printf '[core]\\nfsmonitor=touch {effect}\\n' >> evil/config; "
    "mv .git was; ln -s evil .git",
    "folder in place of the folder": "cp -r .git evil; printf '[core]\\nfsmonitor=touch {effect}\\n' >> evil/config; "
    "mv .git was; mv evil .git",
    "submodule": "printf '[core]\\nfsmonitor=touch {effect}\\n' >> .git/modules/sub/config",
    "hook of a submodule": "printf '#!/bin/sh\\ntouch {effect}\\n' > .git/modules/sub/hooks/post-checkout; "
    "chmod +x .git/modules/sub/hooks/post-checkout",
    "link to another submodule": "cp -r .git/modules/sub evil; "
    "printf '[core]\\nfsmonitor=touch {effect}\\n' >> evil/config; mv .git/modules/sub was; "
    "ln -s ../../evil .git/modules/sub",
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
async def test_what_a_command_plants_in_git_is_never_run(work, fence, plant, tmp_path):
    effect = tmp_path / "effect"
    await run(work, fence, PLANTS[plant].format(effect=effect))
    use_git(work)
    assert not effect.exists()
    shutil.rmtree(work / ".git", ignore_errors=True)


async def test_the_same_runs_where_the_command_was_approved(work, fence, tmp_path):
    effect = tmp_path / "effect"
    await run(work, fence, PLANTS["monitor"].format(effect=effect), Approved())
    use_git(work)
    assert effect.exists()


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
@pytest.mark.parametrize("place", [".git", ".", "..", "../.git"])
async def test_a_repository_planted_where_none_was_runs_nothing(tmp_path, kind, place):
    """Also above the workspace, where commands can write there, and one that has no folder named `.git`."""
    plain, effect = tmp_path / "plain", tmp_path / "effect"
    plain.mkdir()
    fence = make_sandbox(kind, plain, network=False)
    if not await fence.probe():
        pytest.skip(f"this machine has no {kind}, or forbids it")
    settings = f"printf '[core]\\nbare=false\\nworktree=.\\nfsmonitor=touch {effect}\\n'"
    made = f"git init -q tmp && mkdir -p {place} && mv tmp/.git/* {place}; {settings} > {place}/config"
    assert "put back" in await run(plain, fence, made)
    git(plain, "status")
    assert not effect.exists()


async def test_the_work_of_git_stays(work, fence):
    context = Unasked()
    text = await run(
        work, fence,
        "git checkout -q -b topic && echo y > new && git add new && git commit -qm new && git stash list && "
        "git tag v1 && git worktree add -q wt HEAD~1 && git gc -q && git log --oneline | wc -l",
        context,
    )  # fmt: skip
    assert text == "3\n" and context.statuses == []
    assert git(work / "wt", "status", "--short") == "" and "topic" in git(work, "branch")
    assert "no output" in await run(work, fence, "git worktree remove -f wt", context) and context.statuses == []


async def test_a_new_repository_a_new_remote_and_a_new_branch_stay(tmp_path):
    made = make_sandbox("landlock", tmp_path, network=False)
    if not await made.probe():
        pytest.skip("this machine has no Landlock")
    context = Unasked()
    await run(tmp_path, made, "git init -q -b main . && echo x > f && git add f && git commit -qm x", context)
    await run(tmp_path, made, "git remote add up https://example.com/y; git config user.name model", context)
    await run(tmp_path, made, "git config branch.topic.remote up; git config branch.topic.merge refs/heads/t", context)
    assert context.statuses == [] and "up\n" in git(tmp_path, "remote") and "x" in git(tmp_path, "log")
    assert git(tmp_path, "config", "branch.topic.remote") == "up\n"


async def test_the_user_and_the_model_are_told_what_was_put_back(work):
    fence = make_sandbox("landlock", work, network=False)
    if not await fence.probe():
        pytest.skip("this machine has no Landlock")
    context, before = Unasked(), (work / ".git" / "config").read_bytes()
    (work / ".git" / "config").chmod(0o640)
    text = await run(work, fence, "git config alias.st '!id'; rm .git/hooks/commit-msg", context)
    assert (work / ".git" / "config").read_bytes() == before
    assert (work / ".git" / "config").stat().st_mode & 0o777 == 0o640
    assert os.access(work / ".git" / "hooks" / "commit-msg", os.X_OK)
    assert f"{work}/.git/config" in text and "commit-msg" in text and "outside_sandbox=true" in text
    assert len(context.statuses) == 1 and f"{work}/.git/config" in context.statuses[0]


async def test_nothing_of_another_repository_is_taken_for_a_change(work):
    """A link in place of `.git` must not have aish empty the repository that it leads to."""
    fence = make_sandbox("landlock", work, network=False)
    if not await fence.probe():
        pytest.skip("this machine has no Landlock")
    git(work, "init", "-q", "nested")
    (work / "nested" / ".git" / "hooks" / "pre-push").write_text("theirs")
    await run(work, fence, "mv .git was; ln -s nested/.git .git")
    assert (work / "nested" / ".git" / "config").exists()
    assert (work / "nested" / ".git" / "hooks" / "pre-push").exists()


NESTED_PLANTS = {
    "settings": "printf '[core]\\n\\tfsmonitor = touch {effect}\\n' >> deep/in/nested/.git/config",
    "hook": "printf '#!/bin/sh\\ntouch {effect}\\n' > deep/in/nested/.git/hooks/post-checkout; "
    "chmod +x deep/in/nested/.git/hooks/post-checkout",
    "a new one": "git init -q deep/new; printf '[core]\\n\\tfsmonitor = touch {effect}\\n' >> deep/new/.git/config",
    "a new one elsewhere": "git init -q evil; printf '[core]\\n\\tfsmonitor = touch {effect}\\n' >> evil/.git/config; "
    "mkdir deep/new; echo 'gitdir: ../../evil/.git' > deep/new/.git",
}


@pytest.mark.parametrize("plant", NESTED_PLANTS)
async def test_repositories_deeper_in_the_workspace_are_watched(work, fence, plant, tmp_path):
    effect, nested = tmp_path / "effect", work / "deep" / "in" / "nested"
    git(work, "init", "-q", "-b", "main", str(nested))
    (nested / "file").write_text("x")
    git(nested, "add", "file")
    git(nested, "commit", "-qm", "first")
    text = await run(work, fence, NESTED_PLANTS[plant].format(effect=effect))
    assert "put back" in text
    for folder in (nested, work / "deep" / "new"):
        if folder.is_dir():
            git(folder, "status")
            git(folder, "checkout", "-q", "-b", "other")
    assert not effect.exists()


async def test_a_repository_deeper_in_the_workspace_can_be_cloned_moved_and_worked_in(work, fence):
    context = Unasked()
    text = await run(
        work, fence,
        "git init -q -b main deep/a && cd deep/a && echo x > f && git add f && git commit -qm x && cd .. && "
        "git clone -q a b && mv b c && git -C c log --oneline | wc -l",
        context,
    )  # fmt: skip
    assert text.startswith("1\n") and context.statuses == []
    assert "x" in git(work / "deep" / "c", "log")


async def test_the_search_for_repositories_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(git_settings_guard, "_MAX_SEARCHED", 20)
    for number in range(100):
        (tmp_path / f"f{number}" / ".git").mkdir(parents=True)
    (tmp_path / "f0" / "node_modules" / "x" / ".git").mkdir(parents=True)
    found = git_settings_guard.find_nested(str(tmp_path))
    assert 0 < len(found) < 20 and not any("node_modules" in folder for folder in found)


async def test_what_is_too_large_to_put_back_runs_nothing_unasked(work, fence, monkeypatch):
    monkeypatch.setattr(git_settings_guard, "_MAX_BYTES", 100)
    with pytest.raises(ToolError, match="too large"):
        await run(work, fence, "touch ran")
    assert not (work / "ran").exists()


async def test_more_hooks_than_can_be_looked_through_are_moved_away(work, tmp_path, monkeypatch):
    fence = make_sandbox("landlock", work, network=False)
    if not await fence.probe():
        pytest.skip("this machine has no Landlock")
    monkeypatch.setattr(git_settings_guard, "_MAX_PATHS", 60)
    effect, plant = tmp_path / "effect", PLANTS["hook"]
    many = "for n in $(seq 200); do touch .git/hooks/a$n; done"
    text = await run(work, fence, f"{many}; {plant.format(effect=effect)}")
    use_git(work)
    assert not effect.exists() and f"{work}/.git/hooks" in text


OLD = b'[core]\n\tbare = false\n[remote "origin"]\n\turl = u\n[branch "main"]\n\tremote = origin\n[alias]\n\tx = y\n'


@pytest.mark.parametrize(
    ("more", "is_harmless"),
    [
        (b'[branch "t"]\n\tremote = origin\n\tmerge = refs/heads/t\n', True),
        (b'[remote "up"]\n\turl = git@example.com:x/y.git\n\tfetch = +refs/heads/*:refs/remotes/up/*\n', True),
        (b"# a word\n[user]\n\tname = J\xc3\xb6rg\n", True),
        (b'[remote "up"]\n\turl = ext::sh -c id\n', False),
        (b'[remote "up"]\n\turl = --upload-pack=id\n', False),
        (b'[remote "up"]\n\tuploadpack = id\n', False),
        (b'[remote "origin"]\n\turl = https://evil.example\n', False),
        (b'[branch "main"]\n\tremote = up\n', False),
        (b'[branch "t"]\n\tremote = ext::id\n', False),
        (b'[branch "t"]\n\tremote = https://evil.example\n', False),
        (b'[branch "t"]\n\tremote = origin \\\n[core] fsmonitor = id\n', False),
        (b"[core]\n\tpager = id\n", False),
        (b"[core] fsmonitor = id\n", False),
        (b"[core]\n\tworktree = ..\n", False),
        (b"[alias]\n\tst = !id\n", False),
        (b'[submodule "s"]\n\tupdate = !id\n', False),
        (b"[include]\n\tpath = x\n", False),
        (b"[user]\n\tname = a\r[alias] x = !id\n", False),
        (b'[user]\n\tname = "a\n', False),
    ],
)
def test_only_what_runs_nothing_and_leads_nowhere_is_harmless(more, is_harmless):
    assert is_harmless_change(OLD, OLD + more) == is_harmless
    assert is_harmless_change(OLD, OLD)


def test_settings_may_only_lose_what_names_branches_and_remotes():
    assert is_harmless_change(OLD, OLD.replace(b'[branch "main"]\n\tremote = origin\n', b""))
    assert not is_harmless_change(OLD, OLD.replace(b"\tx = y\n", b""))
    assert not is_harmless_change(OLD, OLD.replace(b"url = u", b"url = v"))
