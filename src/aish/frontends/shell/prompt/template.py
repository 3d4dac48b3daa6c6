"""Renders the prompt from its template. Cheap enough to run at every key."""

from __future__ import annotations

import functools
import re
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from aish.frontends.shell.prompt.routing import Destination
from aish.frontends.shell.shell import Shell
from aish.types.decisions import Mode

MARKS = {
    Destination.SHELL: ("$", "ansigreen"),
    Destination.QUIET_SHELL: ("$", "ansigreen"),
    Destination.MODEL: ("✦", "ansimagenta"),
    Destination.META: (":", "ansicyan"),
    Destination.NOTHING: ("›", ""),
}
PLAIN_MARKS = {
    Destination.SHELL: "$",
    Destination.QUIET_SHELL: "$",
    Destination.MODEL: "?",
    Destination.META: ":",
    Destination.NOTHING: ">",
}
_STYLES = {"cwd": "fg:ansiblue", "branch": "fg:ansiyellow", "mode": "fg:ansicyan"}
_FIELD = re.compile(r"{(\w+)}")
_MAX_CWD_CHARS = 40
_INVISIBLE = re.compile("\x01([^\x02]*)\x02")
_COLOURS = re.compile("(?:\x1b\\[[\\d;:]*m)*")
_ESCAPES = re.compile(
    "\x01[^\x02]*\x02|\x1b\\[[\\d;:?]*[A-Za-z]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[\x00-\x08\x0b-\x1f]"
)

Fragments = list[tuple[str, str]]


def prompt_fragments(shell: Shell, template: str, destination: Destination, *, plain: bool) -> Fragments:
    """Pairs of style and text, as prompt_toolkit takes them."""
    mark, colour = (PLAIN_MARKS[destination], "") if plain else MARKS[destination]
    values = {
        "model": shell.model or shell.request.model or "…",
        "cwd": shorten_path(shell.cwd, str(Path.home())),
        "branch": find_branch(shell.cwd),
        "ctx_used": str(shell.context_tokens),
        "ctx_max": str(shell.window or "?"),
        "cost": "?" if shell.usage.cost is None else f"${shell.usage.cost:.4f}",
        "mode": "" if shell.mode is Mode.ASK else f"({shell.mode})",
        "status": f"{shell.status} " if shell.status else "",
        "venv": f"({shell.live.venv})" if shell.live and shell.live.venv else "",
    }
    fragments: Fragments = []
    for number, piece in enumerate(_FIELD.split(template)):
        if number % 2 == 0:
            fragments.append(("", piece))
        elif piece == "mark":
            fragments.append((f"fg:{colour} bold" if colour else "", mark))
        elif piece == "ps1":
            fragments += parse_ps1(shell.live.ps1 if shell.live else "", plain=plain)
        else:
            style = "" if plain else _STYLES.get(piece, "")
            fragments.append((style, values.get(piece, f"{{{piece}}}")))
    return _collapse_spaces(fragments)


@functools.lru_cache(maxsize=4)
def parse_ps1(text: str, *, plain: bool) -> tuple[tuple[str, str], ...]:
    """The prompt of bash as pairs of style and text. What stands between `\\[` and `\\]` takes no room."""
    text = text.replace("\r", "")
    if plain:
        return (("", _ESCAPES.sub("", text)),)
    from prompt_toolkit.formatted_text import ANSI, to_formatted_text

    # Colours are parsed. Other sequences, such as the title of the window, are passed on as they are.
    marked = _INVISIBLE.sub(lambda match: match[1] if _COLOURS.fullmatch(match[1]) else match[0], text)
    styled = groupby(to_formatted_text(ANSI(marked)), itemgetter(0))
    return tuple((style, "".join(part[1] for part in parts)) for style, parts in styled)


def shorten_path(path: str, home: str) -> str:
    shown = "~" + path[len(home) :] if path == home or path.startswith(f"{home}/") else path
    return shown if len(shown) <= _MAX_CWD_CHARS else "…" + shown[-_MAX_CWD_CHARS:]


_branches: dict[str, tuple[float, str]] = {}


def find_branch(folder: str) -> str:
    """The git branch that is checked out, or "". Reads .git/HEAD: starting git at every key would be slow."""
    for parent in (Path(folder), *Path(folder).parents):
        head = parent / ".git" / "HEAD"
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


def _collapse_spaces(fragments: Fragments) -> Fragments:
    """Removes the double spaces that empty fields leave."""
    result: Fragments = []
    for style, text in fragments:
        if result and text.startswith(" ") and result[-1][1].endswith(" "):
            text = text[1:]
        if text:
            result.append((style, text))
    if result and result[0][1].startswith(" "):
        result[0] = (result[0][0], result[0][1].lstrip())
    return [fragment for fragment in result if fragment[1]]
