"""Names of an IDE's own tools. Imports little, because it is used whenever tools are listed."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RAW = re.compile(r"(lsp|fs)[._/-](\w+)")


def canonical(name: str) -> str:
    """Returns `lsp.hover` for `lsp_hover`; "" for any other tool."""
    found = _RAW.fullmatch(name)
    return f"{found[1]}.{found[2]}" if found else ""


def is_ide(names: Iterable[str]) -> bool:
    return any(canonical(name).startswith("lsp.") for name in names)
