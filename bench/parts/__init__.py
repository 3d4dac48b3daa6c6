"""The parts of the benchmark, in order. Each has a module with `rows(effort)`, which measures and yields rows."""

from __future__ import annotations

PARTS = {
    "startup": "start-up and memory",
    "gateway": "the server as a gateway",
    "toolround": "a tool round in the server",
    "mcp": "the MCP client",
    "shell": "the live bash",
    "safety": "the command classifier",
    "context": "what the model is shown",
    "store": "durable appends",
    "ide": "code tools beside their language servers",
    "growth": "growth",
}
