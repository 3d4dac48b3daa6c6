"""Checks one layer against the schema: collects every problem, wraps secrets, makes paths absolute."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, assert_never

import msgspec

from aish.config.schema.tree import KeyPath, Leaf, NamedTable, Node, Table, leaves, root
from aish.config.schema.values import Secret, mask_logins

# A provider's name stands before a colon in model names, and in variable names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_FREELY_NAMED = {("prices",)}  # a model may have any name
_SHOWN_CHARS = 40
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Problem(msgspec.Struct, frozen=True):
    """One mistake: its place and what is wrong."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class Checker:
    """Checks the values of one layer. Relative paths start at `base`; `texts` says that values may be written as text,
    as in variables and flags."""

    def __init__(self, locate: Callable[[KeyPath], str], base: Path, home: Path, *, texts: bool = False) -> None:
        self.locate = locate
        self.base = base
        self.home = home
        self.texts = texts
        self.problems: list[Problem] = []

    def check(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the valid values; `problems` has the rest."""
        return self._table(values, root(), ()) if values else {}

    def _node(self, value: Any, node: Node, path: KeyPath) -> Any:
        if isinstance(node, Leaf):
            return self._leaf(value, node, path)
        if not isinstance(value, Mapping):
            return self._wrong(path, "a table", describe_wrong(value))
        if isinstance(node, Table):
            return self._table(value, node, path)
        if isinstance(node, NamedTable):
            return self._check_named(value, node, path)
        assert_never(node)

    def _table(self, values: Mapping[str, Any], table: Table, path: KeyPath) -> dict[str, Any]:
        valid: dict[str, Any] = {}
        for name, value in values.items():
            here = (*path, name)
            if name not in table.children:
                self._add(here, f'unknown key "{".".join(here)}"{suggestion(name, table)}')
            elif (checked := self._node(value, table.children[name], here)) is not msgspec.UNSET:
                valid[name] = checked
        return valid

    def _check_named(self, values: Mapping[str, Any], named: NamedTable, path: KeyPath) -> dict[str, Any]:
        valid: dict[str, Any] = {}
        for name, value in values.items():
            here = (*path, name)
            if not isinstance(named.item, Leaf) and path not in _FREELY_NAMED and not _NAME.fullmatch(name):
                self._add(here, f'"{name}" cannot be a name here: use letters, digits, - and _')
            elif (checked := self._node(value, named.item, here)) is not msgspec.UNSET:
                valid[name] = checked
        return valid

    def _leaf(self, value: Any, leaf: Leaf, path: KeyPath) -> Any:
        if self.texts and isinstance(value, str):
            value = parse_text(value, leaf)
        try:
            msgspec.convert(value, leaf.hint, dec_hook=decode_secret)
        except (msgspec.ValidationError, OverflowError) as exc:
            tables = isinstance(value, list) and any(isinstance(item, Mapping) for item in value)
            where = f": {exc}" if tables and not leaf.hide else ""  # names the table and its mistake
            return self._wrong(path, leaf.expected, describe_wrong(value, hide=leaf.hide) + where)
        if isinstance(value, float) and not math.isfinite(value):
            return self._wrong(path, leaf.expected, describe_wrong(value))
        if leaf.secret:
            return value if value is None or isinstance(value, Secret) else Secret(value)
        return self._absolute_path(value, leaf) if leaf.path and value else value

    def _absolute_path(self, value: str, leaf: Leaf) -> str:
        if leaf.path == "gguf" and not (value.endswith(".gguf") or "/" in value):
            return value
        if value == "~" or value.startswith("~/"):
            return str(self.home / value[2:])
        return str(self.base / value)

    def _wrong(self, path: KeyPath, expected: str, got: str) -> Any:
        self._add(path, f"{'.'.join(path)}: expected {expected}, found {got}")
        return msgspec.UNSET

    def _add(self, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(self.locate(path), message))


def parse_text(text: str, leaf: Leaf) -> Any:
    """Converts a value written as text to the type of its key. Returns the text itself if that fails."""
    if leaf.optional and text.lower() in ("", "none"):
        return None
    if leaf.kind is bool:
        return _TRUTH.get(text.lower(), text)
    if leaf.kind is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if leaf.kind in (int, float):
        try:
            return leaf.kind(text)
        except ValueError:
            return text
    return text


def decode_secret(kind: type, value: Any) -> Any:
    """The hook for the one type that msgspec does not know."""
    if kind is not Secret:
        raise NotImplementedError
    if isinstance(value, str):
        return Secret(value)
    if isinstance(value, Secret):
        return value
    raise msgspec.ValidationError("expected text")


def describe_wrong(value: Any, *, hide: bool = False) -> str:
    """Describes a wrong value. Never shows the content of a secret."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number" if hide else f"the number {_short(value)}"
    if isinstance(value, str):
        return "text" if hide else f'"{_short(value)}"'
    if isinstance(value, list | tuple):
        return "a list"
    return "a table" if isinstance(value, Mapping) else "something else" if value is not None else "nothing"


def _short(value: object) -> str:
    try:
        text = mask_logins(str(value))
    except ValueError:  # a number of thousands of digits
        return "that is far too long"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def suggestion(name: str, table: Table) -> str:
    """Suggests a similar name in the same table, or the same name in another table."""
    import difflib  # only needed for a mistake

    near = difflib.get_close_matches(name, table.children, n=1)
    if not near:
        near = [".".join(path) for path, _ in leaves() if path[-1] == name][:1]
    return f'; did you mean "{near[0]}"?' if near else ""
