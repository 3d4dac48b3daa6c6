"""The text before the line, from a template; cheap enough to be made anew at every key."""

from __future__ import annotations

import re
from pathlib import Path

from aish.frontends.shell.prompt.routing import Goal
from aish.frontends.shell.state import Shell

MARKS = {
    Goal.SHELL: ("$", "ansigreen"),
    Goal.QUIET_SHELL: ("$", "ansigreen"),
    Goal.MODEL: ("✦", "ansimagenta"),
    Goal.META: (":", "ansicyan"),
    Goal.NOTHING: ("›", ""),
}
PLAIN_MARKS = {Goal.SHELL: "$", Goal.QUIET_SHELL: "$", Goal.MODEL: "?", Goal.META: ":", Goal.NOTHING: ">"}
_FIELD = re.compile(r"{(\w+)}")
_MAX_CWD_CHARS = 40

Fragments = list[tuple[str, str]]


def prompt_fragments(shell: Shell, template: str, goal: Goal, *, plain: bool) -> Fragments:
    """Style and text, as prompt_toolkit takes them."""
    mark, colour = (PLAIN_MARKS[goal], "") if plain else MARKS[goal]
    values = {
        "model": shell.model or shell.request.model or "…",
        "cwd": short_path(shell.cwd, str(Path.home())),
        "branch": branch_of(shell.cwd),
        "ctx_used": str(shell.context_tokens),
        "ctx_max": str(shell.window or "?"),
        "cost": "?" if shell.usage.cost is None else f"${shell.usage.cost:.4f}",
        "status": f"{shell.status} " if shell.status else "",
    }
    fragments: Fragments = []
    for number, piece in enumerate(_FIELD.split(template)):
        if number % 2 == 0:
            fragments.append(("", piece))
        elif piece == "mark":
            fragments.append((f"fg:{colour} bold" if colour else "", mark))
        else:
            style = "" if plain else {"cwd": "fg:ansiblue", "branch": "fg:ansiyellow"}.get(piece, "")
            fragments.append((style, values.get(piece, f"{{{piece}}}")))
    return _without_double_spaces(fragments)


def short_path(path: str, home: str) -> str:
    shown = "~" + path[len(home) :] if path == home or path.startswith(f"{home}/") else path
    return shown if len(shown) <= _MAX_CWD_CHARS else "…" + shown[-_MAX_CWD_CHARS:]


_branches: dict[str, tuple[float, str]] = {}


def branch_of(folder: str) -> str:
    """The branch that is checked out there, "" for none. Read from the files: a process at every key would be felt."""
    for place in (Path(folder), *Path(folder).parents):
        head = place / ".git" / "HEAD"
        try:
            changed = head.stat().st_mtime
        except OSError:
            continue
        known = _branches.get(str(head))
        if known is None or known[0] != changed:
            _branches[str(head)] = known = (changed, _read_branch(head))
        return known[1]
    return ""


def _read_branch(head: Path) -> str:
    try:
        text = head.read_text("utf-8", "replace")[:1000].strip()
    except OSError:
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: ") else text[:7]


def _without_double_spaces(fragments: Fragments) -> Fragments:
    """An empty field leaves no gap."""
    result: Fragments = []
    for style, text in fragments:
        if result and text.startswith(" ") and result[-1][1].endswith(" "):
            text = text[1:]
        if text:
            result.append((style, text))
    if result and result[0][1].startswith(" "):
        result[0] = (result[0][0], result[0][1].lstrip())
    return [fragment for fragment in result if fragment[1]]
