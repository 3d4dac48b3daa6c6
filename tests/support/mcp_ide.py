"""An IDE behind MCP: `python mcp_ide.py ROOT` offers `lsp.*` and `fs.*` tools over a buffer that nobody has saved.

The file `open.py` is open in it, with another text than on disk. What it is asked is kept in `asked.jsonl` beside ROOT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from mcp_stub import Server, text, tool

UNSAVED = "def unsaved(): pass\nunsaved()\n"
_STRING, _NUMBER = {"type": "string"}, {"type": "integer"}
_AT = {"path": _STRING, "line": _NUMBER, "symbol": _STRING}
_POSITION = {"uri": _STRING, "position": {"type": "object"}}


def offered(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    return tool(name, inputSchema={"type": "object", "properties": properties})


class Ide(Server):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.buffers = {"open.py": UNSAVED}
        self.tools = [
            offered("lsp.hover", _AT),
            offered("lsp.references", _POSITION),
            offered("lsp.definition", _AT),
            offered("lsp.diagnostics", {"path": _STRING}),
            offered("lsp.rename", {**_POSITION, "newName": _STRING}),
            offered("fs.read", {"path": _STRING}),
            offered("fs.write", {"path": _STRING, "content": _STRING}),
            offered("spell_check", {"path": _STRING}),
        ]

    def call(self, params: dict[str, Any]) -> Any:
        with (self.root.parent / "asked.jsonl").open("a") as file:
            file.write(json.dumps(params) + "\n")
        arguments = params["arguments"]
        match params["name"]:
            case "lsp.hover":
                return text(f"hover of {arguments['symbol']} in line {arguments['line']}")
            case "lsp.references":
                return text(json.dumps([self.place(0, 4), self.place(1, 0)]))
            case "lsp.definition":
                return text("open.py:1: def unsaved(): pass\n/usr/lib/python3/typing.py:9: elsewhere\n")
            case "lsp.diagnostics":
                return text(json.dumps({"items": [{"range": self.place(1, 0)["range"], "message": "from the IDE"}]}))
            case "fs.read":
                return self.read(arguments["path"])
            case "fs.write":
                self.buffers[arguments["path"]] = arguments["content"]
                return text("written")
            case _:
                return text("no", isError=True)

    def read(self, path: str) -> Any:
        return text(self.buffers[path] if path in self.buffers else (self.root / path).read_text())

    def place(self, line: int, start: int) -> dict[str, Any]:
        ends = {"start": {"line": line, "character": start}, "end": {"line": line, "character": start + 7}}
        return {"uri": (self.root / "open.py").as_uri(), "range": ends}


if __name__ == "__main__":
    Ide(Path(sys.argv[1])).run()
