"""Decides which URLs of API clients we may connect to: only listed ones, and without detours.

A pattern is `scheme://host`, `scheme://host:port` or either with a path; `*` stands for anything in a host or a path,
and for any port. Without a port the scheme's default is meant; without a path, any path. No network access: the HTTP
client checks each address with `is_public`.
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
# A path must not leave what a pattern covers: neither by dots nor by escapes that a server may read as dots or slashes.
_DETOUR = re.compile(r"(?:^|[/;])\.{1,2}(?:$|[/;])|%2e|%2f|%5c|%25", re.IGNORECASE)
_MAX_URL_CHARS = 2048


class AllowedHost(msgspec.Struct, frozen=True):
    """`names_host` means that the list names this very host, so a private address is allowed. With a `*` instead, a
    foreign name server would decide where it leads."""

    names_host: bool


def find_url_fault(url: str) -> str:
    """Returns why such a URL is never allowed, whatever the list says; "" if it may be."""
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


def find_allowed(url: str, patterns: Iterable[str]) -> AllowedHost | None:
    """Returns None if no pattern covers the URL, or if it has a fault."""
    found = None if find_url_fault(url) else _URL.fullmatch(url)
    if found is None:
        return None
    matches = [match for pattern in patterns if (match := _PATTERN.fullmatch(pattern))]
    covering = [match for match in matches if _covers(match, found)]
    return AllowedHost(any("*" not in match[2] for match in covering)) if covering else None


def is_public(address: str) -> bool:
    """Whether an address belongs to the internet and does not embed a private one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1] or _nat64_address(found)
        if inner is not None and not is_public(str(inner)):
            return False
    return found.is_global and not found.is_multicast


def _nat64_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Returns the IPv4 address that a NAT64 gateway would use."""
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _covers(pattern: re.Match[str], url: re.Match[str]) -> bool:
    scheme, host, port, path = pattern.groups()
    if scheme != url["scheme"] or not fnmatchcase(url["host"].lower(), _escape_glob(host.lower())):
        return False
    default = _PORTS[scheme]
    if port != "*" and int(url["port"] or default) != int(port or default):
        return False
    return path is None or fnmatchcase(url["path"] or "/", _escape_glob(path))


def _escape_glob(glob: str) -> str:
    """Escapes everything except `*`."""
    return glob.replace("[", "[[]").replace("?", "[?]")
