"""The least an HTTP server can do, with keep-alive: `python echo_http.py` prints its port and serves."""

import asyncio
import json
import sys
from typing import Any

TOOL = {
    "name": "echo",
    "description": "e",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        server = {"name": "echo", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0][15:])) if lengths else b"{}"
            message = json.loads(body)
            if "id" not in message:
                writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                continue
            answer = {
                "jsonrpc": "2.0",
                "id": message["id"],
                "result": result(message["method"], message.get("params", {})),
            }
            data = json.dumps(answer).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
            writer.write(head + data)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


asyncio.run(main())
