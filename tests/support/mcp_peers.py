"""Real MCP software of others: servers from npm, servers and the official SDK from PyPI.

The SDK has an environment of its own, so that nothing of it can reach ours.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from support.installed import node_modules, python_programs


def node_server(name: str) -> tuple[str, ...]:
    """The command of a server from npm."""
    script = node_modules("mcp-servers") / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return shutil.which("node") or "node", str(script)


def sdk_python() -> Path:
    """An interpreter that has the official SDK."""
    return _programs() / "python"


def python_server(name: str) -> tuple[str, ...]:
    """The command of a server from PyPI."""
    return (str(_programs() / f"mcp-server-{name}"),)


def _programs() -> Path:
    # `mcp-server-sqlite` is abandoned: it asks for any `mcp` and breaks on the 2.x it gets. It is our example of a
    # server that dies at its start.
    return python_programs("mcp-python", without_dependencies="mcp-broken")
