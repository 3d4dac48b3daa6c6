"""The parts of the benchmark, in order. Each has a module with `rows(effort)`, which measures and yields rows."""

from __future__ import annotations

from bench.effort import Effort

PARTS = {
    "startup": "start-up and memory",
    "gateway": "the server as a gateway",
    "toolround": "a tool round in the server",
    "mcp": "the MCP client",
    "shell": "the live bash",
    "safety": "the command classifier",
    "context": "what the model is shown",
    "prefix": "what a backend reads again",
    "store": "durable appends",
    "ide": "code tools beside their language servers",
    "growth": "growth",
}

_PEERS = {
    "startup": ("llm", "xonsh", "codex"),
    "gateway": ("portkey", "sglang-router"),
    "mcp": ("mcp-sdk", "fastmcp"),
}
_SLOW_PEERS = {  # that a quick run goes without
    "startup": ("aider", "shell-gpt", "opencode"),
    "gateway": ("litellm",),
    "prefix": ("aider", "pi"),
    "toolround": ("litellm", "ollama-mcp-bridge"),
}


def peers_of(part: str, effort: Effort) -> tuple[str, ...]:
    """Whom a part is measured beside."""
    return _PEERS.get(part, ()) + (() if effort.quick else _SLOW_PEERS.get(part, ()))
