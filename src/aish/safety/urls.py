"""Which URLs somebody else may have us connect to: those on a list, and never by a detour.

A pattern is `scheme://host`, `scheme://host:port` or either with a path; `*` stands for anything in a host or a path,
and for any port. Without a port it is the scheme's own; without a path it is any. Knows no network: who connects asks
`is_public` about each address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from aish.safety.redaction.secret_formats import looks_secret

_PORTS = {"http": 80, "https": 443}
_PATTERN = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(?::(\*|\d{1,5}))?(/[^\s?#]*)?")
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)"
    r"(?::(?P<port>\d{1,5}))?(?P<path>/[!$%&'()*+,./0-9:;=@A-Z_a-z~-]*)?(?:\?(?P<query>[!-\[\]-~]*))?"
)
# A path may not leave what a pattern covers: neither by dots nor by what a server may read as dots or slashes.
_DETOUR = re.compile(r"(?:^|[/;])\.{1,2}(?:$|[/;])|%2e|%2f|%5c|%25", re.IGNORECASE)
_MAX_URL_CHARS = 2048


class Allowed(msgspec.Struct, frozen=True):
    """`names_host`: the list has this very host, so that it may also be a private one. Where a `*` stands for it,
    somebody else's name server says where it leads."""

    names_host: bool


def fault_of(url: str) -> str:
    """Why such a URL is never connected to, whatever the list says; "" if it may be."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        return "must hold no credentials: send them as `authorization` or in `headers`"
    found = _URL.fullmatch(url) if len(url) <= _MAX_URL_CHARS else None
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        return "must be a plain http:// or https:// URL with a host, and nothing behind a #"
    if any(looks_secret(pair.partition("=")[0]) for pair in (found["query"] or "").split("&")):
        return "must hold no credentials: send them as `authorization` or in `headers`"
    if _DETOUR.search(found["path"] or ""):
        return "must not have . or .. in its path, nor anything encoded that means them"
    return ""


def find_allowed(url: str, patterns: Iterable[str]) -> Allowed | None:
    """None where no pattern covers it, or it has a fault."""
    found = None if fault_of(url) else _URL.fullmatch(url)
    if found is None:
        return None
    matches = [match for pattern in patterns if (match := _PATTERN.fullmatch(pattern))]
    covering = [match for match in matches if _covers(match, found)]
    return Allowed(any("*" not in match[2] for match in covering)) if covering else None


def is_public(address: str) -> bool:
    """Whether an address is one of the internet, and leads to no other."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1] or _translated(found)
        if inner is not None and not is_public(str(inner)):
            return False
    return found.is_global and not found.is_multicast


def _translated(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """What a gateway between the two families would make of it."""
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _covers(pattern: re.Match[str], url: re.Match[str]) -> bool:
    scheme, host, port, path = pattern.groups()
    if scheme != url["scheme"] or not fnmatchcase(url["host"].lower(), _literal(host.lower())):
        return False
    default = _PORTS[scheme]
    if port != "*" and int(url["port"] or default) != int(port or default):
        return False
    return path is None or fnmatchcase(url["path"] or "/", _literal(path))


def _literal(glob: str) -> str:
    """Only `*` means something."""
    return glob.replace("[", "[[]").replace("?", "[?]")
