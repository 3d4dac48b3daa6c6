"""The world of a case with real tools: a temporary folder and tables of records.

`ScratchFiles` and `ScratchRecords` are toolsets like any other, which the engine calls through its dispatch. They know
nothing of cases. `find_faults` checks the final state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aish.errors import ToolError
from aish.frontends.eval.cases import Final, World
from aish.frontends.eval.matching import accepts
from aish.ports import CallContext
from aish.types.messages import TextPart
from aish.types.tools import Arguments, Effect, ResultStatus, ToolOutput, ToolSpec

# Files of cases are notes; a larger file comes from a model that does not end.
MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 200
MAX_RECORDS = 1000


def _spec(name: str, description: str, effect: Effect, required: Sequence[str], **properties: str) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema, effect, "scratch")


class _Toolset:
    """Tools that are plain functions of their arguments, run in a thread."""

    def __init__(self, tools: Sequence[tuple[ToolSpec, Callable[[Arguments], str]]]) -> None:
        self._specs = tuple(spec for spec, _ in tools)
        self._functions = {spec.name: function for spec, function in tools}

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if name not in self._functions:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        return ToolOutput((TextPart(await asyncio.to_thread(self._functions[name], arguments)),))

    async def aclose(self) -> None:
        """There is nothing to close."""


class ScratchFiles(_Toolset):
    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        path = "a path in the working folder"
        super().__init__(
            (
                (_spec("list", "List all files of the working folder.", Effect.READ, ()), self._list),
                (_spec("read", "Read a text file.", Effect.READ, ("path",), path=path), self._read),
                (
                    _spec(
                        "write",
                        "Write a text file; what was in it before is replaced.",
                        Effect.WRITE,
                        ("path", "content"),
                        path=path,
                        content="the whole new content",
                    ),
                    self._write,
                ),
                (_spec("delete", "Delete a file.", Effect.WRITE, ("path",), path=path), self._delete),
            )
        )

    def _list(self, arguments: Arguments) -> str:
        return "\n".join(sorted(str(file.relative_to(self._folder)) for file in self._all())) or "(no files)"

    def _all(self) -> Iterator[Path]:
        return (file for file in self._folder.rglob("*") if file.is_file())

    def _read(self, arguments: Arguments) -> str:
        file = self._find_file(arguments)
        return file.read_bytes()[:MAX_FILE_BYTES].decode("utf-8", "replace")

    def _write(self, arguments: Arguments) -> str:
        file, content = self._resolve(arguments), str(arguments["content"]).encode("utf-8", "replace")
        if len(content) > MAX_FILE_BYTES or sum(1 for _ in self._all()) >= MAX_FILES:
            raise ToolError("there is no room for it here")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        except OSError as exc:
            raise ToolError(f"cannot write {arguments['path']}: {exc.strerror}") from exc
        return f"wrote {len(content)} bytes to {arguments['path']}"

    def _delete(self, arguments: Arguments) -> str:
        self._find_file(arguments).unlink()
        return f"deleted {arguments['path']}"

    def _find_file(self, arguments: Arguments) -> Path:
        file = self._resolve(arguments)
        if not file.is_file():
            raise ToolError(f"there is no file {arguments['path']}")
        return file

    def _resolve(self, arguments: Arguments) -> Path:
        try:
            file = (self._folder / str(arguments["path"])).resolve()
        except (OSError, ValueError) as exc:
            raise ToolError("that is no path") from exc
        if not file.is_relative_to(self._folder) or file == self._folder:
            raise ToolError(f"{arguments['path']} is not in the working folder")
        return file


class ScratchRecords(_Toolset):
    """Tables of named records, such as contacts or orders."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self.tables: dict[str, dict[str, Any]] = {name: dict(rows) for name, rows in tables.items()}
        table, key = "the table's name", "the record's key"
        super().__init__(
            (
                (_spec("tables", "List the tables.", Effect.READ, ()), lambda _: ", ".join(self.tables) or "(none)"),
                (_spec("list", "List a table: keys and values.", Effect.READ, ("table",), table=table), self._list),
                (_spec("get", "Get one record.", Effect.READ, ("table", "key"), table=table, key=key), self._get),
                (
                    _spec(
                        "put",
                        "Add a record, or replace the one with that key.",
                        Effect.WRITE,
                        ("table", "key", "value"),
                        table=table,
                        key=key,
                        value="its new value",
                    ),
                    self._put,
                ),
                (
                    _spec("remove", "Remove a record.", Effect.WRITE, ("table", "key"), table=table, key=key),
                    self._remove,
                ),
            )
        )

    def _list(self, arguments: Arguments) -> str:
        rows = self._table(arguments)
        return "\n".join(f"{key}: {value}" for key, value in rows.items()) or "(empty)"

    def _get(self, arguments: Arguments) -> str:
        return str(self._row(arguments)[1])

    def _put(self, arguments: Arguments) -> str:
        rows = self._table(arguments)
        if len(rows) >= MAX_RECORDS:
            raise ToolError("the table is full")
        rows[str(arguments["key"])] = arguments["value"]
        return f"stored {arguments['key']}"

    def _remove(self, arguments: Arguments) -> str:
        key, _ = self._row(arguments)
        del self._table(arguments)[key]
        return f"removed {key}"

    def _table(self, arguments: Arguments) -> dict[str, Any]:
        name = str(arguments["table"])
        if name not in self.tables:
            raise ToolError(f"there is no table {name}; there are {', '.join(self.tables) or 'none'}")
        return self.tables[name]

    def _row(self, arguments: Arguments) -> tuple[str, Any]:
        rows, key = self._table(arguments), str(arguments["key"])
        if key not in rows:
            raise ToolError(f"there is no record {key}")
        return key, rows[key]


def create_files(world: World, folder: Path) -> None:
    """Writes the initial files. Raises ValueError for a path that leads out of the folder."""
    for name, content in world.files.items():
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"{name} is not in the scratch folder")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


class FinalState(msgspec.Struct, frozen=True):
    """The state after a case has run."""

    folder: Path
    records: Mapping[str, Mapping[str, Any]]
    answer: str
    used: frozenset[str]


def find_faults(final: Final, state: FinalState) -> Iterator[str]:
    """The differences from the expected state, each in a few words."""
    for name, allowed in final.files.items():
        file = state.folder / name
        content = file.read_bytes()[:MAX_FILE_BYTES].decode("utf-8", "replace").strip() if file.is_file() else None
        if not _is_allowed(allowed, content):
            yield f"the file {name} {_describe_difference(allowed, content)}"
    for table, rows in final.records.items():
        for key, allowed in rows.items():
            value = state.records.get(table, {}).get(key)
            if not _is_allowed(allowed, value):
                yield f"{key} of {table} {_describe_difference(allowed, value)}"
    if final.answer is not None and not _is_allowed(final.answer, state.answer):
        yield f"the answer {_describe_difference(final.answer, state.answer)}"
    for name in final.used:
        if name not in state.used:
            yield f"{name} was not used"


def _is_allowed(allowed: Any, value: Any) -> bool:
    """Whether the value is allowed. A list has alternatives."""
    if allowed is None or value is None:
        return allowed is value
    return any(accepts(each, value) for each in (allowed if isinstance(allowed, list) else [allowed]))


def _describe_difference(allowed: Any, value: Any) -> str:
    if allowed is None:
        return "is still there"
    return "is missing" if value is None else f"is {str(value)[:200]!r}"
