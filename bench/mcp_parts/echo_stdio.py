"""The least a stdio server can do, so that what is measured is the client: answers `tools/call` with 64 letters without
reading more of it than its id. `big:N` gives N MiB instead."""

import json
import re
import sys
from typing import Any

TOOL = {
    "name": "echo",
    "description": "e",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
CALL = re.compile(rb'"method":\s?"tools/call"')
ID = re.compile(rb'"id":\s?(\d+)')
BIG = re.compile(rb"big:(\d+)")


def result(method: str) -> dict[str, Any]:
    if method == "initialize":
        server = {"name": "echo", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    return {"tools": [TOOL]} if method == "tools/list" else {}


def called(line: bytes) -> bytes:
    big = BIG.search(line)
    text = b"x" * (int(big[1]) << 20 if big else 64)
    found = ID.search(line)
    assert found
    return b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' % (found[1], text)


for line in sys.stdin.buffer:
    if CALL.search(line):
        sys.stdout.buffer.write(called(line))
    elif "id" in (message := json.loads(line)):
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(message["method"])}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
