"""The least a stdio MCP server can do, so that what is measured is the gateway. Two tools that answer alike with what
they got: `look` says that it only reads, `echo` says nothing, so a careful client takes it for one with effects. As
many others as the first argument says are there to be listed."""

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "look", "description": "l", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "echo", "description": "e", "inputSchema": SCHEMA},
]
OTHERS = int(sys.argv[1]) if len(sys.argv) > 1 else 0
TOOLS += [{**TOOLS[0], "name": f"other_{number}"} for number in range(OTHERS)]
INFO = {"name": "bench", "version": "1"}


def result(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "tools/call":
            text = message["params"].get("arguments", {}).get("text", "")
            return {"content": [{"type": "text", "text": f"you said {text}"}]}
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
        case "tools/list":
            return {"tools": TOOLS}
    return {}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(message)}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
