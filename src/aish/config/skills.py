"""Finds Agent Skills: folders with a `SKILL.md` that says how a kind of work is done.

The user's own are in the folder of the user's settings, and those of a project in each folder from the root of the
repository down to the working directory. A skill of a project has no effect until the user trusts its `SKILL.md`, like
a project's instructions. What else lies in the folder (scripts, references) is read and run as any file of a project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from aish.config import paths
from aish.config.frontmatter import (
    MarkdownEntry,
    choose_by_name,
    find_head_problem,
    find_project_subfolders,
    list_entries,
    split_head,
)
from aish.config.instructions import InstructionFile, read_own_file, read_project_file
from aish.config.user_decisions import is_trusted, trust_file

SKILL_FILE = "SKILL.md"
_OWN_FOLDER = "skills"
PROJECT_FOLDERS = (".aish/skills", ".agents/skills", ".claude/skills")
MAX_SKILLS = 100


class SkillFile(MarkdownEntry, frozen=True):
    """A `SKILL.md`. `name` and `description` are for the model; `body` is what it reads when it uses the skill."""

    allowed_tools: str = ""
    real_folder: Path = Path()  # without links, when the file was read

    @property
    def folder(self) -> Path:
        return self.file.path.parent


def find_skills(cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()) -> list[SkillFile]:
    """The user's own skills first, then those in `more` folders that the user trusts, then those of the project, the
    nearest folder first. Of skills with one name the first one is usable, and the others have a problem."""
    return choose_by_name(_read_all(cwd, env, more), MAX_SKILLS)


def refresh_skills(
    known: Iterable[SkillFile], cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()
) -> list[SkillFile]:
    """The skills as they are now. A skill whose file has changed stays as the user trusted it."""
    trusted = {skill.file.path: skill for skill in known if skill.is_usable}
    return [
        before
        if skill.file.state == "untrusted"
        and (before := trusted.get(skill.file.path)) is not None
        and is_trusted(before.file.path, before.file.content, env=env)
        else skill
        for skill in find_skills(cwd, env, more)
    ]


def own_skills_folder(env: Mapping[str, str]) -> Path:
    return paths.config_dir(env) / _OWN_FOLDER


def stamp_skills(cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()) -> Iterator[str]:
    """Yields a text for each skill file, which is another one when the file, or what the user trusts, has changed."""
    for path in (trust_file(env), *islice((path for path, _ in _find_files(cwd, env, more)), MAX_SKILLS)):
        with suppress(OSError):
            status = path.stat()
            yield f"{path} {status.st_ino} {status.st_mtime_ns} {status.st_size}"


def _read_all(cwd: Path, env: Mapping[str, str], more: Sequence[Path]) -> Iterator[SkillFile]:
    for path, root in _find_files(cwd, env, more):
        yield parse_skill(read_own_file(path) if root is None else read_project_file(path, root, env))


def _find_files(cwd: Path, env: Mapping[str, str], more: Sequence[Path]) -> Iterator[tuple[Path, Path | None]]:
    """Yields each skill file with the root of its project, None for the user's own and those in `more` folders."""
    for folder in (own_skills_folder(env), *more):
        for path in _skill_files(folder):
            yield path, None
    for root, folder in find_project_subfolders(PROJECT_FOLDERS, cwd, env):
        for path in _skill_files(folder):
            yield path, root


def _skill_files(folder: Path) -> list[Path]:
    return [entry / SKILL_FILE for entry in list_entries(folder) if (entry / SKILL_FILE).is_file()]


def parse_skill(file: InstructionFile) -> SkillFile:
    """Reads the head of the file. A file with a wrong head is unreadable and says why."""
    if file.problem:
        return SkillFile(file, file.path.parent.name)
    head, body = split_head(file.content.decode("utf-8-sig", "replace"))
    name = head.get("name", "") or file.path.parent.name
    folder = paths.real(file.path.parent)
    skill = SkillFile(file, name, head.get("description", ""), body, head.get("allowed-tools", ""), folder)
    problem = find_head_problem(name, skill.description)
    return skill.with_problem(problem) if problem else skill
