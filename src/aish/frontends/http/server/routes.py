"""The table of routes: method and path to handler. A path segment in braces is a parameter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.http_errors import Problem, Shape, openai_shape

Handler = Callable[..., Awaitable[None]]  # (exchange, caller, **parameters)


class Route(msgspec.Struct, frozen=True):
    """`open`: also without a key. `free`: calls no model, though it is a POST. `summary` and `body`, the type it is
    decoded into, are for /openapi.json."""

    method: str
    path: str
    handler: Handler
    summary: str = ""
    shape: Shape = openai_shape
    open: bool = False
    body: Any = None
    free: bool = False


class Found(msgspec.Struct, frozen=True):
    """`handler` has been given what the path says."""

    route: Route
    handler: Callable[[Exchange, Caller], Awaitable[None]]


class Routes:
    def __init__(self, routes: Sequence[Route]) -> None:
        self.all = tuple(routes)
        self._exact: dict[str, dict[str, Found]] = {}
        self._patterns: list[tuple[list[str], Route]] = []
        for route in routes:
            if "{" in route.path:
                self._patterns.append((route.path.split("/"), route))
            else:
                self._exact.setdefault(route.path, {})[route.method] = Found(route, route.handler)

    def find(self, method: str, path: str) -> Found:
        """Problem 404 or 405. `/api` before a path changes nothing. What is open to all may be asked for its head, as
        those that watch over servers do."""
        found = self._exact.get(path)
        if found is None:
            path = path.removeprefix("/api") or "/"
            if len(path) > 1:
                path = path.rstrip("/")
            found = self._exact.get(path) or self._match(path)
        if not found:
            raise Problem(404, f"there is nothing at {path[:200]}", code="not_found")
        if method == "HEAD" and "GET" in found and found["GET"].route.open:
            method = "GET"
        if method not in found:
            allowed = ", ".join(sorted(found))
            raise Problem(405, f"{method} is not for {path[:200]}", headers=[(b"allow", allowed.encode())])
        return found[method]

    def _match(self, path: str) -> dict[str, Found]:
        segments = path.split("/")
        found: dict[str, Found] = {}
        for pattern, route in self._patterns:
            if (parameters := _parameters(pattern, segments)) is not None:
                found.setdefault(route.method, Found(route, partial(route.handler, **parameters)))
        return found


def _parameters(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """`{name}` takes one segment, `{*name}` one or more: names of models and sessions hold slashes."""
    more = len(segments) - len(pattern) + 1
    greedy = next((place for place, part in enumerate(pattern) if part.startswith("{*")), None)
    if greedy is not None and more > 1:
        segments = [*segments[:greedy], "/".join(segments[greedy : greedy + more]), *segments[greedy + more :]]
    if len(pattern) != len(segments):
        return None
    parameters: dict[str, str] = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{") and given:
            parameters[expected.strip("{*}")] = given
        elif expected != given:
            return None
    return parameters
