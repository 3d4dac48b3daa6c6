"""The `ide` toolset. Imports little: the implementation is created at the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aish.errors import ToolError
from aish.ports import CallContext
from aish.types.messages import TextPart
from aish.types.tools import Arguments, ResultStatus, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from aish.tools.code.edits.records import UndoEntry
    from aish.tools.code.facade import Ide
from aish.types.tools import Effect, JsonSchema

_TEXT: JsonSchema = {"type": "string", "minLength": 1}
_PATH: JsonSchema = {"type": "string", "minLength": 1, "description": "path below the workspace"}
_LINE: JsonSchema = {"type": "integer", "minimum": 1, "description": "line number, from 1"}
_SYMBOL: JsonSchema = {"type": "string", "minLength": 1, "description": "the symbol as it is written in that line"}
_OFFSET: JsonSchema = {"type": "integer", "minimum": 0, "description": "to go on where the last answer ended"}
_LIMIT: JsonSchema = {"type": "integer", "minimum": 1, "maximum": 500}
_AT: JsonSchema = {"path": _PATH, "line": _LINE, "symbol": _SYMBOL}
# Answers have shorter deadlines of their own with better messages; this one is the last resort.
_TIMEOUT_S = 90.0


def _object(properties: JsonSchema, *required: str) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _tool(
    name: str, description: str, schema: JsonSchema, effect: Effect = Effect.READ, *, beyond: bool = False
) -> ToolSpec:
    return ToolSpec(
        name, description, schema, effect, "ide", timeout_s=_TIMEOUT_S, paths=("path",), beyond=beyond,
        undoable=effect is Effect.WRITE,
    )  # fmt: skip


_EDIT: JsonSchema = _object(
    {
        "path": _PATH,
        "revision": {"type": "string", "description": "revision that read_file gave; 'new' makes a new file"},
        "old": {"type": "string", "description": "exact text to replace; must occur once (or once near `line`)"},
        "new": {"type": "string", "description": "text to put there; the whole text of a new file"},
        "line": {**_LINE, "description": "where `old` is, if it occurs more than once"},
        "start_line": {**_LINE, "description": "instead of `old`: first line to replace"},
        "end_line": {**_LINE, "description": "instead of `old`: last line to replace"},
    },
    "path",
    "revision",
    "new",
)

SPECS: tuple[ToolSpec, ...] = (
    _tool(
        "read_file",
        "Read a text file, or some of its lines. Lines are numbered. The revision is needed to edit it.",
        _object({"path": _PATH, "start_line": _LINE, "end_line": _LINE}, "path"),
    ),
    _tool(
        "search",
        "Find lines that hold a text in the files of the workspace, except ignored ones.",
        _object(
            {
                "pattern": {**_TEXT, "description": "the text to find, in one line"},
                "regex": {"type": "boolean", "description": "the pattern is a regular expression"},
                "ignore_case": {"type": "boolean"},
                "glob": {"type": "string", "description": "only files such as *.py or src/**/*.ts"},
                "path": {"type": "string", "description": "only below this folder"},
                "limit": _LIMIT,
                "offset": _OFFSET,
            },
            "pattern",
        ),
    ),
    _tool("outline", "The classes, functions and other declarations of a file.", _object({"path": _PATH}, "path")),
    _tool(
        "symbols",
        "Find declarations in the workspace by a part of their name.",
        _object({"query": _TEXT, "limit": _LIMIT, "offset": _OFFSET}, "query"),
    ),
    _tool("hover", "The type and documentation of a symbol.", _object(_AT, "path", "symbol")),
    _tool("definition", "Where a symbol is declared, with the code there.", _object(_AT, "path", "symbol")),
    _tool(
        "references",
        "Every use of a symbol in the workspace, by file.",
        _object({**_AT, "limit": _LIMIT, "offset": _OFFSET}, "path", "symbol"),
    ),
    _tool(
        "diagnostics",
        "Errors and warnings of a file; without a path, of the files edited so far. 'pending' means: not known yet.",
        _object({"path": _PATH}),
    ),
    _tool(
        "rename",
        "Rename a symbol everywhere in the workspace: all files, or none.",
        _object(
            {
                **_AT,
                "new_name": _TEXT,
                "preview": {"type": "boolean", "description": "only say what would change"},
                "merge": {"type": "boolean", "description": "also where another thing beside it has that name already"},
            },
            "path",
            "symbol",
            "new_name",
        ),
        Effect.WRITE,
        beyond=True,
    ),
    _tool(
        "edit",
        "Edit files: replace exact text, or lines. All edits are applied, or none.",
        _object({"edits": {"type": "array", "minItems": 1, "maxItems": 100, "items": _EDIT}}, "edits"),
        Effect.WRITE,
    ),
    _tool("format", "Format a file.", _object({"path": _PATH}, "path"), Effect.WRITE),
    _tool(
        "code_action",
        "List the fixes and refactorings offered at some lines; with `apply`, do one of them.",
        _object(
            {
                "path": _PATH,
                "line": _LINE,
                "end_line": _LINE,
                "apply": {**_TEXT, "description": "the id of one that was listed"},
            },
            "path",
            "line",
        ),
        Effect.WRITE,
        beyond=True,
    ),
)


class IdeTools:
    def __init__(self, make: Callable[[], Ide]) -> None:
        self._make = make
        self._ide: Ide | None = None

    def specs(self) -> Sequence[ToolSpec]:
        return SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if all(spec.name != name for spec in SPECS):
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        text = await self._open().serve(name, arguments, context.status, call=context.call)
        return ToolOutput((TextPart(text),))

    async def preview(self, name: str, arguments: Arguments, call: str) -> str:
        """Returns the diff of a call, for the user who must approve it. Raises ToolError."""
        return await self._open().preview(name, arguments, call)

    async def compute_witness(self, name: str, arguments: Arguments) -> str:
        """Returns a text from which `has_happened` can later tell whether a change was made. Raises ToolError."""
        return await self._open().compute_witness(name, arguments)

    async def has_happened(self, name: str, witness: str) -> bool | None:
        return await self._open().has_happened(witness)

    async def undo(self, id: str = "") -> str:
        """Undoes the last edit, or the given one; describes it. Raises ToolError."""
        return await self._open().undo(id)

    async def list_undoable(self) -> Sequence[UndoEntry]:
        """Returns the edits that can be undone, newest first."""
        return await self._open().list_undoable()

    def _open(self) -> Ide:
        try:
            self._ide = self._ide or self._make()
        except OSError as exc:
            raise ToolError(f"the workspace cannot be opened: {exc.strerror}") from exc
        return self._ide

    async def aclose(self) -> None:
        if self._ide is not None:
            await self._ide.aclose()
