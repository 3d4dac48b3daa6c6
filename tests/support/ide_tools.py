"""The IDE facade for tests: on a folder, with the servers a test names and no others."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aish.tools.code.facade import Ide, IdeSettings
from aish.tools.code.languages import ServerChoice, ServerLimits, language_table
from support.language_servers import search_path

HOSTILE = Path(__file__).parent / "hostile_lsp.py"
LANGUAGE_OF = {name: language for language, known in language_table().language.items() for name in known.servers}


class Tools:
    """What a model would call."""

    def __init__(self, ide: Ide) -> None:
        self.ide = ide

    async def __call__(self, name: str, **arguments: Any) -> str:
        return await self.ide.serve(name, arguments, lambda line: None)


@asynccontextmanager
async def ide_with(root: Path, *servers: str, **settings: Any) -> AsyncIterator[Tools]:
    """With real servers, found on a PATH that has only them."""
    use = {LANGUAGE_OF[name]: name for name in servers if name in LANGUAGE_OF}
    choice = ServerChoice(use=use, search_path=search_path(*servers) if servers else "")
    settings.setdefault("limits", ServerLimits(answer_timeout_s=30.0))
    settings.setdefault("diagnostics_wait_s", 30.0)
    async with _open(root, IdeSettings(choice, **settings)) as tools:
        yield tools


@asynccontextmanager
async def hostile_ide(root: Path, *modes: str, wait_s: float = 5.0, **limits: Any) -> AsyncIterator[Tools]:
    """With the hostile server for Python. What it heard is in `root.parent / "notes"`."""
    notes = root.parent / "notes"
    environment = f"HOSTILE_NOTES={notes} HOSTILE_OUTSIDE={root.parent / 'outside.py'}"
    extra = " ".join(f"{name}={value}" for name, value in limits.pop("env", {}).items())
    words = " ".join([environment, extra, "exec", sys.executable, str(HOSTILE), *modes])
    choice = ServerChoice(use={"python": "ty"}, commands={"ty": ("/bin/sh", "-c", words)})
    given = ServerLimits(answer_timeout_s=limits.pop("answer_timeout_s", wait_s), close_wait_s=1.0, **limits)
    async with _open(root, IdeSettings(choice, given, diagnostics_wait_s=wait_s)) as tools:
        yield tools


@asynccontextmanager
async def _open(root: Path, settings: IdeSettings) -> AsyncIterator[Tools]:
    ide = Ide(root, settings, state=root.parent / "edits")
    try:
        yield Tools(ide)
    finally:
        await ide.aclose()


def field(result: str, name: str) -> str:
    """Of the first line of a result that has it."""
    found = re.search(rf"\b{name}=(\S+)", result)
    assert found, f"no {name} in {result[:500]}"
    return found.group(1)


def listed(result: str) -> set[tuple[str, int]]:
    """Paths and lines of a list grouped by file."""
    places, path = set(), ""
    for line in result.split("\n")[1:]:
        if found := re.match(r"  (\d+): ", line):
            places.add((path, int(found.group(1))))
        else:
            path = line
    return places
