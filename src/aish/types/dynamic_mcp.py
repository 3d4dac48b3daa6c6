"""MCP servers that a request brings by URL: their address, their owner and their state. Frozen data.

Reprs never show credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aish.types.tools import ToolSpec


class DynamicMcpServer(msgspec.Struct, frozen=True):
    """`label` is the alias of its tools. `owner` is the caller; no other caller is served through the same
    connection."""

    label: str
    url: str
    owner: str = ""
    token: str = ""  # sent as a bearer token
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"DynamicMcpServer({self.label!r}, url=…)"


class DynamicMcpView(msgspec.Struct, frozen=True):
    """A connected server as it is shown. Only the origin of its URL, since the rest may be secret."""

    label: str
    owner: str
    origin: str
    state: str
    tools: tuple[ToolSpec, ...]
