"""MCP servers that a request brings along by URL: checks the caller, connects them, and handles consent given ahead.

The runtime connects the servers; here errors become errors that name a field. The client may consent ahead to the tools
of its own server, which act there and with the client's credentials. What the gate denies stays denied.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from aish.errors import DynamicMcpFailed, DynamicMcpRefused
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem, bad_field
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.tool_fields import (
    McpEntry,
)
from aish.frontends.runtime import DynamicMcpTools
from aish.ports import Ask
from aish.types.decisions import Answer, Choice, Question, QuestionKind
from aish.types.tools import DynamicMcpServer

# Not a 429 where there are too many: clients would retry at once.
_REFUSALS = {
    "faulty": (400, "invalid_value"),
    "unlisted": (403, "mcp_url_not_allowed"),
    "too_many": (400, "too_many_mcp_servers"),
}
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,30}(?<!_)")


async def connect_dynamic_servers(
    service: Service, caller: Caller, entries: Sequence[McpEntry]
) -> DynamicMcpTools | None:
    """Returns None where the request brings no server, or may bring none; its entries are then treated as unknown
    servers."""
    wanted = {entry.label: entry for entry in entries if entry.url} if service.config.mcp_urls else {}
    if wanted:
        known = {spec.source for spec in service.engine.tools.specs()}
        wanted = {label: entry for label, entry in wanted.items() if label not in known}
    if not wanted:
        return None
    _check(caller, entries, wanted)
    counted = service.metrics.mcp_brought
    try:
        brought = await service.runtime.connect_dynamic_mcp([
            DynamicMcpServer(entry.label, entry.url, caller.key, entry.token, entry.headers)
            for entry in wanted.values()
        ])  # fmt: skip
    except DynamicMcpRefused as exc:
        counted.labels(exc.kind).inc()
        field = f"{wanted[exc.label].field}.server_url"
        status, code = _REFUSALS[exc.kind]
        raise HttpProblem(status, f"{field}: {exc.message}", param=field, code=code) from exc
    except DynamicMcpFailed as exc:
        counted.labels("failed").inc()
        field = wanted[exc.label].field
        text = f"{field}: the tools of {exc.label} could not be listed: {exc.message}"
        raise HttpProblem(424, text, type="external_connector_error", param=field, code="mcp_server_failed") from exc
    counted.labels("ready").inc()
    return brought


def with_prior_consent(ask: Ask | None, agreed: Collection[str]) -> Ask:
    """Answers the gate with yes for tools that the client has agreed to ahead of time; other questions go to `ask`."""

    async def answer(question: Question) -> Answer:
        if question.tool in agreed and question.kind is QuestionKind.EFFECT and not question.insist:
            return Answer(Choice.YES)
        return await ask(question) if ask is not None else Answer(Choice.NO, "there was no user to ask")

    return answer


def _check(caller: Caller, entries: Sequence[McpEntry], wanted: Mapping[str, McpEntry]) -> None:
    first = next(iter(wanted.values()))
    if caller.tools != ("*",):
        text = f"{first.field}.server_url: your key is limited to certain tools and may not bring servers along"
        raise HttpProblem(403, text, param=f"{first.field}.server_url", code="mcp_url_not_allowed")
    for label, entry in wanted.items():
        if not _LABEL.fullmatch(label):
            why = "must be up to 32 letters, digits, - and single _, not ending in _"
            raise bad_field(f"{entry.field}.server_label", why)
        if sum(other.label == label for other in entries) > 1:
            raise bad_field(f"{entry.field}.server_label", f"there are two servers named {label}")
