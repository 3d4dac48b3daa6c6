"""Capabilities: what we offer in the handshake, and the names of what the server offers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aish import __version__
from aish.tools.code.lsp.positions import ENCODINGS

# Only where needed: a dynamic registration may come after our first question.
_DYNAMIC = {"dynamicRegistration": True}

CLIENT: Mapping[str, Any] = {
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
PROVIDERS: Mapping[str, str] = {
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


def hello(folder: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the params of `initialize`."""
    return {
        "processId": os.getpid(),
        "clientInfo": {"name": "aish", "version": __version__},
        "rootUri": folder["uri"],
        "rootPath": None,
        "workspaceFolders": [dict(folder)],
        "capabilities": CLIENT,
        "initializationOptions": dict(options),
        "trace": "off",
    }
