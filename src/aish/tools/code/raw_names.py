"""Names of an IDE's own tools. Light: this is looked at whenever tools are listed."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RAW = re.compile(r"(lsp|fs)[._/-](\w+)")


def canonical(name: str) -> str:
    """`lsp.hover` for `lsp_hover`; "" for a tool that is none of these."""
    found = _RAW.fullmatch(name)
    return f"{found[1]}.{found[2]}" if found else ""


def is_ide(names: Iterable[str]) -> bool:
    return any(canonical(name).startswith("lsp.") for name in names)
