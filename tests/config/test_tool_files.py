"""Tools in Python files are found in their folders; those of a project have no effect until they are trusted."""

from __future__ import annotations

from pathlib import Path

from aish.config.tool_files import PROJECT_FOLDER, ToolFileFinder, own_tools_folder
from aish.config.user_decisions import refuse, trust_project_file

from .conftest import World

CODE = "from aish import tool\n"


def write(folder: Path, name: str, code: str = CODE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(code)
    return path


def states(finder: ToolFileFinder, cwd: Path) -> list[tuple[str, str, str]]:
    return [(file.owner, file.file.path.name, file.file.state) for file in finder.find(cwd)]


def test_the_users_own_files_need_no_trust_and_those_of_a_project_do(world: World) -> None:
    finder = ToolFileFinder(world.env)
    write(own_tools_folder(world.env), "mine.py")
    path = write(world.project / PROJECT_FOLDER, "deploy.py")
    assert states(finder, world.project) == [("my", "mine.py", "trusted"), ("project", "deploy.py", "untrusted")]
    trust_project_file(path, env=world.env)
    assert states(finder, world.project)[1] == ("project", "deploy.py", "trusted")
    path.write_text(CODE + "import os\n")
    assert states(finder, world.project)[1] == ("project", "deploy.py", "untrusted")
    refuse(path, path.read_bytes(), env=world.env)
    assert states(finder, world.project)[1] == ("project", "deploy.py", "refused")


def test_a_file_that_is_gone_or_new_is_noticed_and_others_are_not_read_again(world: World) -> None:
    finder = ToolFileFinder(world.env)
    first = write(own_tools_folder(world.env), "a.py")
    (before,) = finder.find(world.project)
    write(own_tools_folder(world.env), "b.py")
    after = finder.find(world.project)
    assert after[0] is before and len(after) == 2
    first.unlink()
    assert [file.file.path.name for file in finder.find(world.project)] == ["b.py"]


def test_a_changed_file_has_another_revision(world: World) -> None:
    finder = ToolFileFinder(world.env)
    path = write(own_tools_folder(world.env), "a.py")
    (before,) = finder.find(world.project)
    path.write_text(CODE + "x = 1\n")
    (after,) = finder.find(world.project)
    assert before.source.revision != after.source.revision
    assert before.source.path == after.source.path


def test_only_python_files_that_are_not_hidden_count(world: World) -> None:
    folder = own_tools_folder(world.env)
    for name in ("_private.py", ".hidden.py", "notes.txt", "pkg.pyc"):
        write(folder, name)
    (folder / "folder.py").mkdir()
    found = ToolFileFinder(world.env).find(world.project)
    assert [(file.file.path.name, file.is_usable) for file in found] == [("folder.py", False)]


def test_a_file_of_the_users_own_that_is_a_link_is_pinned_like_one_of_a_project(world: World, tmp_path: Path) -> None:
    """It may lead into a workspace, where a model writes. The folder itself may be a link, too."""
    target = write(tmp_path / "dotfiles", "linked.py")
    folder = own_tools_folder(world.env)
    folder.mkdir(parents=True)
    (folder / "linked.py").symlink_to(target)
    finder = ToolFileFinder(world.env)
    assert states(finder, world.project) == [("my", "linked.py", "untrusted")]
    trust_project_file(target, env=world.env)
    assert states(finder, world.project) == [("my", "linked.py", "trusted")]
    target.write_text(CODE + "import os\n")
    assert states(finder, world.project) == [("my", "linked.py", "untrusted")]
    (folder / "linked.py").unlink()
    folder.rmdir()
    folder.symlink_to(target.parent)
    assert states(finder, world.project) == [("my", "linked.py", "untrusted")]


def test_a_link_out_of_the_project_is_not_followed(world: World, tmp_path: Path) -> None:
    outside = write(tmp_path / "elsewhere", "evil.py")
    folder = world.project / PROJECT_FOLDER
    folder.mkdir(parents=True)
    (folder / "evil.py").symlink_to(outside)
    (found,) = ToolFileFinder(world.env).find(world.project)
    assert found.file.problem == "is a link that leads out of the project"
