"""MCP servers that a request brings along by URL: who may bring them, what they are told, and who answers for them.

Connecting is the runtime's business. Here a client's words become its errand, and what goes wrong becomes an error that
names the field. For the tools of its own server the client itself may give consent ahead of time: what they do, they do
there, with the client's credentials. What the gate denies stays denied.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aish.errors import GuestFailed, GuestRefused
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.http_errors import Problem, bad_field
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.request_fields import McpTool
from aish.frontends.runtime import BroughtTools
from aish.ports import Ask
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.dynamic_mcp import GuestServer

# Not a 429 where there are too many: clients would ask again on their own, as soon as it fails.
_REFUSALS = {
    "faulty": (400, "invalid_value"),
    "unlisted": (403, "mcp_url_not_allowed"),
    "too_many": (400, "too_many_mcp_servers"),
}
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,30}(?<!_)")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_MAX_HEADERS = 32
_MAX_VALUE_CHARS = 8192
# What the connection itself says.
_OURS = frozenset({
    "host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade", "expect",
    "accept", "mcp-session-id", "mcp-protocol-version", "last-event-id", "proxy-authorization", "proxy-connection",
})  # fmt: skip


async def bring_servers(service: Service, caller: Caller, entries: Sequence[McpTool]) -> BroughtTools | None:
    """None where there is none to bring, or none may be: then a server that is not ours is not there."""
    wanted = {entry.label: entry for entry in entries if entry.url} if service.config.mcp_urls else {}
    if wanted:
        known = {spec.source for spec in service.engine.tools.specs()}
        wanted = {label: entry for label, entry in wanted.items() if label not in known}
    if not wanted:
        return None
    _check(caller, entries, wanted)
    counted = service.metrics.mcp_brought
    try:
        brought = await service.runtime.bring_mcp([
            GuestServer(entry.label, entry.url, caller.key, entry.token, entry.headers) for entry in wanted.values()
        ])  # fmt: skip
    except GuestRefused as exc:
        counted.labels(exc.kind).inc()
        field = f"{wanted[exc.label].field}.server_url"
        status, code = _REFUSALS[exc.kind]
        raise Problem(status, f"{field}: {exc.message}", param=field, code=code) from exc
    except GuestFailed as exc:
        counted.labels("failed").inc()
        field = wanted[exc.label].field
        text = f"{field}: the tools of {exc.label} could not be listed: {exc.message}"
        raise Problem(424, text, type="external_connector_error", param=field, code="mcp_server_failed") from exc
    counted.labels("ready").inc()
    return brought


def read_credentials(field: str, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The bearer token and the headers that a server is to be reached with."""
    token, headers = given.get("authorization"), given.get("headers") or {}
    if not isinstance(token, str | None) or not _is_value(token or ""):
        raise bad_field(f"{field}.authorization", "must be a token")
    if not isinstance(headers, dict) or len(headers) > _MAX_HEADERS:
        raise bad_field(f"{field}.headers", f"must be an object of at most {_MAX_HEADERS} headers")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not isinstance(value, str) or not _is_value(value):
            raise bad_field(f"{field}.headers", "must be an object of names and printable text")
        if name.lower() in _OURS:
            raise bad_field(f"{field}.headers", f"{name} is not for a request to say")
        if token and name.lower() == "authorization":
            raise bad_field(f"{field}.headers", "goes without Authorization where there is an authorization")
    return (token or "").removeprefix("Bearer "), headers


def consenting(ask: Ask | None, agreed: Collection[str]) -> Ask:
    """Who answers the gate where a client has agreed to these tools ahead of time."""

    async def answer(question: Question) -> Answer:
        if question.tool in agreed and question.kind is QuestionKind.EFFECT and not question.insist:
            return Answer(Choice.YES)
        return await ask(question) if ask is not None else Answer(Choice.NO, "nobody was there to ask")

    return answer


def _check(caller: Caller, entries: Sequence[McpTool], wanted: Mapping[str, McpTool]) -> None:
    first = next(iter(wanted.values()))
    if caller.tools != ("*",):
        text = f"{first.field}.server_url: your key is limited to certain tools and may not bring servers along"
        raise Problem(403, text, param=f"{first.field}.server_url", code="mcp_url_not_allowed")
    for label, entry in wanted.items():
        if not _LABEL.fullmatch(label):
            why = "must be up to 32 letters, digits, - and single _, not ending in _"
            raise bad_field(f"{entry.field}.server_label", why)
        if sum(other.label == label for other in entries) > 1:
            raise bad_field(f"{entry.field}.server_label", f"there are two servers named {label}")


def _is_value(text: str) -> bool:
    return len(text) <= _MAX_VALUE_CHARS and text.isascii() and (text.isprintable() or not text)
