"""`skills__read`: gives a model the text of an Agent Skill, or of a file that belongs to it, when it needs it.

The description of the tool lists the skills of the user and those that the user trusts. An MCP server that has skills
has a tool of its own for them. Reading runs nothing: scripts of a skill are run by other tools, which the gate asks
about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.config.skills import SKILL_FILE, SkillFile
from aish.errors import ToolError
from aish.ports import CallContext
from aish.types.messages import TextPart
from aish.types.tools import Arguments, Effect, JsonSchema, ResultStatus, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from aish.tools.workspace import IsSecret, Workspace

# About 25 000 tokens; a skill that needs more is divided into files.
MAX_SKILL_BYTES = 100_000
# About 4 000 tokens for the names and descriptions of all skills.
_MAX_LIST_CHARS = 16_000
_MAX_FILES = 100
_MAX_DEPTH = 4
READ_SKILL_TEXT = (
    "Read a skill, which says how a kind of work is done here, before you do that work. With a file: reads that file "
    "of the skill."
)
READ_SKILL_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the skill"},
        "file": {"type": "string", "description": "A file that belongs to the skill, such as references/x.md"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_SPEC = ToolSpec("read", READ_SKILL_TEXT, READ_SKILL_SCHEMA, Effect.READ, "skills", timeout_s=30)


class SkillTools:
    """A Toolset. It has its tool only if there are skills.

    The description of the tool stays the same until `reread`, because it stands at the beginning of prompts. Skills
    that come later, or with another workspace, are told in messages, and can be read like the others.
    """

    def __init__(self, skills: Callable[[], Sequence[SkillFile]], is_secret: IsSecret) -> None:
        self._find = skills
        self._is_secret = is_secret
        self._specs: Sequence[ToolSpec] | None = None  # the list is asked for several times in a request

    @property
    def _skills(self) -> list[SkillFile]:
        return [skill for skill in self._find() if skill.is_usable]

    def reread(self) -> None:
        """Has the skills looked up again."""
        self._specs = None

    def specs(self) -> Sequence[ToolSpec]:
        if self._specs is None:
            skills = self._skills
            self._specs = (_describe(skills),) if skills else ()
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name != _SPEC.name:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        text = await self.read(str(arguments.get("name", "")), str(arguments.get("file", "")))
        return ToolOutput((TextPart(text),))

    async def aclose(self) -> None:
        """There is nothing to close."""

    async def read(self, name: str, file: str = "") -> str:
        """The text of a skill, or of a file of it. Raises ToolError."""
        skills = await asyncio.to_thread(lambda: self._skills)
        skill = next((each for each in skills if each.name == name), None)
        if skill is None:
            raise ToolError(f"there is no skill {name}; there are {_join([each.name for each in skills])}")
        return await asyncio.to_thread(self._read_local, skill, file)

    def _read_local(self, skill: SkillFile, file: str) -> str:
        """Reads the file as it is now; the text of `SKILL.md` is the one that the user trusts."""
        from aish.tools.workspace import Workspace  # few turns read a skill

        workspace = Workspace(skill.folder)
        try:
            if workspace.root != skill.real_folder:  # a link has taken its place: it may lead anywhere
                raise ToolError(f"the folder of {skill.name} is another one now", status=ResultStatus.NOT_ALLOWED)
            if not file:
                return f"{_shorten(skill.body)}\n\n{self._describe_folder(skill, workspace)}"
            if self._is_secret(str(skill.folder / file)):
                raise ToolError(f"{file} is a secret by its name and not read", status=ResultStatus.NOT_ALLOWED)
            return workspace.read(file, max_bytes=MAX_SKILL_BYTES).decode("utf-8", "replace")
        finally:
            workspace.close()

    def _describe_folder(self, skill: SkillFile, workspace: Workspace) -> str:
        files = [name for name in _list_files(workspace) if name != SKILL_FILE]
        tools = f"\nTools that its author means: {skill.allowed_tools}" if skill.allowed_tools else ""
        return f"Folder: {skill.folder}\nOther files: {_join(files)}{tools}"


def _describe(skills: Sequence[SkillFile]) -> ToolSpec:
    """The tool with the list of the skills in its description, cut where it would be too long."""
    lines, left = [_SPEC.description], _MAX_LIST_CHARS
    for skill in skills:
        line = f"- {skill.name}: {' '.join(skill.description.split())}"
        left -= len(line)
        if left < 0:
            lines.append("- …")
            break
        lines.append(line)
    return msgspec.structs.replace(_SPEC, description="\n".join(lines))


def _list_files(workspace: Workspace) -> list[str]:
    """Files below the folder, by their paths in it, up to a bound. Links are left out."""
    files: list[str] = []
    folders = [("", 1)]
    while folders and len(files) < _MAX_FILES:
        folder, depth = folders.pop(0)
        for name, kind in workspace.entries(folder or "."):
            path = str(Path(folder, name))
            if kind == "file" and len(files) < _MAX_FILES:
                files.append(path)
            elif kind == "folder" and depth < _MAX_DEPTH and not name.startswith("."):
                folders.append((path, depth + 1))
    return files


def _join(files: Sequence[str]) -> str:
    return ", ".join(files) or "none"


def _shorten(text: str) -> str:
    left_out = len(text) - MAX_SKILL_BYTES
    return text if left_out <= 0 else f"{text[:MAX_SKILL_BYTES]}\n[aish] … {left_out} characters left out …"
