"""Names of an IDE's own tools. Imports little, because it is used whenever tools are listed."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RAW = re.compile(r"(lsp|fs)[._/-](\w+)")


def canonical_name(name: str) -> str:
    """Returns `lsp.hover` for `lsp_hover`; "" for any other tool."""
    found = _RAW.fullmatch(name)
    return f"{found[1]}.{found[2]}" if found else ""


def has_ide_tools(names: Iterable[str]) -> bool:
    return any(canonical_name(name).startswith("lsp.") for name in names)
