"""Finds agents: `agents/NAME.md` files that say who answers a task, with which model, tools and mode.

The user's own are in the folder of the user's settings. Those of a project have no effect until the user trusts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from aish.config.frontmatter import (
    MarkdownEntry,
    choose_by_name,
    find_head_problem,
    find_mode_problem,
    read_markdown_files,
    split_head,
    split_list,
)
from aish.config.instructions import InstructionFile
from aish.types.decisions import Mode
from aish.types.models import AgentDefinition

_OWN_FOLDER = "agents"
PROJECT_FOLDERS = (".aish/agents", ".claude/agents", ".agents/agents")
MAX_AGENTS = 50
_STEPS = re.compile(r"[1-9]\d{0,3}")
_CALLERS_MODEL = "inherit"  # as other agents write it
# The names that other agents have for what our tools do.
_OTHER_NAMES = {
    "Read": ("ide__read_file",),
    "Grep": ("ide__search",),
    "Glob": ("ide__search",),
    "LS": ("ide__search",),
    "Edit": ("ide__edit",),
    "MultiEdit": ("ide__edit",),
    "Write": ("ide__edit",),
    "Bash": ("shell__run",),
    "Task": ("agents__run",),
    "Skill": ("skills__read",),
}


class AgentFile(MarkdownEntry, frozen=True):
    """An `agents/NAME.md`. `definition` is complete if the file has no problem."""

    definition: AgentDefinition = AgentDefinition("", "")


def find_agents(cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()) -> list[AgentFile]:
    """The user's own agents first, then those in `more` folders that the user trusts, then those of the project, the
    nearest folder first."""
    return choose_by_name(_read_all(cwd, env, more), MAX_AGENTS)


def _read_all(cwd: Path, env: Mapping[str, str], more: Sequence[Path]) -> Iterator[AgentFile]:
    for name, file in read_markdown_files(_OWN_FOLDER, PROJECT_FOLDERS, cwd, env, more):
        yield parse_agent(name, file)


def parse_agent(stem: str, file: InstructionFile) -> AgentFile:
    """Reads the head of the file. A file with a wrong head is unreadable and says why."""
    if file.problem:
        return AgentFile(file, stem)
    head, body = split_head(file.content.decode("utf-8-sig", "replace"))
    name, description = head.get("name", "") or stem, head.get("description", "")
    agent = AgentFile(file, name, description, body)
    mode, steps = head.get("mode", ""), head.get("max_steps", head.get("max-steps", ""))
    if problem := find_head_problem(name, description) or find_mode_problem(mode) or _find_steps_problem(steps):
        return agent.with_problem(problem)
    model = head.get("model", "")
    definition = AgentDefinition(
        name,
        description,
        instructions=body,
        tools=_read_tools(head.get("tools", "")),
        model="" if model == _CALLERS_MODEL else model,
        mode=Mode(mode) if mode else None,
        max_steps=int(steps) if steps else None,
        origin=str(file.path),
    )
    return msgspec.structs.replace(agent, definition=definition)


def _find_steps_problem(steps: str) -> str:
    return "has max_steps that are no number from 1 to 9999" if steps and _STEPS.fullmatch(steps) is None else ""


def _read_tools(value: str) -> tuple[str, ...]:
    globs: list[str] = []
    for word in split_list(value):
        globs += _OTHER_NAMES.get(word, (word,))
    return tuple(dict.fromkeys(globs))
