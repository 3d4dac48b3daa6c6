"""A project's instructions for models are found, and have no effect until they are trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aish.config.instructions import InstructionFile, find_instructions
from aish.config.user_decisions import refuse, trust_project_file

from .conftest import World


@pytest.fixture
def repository(world: World) -> Path:
    (world.project / ".git").mkdir()
    return world.project


def found(world: World, cwd: Path) -> list[tuple[str, str]]:
    files = find_instructions(cwd, world.env)
    return [(str(file.path.relative_to(world.home)), file.state) for file in files]


def test_each_folder_from_the_root_down_may_have_a_file(world: World, repository: Path) -> None:
    deep = repository / "src" / "deep"
    deep.mkdir(parents=True)
    (repository / "AGENTS.md").write_text("root")
    (repository / "CLAUDE.md").write_text("not read")
    (repository / "src" / "GEMINI.md").write_text("middle")
    (deep / "AGENTS.md").write_text("deep")
    (world.home / "AGENTS.md").write_text("above the repository")
    names = ["work/thing/AGENTS.md", "work/thing/src/GEMINI.md", "work/thing/src/deep/AGENTS.md"]
    assert found(world, deep) == [(name, "untrusted") for name in names]
    assert found(world, repository) == [(names[0], "untrusted")]


def test_without_a_repository_only_the_folder_itself_counts(world: World) -> None:
    (world.project / "AGENTS.md").write_text("here")
    (world.project.parent / "AGENTS.md").write_text("above")
    assert found(world, world.project) == [("work/thing/AGENTS.md", "untrusted")]


def test_the_home_directory_is_no_project(world: World) -> None:
    (world.home / "AGENTS.md").write_text("mine")
    (world.home / ".git").mkdir()
    assert found(world, world.home) == []


def test_the_users_own_file_is_trusted_and_comes_first(world: World, repository: Path) -> None:
    own = world.user_file.parent / "AGENTS.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    (repository / "AGENTS.md").write_text("root")
    assert [state for _, state in found(world, repository)] == ["trusted", "untrusted"]


def test_trust_holds_for_exactly_this_content(world: World, repository: Path) -> None:
    file = repository / "AGENTS.md"
    file.write_text("root")
    trust_project_file(file, env=world.env)
    assert find_instructions(repository, world.env) == [InstructionFile(file, "trusted", b"root")]
    file.write_text("changed")
    assert found(world, repository)[0][1] == "untrusted"
    refuse(file, b"changed", env=world.env)
    assert found(world, repository)[0][1] == "refused"


def test_a_link_out_of_the_project_is_not_read(world: World, repository: Path) -> None:
    secret = world.home / "secret"
    secret.write_text("key")
    (repository / "AGENTS.md").symlink_to(secret)
    (file,) = find_instructions(repository, world.env)
    assert (file.state, file.content, file.problem) == ("unreadable", b"", "is a link that leads out of the project")


def test_a_link_inside_the_project_is_read(world: World, repository: Path) -> None:
    (repository / "CLAUDE.md").write_text("both")
    (repository / "AGENTS.md").symlink_to("CLAUDE.md")
    (file,) = find_instructions(repository, world.env)
    assert (file.state, file.content) == ("untrusted", b"both")


def test_a_file_of_megabytes_and_a_pipe_are_told_of_and_not_read(world: World, repository: Path) -> None:
    (repository / "AGENTS.md").write_bytes(b"x" * 5_000_000)
    (file,) = find_instructions(repository, world.env)
    assert (file.state, file.problem) == ("unreadable", "is larger than 1 MiB")
    (repository / "AGENTS.md").unlink()
    os.mkfifo(repository / "AGENTS.md")
    assert find_instructions(repository, world.env) == []
