"""A connected MCP server: its tools, resources and prompts, and calls of them.

Create it with `connect.open_session`. Every operation has a deadline, and every failure is an McpError with server,
phase and kind; it is also a ToolError with the status to record. Up to `spec.max_in_flight` calls run at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from aish.errors import AishError, ToolError
from aish.net.jsonrpc_message import METHOD_NOT_FOUND, RpcError
from aish.tools.mcp.content import (
    CallResult,
    PromptResult,
    ResourceResult,
    prompt_messages,
    resource_output,
    resource_text,
    tool_output,
)
from aish.tools.mcp.errors import FaultKind, FaultTranslator, McpError, SessionGone
from aish.tools.mcp.handshake import (
    CLIENT,
    HANDSHAKE,
    OFFERED,
    STAMP,
    STATELESS,
    UNSUPPORTED_VERSION,
    Hello,
    Result,
    decode_result,
    is_version,
    read_facts,
    supports_stateless,
)
from aish.tools.mcp.listing import Item, ListPage, ListReader, Read, read_prompt, read_resource, read_skill, read_tool
from aish.tools.mcp.text import clean
from aish.tools.mcp.transport.headers import mirror_headers
from aish.tools.mcp.transport.incoming_messages import IncomingMessages
from aish.tools.mcp.transport.port import Transport
from aish.tools.mcp.types import (
    SKILL_FILE,
    Listed,
    McpPrompt,
    McpResource,
    McpSkill,
    McpTool,
    OnStatus,
    Phase,
    ServerFacts,
    ServerSpec,
)
from aish.types.messages import Message
from aish.types.tools import Arguments, ResultStatus, ToolOutput

_MAX_LISTED = 10_000  # resources and prompts; users search them, models do not read them all
_MAX_SKILLS = 200  # a model reads them all


class McpClientSession:
    """Valid inside its context manager."""

    def __init__(
        self,
        spec: ServerSpec,
        transport: Transport,
        incoming: IncomingMessages,
        faults: FaultTranslator,
        *,
        stateless: bool,
    ) -> None:
        self.tools: tuple[McpTool, ...] = ()
        self.skills: tuple[McpSkill, ...] = ()
        self.facts = ServerFacts("")
        self._spec = spec
        self._transport = transport
        self._incoming = incoming
        self._faults = faults
        self._stateless = stateless
        self._by_name: dict[str, McpTool] = {}
        self._tokens = itertools.count(1)
        self._handshake_lock = asyncio.Lock()
        self._handshakes = 0

    def __repr__(self) -> str:
        return f"<Session {self._spec.name!r} {self.facts.protocol_version} tools={len(self.tools)}>"

    @property
    def server(self) -> str:
        return self._spec.name

    def stderr_tail(self) -> str:
        return self._transport.stderr_tail()

    async def wait_closed(self) -> McpError:
        """Returns the error once the server has disconnected. An HTTP server never does; its requests fail instead."""
        return self._faults.translate("call", await self._transport.wait_closed())

    async def refresh_tools(self) -> tuple[McpTool, ...]:
        """Lists the tools again. `tools` changes only when the whole list was read."""
        read: Read[McpTool] = lambda fields: read_tool(fields, stateless=self._stateless)  # noqa: E731
        self._by_name = await self._list("tools", read, self._spec.max_tools)
        self.tools = tuple(self._by_name.values())
        return self.tools

    async def call_tool(
        self,
        name: str,
        arguments: Arguments,
        *,
        timeout_s: float | None = None,
        on_status: OnStatus | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolOutput:
        """`on_status` gets progress messages of the server from time to time. `meta` is sent in `_meta`."""
        params: dict[str, Any] = {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}
        tool = self._by_name.get(name)
        headers = mirror_headers(tool.header_params, arguments) if tool is not None and tool.header_params else ()
        token = ""
        if on_status is not None:
            token = f"aish-{next(self._tokens)}"
            params["_meta"] = {**(meta or {}), "progressToken": token}
            self._incoming.follow_progress(token, on_status)
        try:
            result = await self._ask(
                "call",
                "tools/call",
                params,
                CallResult,
                timeout_s=timeout_s,
                what=name,
                headers=headers,
            )
        finally:
            self._incoming.unfollow_progress(token)
        return tool_output(result)

    async def request(self, method: str, params: dict[str, Any], result: type[Result], *, timeout_s: float) -> Result:
        """Sends a request that is not of MCP, to a server that is known to understand it."""
        return await self._ask("call", method, params, result, timeout_s=timeout_s)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification that is not of MCP."""
        await self._transport.notify(method, params)

    async def list_resources(self) -> tuple[McpResource, ...]:
        return tuple((await self._list("resources", read_resource, _MAX_LISTED)).values())

    async def read_resource(self, uri: str, *, timeout_s: float | None = None) -> ToolOutput:
        result = await self._ask("call", "resources/read", {"uri": uri}, ResourceResult, timeout_s=timeout_s, what=uri)
        return resource_output(result)

    async def list_prompts(self) -> tuple[McpPrompt, ...]:
        return tuple((await self._list("prompts", read_prompt, _MAX_LISTED)).values())

    async def get_prompt(
        self, name: str, arguments: dict[str, str] | None = None, *, timeout_s: float | None = None
    ) -> tuple[Message, ...]:
        params = {"name": name, "arguments": arguments or {}}
        result = await self._ask("call", "prompts/get", params, PromptResult, timeout_s=timeout_s, what=name)
        return prompt_messages(result)

    async def read_text(self, uri: str) -> str:
        """The text of a resource, byte for byte. Raises McpError, and ToolError if it is not text."""
        result = await self._ask("call", "resources/read", {"uri": uri}, ResourceResult, timeout_s=None, what=uri)
        return resource_text(result, uri)

    async def refresh_skills(self) -> None:
        """Lists the skills that the server publishes. One that cannot list them is of use without them."""
        if self.facts.offers("skills"):
            try:
                self.skills = tuple((await self._list("skills", read_skill, _MAX_SKILLS)).values())
            except McpError as exc:
                self._incoming.warn(f"the skills cannot be listed: {exc.message}")

    async def read_skill(self, name: str, file: str = "") -> str:
        """The text of a skill, or of a file of it. Raises ToolError, also if it is not what the server has listed."""
        skill = next((each for each in self.skills if each.name == name), None)
        path = file or SKILL_FILE
        if skill is None or path not in (SKILL_FILE, *skill.digests):
            what = f"the skill {name} has no file {file}" if skill else f"there is no skill {name}"
            raise ToolError(f"{what} at the MCP server {self.server}", status=ResultStatus.NOT_ALLOWED)
        text = await self.read_text(f"{skill.uri.rpartition('/')[0]}/{path}")
        if (digest := skill.digests.get(path)) and sha256(text.encode()).hexdigest() != digest:
            raise ToolError(f"{path} of the skill {name} is not the file that its server has listed")
        return text if file else f"{text}\n\nOther files: {', '.join(skill.files) or 'none'}"

    async def _list(self, what: Listed, read: Read[Item], max_items: int) -> dict[str, Item]:
        """Reads all pages. Returns an empty dict if the server says that it has none."""
        found: dict[str, Item] = {}
        if self.facts.capabilities and not self.facts.offers(what):
            return found
        listing = ListReader(what, max_items, self._incoming.warn)
        deadline_s = _now_s() + self._spec.list_timeout_s
        cursor: str | None = ""
        while cursor is not None:
            page = await self._page(what, cursor, deadline_s)
            if page is None:
                break
            listing.add_page(page, found, read)
            cursor = listing.next_cursor(page)
        listing.finish()
        return found

    async def _page(self, what: Listed, cursor: str, deadline_s: float) -> ListPage | None:
        params = {"cursor": cursor} if cursor else {}
        left_s = max(0.001, deadline_s - _now_s())
        try:
            return await self._ask("list", f"{what}/list", params, ListPage, timeout_s=left_s)
        except McpError as exc:
            if exc.kind is FaultKind.RPC and exc.code == METHOD_NOT_FOUND and not cursor:
                return None
            raise

    # Requests and the handshake.

    async def start(self) -> None:
        """Shakes hands. Raises McpError."""
        with self._faults.translating("initialize"):
            await (self._discover() if self._stateless else self._initialize())
        self._handshakes += 1

    async def _ask(
        self,
        phase: Phase,
        method: str,
        params: dict[str, Any],
        result: type[Result],
        *,
        timeout_s: float | None,
        what: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Result:
        """`what` names the tool, resource or prompt in errors."""
        limit_s = self._spec.call_timeout_s if timeout_s is None else timeout_s
        try:
            send = self._send_stamped if self._stateless else self._send
            return decode_result(await send(method, params, limit_s, headers), result)
        except AishError as exc:
            raise self._faults.translate(phase, exc, what) from None

    async def _send(
        self, method: str, params: dict[str, Any], timeout_s: float, headers: Sequence[tuple[str, str]]
    ) -> msgspec.Raw:
        """Over HTTP the server may forget the session (404): then the handshake and the request are repeated once."""
        handshakes = self._handshakes
        try:
            return await self._transport.request(method, params, timeout_s=timeout_s)
        except SessionGone:
            await self._renew(handshakes)
        answer = await self._transport.request(method, params, timeout_s=timeout_s)
        if method != "tools/list":
            self._incoming.report_change("tools")  # the server was probably restarted, and its tools may differ
        return answer

    async def _renew(self, handshakes: int) -> None:
        """Renews the session once for all requests that found it gone."""
        async with self._handshake_lock:
            if self._handshakes == handshakes:
                self._transport.forget_session()
                await self.start()

    async def _send_stamped(
        self, method: str, params: dict[str, Any], timeout_s: float, headers: Sequence[tuple[str, str]]
    ) -> msgspec.Raw:
        stamped = params | {"_meta": STAMP | params.get("_meta", {})}
        try:
            return await self._transport.request(method, stamped, timeout_s=timeout_s, headers=headers)
        except RpcError as exc:
            # A server that is being updated may refuse the version that it then lists as supported.
            if exc.code != UNSUPPORTED_VERSION or not supports_stateless(exc.data):
                raise
        return await self._transport.request(method, stamped, timeout_s=timeout_s, headers=headers)

    async def _initialize(self) -> None:
        params = {"protocolVersion": OFFERED, "capabilities": {}, "clientInfo": CLIENT}
        raw = await self._transport.request("initialize", params, timeout_s=self._spec.start_timeout_s)
        hello = decode_result(raw, Hello)
        version = hello.protocolVersion if is_version(hello.protocolVersion) else ""
        if version not in HANDSHAKE:
            self._warn_mismatch(OFFERED, hello.protocolVersion)
        self.facts = read_facts(hello, version or OFFERED)
        self._transport.set_version(self.facts.protocol_version, stateless=False)
        await self._transport.notify("notifications/initialized", {})
        if self.facts.announces_changes():
            self._transport.listen()

    async def _discover(self) -> None:
        self._transport.set_version(STATELESS, stateless=True)
        raw = await self._send_stamped("server/discover", {}, self._spec.start_timeout_s, ())
        hello = decode_result(raw, Hello)
        supported = hello.supportedVersions
        if not isinstance(supported, list) or STATELESS not in supported:
            self._warn_mismatch(STATELESS, supported)
        self.facts = read_facts(hello, STATELESS)
        if self.facts.announces("tools"):
            self._transport.subscribe({"notifications": {"toolsListChanged": True}, "_meta": STAMP})

    def _warn_mismatch(self, sent: str, got: object) -> None:
        shown = clean(str(got), 40)
        self._incoming.warn(f"protocol version mismatch (sent {sent}, got {shown}); proceeding")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
