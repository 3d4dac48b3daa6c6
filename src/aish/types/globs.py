"""Name patterns with `*`, `?` and `[…]`, as written in configuration, in keys, in rules and by clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache

_WILD = frozenset("*?[")


class Globs:
    """A set of patterns. Matching takes constant time for plain names. Patterns may use a dot: `runtime.*` is
    `runtime__*`."""

    def __init__(self, globs: Iterable[str]) -> None:
        written = set(globs)
        written |= {glob.replace(".", "__", 1) for glob in written if "." in glob}
        self._plain = {glob for glob in written if _WILD.isdisjoint(glob)}
        wild = sorted(written - self._plain)
        self._wild = re.compile("|".join(map(translate, wild))) if wild else None

    def __contains__(self, name: str) -> bool:
        return name in self._plain or (self._wild is not None and self._wild.match(name) is not None)


@lru_cache(maxsize=512)
def globs_of(globs: tuple[str, ...]) -> Globs:
    """Cached, for patterns that are used again and again."""
    return Globs(globs)


# Python's patterns do not know classes such as `[[:lower:]]`, and read `[^x]` in another way.
_BRACKET = re.compile(r"\[[!^]?\]?(?:\[[:.=][^\]/]*[:.=]\]|[^\]/])*\]")


def widen_brackets(pattern: str) -> str:
    """The pattern with `?` for each bracket. It matches everything that the shell's reading matches, and perhaps
    more."""
    return _BRACKET.sub("?", pattern) if "[" in pattern else pattern


def plain_glob(glob: str) -> str:
    """Returns a glob for files as a search of the workspace matches it: relative to the root."""
    return glob.removeprefix("./").lstrip("/")
