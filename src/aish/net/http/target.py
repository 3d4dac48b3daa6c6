"""The target of a request: parses its URL, and decides whether it goes through a proxy.

Does no I/O and reads no environment: the caller passes the proxies in.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

import msgspec

from aish.errors import UsageError

_PORTS = {"http": 80, "https": 443}
# A URL contains printable ASCII only; anything else must be percent-encoded, or it could end the request line.
_FORBIDDEN = re.compile(r"[^\x21-\x7e]")


class Target(msgspec.Struct, frozen=True, cache_hash=True):
    """A parsed URL. `origin` may appear in errors: it contains no query and no userinfo."""

    scheme: str
    host: str
    port: int
    path: str
    origin: str
    host_header: str
    socket_path: str = ""

    def __repr__(self) -> str:
        return f"Target({self.origin})"


class ProxySettings(msgspec.Struct, frozen=True):
    """Proxy URLs by the scheme of the request, empty for none; `no_proxy` holds hosts, `.suffixes`, networks or `*`."""

    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "ProxySettings(...)"  # a proxy URL may hold a password


@lru_cache(maxsize=256)  # a process uses few URLs
def parse_url(url: str) -> Target:
    """Raises UsageError, whose message does not contain the URL."""
    if _FORBIDDEN.search(url):
        raise UsageError("the URL has a space, a control character or a letter that is not ASCII in it")
    if url.startswith("unix://"):
        return _parse_unix(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise UsageError("the URL has a host or port that makes no sense") from exc
    return _parse_tcp(parts, port)


def _parse_tcp(parts: SplitResult, port: int | None) -> Target:
    if parts.scheme not in _PORTS:
        raise UsageError("the URL must start with http://, https:// or unix://")
    if "@" in parts.netloc:
        raise UsageError("the URL holds a user name or password", hint="Send credentials in a header instead.")
    if not parts.hostname:
        raise UsageError("the URL has no host")
    host = parts.hostname
    shown = f"[{host}]" if ":" in host else host
    default = _PORTS[parts.scheme]
    port = default if port is None else port
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(
        scheme=parts.scheme,
        host=host,
        port=port,
        path=path,
        origin=f"{parts.scheme}://{shown}:{port}",
        host_header=shown if port == default else f"{shown}:{port}",
    )


def _parse_unix(url: str) -> Target:
    """Parses `unix:///run/model.sock:/v1/models`: the path of the socket, a colon, the path of the request."""
    socket_path, _, path = url.removeprefix("unix://").partition(":/")
    if not socket_path.startswith("/"):
        raise UsageError("a unix URL is written unix:///path/to.sock:/path")
    path = "/" + path.partition("#")[0]
    return Target(
        scheme="http",
        host="",
        port=0,
        path=path,
        origin=f"unix://{socket_path}",
        host_header="localhost",
        socket_path=socket_path,
    )


def find_proxy(target: Target, settings: ProxySettings | None) -> str | None:
    """The proxy for this target, or None. Loopback addresses never use one."""
    if settings is None or target.socket_path:
        return None
    proxy = settings.https if target.scheme == "https" else settings.http
    if not proxy or _is_loopback(target.host) or any(_exempts(rule, target) for rule in settings.no_proxy):
        return None
    return proxy


def _is_loopback(host: str) -> bool:
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _find_address(name)
    return address is not None and address.is_loopback


def _exempts(rule: str, target: Target) -> bool:
    rule = rule.strip().lower()
    if rule == "*":
        return True
    if "/" in rule:
        return _in_network(target.host, rule)
    name, colon, port = rule.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        if int(port) != target.port:
            return False
        rule = name
    suffix = rule.removeprefix("*").lstrip(".").strip("[]")
    return bool(suffix) and (target.host == suffix or target.host.endswith(f".{suffix}"))


def _in_network(host: str, network: str) -> bool:
    address = _find_address(host)
    try:
        return address is not None and address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _find_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
