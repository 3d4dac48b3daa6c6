"""Who may speak to the HTTP frontend at all, by the Host and Origin of the request.

Against DNS rebinding: a page of some other site whose name suddenly means this machine. Its requests carry that name as
Host, so only names known to be ours pass. An address is no name and cannot be rebound. A browser also says where the
page came from, and that must be this very server or one that was named in the configuration.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit


class Guard:
    """`hosts` are further names we are known by, `origins` other sites whose pages may call us (`https://host:port`)."""

    def __init__(self, *, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._hosts = frozenset({"localhost", *(host.lower() for host in hosts)})
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def objection(self, host: str, origin: str | None) -> str:
        """Why not, or "" for yes."""
        name = _name_in(host)
        if name not in self._hosts and not _is_address(name):
            return "the Host header names another machine"
        if origin is not None and not self._may_call(origin.lower(), host.lower()):
            return "pages of that Origin may not call this server"
        return ""

    def _may_call(self, origin: str, host: str) -> bool:
        scheme, _, place = origin.partition("://")
        return origin in self._origins or (scheme in ("http", "https") and place == host)


@lru_cache(maxsize=256)
def _name_in(host: str) -> str:
    """Without the port; "" for what is no host at all."""
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
