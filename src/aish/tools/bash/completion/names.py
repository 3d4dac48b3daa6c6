"""Finds out what a first word means to the shell, from the names it last listed. Fast enough for every key press."""

from __future__ import annotations

import os
import re
from pathlib import Path

from aish.types.live_shell import WordKind

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_KINDS = {"a": WordKind.ALIAS, "k": WordKind.KEYWORD, "f": WordKind.FUNCTION, "b": WordKind.BUILTIN}
# Known before the shell has answered: POSIX reserved words and built-ins.
_KEYWORDS = "if then else elif fi do done case esac while until for in function select time { } ! [[ coproc"
_BUILTINS = (
    ". : [ alias bg break cd command continue echo eval exec exit export false fc fg getopts hash jobs kill printf pwd "
    "read readonly return set shift test times trap true type ulimit umask unalias unset wait"
)
_REMEMBERED = 1000


class ShellNames:
    def __init__(self, kinds: dict[str, WordKind] | None = None, path: str = os.defpath) -> None:
        known = dict.fromkeys(_BUILTINS.split(), WordKind.BUILTIN) | dict.fromkeys(_KEYWORDS.split(), WordKind.KEYWORD)
        self._kinds = kinds or known
        self._path = path
        self._files: dict[tuple[str, str], bool] = {}

    @classmethod
    def parse(cls, listed: str) -> ShellNames:
        """Parses lines of a letter and a name. A name with several meanings gets the one that bash would use."""
        lines = [line.partition(" ")[::2] for line in listed.splitlines()]
        kinds = {}
        for letter in "bfka":  # later ones win: alias, keyword, function, builtin
            kinds.update({name: _KINDS[letter] for each, name in lines if each == letter})
        path = next((text for letter, text in lines if letter == "p"), os.defpath)
        return cls(kinds, path)

    def forget_files(self) -> None:
        self._files.clear()

    def resolve(self, word: str, cwd: str) -> WordKind | None:
        if not word:
            return None
        if word in self._kinds:
            return self._kinds[word]
        if _ASSIGNMENT.match(word):
            return WordKind.ASSIGNMENT
        if word[0] in "({":
            return WordKind.KEYWORD
        return WordKind.FILE if self._is_file(word, cwd) else None

    def _is_file(self, word: str, cwd: str) -> bool:
        key = (word, cwd)
        if key not in self._files:
            if len(self._files) >= _REMEMBERED:
                self._files.clear()
            self._files[key] = _find(word, cwd, self._path)
        return self._files[key]


def _find(word: str, cwd: str, path: str) -> bool:
    if word.startswith("~"):
        word = str(Path(word).expanduser()) if word == "~" or word.startswith("~/") else word
    if "/" in word:
        return _runs(os.path.join(cwd, word))  # noqa: PTH118
    return any(
        _runs(name) and not Path(name).is_dir() for name in (f"{folder or cwd}/{word}" for folder in path.split(":"))
    )


def _runs(name: str) -> bool:
    """Accepts programs, and folders named by a path: bash refuses to run those, but they are not questions for a
    model."""
    try:
        return os.access(name, os.X_OK)
    except ValueError:
        return False
