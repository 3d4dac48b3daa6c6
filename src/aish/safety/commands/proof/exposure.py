"""Classifies what reading a path reveals: nothing (the workspace, harmless places), something outside, or a secret.

Does not access the disk, so links are not followed here; the gate checks them (`real_paths`).
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase, translate

from aish.safety.commands import program_tables
from aish.safety.commands.path_kinds import absolute_path, is_inside, is_precious, is_under, relative_to_home
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.verdict import Read
from aish.types.globs import widen_brackets

_WILDCARD = re.compile(r"[*?\[]")
_LITERAL = re.compile(r"[^*?\[]*")
# /proc/7/root and /proc/7/cwd are links to folders; the files behind them are what is read.
_PROCESS_LINK = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(root|cwd)(?=/|$)")
_MIN_LETTERS = 2
_MAX_PIECES = 60
_COMMON_ENDING = re.compile(r"\.(json|ya?ml|toml|txt|xml|ini|csv|properties|md|log|js|ts|py)$")


class Exposure(StrEnum):
    INSIDE = "inside"
    OUTSIDE = "outside"
    SECRET = "secret"


def classify_read(path: str, scope: Scope, *, deep: bool, names_only: bool, glob: bool) -> Exposure:
    """`path` is absolute and normalised. `deep` means with everything below, `glob` that it is a pattern."""
    path = _resolve_process_links(path, scope)
    if any(is_under(path, folder) for folder in scope.private):
        return Exposure.SECRET
    if not names_only and (is_secret(path, scope, glob=glob) or (deep and _contains_secrets(path, scope))):
        return Exposure.SECRET
    if glob and _may_climb(path):
        return Exposure.OUTSIDE
    base = fixed_part(path) if glob else path
    if _is_readable(base, scope) or (names_only and not deep and _is_listable(base)):
        return Exposure.INSIDE
    if names_only and is_secret(path, scope, glob=glob):
        return Exposure.SECRET
    return Exposure.OUTSIDE


def is_plain_name(path: str, scope: Scope, *, glob: bool) -> bool:
    """Whether it is a file in the workspace and not a secret."""
    return classify_read(path, scope, deep=False, names_only=False, glob=glob) is Exposure.INSIDE


def is_secret(path: str, scope: Scope, *, glob: bool = False) -> bool:
    name = path.rpartition("/")[2]
    if _matches("names_plain", name):
        return False
    if glob and _WILDCARD.search(path):
        return _pattern_is_secret(path, name, scope)
    relative = relative_to_home(path, scope)
    if relative is not None and _matches("home_plain", relative):
        return False
    if _matches("paths", path) or name_is_secret(name):
        return not _is_installed(path)
    return relative is not None and _matches("home", relative)


def name_is_secret(name: str) -> bool:
    """On file systems that ignore case, `.ENV` is `.env`."""
    lower = name.lower()
    found = _matches("names", name) or (lower != name and _matches("names", lower))
    return found and not _matches("names_plain", name)


def _matches(table: str, text: str) -> bool:
    """Whether a pattern of that list in secrets.toml matches."""
    return _patterns(table).match(text)


class _Patterns:
    """Many globs matched as one. Almost all are a whole text, a prefix or a suffix and need no regular expression."""

    def __init__(self, globs: Sequence[str]) -> None:
        plain = [glob for glob in globs if not _WILDCARD.search(glob)]
        begins = [glob[:-1] for glob in globs if glob[-1:] == "*" and not _WILDCARD.search(glob[:-1])]
        ends = [glob[1:] for glob in globs if glob[:1] == "*" and not _WILDCARD.search(glob[1:])]
        others = [glob for glob in globs if _WILDCARD.search(glob[:-1]) and _WILDCARD.search(glob[1:])]
        self._texts = frozenset(plain)
        self._begins, self._ends = tuple(begins), tuple(ends)
        self._others = re.compile("|".join(map(translate, others)) or r"(?!)")

    def match(self, text: str) -> bool:
        return (
            text in self._texts
            or text.startswith(self._begins)
            or text.endswith(self._ends)
            or self._others.match(text) is not None
        )


@functools.cache
def _patterns(table: str) -> _Patterns:
    return _Patterns(getattr(program_tables.secrets(), table))


def _is_installed(path: str) -> bool:
    """Certificates that come with the system are public."""
    return path.startswith(("/usr/share/", "/usr/lib/", "/nix/store/")) and path.endswith(
        (".pem", ".crt", ".der", ".gpg")
    )


def _pattern_is_secret(path: str, name: str, scope: Scope) -> bool:
    """Whether a file that the pattern may match is a secret. A bare `*` or `*.json` is assumed to match ordinary
    files."""
    relative = relative_to_home(path, scope)
    if relative is not None and any(_may_name(relative, secret) for secret in _find_near("home", relative)):
        return True
    if any(may_match_both(path, secret) for secret in _find_near("paths", path) if secret[0] != "*"):
        return True
    if is_secret(f"{fixed_part(path)}/x", scope):
        return True
    if not _WILDCARD.search(name):
        return name_is_secret(name)
    return name_pattern_is_secret(name)


def _find_near(table: str, glob: str) -> Iterator[str]:
    """Yields the patterns of that list that begin with the same folder, or with a wildcard. The list is long, and a
    word with a wildcard is usually not near any."""
    heads = _by_head(table)
    head = _head(glob)
    return itertools.chain(heads.get(head, ()), heads.get("", ())) if head else itertools.chain(*heads.values())


@functools.cache
def _by_head(table: str) -> dict[str, list[str]]:
    heads: dict[str, list[str]] = {}
    for glob in getattr(program_tables.secrets(), table):
        heads.setdefault(_head(glob), []).append(glob)
    return heads


def _head(glob: str) -> str:
    """Returns the first folder, "" if it has a wildcard."""
    head = glob.lstrip("/").partition("/")[0]
    return "" if _WILDCARD.search(head) else head


def _may_name(glob: str, secret: str) -> bool:
    """The shell's wildcards match no slash, and no dot at the beginning of a name."""
    if glob.count("/") < secret.count("/") or (secret[0] == "." and glob[0] != "."):
        return False
    return may_match_both(glob, secret)


@functools.lru_cache(maxsize=512)
def name_pattern_is_secret(name: str) -> bool:
    """Checks the pattern of a file name, as in `--include=*.pem` or `find -name '.e*'`."""
    name = widen_brackets(name.lower())
    if not _WILDCARD.search(name):
        return name_is_secret(name)
    letters = re.sub(r"[^A-Za-z0-9]", "", _COMMON_ENDING.sub("", name))
    if len(letters) < _MIN_LETTERS and not name.startswith("."):
        return False
    exemplars = program_tables.secrets().exemplars
    if any(fnmatchcase(known, name) for known in exemplars if name.startswith((".", "*.")) or known[0] != "."):
        return not _matches("names_plain", name)
    return False


def _contains_secrets(path: str, scope: Scope) -> bool:
    """Whether a folder that is read recursively is a usual place of keys."""
    relative = relative_to_home(path.rstrip("/") + "/", scope)
    if relative is None:
        return any(is_under(secret.rstrip("*/"), path) for secret in program_tables.secrets().paths) or is_under(
            scope.home, path
        )
    prefix = relative.strip("/")
    return any(prefix == "" or secret.startswith(prefix + "/") for secret in program_tables.secrets().home)


def _is_readable(path: str, scope: Scope) -> bool:
    if is_inside(path, scope) or any(is_under(path, folder) for folder in scope.readable):
        return True
    return any(is_under(path, place) for place in program_tables.secrets().harmless)


def _is_listable(path: str) -> bool:
    return path in program_tables.secrets().listed


def _resolve_process_links(path: str, scope: Scope) -> str:
    while (match := _PROCESS_LINK.match(path)) and (match[1] == "root" or path.startswith("/proc/self/")):
        base = "" if match[1] == "root" else scope.cwd or ""
        path = posixpath.normpath(f"{base}{path[match.end() :]}" or "/")
    return path


def fixed_part(path: str) -> str:
    """Returns the folder above the first wildcard."""
    match = _WILDCARD.search(path)
    return path if match is None else path[: match.start()].rpartition("/")[0] or "/"


def _may_climb(path: str) -> bool:
    """`.*` and `.?` may match `..`, which leads out of any folder."""
    parts = path.split("/")
    return any(_WILDCARD.search(part) and fnmatchcase("..", part) for part in parts if part.startswith("."))


def find_folder_to_grant(read: Read, scope: Scope) -> str:
    """Returns what a lasting approval covers: the folder, or only the file if the folder is too much, "" for none.
    Listing a home does not allow reading everything in it."""
    path = posixpath.normpath(read.path)
    above = fixed_part(path) if read.glob else path.rpartition("/")[0] or "/"
    folder = path if (read.deep or read.names_only) and not read.glob else above
    if not is_precious(folder, scope):
        return folder
    return "" if folder == path or read.glob else path


def may_match_both(left: str, right: str) -> bool:
    """Whether some text matches both patterns. Brackets count as any one character, `*` matches slashes."""
    if not _have_same_start(left, right):
        return False
    first, second = widen_brackets(left), widen_brackets(right)
    reachable = {0}
    for char in (*first, ""):
        reachable = _skip_stars(reachable, second)
        if char == "":
            break
        if char == "*":
            reachable = set(range(min(reachable, default=len(second) + 1), len(second) + 1))
            continue
        stepped = {at + 1 for at in reachable if at < len(second) and (second[at] in (char, "?") or char == "?")}
        stepped |= {at for at in reachable if at < len(second) and second[at] == "*"}
        reachable = stepped
    return len(second) in reachable


def _have_same_start(left: str, right: str) -> bool:
    """Compares the texts before the first wildcards; most pairs differ there."""
    first, second = _LITERAL.match(left), _LITERAL.match(right)
    assert first is not None and second is not None
    return first[0].startswith(second[0]) or second[0].startswith(first[0])


def _skip_stars(positions: set[int], pattern: str) -> set[int]:
    found = set(positions)
    for at in positions:
        while at < len(pattern) and pattern[at] == "*":
            at += 1
            found.add(at)
    return found


# Characters around a path in options, addresses and code.
_AROUND = re.compile(r"[\s'\"`(){}<>|;&=,:@$]+")


def find_secret(text: str, scope: Scope) -> str | None:
    """Returns the secret's file that an argument names, in whatever role; also inside code."""
    pieces: list[str] = _AROUND.split(text, _MAX_PIECES)
    for candidate in dict.fromkeys((text, *pieces)):
        if candidate.isalnum():  # `npm run secrets`: only a word, unless the program is known to read it
            continue
        if "/" not in candidate and not _WILDCARD.search(candidate):
            if candidate and name_is_secret(candidate):
                return candidate
            continue
        path = absolute_path(scope.home + candidate[1:] if candidate[:2] == "~/" else candidate, scope)
        if path is not None and is_secret(
            _resolve_process_links(path, scope), scope, glob=bool(_WILDCARD.search(path))
        ):
            return candidate
    return None
