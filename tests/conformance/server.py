"""The server under test for the official MCP conformance suite: `python server.py PORT`.

Our own frontend over HTTP around an engine whose tools are the ones the suite asks for by name. Prints a line when it
listens. Everything else about it is what `/mcp` of aish does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn

from aish.errors import ToolError
from aish.frontends.mcp.http import mcp_app
from aish.ports import CallContext
from aish.types.messages import ImagePart, Part, TextPart
from aish.types.tools import Arguments, Effect, ToolOutput, ToolSpec

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.engines import Bench

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
ANNOTATED = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class SuiteTools:
    """What the suite calls. The names are its own, so they have no source before them."""

    def __init__(self) -> None:
        plain = (
            *("test_simple_text", "test_image_content", "test_multiple_content_types", "test_error_handling"),
            *("test_tool_with_progress", "test_streaming_elicitation", "test_logging_tool"),
        )
        schemas: dict[str, dict[str, Any]] = dict.fromkeys(plain, NOTHING)
        schemas |= {"test_x_mcp_header": ANNOTATED, "json_schema_2020_12_tool": SCHEMA_2020}
        self._specs = [ToolSpec(name, f"does {name}", schema, Effect.READ, "suite") for name, schema in schemas.items()]

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        parts: tuple[Part, ...] = (TextPart(f"This is what {name} says."),)
        match name:
            case "test_image_content":
                parts = (ImagePart("image/png", PIXEL),)
            case "test_multiple_content_types":
                parts = (*parts, ImagePart("image/png", PIXEL))
            case "test_error_handling":
                raise ToolError("This tool intentionally returns an error for testing")
            case "test_tool_with_progress" | "test_streaming_elicitation" | "test_logging_tool":
                for step in ("begun", "half done", "done"):
                    context.status(step)
                    await asyncio.sleep(0.02)
        return ToolOutput(parts)

    async def aclose(self) -> None:
        return None


async def main(port: int) -> None:
    engine = Bench(tools=SuiteTools()).engine  # type: ignore[arg-type]
    config = uvicorn.Config(mcp_app(engine), host="127.0.0.1", port=port, lifespan="off", ws="none", log_level="error")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
