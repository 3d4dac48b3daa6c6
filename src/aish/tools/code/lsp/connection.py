"""A connection to a running language server, from the handshake to the shutdown.

It starts with `initialize` and `initialized`, and ends with `shutdown` and `exit`, each with a deadline. Then `process`
ends the whole process group, because a server is often a wrapper around another process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from aish import __version__
from aish.errors import AishError, ConnectionLost, WireTimeout
from aish.net.framing import ContentLengthFraming, Oversize
from aish.net.jsonrpc import Peer, RpcError
from aish.process.child import ChildProcess, ProcessSpec
from aish.process.child_jsonrpc import ChildPeerReader
from aish.tools.code.languages import LanguageServerSpec
from aish.tools.code.lsp.results import ENCODINGS, Encoding, decode_as
from aish.tools.code.lsp.server_messages import ServerMessages

# Only where needed: a dynamic registration may come after our first question.
_DYNAMIC = {"dynamicRegistration": True}

_CAPABILITIES: Mapping[str, Any] = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["create", "rename", "delete"],
            "failureHandling": "transactional",
        },
        "didChangeConfiguration": _DYNAMIC,
        "didChangeWatchedFiles": _DYNAMIC,
        "symbol": {},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "definition": {"linkSupport": True},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {"prepareSupport": False},
        "formatting": {},
        "diagnostic": {**_DYNAMIC, "relatedDocumentSupport": False},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
        "codeAction": {
            "isPreferredSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
            "codeActionLiteralSupport": {
                "codeActionKind": {"valueSet": ["", "quickfix", "refactor", "source", "source.organizeImports"]}
            },
        },
    },
    "window": {"workDoneProgress": True},
}

# For each request method the name of the server's capability.
_PROVIDERS: Mapping[str, str] = {
    "textDocument/hover": "hoverProvider",
    "textDocument/definition": "definitionProvider",
    "textDocument/references": "referencesProvider",
    "textDocument/documentSymbol": "documentSymbolProvider",
    "workspace/symbol": "workspaceSymbolProvider",
    "textDocument/rename": "renameProvider",
    "textDocument/formatting": "documentFormattingProvider",
    "textDocument/codeAction": "codeActionProvider",
    "textDocument/diagnostic": "diagnosticProvider",
    "codeAction/resolve": "codeActionProvider",
}


def initialize_params(folder: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the params of `initialize`."""
    return {
        "processId": os.getpid(),
        "clientInfo": {"name": "aish", "version": __version__},
        "rootUri": folder["uri"],
        "rootPath": None,
        "workspaceFolders": [dict(folder)],
        "capabilities": _CAPABILITIES,
        "initializationOptions": dict(options),
        "trace": "off",
    }


# The activated environment: it says where packages are installed.
_INHERITED = ("VIRTUAL_ENV", "CONDA_PREFIX")
_CONTENT_MODIFIED = -32801
_SERVER_CANCELLED = -32802
# A request that the server dropped because of a change is repeated, a limited number of times.
_ATTEMPTS = 4


class _CountingFraming(ContentLengthFraming):
    """Counts received data, to tell a slow server from one whose messages cannot be decoded."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.bytes = 0
        self.messages = 0

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        messages = super().feed(data)
        self.bytes += len(data)
        self.messages += len(messages)
        return messages


class ReceivedData(msgspec.Struct, frozen=True):
    """What had been received at some time."""

    bytes: int
    messages: int  # decoded
    noise: int  # undecodable pieces


class LspConnection:
    def __init__(self, spec: LanguageServerSpec, child: ChildProcess) -> None:
        self.spec = spec
        self.pid = child.pid
        self.encoding: Encoding = "utf-16"
        self._folder = {"uri": spec.root.as_uri(), "name": spec.root.name or "/"}
        self.incoming = ServerMessages(self._folder, spec.settings, loaded_log=spec.loaded_log)
        self._child = child
        self._capabilities: dict[str, Any] = {}
        self._framing = _CountingFraming(spec.limits.max_message_bytes)
        self._lost: asyncio.Future[AishError] = asyncio.get_running_loop().create_future()
        self._peer = Peer(
            child.write,
            self._framing,
            title=spec.name,
            handler=self.incoming,
            cancel_notice=lambda id, method: None if method == "initialize" else ("$/cancelRequest", {"id": id}),
        )
        self._reading = ChildPeerReader(child, self._peer)

    @classmethod
    @asynccontextmanager
    async def open(cls, spec: LanguageServerSpec) -> AsyncIterator[LspConnection]:
        """Raises SpawnFailed, WireTimeout, RpcError and ProcessExited."""
        async with ChildProcess.start(_process(spec)) as child:
            connection = cls(spec, child)
            async with connection._reading.running():
                await connection._initialize()
                yield connection
                await connection._shut_down()

    def can_answer(self, method: str) -> bool:
        """Whether the server announced the method in the handshake or registered it since."""
        return bool(self._capabilities.get(_PROVIDERS.get(method, ""))) or self.incoming.has_registered(method)

    async def request(self, method: str, params: Any, *, timeout_s: float | None = None) -> msgspec.Raw:
        """Raises RpcError, WireTimeout, and the error of `wait_closed`."""
        loop = asyncio.get_running_loop()
        limit_s = timeout_s or self.spec.limits.answer_timeout_s
        deadline_s = loop.time() + limit_s
        for attempt in range(1, _ATTEMPTS + 1):
            before = self._received_data()
            try:
                # Rounded, because the message says "within 10 s".
                left_s = limit_s if attempt == 1 else round(max(0.01, deadline_s - loop.time()), 2)
                return await self._peer.request(method, params, timeout_s=left_s)
            except RpcError as exc:
                if exc.code not in (_CONTENT_MODIFIED, _SERVER_CANCELLED) or attempt == _ATTEMPTS:
                    raise
            except WireTimeout:
                self._check_framing(before, timed_out=True)
                raise
            except asyncio.CancelledError:
                self._check_framing(before, timed_out=False)
                raise
        raise AssertionError("the last attempt returns or raises")

    def _received_data(self) -> ReceivedData:
        garbage = self._peer.skipped.garbage
        return ReceivedData(self._framing.bytes, self._framing.messages - garbage, self._framing.garbage + garbage)

    def _check_framing(self, before: ReceivedData, *, timed_out: bool) -> None:
        """Closes the connection if bytes were received after a request, but no message.

        Then the framing is out of step, nothing that follows can be decoded, and only a new server helps.
        """
        now = self._received_data()
        if now.messages > before.messages or (
            now.noise == before.noise and not (timed_out and now.bytes > before.bytes)
        ):
            return
        if not self._lost.done():
            self._lost.set_result(ConnectionLost(f"{self.spec.name} sends what is no message of the protocol"))
        self._peer.close(self._lost.result)

    async def notify(self, method: str, params: Any) -> None:
        await self._peer.notify(method, params)

    @property
    def closed(self) -> bool:
        return self._peer.closed

    async def wait_closed(self) -> AishError:
        """Returns the reason when the server has exited or can no longer be decoded."""
        exited = asyncio.ensure_future(self._reading.wait_closed())
        try:
            await asyncio.wait({exited, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            return self._lost.result() if self._lost.done() else exited.result()
        finally:
            exited.cancel()

    def stderr_tail(self) -> str:
        return self._child.stderr_tail()

    async def _initialize(self) -> None:
        limit_s = self.spec.limits.start_timeout_s
        raw = await self._peer.request(
            "initialize", initialize_params(self._folder, self.spec.options), timeout_s=limit_s
        )
        answer = decode_as(raw, dict[str, Any])
        capabilities = answer.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        # clangd uses a field of its own.
        chosen = self._capabilities.get("positionEncoding") or answer.get("offsetEncoding")
        self.encoding = next((known for known in ENCODINGS if known == chosen), "utf-16")
        await self._peer.notify("initialized", {})

    async def _shut_down(self) -> None:
        with suppress(AishError):
            # Without params: some servers reject null.
            await self._peer.request("shutdown", timeout_s=self.spec.limits.close_wait_s)
            await self._peer.notify("exit", timeout_s=self.spec.limits.close_wait_s)


def _process(spec: LanguageServerSpec) -> ProcessSpec:
    return ProcessSpec(
        argv=spec.command,
        name=spec.name,
        env=spec.env,
        inherit=_INHERITED,
        cwd=spec.root,
        close_wait_s=spec.limits.close_wait_s,
        term_wait_s=spec.limits.close_wait_s,
    )
