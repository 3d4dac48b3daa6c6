"""MCP servers that a request brings along by URL: which one, and whose it is. Frozen data.

Reprs never show credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class GuestServer(msgspec.Struct, frozen=True):
    """`label` is the alias of its tools, `owner` whoever asked: nobody else is served through the same connection."""

    label: str
    url: str
    owner: str = ""
    token: str = ""  # sent as a bearer token
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"GuestServer({self.label!r}, url=…)"
