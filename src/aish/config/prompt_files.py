"""Finds prompt files: `commands/NAME.md` files with a question that is asked by `:NAME ARGUMENTS`.

The user's own are in the folder of the user's settings. Those of a project have no effect until the user trusts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aish.config.frontmatter import MarkdownEntry, choose_by_name, find_mode_problem, read_markdown_files, split_head
from aish.config.instructions import InstructionFile
from aish.types.decisions import Mode

_OWN_FOLDER = "commands"
PROJECT_FOLDERS = (".aish/commands", ".claude/commands")
MAX_PROMPT_FILES = 200
_MAX_NAME_CHARS = 100
_MAX_LINE_CHARS = 200
_NAME = re.compile(r"[\w.-]+(?::[\w.-]+)*")
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9](?!\d))")


class PromptFile(MarkdownEntry, frozen=True):
    """A `commands/NAME.md`. `body` is the question. `allowed_tools` is only shown: a prompt file allows nothing."""

    argument_hint: str = ""
    model: str = ""
    mode: Mode | None = None
    allowed_tools: str = ""


def find_prompt_files(cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()) -> list[PromptFile]:
    """The user's own files first, then those in `more` folders that the user trusts, then those of the project, nearest
    folder first."""
    return choose_by_name(_read_all(cwd, env, more), MAX_PROMPT_FILES)


def _read_all(cwd: Path, env: Mapping[str, str], more: Sequence[Path]) -> Iterator[PromptFile]:
    for name, file in read_markdown_files(_OWN_FOLDER, PROJECT_FOLDERS, cwd, env, more, is_nested=True):
        yield parse_prompt_file(name, file)


def parse_prompt_file(name: str, file: InstructionFile) -> PromptFile:
    """Reads the head of the file, which it need not have."""
    if file.problem:
        return PromptFile(file, name)
    head, body = split_head(file.content.decode("utf-8-sig", "replace"))
    mode = head.get("mode", "")
    prompt = PromptFile(
        file,
        name,
        (head.get("description", "") or _first_line(body))[:_MAX_LINE_CHARS],
        body,
        argument_hint=head.get("argument-hint", "")[:_MAX_LINE_CHARS],
        model=head.get("model", ""),
        mode=Mode(mode) if mode in tuple(Mode) else None,
        allowed_tools=head.get("allowed-tools", ""),
    )
    if problem := _find_problem(name, body, mode):
        return prompt.with_problem(problem)
    return prompt


def _find_problem(name: str, body: str, mode: str) -> str:
    if _NAME.fullmatch(name) is None or len(name) > _MAX_NAME_CHARS:
        return f"needs a name of at most {_MAX_NAME_CHARS} letters, digits, '.', '_' and '-'"
    if not body:
        return "has no text to ask"
    return find_mode_problem(mode)


def fill_arguments(body: str, arguments: str) -> str:
    """The question: `$ARGUMENTS` is all that was typed, `$1` to `$9` its words, which may be quoted. Without such a
    place the arguments stand below the text."""
    words = _split_words(arguments)

    def fill(place: re.Match[str]) -> str:
        if place[1] == "ARGUMENTS":
            return arguments
        number = int(place[1])
        return words[number - 1] if number <= len(words) else ""

    if _PLACE.search(body) is None:
        return f"{body}\n\n{arguments}".strip()
    return _PLACE.sub(fill, body)


def _split_words(arguments: str) -> list[str]:
    import shlex  # few questions have arguments

    try:
        return shlex.split(arguments)
    except ValueError:  # a quotation that is not closed
        return arguments.split()


def _first_line(body: str) -> str:
    return next((line.strip() for line in body.splitlines() if line.strip()), "")
