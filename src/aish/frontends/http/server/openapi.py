"""`/openapi.json`: made from the routes and from the types that their bodies are decoded into, so that it cannot differ
from what is really read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from aish import __version__
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.http_errors import anthropic_shape
from aish.frontends.http.server.routes import Route

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "properties": {"message": {"type": "string"}}}},
}
_PARAMETER = re.compile(r"{\*?(\w+)}")


def describe(routes: Sequence[Route]) -> dict[str, Any]:
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


def _operation(route: Route, schema: Any) -> dict[str, Any]:
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


def _error_schema(route: Route) -> dict[str, Any]:
    if route.shape is anthropic_shape:
        return {"type": "object", "required": ["type", "error"]}
    return {"$ref": "#/components/schemas/Error"}


class OpenApi:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._page = b""

    async def get(self, exchange: Exchange, caller: Caller) -> None:
        if not self._page:
            self._page = msgspec.json.encode(describe(self._routes))
        await exchange.reply(200, self._page)
