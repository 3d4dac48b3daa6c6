"""MCP servers that a request brings along by URL: which one, whose it is, how it is. Frozen data.

Reprs never show credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aish.types.tools import ToolSpec


class GuestServer(msgspec.Struct, frozen=True):
    """`label` is the alias of its tools, `owner` whoever asked: nobody else is served through the same connection."""

    label: str
    url: str
    owner: str = ""
    token: str = ""  # sent as a bearer token
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"GuestServer({self.label!r}, url=…)"


class GuestView(msgspec.Struct, frozen=True):
    """One that is connected, as it is shown. Of its URL only the origin: what follows may be nobody else's business."""

    label: str
    owner: str
    origin: str
    state: str
    tools: tuple[ToolSpec, ...]
