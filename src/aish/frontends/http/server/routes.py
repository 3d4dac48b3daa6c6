"""The table of routes, and `/openapi.json`, which is made from it.

The description comes from the routes and from the types that bodies are decoded into, so it cannot differ from what is
read. A path segment in braces is a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from aish import __version__
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem, Shape, anthropic_shape, openai_shape

Handler = Callable[..., Awaitable[None]]  # (exchange, caller, **parameters)


class HttpRoute(msgspec.Struct, frozen=True):
    """`open`: needs no key. `free`: a POST that calls no model. `summary` and `body`, the type that the body is decoded
    into, are for /openapi.json."""

    method: str
    path: str
    handler: Handler
    summary: str = ""
    shape: Shape = openai_shape
    open: bool = False
    body: Any = None
    free: bool = False


class FoundRoute(msgspec.Struct, frozen=True):
    """`handler` has been given the parameters of the path."""

    route: HttpRoute
    handler: Callable[[Exchange, Caller], Awaitable[None]]


class RouteTable:
    def __init__(self, routes: Sequence[HttpRoute]) -> None:
        self.all = tuple(routes)
        self._exact: dict[str, dict[str, FoundRoute]] = {}
        self._patterns: list[tuple[list[str], HttpRoute]] = []
        for route in routes:
            if "{" in route.path:
                self._patterns.append((route.path.split("/"), route))
            else:
                self._exact.setdefault(route.path, {})[route.method] = FoundRoute(route, route.handler)

    def find(self, method: str, path: str) -> FoundRoute:
        """Raises HttpProblem 404 or 405. `/api` before a path is ignored. HEAD works on open routes, for monitors of
        servers."""
        found = self._exact.get(path)
        if found is None:
            path = path.removeprefix("/api") or "/"
            if len(path) > 1:
                path = path.rstrip("/")
            found = self._exact.get(path) or self._match(path)
        if not found:
            raise HttpProblem(404, f"there is nothing at {path[:200]}", code="not_found")
        if method == "HEAD" and "GET" in found and found["GET"].route.open:
            method = "GET"
        if method not in found:
            allowed = ", ".join(sorted(found))
            raise HttpProblem(405, f"{method} is not for {path[:200]}", headers=[(b"allow", allowed.encode())])
        return found[method]

    def _match(self, path: str) -> dict[str, FoundRoute]:
        segments = path.split("/")
        found: dict[str, FoundRoute] = {}
        for pattern, route in self._patterns:
            if (parameters := _parameters(pattern, segments)) is not None:
                found.setdefault(route.method, FoundRoute(route, partial(route.handler, **parameters)))
        return found


def _parameters(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    """`{name}` matches one segment, `{*name}` one or more: names of models and sessions contain slashes."""
    more = len(segments) - len(pattern) + 1
    greedy = next((index for index, part in enumerate(pattern) if part.startswith("{*")), None)
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


_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "properties": {"message": {"type": "string"}}}},
}
_PARAMETER = re.compile(r"{\*?(\w+)}")


def describe_routes(routes: Sequence[HttpRoute]) -> dict[str, Any]:
    bodies = [route.body for route in routes if route.body is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    by_body = dict(zip(map(id, bodies), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_body.get(id(route.body)))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "aish",
            "version": __version__,
            "description": "A model with working tools, over any backend.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _operation(route: HttpRoute, schema: Any) -> dict[str, Any]:
    names = _PARAMETER.findall(route.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    error = {"description": "What is wrong", "content": {"application/json": {"schema": _error_schema(route)}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-zA-Z0-9]+', '_', route.path)}",
        "parameters": parameters,
        "responses": {"200": {"description": "The answer"}, "default": error},
    }
    if schema is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if route.open:
        operation["security"] = [{}]
    return operation


def _error_schema(route: HttpRoute) -> dict[str, Any]:
    if route.shape is anthropic_shape:
        return {"type": "object", "required": ["type", "error"]}
    return {"$ref": "#/components/schemas/Error"}


class OpenApi:
    def __init__(self, routes: Sequence[HttpRoute]) -> None:
        self._routes = routes
        self._page = b""

    async def get(self, exchange: Exchange, caller: Caller) -> None:
        if not self._page:
            self._page = msgspec.json.encode(describe_routes(self._routes))
        await exchange.reply(200, self._page)
