"""The schema as a tree: tables, named tables and leaves, each with its description."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from aish.config.schema.config import Config
from aish.config.schema.values import Secret, Section

KeyPath = tuple[str, ...]


class Leaf(msgspec.Struct, frozen=True):
    """A setting. `kind` is its type without options and constraints; `expected` describes valid values in words."""

    hint: Any
    kind: type
    expected: str
    default: Any
    description: str = ""
    default_in_words: str = ""
    optional: bool = False
    path: Literal["", "always", "gguf"] = ""  # whether the value is a path: always, or only with the suffix .gguf
    hide: bool = False  # its value stays out of messages

    @property
    def secret(self) -> bool:
        return self.kind is Secret


class Table(msgspec.Struct, frozen=True, dict=True):
    """Reads its children from the schema when first needed: most runs set few keys, in few tables."""

    section: type[Section]

    @cached_property
    def children(self) -> dict[str, Node]:
        return {field.name: _node(field) for field in msgspec.structs.fields(self.section)}

    @property
    def description(self) -> str:
        return (self.section.__doc__ or "").strip()


class NamedTable(msgspec.Struct, frozen=True):
    """A table whose keys the user chooses."""

    item: Leaf | Table
    description: str


Node = Leaf | Table | NamedTable


@cache
def root() -> Table:
    return Table(Config)


def leaves(node: Node | None = None, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Leaf]]:
    """Yields every setting in the order of the schema. NAME stands for a name that the user chooses."""
    node = root() if node is None else node
    if isinstance(node, Leaf):
        yield path, node
    elif isinstance(node, NamedTable):
        yield from leaves(node.item, (*path, "NAME"))
    else:
        for name, child in node.children.items():
            yield from leaves(child, (*path, name))


def _node(field: msgspec.structs.FieldInfo) -> Node:
    bare, metas = _unwrap(field.type)
    if isinstance(bare, type) and issubclass(bare, Section):
        return Table(bare)
    description = next((meta.description for meta in metas if meta.description), "")
    if get_origin(bare) is dict:
        item = get_args(bare)[1]
        if item is Secret:
            return NamedTable(Leaf(Secret, Secret, "text", None, description, hide=True), description)
        if item is Any:
            return Leaf(bare, dict, "a table", {}, description, hide=True)
        if get_origin(item) is dict:  # its keys are those of an extension
            return NamedTable(Leaf(item, dict, "a table", {}, description, hide=True), description)
        return NamedTable(Table(item), (item.__doc__ or "").strip())
    return _leaf(field, bare, description, {key: value for meta in metas for key, value in (meta.extra or {}).items()})


def _leaf(field: msgspec.structs.FieldInfo, bare: Any, description: str, extra: dict[str, Any]) -> Leaf:
    options = [option for option in _options(bare) if option is not NoneType]
    return Leaf(
        hint=field.type,
        kind=_kind(options[0]),
        expected=_describe_expected(field.type),
        default=field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
        description=description,
        default_in_words=extra.get("default", ""),
        optional=len(options) < len(_options(bare)),
        path=extra.get("path", ""),
        hide=extra.get("hide", False) or _kind(options[0]) is Secret,
    )


def _unwrap(hint: Any) -> tuple[Any, tuple[msgspec.Meta, ...]]:
    if get_origin(hint) is Annotated:
        bare, *metas = get_args(hint)
        return bare, tuple(metas)
    return hint, ()


def _options(bare: Any) -> tuple[Any, ...]:
    return get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)


def _kind(option: Any) -> type:
    """Returns the type of an option; for an enumeration, text."""
    bare, _ = _unwrap(option)
    origin = get_origin(bare) or bare
    return origin if isinstance(origin, type) and not issubclass(origin, StrEnum) else str


_WORDS: dict[Any, str] = {str: "text", Secret: "text", bool: "true or false", int: "a whole number", float: "a number"}


def _describe_expected(hint: Any) -> str:
    bare, metas = _unwrap(hint)
    options = [option for option in _options(bare) if option is not NoneType]
    if len(_options(bare)) > 1:
        return _describe_expected(options[0])
    if get_origin(bare) is Literal:
        return _one_of(get_args(bare))
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return _one_of(tuple(bare))
    if get_origin(bare) is tuple:
        return _list_of(get_args(bare)[0])
    if title := next((meta.title for meta in metas if meta.title), ""):
        return title
    return _WORDS[bare] + "".join(_bounds(meta) for meta in metas)


def _one_of(values: tuple[Any, ...]) -> str:
    return "one of " + ", ".join(f'"{value}"' for value in values)


def _list_of(item: Any) -> str:
    bare, metas = _unwrap(item)
    if isinstance(bare, type) and issubclass(bare, Section):
        return "a list of tables with " + ", ".join(field.name for field in msgspec.structs.fields(bare))
    title = next((meta.title for meta in metas if meta.title), "")
    return f"a list, each {title}" if title else "a list of texts"


def _bounds(meta: msgspec.Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f" of at least {meta.ge}"
    return f" above {meta.gt}" if meta.gt is not None else ""
