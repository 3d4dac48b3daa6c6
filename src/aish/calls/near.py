"""The one name that was meant: what a model wrote against what there is.

Case, separators and invisible characters do not count. Beyond that one slip of the pen is forgiven, or two in a long
name, if only one name is that near. A word that is a verb of its own is no slip: `get_user` never becomes `set_user`,
nor `unlock` `lock`; nor does a digit change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from aish.calls.tolerant import INVISIBLE

_MIN_CHARS = 4  # shorter names are all near to each other
_LONG_CHARS = 12
_SEPARATORS = re.compile(r"[^\w]+|_+", re.UNICODE)
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Spaces of names that some chat templates put before a function.
_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "api.")
_VERB_LIST = (
    "accept activate add allow append apply approve archive attach ban block book build buy cancel change check clear "
    "clone close commit compile connect copy count create cut deactivate decline decrease delete deny deploy destroy "
    "detach disable disconnect dismiss drop edit enable encrypt decrypt erase exit export fetch fill find fix flush "
    "follow unfollow format get give grant halt has have hide import include exclude increase insert install "
    "uninstall invite is join keep kill leave let like unlike list load unload lock unlock log login logout make mark "
    "unmark match merge mount unmount move mute unmute open order pack unpack park pause pay pin unpin play pop post "
    "print publish unpublish pull push put quit read record register unregister reject release remove rename renew "
    "replace reply report reset resize restart restore resume revert revoke rewind roll rotate run save scan search "
    "seek sell send set share ship show shut sign sort split stage unstage start stop subscribe unsubscribe sum swap "
    "sync tag untag take tell test toggle track untrack transfer trash turn undo unset update upload download use "
    "validate verify view wait wake walk watch write wrap unwrap zip unzip min max first last on off in out up down to "
    "from before after old new lower upper"
)
_VERBS = frozenset(_VERB_LIST.split())


def find_near(name: str, names: Iterable[str]) -> str | None:
    """The one that is meant, or None if there is none or more than one."""
    names = list(names)
    if name in names:
        return name
    bare = without_prefix(_INVISIBLE.sub("", name).strip())
    return _only(bare, names) or _only_ending(bare, names) or _only_misspelt(bare, names)


def near_ones(name: str, names: Iterable[str]) -> list[str]:
    """All that may be meant by a misspelt name."""
    return [known for known in names if _is_near(name, known)]


def without_prefix(name: str) -> str:
    """`functions.add` is `add`."""
    return next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix) and name != prefix), name)


def _only(name: str, names: list[str]) -> str | None:
    """The same but for case and separators."""
    plain = "".join(_words(name))
    same = [known for known in names if "".join(_words(known)) == plain] if plain else []
    return same[0] if len(same) == 1 else None


def _only_ending(name: str, names: list[str]) -> str | None:
    """Without its source: `add` for `runtime__add`."""
    if not name or "__" in name:
        return None
    ends = [known for known in names if _words(known.rpartition("__")[2]) == _words(name) and "__" in known]
    return ends[0] if len(ends) == 1 else None


def _only_misspelt(name: str, names: list[str]) -> str | None:
    near = near_ones(name, names)
    return near[0] if len(near) == 1 else None


@lru_cache(maxsize=2048)
def _words(name: str) -> tuple[str, ...]:
    parts = _SEPARATORS.split(_INVISIBLE.sub("", name))
    return tuple(word.lower() for part in parts for word in _HUMP.split(part) if word)


def _is_near(written: str, known: str) -> bool:
    ours, theirs = _words(written), _words(known)
    one, other = "".join(ours), "".join(theirs)
    if one == other:
        return True
    if len(other) < _MIN_CHARS or len(one) < _MIN_CHARS - 1 or abs(len(one) - len(other)) > 2:
        return False
    if _digits(one) != _digits(other) or any(word in _VERBS for word in set(ours) - set(theirs)):
        return False
    return _slips(one, other) <= (2 if len(other) >= _LONG_CHARS else 1)


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


def _slips(one: str, other: str) -> int:
    """Letters added, lost, changed, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, right in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
