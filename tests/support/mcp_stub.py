"""A small, well-behaved MCP server over stdio: tools `echo`, `fail` (isError) and `env`, one resource, one prompt.

Adds its process id to the file $PID_FILE, and at the end writes the methods it was sent to $SEEN_FILE, where these are
set. Stdlib only, so that it starts fast.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OBJECT = {"type": "object", "properties": {}}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"does {name}", "inputSchema": OBJECT, **fields}


def text(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": each} for each in texts], **fields}


class Server:
    def __init__(self) -> None:
        self.version = "2025-11-25"
        self.capabilities: Any = {"tools": {}, "resources": {}, "prompts": {}}
        self.tools: Any = [
            tool("echo", inputSchema={"type": "object", "properties": {"text": {"type": "string"}}}),
            tool("fail"),
            tool("env"),
        ]
        self.handlers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "initialize": self.initialize,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": self.tools},
            "tools/call": self.call,
            "resources/list": lambda params: {"resources": [{"uri": "memo://a", "name": "a"}]},
            "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": "memo"}]},
            "prompts/list": lambda params: {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]},
            "prompts/get": lambda params: {
                "messages": [{"role": "user", "content": {"type": "text", "text": f"greet {params['arguments']}"}}]
            },
        }
        self.on_request: Callable[[dict[str, Any]], bool] = lambda message: False  # True: dealt with
        self.seen: list[dict[str, Any]] = []
        self.leave_at_eof = True

    def initialize(self, params: dict[str, Any]) -> Any:
        info = {"name": "hostile", "version": "1"}
        return {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": info}

    def call(self, params: dict[str, Any]) -> Any:
        match params["name"]:
            case "echo":
                return text(str(params["arguments"].get("text", "")))
            case "fail":
                return text("it broke", isError=True)
            case "env":
                return text(json.dumps(dict(os.environ)))
            case "seen":
                return text(json.dumps(self.seen))
            case other:
                raise LookupError(f"Unknown tool: {other}")

    def run(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.seen.append(message)
            if "method" in message and "id" in message:
                self.answer(message)
        if path := os.environ.get("SEEN_FILE"):
            Path(path).write_text(" ".join(str(message.get("method")) for message in self.seen))
        while not self.leave_at_eof:
            time.sleep(60)

    def answer(self, message: dict[str, Any]) -> None:
        if self.on_request(message):
            return
        handler = self.handlers.get(message["method"])
        if handler is None:
            fail(message["id"], -32601, "Method not found")
            return
        try:
            result = handler(message.get("params", {}))
        except LookupError as exc:
            fail(message["id"], -32602, str(exc.args[0]))
        else:
            send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def send(message: Any) -> None:
    write(json.dumps(message).encode() + b"\n")


def fail(id: Any, code: int, message: str) -> None:
    send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def note_pid() -> None:
    if path := os.environ.get("PID_FILE"):
        with Path(path).open("a") as file:
            file.write(f"{os.getpid()}\n")


if __name__ == "__main__":
    note_pid()
    Server().run()
