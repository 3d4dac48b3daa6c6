"""References in a plan's arguments, `$id.path`: finds them before a run, and fills in results during it.

A text that is only a reference stands for the value itself; `${id.path}` inside a text stands for the value as text.
`$$` is a plain `$` where a single one would begin a reference: at the start of a text, and before `{`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

_PATH = r"((?:\.[^.\[\]{}$\s]+|\[\d+\])*)"
_WHOLE = re.compile(r"\$([A-Za-z][\w-]*)" + _PATH)
_INSIDE = re.compile(r"\$\$(?=\{)|\A\$\$|\$\{([A-Za-z][\w-]*)" + _PATH + r"\}")  # without an id it is a plain `$`
_INTENDED = re.compile(r"\$([A-Za-z][\w-]*)[.\[]\S*")
_INTENDED_INSIDE = re.compile(r"(?<!\$)\$\{([A-Za-z][\w-]*)[.\[][^{}]*\}")
_PATH_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_MAX_DEPTH = 64
_MAX_INDEX_DIGITS = 9  # no list has more items; int() refuses thousands of digits


class BadReference(Exception):
    """A reference has no value. The message says which part of it is missing."""


def references(value: Any) -> Iterator[str]:
    """The ids of the steps that a value refers to."""
    for text in _texts(value):
        if whole := _WHOLE.fullmatch(text):
            yield whole[1]
        else:
            yield from (match[1] for match in _INSIDE.finditer(text) if match[1])


def find_malformed(value: Any) -> Iterator[tuple[str, str]]:
    """Texts that begin as a reference with a path but are none, such as `$a.items[-1]`: pairs of the id and the
    text."""
    for text in _texts(value):
        if (intended := _INTENDED.fullmatch(text)) and not _WHOLE.fullmatch(text):
            yield intended[1], text
        inside = _INTENDED_INSIDE.finditer(text)
        yield from ((match[1], match[0]) for match in inside if not _INSIDE.fullmatch(match[0]))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth <= _MAX_DEPTH and isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item, depth + 1)


def change_plain_text(text: str, change: Callable[[str], str]) -> str:
    """Applies `change` to the text between the references."""
    if _WHOLE.fullmatch(text):
        return text
    pieces, at = list[str](), 0
    for match in _INSIDE.finditer(text):
        pieces += [change(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join((*pieces, change(text[at:])))


def fill_in(value: Any, results: Mapping[str, str]) -> Any:
    """Replaces the references in a value by the results of their steps. Raises BadReference."""
    return _map_texts(value, lambda text: _fill_in_text(text, results))


def rename_steps(value: Any, names: Mapping[str, str]) -> Any:
    """Replaces the ids of steps in the references of a value. Raises BadReference."""
    return _map_texts(value, lambda text: _rename_in_text(text, names))


def _map_texts(value: Any, change: Callable[[str], Any], depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise BadReference("the arguments are nested too deeply")
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(item, change, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(item, change, depth + 1) for item in value]
    return value


def _fill_in_text(text: str, results: Mapping[str, str]) -> Any:
    if whole := _WHOLE.fullmatch(text):
        return _look_up(whole[1], whole[2], results)
    return _INSIDE.sub(lambda match: _as_text(_look_up(match[1], match[2], results)) if match[1] else "$", text)


def _rename_in_text(text: str, names: Mapping[str, str]) -> str:
    if whole := _WHOLE.fullmatch(text):
        return f"${names.get(whole[1], whole[1])}{whole[2]}"
    return _INSIDE.sub(lambda m: f"${{{names.get(m[1], m[1])}{m[2]}}}" if m[1] else m[0], text)


def _look_up(id: str, path: str, results: Mapping[str, str]) -> Any:
    if id not in results:
        raise BadReference(f"${id}: there is no result of a step {id}")
    if not path:
        return results[id]
    try:
        value = msgspec.json.decode(results[id])
    except (ValueError, RecursionError):
        raise BadReference(f"${id}{path}: the result of {id} is plain text, it has no parts") from None
    for name, index in _PATH_PART.findall(path):
        value = _get_part(value, name, index, f"${id}{path}")
    return value


def _get_part(value: Any, name: str, index: str, reference: str) -> Any:
    if index or (isinstance(value, list) and name.isdecimal()):
        digits = index or name
        if isinstance(value, list) and len(digits) <= _MAX_INDEX_DIGITS and int(digits) < len(value):
            return value[int(digits)]
        raise BadReference(f"{reference}: there is no item {digits}")
    if isinstance(value, dict) and name in value:
        return value[name]
    has = f"it has {', '.join(list(value)[:8])}" if isinstance(value, dict) and value else "it has no parts"
    raise BadReference(f"{reference}: there is no {name}; {has}")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
