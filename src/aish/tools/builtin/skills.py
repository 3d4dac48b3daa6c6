"""`skills__read`: gives a model the text of an Agent Skill, or of a file that belongs to it, when it needs it.

The description of the tool lists the skills of the user, and those that the user trusts. Skills of MCP servers are
listed by a call, since their servers connect at any time and their texts are not trusted. Reading runs nothing: scripts
of a skill are run by other tools, which the gate asks about as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from aish.config.skills import SKILL_FILE, SkillFile
from aish.errors import AishError, ToolError
from aish.ports import CallContext
from aish.tools.mcp.types import McpSkill
from aish.tools.workspace import IsSecret, Workspace
from aish.types.messages import TextPart
from aish.types.tools import Arguments, Effect, ResultStatus, ToolOutput, ToolSpec

# About 25 000 tokens; a skill that needs more is divided into files.
MAX_SKILL_BYTES = 100_000
# About 4 000 tokens for the names and descriptions of all skills.
_MAX_LIST_CHARS = 16_000
_MAX_FILES = 100
_MAX_DEPTH = 4
_SPEC = ToolSpec(
    "read",
    "Read a skill, which says how a kind of work is done here, before you do that work. With a file: reads that file "
    "of the skill. Without a name: lists all skills.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Name of the skill"},
            "file": {"type": "string", "description": "A file that belongs to the skill, such as references/x.md"},
        },
        "additionalProperties": False,
    },
    Effect.READ,
    "skills",
    timeout_s=30,
)


class SkillServer(Protocol):
    """An MCP server that may have skills."""

    @property
    def has_skills(self) -> bool: ...

    async def list_skills(self) -> Sequence[McpSkill]: ...

    async def read_skill(self, skill: McpSkill, file: str) -> str:
        """The text of a file of the skill. Raises ToolError."""


class SkillTools:
    """A Toolset. It has its tool only while there are skills."""

    def __init__(
        self,
        skills: Callable[[], Sequence[SkillFile]],
        servers: Callable[[], Mapping[str, SkillServer]],
        is_secret: IsSecret,
    ) -> None:
        self._list_skills = skills
        self._servers = servers
        self._is_secret = is_secret
        self._described: tuple[Sequence[SkillFile], bool] = ((), False)
        self._specs: Sequence[ToolSpec] = ()

    def specs(self) -> Sequence[ToolSpec]:
        skills, has_remote = self._list_skills(), any(server.has_skills for server in self._servers().values())
        if skills is not self._described[0] or has_remote is not self._described[1]:
            self._described = skills, has_remote
            self._specs = (_describe(skills, has_remote=has_remote),) if has_remote or _usable(skills) else ()
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name != _SPEC.name:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        skill, file = str(arguments.get("name", "")), str(arguments.get("file", ""))
        text = await self.read(skill, file) if skill else await self.list_all()
        return ToolOutput((TextPart(text),))

    async def aclose(self) -> None:
        """There is nothing to close."""

    async def list_all(self) -> str:
        """One line for each skill. Those of an MCP server are named `SERVER:NAME`."""
        lines = [_format(skill) for skill in _usable(self._list_skills())]
        for alias, server in self._servers().items():
            if server.has_skills:
                try:
                    skills = await server.list_skills()
                except AishError as exc:
                    lines.append(f"(the skills of the MCP server {alias} cannot be listed: {exc.message})")
                    continue
                lines += [f"{alias}:{skill.name}: {skill.description}" for skill in skills]
        return "\n".join(lines) or "There are no skills."

    async def read(self, name: str, file: str = "") -> str:
        """The text of the skill, or of a file of it. Raises ToolError."""
        skill = next((each for each in _usable(self._list_skills()) if each.name == name), None)
        if skill is not None:
            return await asyncio.to_thread(self._read_local, skill, file)
        alias, _, remote = name.partition(":")
        server = self._servers().get(alias)
        if not remote or server is None or not server.has_skills:
            raise ToolError(f"there is no skill {name}; without a name this tool lists them")
        entry = next((each for each in await server.list_skills() if each.name == remote), None)
        if entry is None:
            raise ToolError(f"the MCP server {alias} has no skill {remote}")
        text = await server.read_skill(entry, file or SKILL_FILE)
        return text if file else f"[from the MCP server {alias}]\n{text}\n\nOther files: {_join(entry.files)}"

    def _read_local(self, skill: SkillFile, file: str) -> str:
        """Reads the file as it is now; the text of `SKILL.md` is the one that the user trusts."""
        workspace = Workspace(skill.folder)
        try:
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


def _usable(skills: Sequence[SkillFile]) -> list[SkillFile]:
    return [skill for skill in skills if skill.is_usable]


def _format(skill: SkillFile) -> str:
    return f"{skill.name}: {' '.join(skill.description.split())}"


def _describe(skills: Sequence[SkillFile], *, has_remote: bool) -> ToolSpec:
    """The tool with the list of the skills in its description, cut where it would be too long."""
    lines, left = [], _MAX_LIST_CHARS
    for skill in _usable(skills):
        line = f"- {_format(skill)}"
        left -= len(line)
        if left < 0:
            lines.append("- …")
            break
        lines.append(line)
    if has_remote:
        lines.append("- MCP servers have more")
    return msgspec.structs.replace(_SPEC, description="\n".join((_SPEC.description, *lines)))


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
