"""Checks the Host and Origin of a request, against DNS rebinding.

In that attack the name of another site suddenly resolves to this machine. Its requests carry that name as Host, so only
our own names are accepted. An IP address cannot be rebound. The Origin that a browser sends must be this server or one
that the configuration names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit


class OriginGuard:
    """`hosts` are further names of this server, `origins` other sites whose pages may call it (`https://host:port`)."""

    def __init__(self, *, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._hosts = frozenset({"localhost", *(host.lower() for host in hosts)})
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def find_objection(self, host: str, origin: str | None) -> str:
        """Why the request is refused, or ""."""
        name = _name_in(host)
        if name not in self._hosts and not _is_address(name):
            return "the Host header names another machine"
        if origin is not None and not self._may_call(origin.lower(), host.lower()):
            return "pages of that Origin may not call this server"
        return ""

    def _may_call(self, origin: str, host: str) -> bool:
        scheme, _, host_and_port = origin.partition("://")
        return origin in self._origins or (scheme in ("http", "https") and host_and_port == host)


@lru_cache(maxsize=256)
def _name_in(host: str) -> str:
    """The host without its port; "" if it is no valid host."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "") if parts.netloc == host and "@" not in host else ""
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
