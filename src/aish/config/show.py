"""Shows the effective settings as rows: key, value as TOML, and who set it. Secrets show as `***`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from aish.config.load import Loaded
from aish.config.schema.secret import MASK, Secret, mask_logins
from aish.config.schema.tree import KeyPath

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Row(NamedTuple):
    key: str
    value: str
    origin: str


def show_rows(loaded: Loaded) -> list[Row]:
    """Returns the rows in the order of the schema. A key that is not set has an empty value."""
    return [_row(loaded, path, value) for path, value in _leaves(loaded.config, ())]


def show_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(mask_logins(value))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show_value(item) for item in value) + "]"
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value).items()
        return "{" + ", ".join(f"{name} = {show_value(item)}" for name, item in fields) + "}"
    return str(value)


def _row(loaded: Loaded, path: KeyPath, value: Any) -> Row:
    origin = loaded.origin(".".join(path))
    return Row(".".join(_key(name) for name in path), show_value(value), origin.where or origin.layer)


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    elif not isinstance(value, Mapping):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(item, (*path, name))


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # A JSON string is a TOML string, except for DEL, which TOML wants escaped.
    quoted = msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
    return quoted.replace("\x7f", "\\u007f")
