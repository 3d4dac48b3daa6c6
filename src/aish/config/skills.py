"""Finds Agent Skills: folders with a `SKILL.md` that says how a kind of work is done.

The user's own are in the folder of the user's settings, and those of a project in each folder from the root of the
repository down to the working directory. A skill of a project has no effect until the user trusts its `SKILL.md`, like
a project's instructions. What else lies in the folder (scripts, references) is read and run as any file of a project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from aish.config import paths
from aish.config.instructions import InstructionFile, find_project_folders, read_own_file, read_project_file
from aish.config.user_decisions import is_trusted, trust_file

SKILL_FILE = "SKILL.md"
_OWN_FOLDER = "skills"
PROJECT_FOLDERS = (".aish/skills", ".agents/skills", ".claude/skills")
MAX_SKILLS = 100
_MAX_ENTRIES = 500  # in one folder of skills
_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCE = "---"
_KEY = re.compile(r"([A-Za-z][\w-]*):(?:\s+(.*))?$")
_BLOCK = re.compile(r"[>|][+-]?\d?$")


class SkillFile(msgspec.Struct, frozen=True):
    """A `SKILL.md`. `name` and `description` are for the model; `body` is what it reads when it uses the skill."""

    file: InstructionFile
    name: str
    description: str = ""
    allowed_tools: str = ""
    body: str = ""
    real_folder: Path = Path()  # without links, when the file was read

    @property
    def folder(self) -> Path:
        return self.file.path.parent

    @property
    def is_usable(self) -> bool:
        return self.file.state == "trusted"


def find_skills(cwd: Path, env: Mapping[str, str]) -> list[SkillFile]:
    """The user's own skills first, then those of the project, nearest folder first. Of skills with one name the first
    one is usable, and the others have a problem."""
    found: dict[Path, SkillFile] = {}
    owners: dict[str, Path] = {}
    for skill in islice(_read_all(cwd, env), MAX_SKILLS):
        real = paths.real(skill.file.path)
        if real in found:  # one folder may be a link to another
            continue
        first = owners.get(skill.name)
        if first is not None and not skill.file.problem:
            skill = _with_problem(skill, f"has the name of {first}")
        elif skill.is_usable:
            owners[skill.name] = skill.file.path
        found[real] = skill
    return list(found.values())


def refresh_skills(known: Iterable[SkillFile], cwd: Path, env: Mapping[str, str]) -> list[SkillFile]:
    """The skills as they are now. A skill whose file has changed stays as the user trusted it."""
    trusted = {skill.file.path: skill for skill in known if skill.is_usable}
    return [
        before
        if skill.file.state == "untrusted"
        and (before := trusted.get(skill.file.path)) is not None
        and is_trusted(before.file.path, before.file.content, env=env)
        else skill
        for skill in find_skills(cwd, env)
    ]


def usable_names(skills: Iterable[SkillFile]) -> frozenset[str]:
    return frozenset(skill.name for skill in skills if skill.is_usable)


def own_skills_folder(env: Mapping[str, str]) -> Path:
    return paths.config_dir(env) / _OWN_FOLDER


def stamp_skills(cwd: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yields a text for each skill file, which is another one when the file, or what the user trusts, has changed."""
    for path in (trust_file(env), *islice((path for path, _ in _find_files(cwd, env)), MAX_SKILLS)):
        with suppress(OSError):
            status = path.stat()
            yield f"{path} {status.st_ino} {status.st_mtime_ns} {status.st_size}"


def _read_all(cwd: Path, env: Mapping[str, str]) -> Iterator[SkillFile]:
    for path, root in _find_files(cwd, env):
        yield parse_skill(read_own_file(path) if root is None else read_project_file(path, root, env))


def _find_files(cwd: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Path | None]]:
    """Yields each skill file with the root of its project, None for the user's own."""
    for path in _skill_files(own_skills_folder(env)):
        yield path, None
    root, folders = find_project_folders(paths.real(cwd), paths.real(paths.home_dir(env)))
    for folder in reversed(folders):
        for name in PROJECT_FOLDERS:
            for path in _skill_files(folder / name):
                yield path, root


def _skill_files(folder: Path) -> list[Path]:
    try:
        entries = sorted(islice(folder.iterdir(), _MAX_ENTRIES))
        return [entry / SKILL_FILE for entry in entries if (entry / SKILL_FILE).is_file()]
    except OSError:
        return []


def parse_skill(file: InstructionFile) -> SkillFile:
    """Reads the head of the file. A file with a wrong head is unreadable and says why."""
    if file.problem:
        return SkillFile(file, file.path.parent.name)
    head, body = _split_head(file.content.decode("utf-8-sig", "replace"))
    name = head.get("name", "") or file.path.parent.name
    folder = paths.real(file.path.parent)
    skill = SkillFile(file, name, head.get("description", ""), head.get("allowed-tools", ""), body, folder)
    if _NAME.fullmatch(name) is None or len(name) > _MAX_NAME_CHARS:
        return _with_problem(skill, f"needs a name of at most {_MAX_NAME_CHARS} small letters, digits and single '-'")
    if not skill.description:
        return _with_problem(skill, "has no description between two lines with ---")
    if len(skill.description) > _MAX_DESCRIPTION_CHARS:
        return _with_problem(skill, f"has a description of more than {_MAX_DESCRIPTION_CHARS} characters")
    return skill


def _with_problem(skill: SkillFile, problem: str) -> SkillFile:
    file = msgspec.structs.replace(skill.file, state="unreadable", problem=problem)
    return msgspec.structs.replace(skill, file=file)


def _split_head(text: str) -> tuple[dict[str, str], str]:
    """The fields between two lines of dashes, and the text after them."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return {}, text.strip()
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), len(lines))
    return _read_fields(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def _read_fields(lines: list[str]) -> dict[str, str]:
    """Reads the texts at the top level of a YAML mapping: plain, quoted, folded and literal ones, and lists of plain
    ones. Unlike a YAML reader it takes `description: Use this: always`, as many skills have it."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(lines):
        found = _KEY.match(lines[at])
        at += 1
        if found is None:
            continue
        more = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t-"):
            more.append(lines[at].strip())
            at += 1
        fields[found[1]] = _read_value((found[2] or "").strip(), more)
    return fields


def _read_value(first: str, more: list[str]) -> str:
    if _BLOCK.match(first):
        return ("\n" if first[0] == "|" else " ").join(more).strip()
    if not first and more and more[0].startswith("- "):
        return " ".join(_unquote(line.removeprefix("- ").strip()) for line in more)
    return _unquote(" ".join(filter(None, (first, *more))))


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        return inner.replace("''", "'") if text[0] == "'" else inner.replace('\\"', '"').replace("\\\\", "\\")
    return re.sub(r"(?:^|\s)#.*$", "", text).strip()
