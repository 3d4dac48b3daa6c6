"""Decides whether a value, or a set of calls, is one of those that a case allows. Pure.

An allowed value is plain JSON, or an object with one `$` key: `{"$any": …}` accepts anything, `{"$exact": text}`
compares exactly, `{"$contains": [words]}` requires every word, `{"$unordered": [items]}` is a list in any order, and
`{"$object": {key: [allowed…]}, "optional": [keys]}` is an object whose values have alternatives.

Plain strings are compared without case, blanks and some punctuation, as in the Berkeley Function-Calling Leaderboard.
Numbers are compared as numbers: 3 equals 3.0. True does not equal 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

_IGNORED = str.maketrans("'", '"', " ,./-_*^\u3000，。、")
_MARKS = frozenset({"$any", "$exact", "$contains", "$unordered", "$object"})


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`arguments` has the allowed values of each argument; those in `optional` may be omitted. No other argument is
    allowed. `either` has alternative sets of arguments: 2 + 3 may be 3 + 2, but not 2 + 2."""

    name: str
    arguments: dict[str, list[Any]] = {}
    optional: tuple[str, ...] = ()
    either: tuple[dict[str, list[Any]], ...] = ()


class ActualCall(msgspec.Struct, frozen=True):
    """A call of the model. `arguments` is None if its text was no JSON object."""

    name: str
    arguments: dict[str, Any] | None
    text: str = ""


class Grade(msgspec.Struct, frozen=True):
    exact: bool
    right_tool: bool
    reason: str = ""


def accepts(allowed: Any, value: Any) -> bool:
    if isinstance(allowed, dict) and (marks := _MARKS & allowed.keys()):
        return _fits_mark(min(marks), allowed, value)
    if isinstance(allowed, bool) or isinstance(value, bool) or allowed is None:
        return allowed is value
    match allowed:
        case int() | float():
            return isinstance(value, int | float) and (allowed == value or math.isclose(allowed, value, rel_tol=1e-9))
        case str():
            return isinstance(value, str) and normalize(allowed) == normalize(value)
        case list():
            return _all_accepted(allowed, value)
        case dict():
            return isinstance(value, dict) and allowed.keys() == value.keys() and _all_in(allowed, value)
        case _:
            return False


def normalize(text: str) -> str:
    return text.lower().translate(_IGNORED)


def _all_accepted(allowed: list[Any], value: Any) -> bool:
    return isinstance(value, list) and len(value) == len(allowed) and all(map(accepts, allowed, value))


def _all_in(allowed: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return all(accepts(allowed[key], item) for key, item in value.items())


def _fits_mark(mark: str, allowed: dict[str, Any], value: Any) -> bool:
    match mark:
        case "$any":
            return True
        case "$exact":
            return bool(value == allowed["$exact"])
        case "$contains":
            return isinstance(value, str) and all(word.lower() in value.lower() for word in allowed["$contains"])
        case "$unordered":
            return isinstance(value, list) and _can_pair(allowed["$unordered"], value, accepts)
        case _:
            return isinstance(value, dict) and not _argument_fault(
                allowed["$object"], allowed.get("optional", ()), value
            )


def sample(allowed: Any) -> Any:
    """One of the allowed values, to check the expectation of a case against its own schema."""
    match allowed:
        case {"$any": value} | {"$exact": value}:
            return value
        case {"$contains": words}:
            return " ".join(words)
        case {"$unordered": items}:
            return [sample(item) for item in items]
        case {"$object": dict(members)}:
            return {key: sample(values[0]) for key, values in members.items() if values}
        case list():
            return [sample(item) for item in allowed]
        case _:
            return allowed


def grade_calls(expected: Sequence[ExpectedCall], made: Sequence[ActualCall]) -> Grade:
    """Exact means: every expected call once, in any order, and no other call."""
    right_tool = sorted(call.name for call in expected) == sorted(call.name for call in made)
    if not made:
        return Grade(exact=not expected, right_tool=right_tool, reason="no call was made" if expected else "")
    if _can_pair(expected, made, _call_accepts):
        return Grade(exact=True, right_tool=True)
    return Grade(exact=False, right_tool=right_tool, reason=_why(expected, made, right_tool=right_tool))


def _call_accepts(expected: ExpectedCall, made: ActualCall) -> bool:
    return expected.name == made.name and not _fault(expected, made)


def _fault(expected: ExpectedCall, made: ActualCall) -> str:
    if made.arguments is None:
        return "its arguments are no JSON object"
    if any(not _argument_fault(each, expected.optional, made.arguments) for each in expected.either):
        return ""
    return _argument_fault(expected.arguments, expected.optional, made.arguments)


def _argument_fault(allowed: Mapping[str, list[Any]], optional: Sequence[str], value: Mapping[str, Any]) -> str:
    for key, item in value.items():
        if key not in allowed:
            return f"{key} was not asked for"
        if not any(accepts(each, item) for each in allowed[key]):
            return f"{key} is {_short(item)}, not {' or '.join(_short(each) for each in allowed[key][:3])}"
    missing = [key for key in allowed if key not in value and key not in optional]
    return f"{missing[0]} is missing" if missing else ""


def _why(expected: Sequence[ExpectedCall], made: Sequence[ActualCall], *, right_tool: bool) -> str:
    if not right_tool:
        wanted = ", ".join(call.name for call in expected) or "no call"
        return f"called {', '.join(call.name for call in made)[:200]} instead of {wanted}"
    for call in made:
        faults = [_fault(each, call) for each in expected if each.name == call.name]
        if all(faults):
            return f"{call.name}: {faults[0]}"
    return "two calls where one was repeated"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "…"


def _can_pair(wanted: Sequence[Any], given: Sequence[Any], fits: Callable[[Any, Any], bool]) -> bool:
    """Whether the two lists can be matched one to one. Tries other partners for items that are already matched."""
    if len(wanted) != len(given):
        return False
    taken: dict[int, int] = {}

    def match_item(at: int, seen: set[int]) -> bool:
        for to, item in enumerate(given):
            if to not in seen and fits(wanted[at], item):
                seen.add(to)
                if to not in taken or match_item(taken[to], seen):
                    taken[to] = at
                    return True
        return False

    return all(match_item(at, set()) for at in range(len(wanted)))
