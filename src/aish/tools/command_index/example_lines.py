"""Example command lines: from tldr pages, from manual pages, and from the history of the user's shell.

The history is read only if allowed, at the time of a question, and nothing of it is stored. A line that may contain a
secret is skipped as a whole, and so is one that removes something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from aish.tools.command_index.sources import strip_markup

_MAX_PAGES = 4_000
_PAGE_BYTES = 32 * 1024
_HISTORY_BYTES = 512 * 1024  # some ten thousand lines, the latest ones
_LINE_CHARS = 160
_MAX_OF_PAGE = 8
_TLDR_PLACES = (
    ".cache/tldr/pages",
    ".cache/tldr/pages.en",
    ".local/share/tldr/pages",
    ".tldr/cache/pages",
    ".cache/tealdeer/tldr-pages/pages",
    ".cache/tealdeer/tldr-pages/pages.en",
    ".cache/tlrc/pages.en",
)
_TLDR_FOLDERS = ("common", "linux")
_TASK = re.compile(r"^- (.+?):?$\s+^`(.+)`$", re.M)
_PLACE = re.compile(r"\{\{(.*?)\}\}")
_EXAMPLES = re.compile(r"^\.S[Hh] +\"?EXAMPLES?\"?[^\n]*\n(.+?)(?=^\.S[Hh] |\Z)", re.M | re.S)
_PROMPT = re.compile(r"^[$#%>] +")
_STAMP = re.compile(r"^#\d+$|^: \d+:\d+;|^- cmd: ")
_ASSIGNED = re.compile(r"^\w+=\S* +")
_SECRET = re.compile(r"passw|secret|token|api.?key|credential|bearer|\bauth|://[^/\s]*@|--?p(ass)?[= ]?\S{6,}$", re.I)
_REMOVING = frozenset(
    {"rm", "rmdir", "dd", "shred", "mkfs", "wipefs", "shutdown", "reboot", "poweroff", "kill", "killall"}
)
_WORD = re.compile(r"[a-z0-9]+")
_MIN_WORDS = 2  # of the question: a single match may be accidental


class ExampleLine(msgspec.Struct, frozen=True):
    """`task` says what it does; `sample` means that names in it are invented, so it must not be run as it is."""

    program: str
    task: str
    line: str
    sample: bool = False


def tldr_folders(home: Path) -> list[Path]:
    """Returns the folders of common tldr clients."""
    return [home / place for place in _TLDR_PLACES]


def history_file(home: Path, named: str) -> Path:
    """`named` is the value of HISTFILE, if any."""
    return Path(named) if named.startswith("/") else home / ".bash_history"


def tldr_lines(programs: set[str], folders: Sequence[Path]) -> Iterator[ExampleLine]:
    """Yields lines of downloaded tldr pages about installed programs."""
    left = _MAX_PAGES
    for pages in (folder / name for folder in folders for name in _TLDR_FOLDERS):
        for file in sorted(pages.glob("*.md")):
            left -= 1
            if left < 0:
                return
            if file.stem in programs or file.stem.partition("-")[0] in programs:
                for task, line in _TASK.findall(_text(file, _PAGE_BYTES))[:_MAX_OF_PAGE]:
                    words = _PLACE.sub(_to_fill, line)
                    if (program := words.split(" ")[0]) in programs and len(words) <= _LINE_CHARS:
                        yield ExampleLine(program, task, words)


def manual_examples(name: str, page: str) -> Iterator[ExampleLine]:
    """Yields the examples of a manual page that begin with the program, with the text before each."""
    found = _EXAMPLES.search(page)
    task, left = "", _MAX_OF_PAGE
    for raw in (found[1] if found else "").splitlines():
        text = _PROMPT.sub("", strip_markup(raw))
        if text.startswith(f"{name} ") and len(text) <= _LINE_CHARS and left:
            left -= 1
            yield ExampleLine(name, task, text, sample=True)
        elif text and not raw.startswith(('.\\"', "'")):
            task = f"{task} {text}"[-_LINE_CHARS:] if task and not task.endswith((".", ":")) else text


def history_lines(file: Path, programs: set[str], redacted: Callable[[str], str]) -> Iterator[ExampleLine]:
    """Yields the latest line first, each once."""
    seen: set[str] = set()
    for raw in reversed(_text(file, _HISTORY_BYTES, from_end=True).splitlines()):
        line = _STAMP.sub("", raw).strip()
        program = _ASSIGNED.sub("", line).split(" ")[0]
        if line in seen or not 4 <= len(line) <= _LINE_CHARS or program not in programs or " " not in line:
            continue
        seen.add(line)
        if program not in _REMOVING and not _SECRET.search(line) and redacted(line) == line and line.isprintable():
            yield ExampleLine(program, "from your history", line)


def find_best(lines: Iterator[ExampleLine], words: Sequence[str]) -> ExampleLine | None:
    """Returns the line that contains most of the words, the first among equals; None with fewer than two."""
    best, best_hits = None, _MIN_WORDS - 1
    for line in lines:
        line_words = _WORD.findall(line.line.lower())
        hits = sum(any(part.startswith(word[:5]) for part in line_words) for word in words)
        if hits > best_hits:
            best, best_hits = line, hits
    return best


def _to_fill(place: re.Match[str]) -> str:
    """`{{path/to/file}}` becomes FILE; of `{{[-a|--all]}}`, two spellings of one option, the longer is taken."""
    inner = place[1]
    if inner.startswith("["):
        return inner.strip("[]").split("|")[-1]
    named = re.findall(r"[A-Za-z]{2,}", inner.split("|")[0].rstrip("/").rpartition("/")[2])
    return "_".join(named).upper() or inner


def _text(file: Path, max_bytes: int, *, from_end: bool = False) -> str:
    try:
        with file.open("rb") as open_file:
            if from_end:
                size = open_file.seek(0, 2)
                open_file.seek(max(0, size - max_bytes))
            return open_file.read(max_bytes).decode("utf-8", "replace")
    except OSError:
        return ""
