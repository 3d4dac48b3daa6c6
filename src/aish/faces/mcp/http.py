"""The HTTP transport as a bare ASGI application: one POST per message, answered with JSON or, when there is progress to
tell, with a stream of events.

Nothing is kept between requests, so any worker can answer any of them: a session id is handed out because clients of the
handshake era cancel by it, and only sessions that were ended are remembered. There is nothing to listen for, so GET is
405. A client that goes away takes its call with it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from aish.faces.mcp.guard import Guard
from aish.faces.mcp.headers import VERSION, Headers, check_mirrored, check_standard
from aish.faces.mcp.http_reply import Exchange
from aish.faces.mcp.protocol import Answer, ToolServer, failure
from aish.faces.mcp.requests import Request, cancelled_request, read_messages, read_request
from aish.faces.mcp.revisions import BUSY, HANDSHAKE, NO_SESSION, STATELESS, check_envelope, speaks_stateless, unsupported
from aish.wire.framing import DEFAULT_MAX_BYTES
from aish.wire.jsonrpc_message import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Message, RpcError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
