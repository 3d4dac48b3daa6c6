"""`$id.path` in a plan's arguments: found before it is run, filled in from results as it is.

A text that is nothing but a reference stands for the value itself; `${id.path}` inside a text for the value as text.
`$$` at the beginning of a text is a plain `$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_PATH = r"((?:\.[^.\[\]{}$\s]+|\[\d+\])*)"
_WHOLE = re.compile(r"\$([A-Za-z][\w-]*)" + _PATH)
_INSIDE = re.compile(r"\$\{([A-Za-z][\w-]*)" + _PATH + r"\}")
_PIECE = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_MAX_DEPTH = 64


class BadReference(Exception):
    """It leads nowhere; the message says where it ended."""


def references(value: Any, depth: int = 0) -> Iterator[str]:
    """The ids of the steps that a value refers to."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if whole := _WHOLE.fullmatch(value):
            yield whole[1]
        else:
            yield from (match[1] for match in _INSIDE.finditer(value))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item, depth + 1)


def fill_in(value: Any, results: Mapping[str, str], depth: int = 0) -> Any:
    """The value with what the steps gave. Raises BadReference."""
    if depth > _MAX_DEPTH:
        raise BadReference("the arguments are nested too deeply")
    if isinstance(value, str):
        return _filled(value, results)
    if isinstance(value, Mapping):
        return {key: fill_in(item, results, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_in(item, results, depth + 1) for item in value]
    return value


def _filled(text: str, results: Mapping[str, str]) -> Any:
    if whole := _WHOLE.fullmatch(text):
        return _look_up(whole[1], whole[2], results)
    if text.startswith("$$"):
        return text[1:]
    return _INSIDE.sub(lambda match: _as_text(_look_up(match[1], match[2], results)), text)


def _look_up(id: str, path: str, results: Mapping[str, str]) -> Any:
    if id not in results:
        raise BadReference(f"${id}: there is no result of a step {id}")
    if not path:
        return results[id]
    try:
        value = msgspec.json.decode(results[id])
    except msgspec.DecodeError:
        raise BadReference(f"${id}{path}: the result of {id} is plain text, it has no parts") from None
    for name, index in _PIECE.findall(path):
        value = _part(value, name, index, f"${id}{path}")
    return value


def _part(value: Any, name: str, index: str, whole: str) -> Any:
    if index or (isinstance(value, list) and name.isdigit()):
        place = int(index or name)
        if isinstance(value, list) and place < len(value):
            return value[place]
        raise BadReference(f"{whole}: there is no item {place}")
    if isinstance(value, dict) and name in value:
        return value[name]
    has = f"it has {', '.join(list(value)[:8])}" if isinstance(value, dict) and value else "it has no parts"
    raise BadReference(f"{whole}: there is no {name}; {has}")


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
