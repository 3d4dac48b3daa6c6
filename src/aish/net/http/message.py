"""The parts of an HTTP exchange: target, bounds, timeouts, headers, request head, and the response for callers.

Does no I/O and reads no environment: the caller passes the proxies in. Reprs never show header values: they may contain
keys.
"""

from __future__ import annotations

import ipaddress
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

import msgspec

from aish.errors import TooLarge, UsageError

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


HeaderItems = Sequence[tuple[str, str]] | Mapping[str, str]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# The client itself frames messages and keeps connections; a caller that sets these headers would break that.
_RESERVED = frozenset(
    {"content-length", "transfer-encoding", "connection", "accept-encoding", "upgrade", "expect", "te"}
)
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds a request may spend in each phase. `total_s` covers everything, from the call to the last byte."""

    connect_s: float = 10  # waiting for a pool slot, DNS, TCP and TLS together
    first_byte_s: float = 120  # a local model may have to load, then read a long prompt, before it answers
    idle_s: float = 60  # silence in the middle: between two pieces of the body, or while the peer takes our upload
    total_s: float | None = None


class HttpBounds(msgspec.Struct, frozen=True):
    max_header_bytes: int = 64 * 1024  # ten times what real servers send, and small enough to ignore in memory
    max_body_bytes: int = 64 * 1024 * 1024  # for read(): long embeddings fit, a runaway response cannot fill memory
    max_connections_per_origin: int = 8192  # streams to one model server must not queue behind each other
    idle_expiry_s: float = 30  # longer than the pause between two steps of a turn, shorter than most NATs forget
    high_water_bytes: int = 256 * 1024  # a few full reads; with more in the buffer, reading pauses


class Headers:
    """Response headers in the order received, with duplicates. Lookup ignores case."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self._items = items

    def find(self, name: str) -> str | None:
        """The first value with this name."""
        wanted = name.lower().encode("latin-1")
        for key, value in self._items:
            if key == wanted:
                return value.decode("latin-1")
        return None

    def get(self, name: str, default: str = "") -> str:
        value = self.find(name)
        return default if value is None else value

    def __getitem__(self, name: str) -> str:
        value = self.find(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Names in lower case, with their values."""
        for key, value in self._items:
            yield key.decode("latin-1"), value.decode("latin-1")

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({[name for name, _ in self]})"


NO_HEADERS = Headers()


class Response(AsyncIterator[bytes]):
    """A response whose head has arrived. Iterating over it gives the body once, in the pieces in which it arrives.

    Valid inside the context of the request. A body that breaks off raises ConnectionLost, a late one WireTimeout. The
    body is as sent: no content-encoding is requested, and none is decoded.
    """

    status: int = 0
    reason: str = ""
    headers: Headers = NO_HEADERS
    _target: Target
    _bounds: HttpBounds

    @property
    def at_end(self) -> bool:
        """Whether it is already known that no piece follows."""
        return False

    @abstractmethod
    async def next_piece(self) -> bytes:
        """The next piece; b"" at the end."""

    def offer_to(self, take: Callable[[bytes], bool]) -> None:
        """Sets a direct consumer. A piece that arrives while the caller waits for the next one is passed to `take` in
        the socket callback. If `take` returns True, the piece is consumed and not handed out. It must not block; what
        it raises is raised where the caller reads."""

    async def __anext__(self) -> bytes:
        if piece := await self.next_piece():
            return piece
        raise StopAsyncIteration

    @abstractmethod
    def limit_silence(self, seconds: float) -> None:
        """Limits how long the peer may be silent from now on."""

    @abstractmethod
    def make_rest_optional(self, seconds: float) -> None:
        """Gives the rest of the body this long to arrive. From now on a failure only ends the body, without an
        error."""

    async def read(self, max_bytes: int | None = None) -> bytes:
        """Reads the rest of the body. Raises TooLarge if it exceeds `max_bytes` (by default the client's bound)."""
        limit = self._bounds.max_body_bytes if max_bytes is None else max_bytes
        pieces: list[bytes] = []
        size = 0
        while piece := await self.next_piece():
            size += len(piece)
            if size > limit:
                raise TooLarge(f"{self._target.origin}: the answer is larger than {limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status} from {self._target.origin}>"


@lru_cache(maxsize=64)  # a process sends few different heads
def prepare_head(method: str, target: Target, headers: tuple[tuple[str, str], ...]) -> tuple[str, bytes]:
    """The method in upper case, and the head up to the content length. Raises UsageError if it is invalid."""
    _check_headers(headers)
    if not _TOKEN.fullmatch(method):
        raise UsageError("the HTTP method has characters that HTTP does not allow")
    method = method.upper()
    lines = [f"{method} {target.path} HTTP/1.1"]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append(f"host: {target.host_header}")
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append("accept-encoding: identity\r\n")
    return method, "\r\n".join(lines).encode("ascii")


def finish_head(method: str, head: bytes, body_bytes: int) -> bytes:
    if body_bytes or method in _WITH_BODY:
        return b"%bcontent-length: %d\r\n\r\n" % (head, body_bytes)
    return head + b"\r\n"


def _check_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Raises UsageError for a header that would change the framing or inject another header."""
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise UsageError("a header name has characters that HTTP does not allow")
        if name.lower() in _RESERVED:
            raise UsageError(f"the header {name!r} is set by the client itself")
        if _CONTROL.search(value) or not value.isascii():
            raise UsageError(
                f"the value of the header {name!r} has characters that HTTP does not allow",
                hint="A key read from a file often ends in a line break.",
            )
