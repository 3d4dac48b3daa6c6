"""What we tell a server of ourselves at the handshake, and what it told us."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aish import __version__
from aish.tools.code.lsp.positions import ENCODINGS

# Only where it is needed: what a server registers comes later than our first question.
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

# The method of each question, and the name of what a server says it can.
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
    """The params of `initialize`."""
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
