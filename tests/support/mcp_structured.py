"""The well-behaved MCP server with tools that promise structured results; some keep their promise, and some do not.

`count` counts to `n`, `show` shows a variable of its environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from mcp_stub import Server, text, tool

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
NUMBERS = {"type": "object", "properties": {"numbers": {"type": "array", "items": NUMBER}}, "required": ["numbers"]}
VALUE = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}


class StructuredServer(Server):
    def __init__(self) -> None:
        super().__init__()
        self.tools += [
            tool("count", inputSchema={**NUMBER, "required": ["n"]}, outputSchema=NUMBERS),
            tool("show", inputSchema={**VALUE, "required": ["value"]}, outputSchema=VALUE),
            tool("forget", outputSchema=VALUE),
            tool("lie", outputSchema=VALUE),
            tool("refuse", outputSchema=VALUE),
            tool("free"),
        ]

    def call(self, params: dict[str, Any]) -> Any:
        arguments = params.get("arguments") or {}
        match params["name"]:
            case "count":
                numbers = [{"n": number} for number in range(arguments["n"])]
                return text("counted", structuredContent={"numbers": numbers})
            case "show":
                return text("shown", structuredContent={"value": os.environ[arguments["value"]]})
            case "forget":
                return text("forgotten")
            case "lie":
                return text("lied", structuredContent={"value": 5})
            case "refuse":
                return text("refused", isError=True, structuredContent={"reason": "mood"})
            case "free":
                return text("free", structuredContent={"anything": [1, 2]})
        return super().call(params)


if __name__ == "__main__":
    StructuredServer().run()
