"""Names with `*`, `?` and `[…]`, as they are written in configuration, in keys, in rules and by clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache

_WILD = frozenset("*?[")


class Globs:
    """Which names are meant, in time that does not depend on how many of the globs are plain names. They may be written
    with a dot, too: `runtime.*` is `runtime__*`."""

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
    """For those that are used again and again."""
    return Globs(globs)


# With classes such as `[[:lower:]]`, which Python's patterns do not know, and `[^x]`, which they read otherwise.
_BRACKET = re.compile(r"\[[!^]?\]?(?:\[[:.=][^\]/]*[:.=]\]|[^\]/])*\]")


def widen_brackets(pattern: str) -> str:
    """The pattern with `?` for each bracket: it matches all that the shell's own reading matches, and perhaps more."""
    return _BRACKET.sub("?", pattern) if "[" in pattern else pattern
