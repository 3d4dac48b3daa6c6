"""Reads lists of tools, resources and prompts item by item, so that a bad item affects only itself.

All listed text is untrusted. Names must be plain, descriptions are cleaned and cut, schemas made safe. The first of two
items with the same name wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from aish.tools.mcp.schema import normalise
from aish.tools.mcp.text import clean
from aish.tools.mcp.transport.headers import HeaderParams, InvalidAnnotation, header_params
from aish.tools.mcp.types import McpPrompt, McpResource, McpSkill, McpTool, PromptArgument
from aish.types.tools import JsonSchema

MAX_PAGES = 200
_MAX_NAMED_FAULTS = 20  # warnings about single items; the rest are counted
_NAME_CHARS = 256
_URI_CHARS = 4096
_DESCRIPTION_CHARS = 4096  # the longest of a real server is 3 kB
_MAX_ARGUMENTS = 100
_MAX_SKILL_FILES = 500
_SHA256 = "sha256:"

Item = TypeVar("Item", McpTool, McpResource, McpPrompt, McpSkill)
Warn = Callable[[str], None]
Read = Callable[[dict[str, Any]], tuple[str, Item, str]]  # to key, item and note


class InvalidItem(Exception):
    """The item is left out; the message says why."""


class ListPage(msgspec.Struct):
    tools: msgspec.Raw = msgspec.Raw(b"[]")
    resources: msgspec.Raw = msgspec.Raw(b"[]")
    prompts: msgspec.Raw = msgspec.Raw(b"[]")
    skills: msgspec.Raw = msgspec.Raw(b"[]")
    nextCursor: Any = None

    def items(self, what: str) -> list[msgspec.Raw] | None:
        """Returns None if there is no list; an empty Lua table or null is an empty list."""
        raw: msgspec.Raw = getattr(self, what)
        try:
            return msgspec.json.decode(raw, type=list[msgspec.Raw])
        except msgspec.DecodeError:
            return [] if bytes(raw).strip() in (b"{}", b"null") else None


class ListReader:
    """Collects the items of all pages."""

    def __init__(self, kind: str, max_items: int, warn: Warn) -> None:
        self._kind = kind
        self._max_items = max_items
        self._warn = warn
        self._faults = 0
        self._cursors: set[str] = set()
        self.full = False

    def next_cursor(self, page: ListPage) -> str | None:
        """Returns the next cursor; None at the end, or if the pages repeat or are too many."""
        cursor = page.nextCursor
        if self.full or not isinstance(cursor, str) or not cursor:
            return None
        if cursor in self._cursors or len(self._cursors) + 1 >= MAX_PAGES:
            why = "goes round in a circle" if cursor in self._cursors else f"has more than {MAX_PAGES} pages"
            self._warn(f"the list of {self._kind} {why}; the rest is left out")
            return None
        self._cursors.add(cursor)
        return cursor

    def add_page(self, page: ListPage, into: dict[str, Item], read: Read[Item]) -> None:
        items = page.items(self._kind)
        if items is None:
            self._warn(f"the list of {self._kind} is not a list")
            return
        for raw in items:
            if len(into) >= self._max_items:
                self.full = True
                self._warn(f"lists more than {self._max_items} {self._kind}; the rest is left out")
                return
            self._add_item(raw, into, read)

    def _add_item(self, raw: msgspec.Raw, into: dict[str, Item], read: Read[Item]) -> None:
        try:
            key, item, note = read(_fields(raw))
        except InvalidItem as exc:
            self._fault(f"{exc}; it is left out")
            return
        if key in into:
            self._fault(f"{clean(key, 80)} is listed twice; the first one counts")
            return
        into[key] = item
        if note:
            self._fault(f"{clean(key, 80)}: {note}")

    def _fault(self, text: str) -> None:
        self._faults += 1
        if self._faults <= _MAX_NAMED_FAULTS:
            self._warn(f"{self._kind}: {text}")

    def finish(self) -> None:
        more = self._faults - _MAX_NAMED_FAULTS
        if more > 0:
            self._warn(f"{self._kind}: {more} more of them have faults")


def read_tool(fields: dict[str, Any], *, stateless: bool) -> tuple[str, McpTool, str]:
    name = _name(fields, "tool")
    if "inputSchema" not in fields or fields["inputSchema"] is None:
        raise InvalidItem(f"the tool {clean(name, 80)} has no inputSchema")
    schema, note = normalise(fields["inputSchema"])
    output_schema, output_note = _output_schema(fields.get("outputSchema"))
    hints = fields.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    tool = McpTool(
        name,
        _text(fields, "description", _DESCRIPTION_CHARS),
        schema,
        title=_text(fields, "title", 200),
        read_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is not False,
        open_world=hints.get("openWorldHint") is not False,
        output_schema=output_schema,
        header_params=_header_params(name, fields["inputSchema"]) if stateless else (),
    )
    return name, tool, "; ".join(filter(None, (note, output_note)))


def _output_schema(raw: Any) -> tuple[JsonSchema | None, str]:
    """Returns the cleaned output schema; None if it had to be replaced, because then it would not be the server's
    promise."""
    if not isinstance(raw, dict) or raw.get("type") != "object":
        return None, ""
    schema, note = normalise(raw)
    return (None, f"what it says of its results is left out: {note}") if note else (schema, "")


def _header_params(name: str, schema: Any) -> HeaderParams:
    try:
        return header_params(schema) if isinstance(schema, dict) else ()
    except (InvalidAnnotation, RecursionError) as exc:
        raise InvalidItem(f"the tool {clean(name, 80)} cannot be used: {exc}") from exc


def read_resource(fields: dict[str, Any]) -> tuple[str, McpResource, str]:
    uri = _uri(fields, "resource")
    media_type = _text(fields, "mimeType", 100)
    name, description = _text(fields, "name", _NAME_CHARS), _text(fields, "description", _DESCRIPTION_CHARS)
    return uri, McpResource(uri, name, description, media_type), ""


def read_prompt(fields: dict[str, Any]) -> tuple[str, McpPrompt, str]:
    name = _name(fields, "prompt")
    listed = fields.get("arguments")
    arguments = [
        PromptArgument(entry["name"], _text(entry, "description", _DESCRIPTION_CHARS), entry.get("required") is True)
        for entry in (listed if isinstance(listed, list) else [])[:_MAX_ARGUMENTS]
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]
    return name, McpPrompt(name, _text(fields, "description", _DESCRIPTION_CHARS), tuple(arguments)), ""


def read_skill(fields: dict[str, Any]) -> tuple[str, McpSkill, str]:
    uri, head = _uri(fields, "skill"), fields.get("frontmatter")
    if not isinstance(head, dict):
        raise InvalidItem(f"the skill {clean(uri, 80)} has no frontmatter")
    name, folder = _name(head, "skill"), uri.rpartition("/")[0] + "/"
    listed = fields.get("resources")
    digests = {
        entry["uri"].removeprefix(folder): entry["digest"].removeprefix(_SHA256).lower()
        for entry in (listed if isinstance(listed, list) else [])[:_MAX_SKILL_FILES]
        if isinstance(entry, dict) and _is_text(entry.get("uri"), _URI_CHARS) and _is_text(entry.get("digest"), 80)
        if entry["uri"].startswith(folder) and entry["digest"].startswith(_SHA256)
    }
    return uri, McpSkill(uri, name, _text(head, "description", _DESCRIPTION_CHARS), digests), ""


def _fields(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        raise InvalidItem("an item cannot be read") from exc
    if not isinstance(value, dict):
        raise InvalidItem("an item is not an object")
    return value


def _name(fields: dict[str, Any], kind: str) -> str:
    name = fields.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidItem(f"a {kind} has no name")
    if len(name) > _NAME_CHARS or clean(name, _NAME_CHARS) != name:
        raise InvalidItem(f"the {kind} {clean(name, 40)} has a name that is too long or has hidden characters")
    return name


def _uri(fields: dict[str, Any], kind: str) -> str:
    uri = fields.get("uri")
    if not _is_text(uri, _URI_CHARS):
        raise InvalidItem(f"a {kind} has no usable uri")
    return str(uri)


def _is_text(value: Any, max_chars: int) -> bool:
    """Whether it is a text without hidden characters, of that length at most."""
    return isinstance(value, str) and 0 < len(value) <= max_chars and clean(value, max_chars) == value


def _text(fields: dict[str, Any], key: str, max_chars: int) -> str:
    value = fields.get(key)
    return clean(value, max_chars) if isinstance(value, str) else ""
