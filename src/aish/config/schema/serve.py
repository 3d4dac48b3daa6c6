"""Settings for `aish serve`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aish.config.schema.section import Count, Section, UrlPattern


class ServeConfig(Section, frozen=True, forbid_unknown_fields=True):
    """The server. Without keys it listens on this machine only."""

    listen: Annotated[str, Meta(description="Where to listen, as `host:port`.")] = "127.0.0.1:8600"
    tools: Annotated[
        tuple[str, ...],
        Meta(description="Tools that are added to every request, with `*`, for clients that name none."),
    ] = ()
    hosts: Annotated[
        tuple[str, ...], Meta(description="Host names of this server, besides localhost and its addresses.")
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(description="Origins of pages that may call the server, such as `https://chat.example.org`."),
    ] = ()
    mcp_urls: Annotated[
        tuple[UrlPattern, ...],
        Meta(
            description="MCP servers a request may bring along by `server_url`, such as `https://mcp.example.com/*` or "
            "`http://127.0.0.1:*`; empty for none. The server connects where a client says: list hosts you trust."
        ),
    ] = ()
    max_body_bytes: Annotated[Count, Meta(description="The largest request body.")] = 32 * 1024 * 1024
    max_messages: Annotated[Count, Meta(description="The most messages in one request.")] = 10_000
    max_tools: Annotated[Count, Meta(description="The most tools in one request.")] = 512
    max_requests: Annotated[
        Count, Meta(description="Requests at once; further ones are refused with 503 and `Retry-After`.")
    ] = 4096
    heartbeat_s: Annotated[float, Meta(gt=0, description="Seconds without output before a heartbeat is sent.")] = 15.0
    send_timeout_s: Annotated[
        float,
        Meta(gt=0, description="Seconds that a client may leave a stream unread before the connection is closed."),
    ] = 30.0
    client_sessions: Annotated[
        bool,
        Meta(description="Use the session that a client names in `x-session-id` (opencode) or `session-id` (codex)."),
    ] = False
    approvals: Annotated[
        Literal["wait", "deny"],
        Meta(description="A call that needs consent waits to be answered at `/v1/approvals`, or is refused at once."),
    ] = "wait"
    approval_timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds that such a call waits before it is refused.")
    ] = 120.0
    drain_s: Annotated[float, Meta(ge=0, description="Seconds that streams may take to end after SIGTERM.")] = 30.0
    keep_days: Annotated[
        int,
        Meta(
            ge=1,
            le=36_500,
            description="Days that stored responses and the traces of requests without a session are kept.",
        ),
    ] = 30
