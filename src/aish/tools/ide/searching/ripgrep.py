"""ripgrep as a child process: which lines of which files. What is in them is read elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from aish.errors import ProcessError
from aish.wire.process import ChildProcess, ProcessSpec

if TYPE_CHECKING:
    from aish.tools.ide.searching.search import Query

# Ignore files outside the workspace say nothing here, as in our own walk.
_OPTIONS = (
    "--no-config", "--color=never", "--no-heading", "--with-filename", "--line-number", "--null", "--hidden",
    "--no-messages", "--sort=path", "--max-columns=200", "--max-filesize=4M", "--no-require-git", "--no-ignore-parent",
    "--no-ignore-global", "--no-ignore-exclude", "--glob=!.git", "--glob=!.hg", "--glob=!.svn",
)  # fmt: skip
_MAX_BYTES = 8 * 1024 * 1024
# The expression made no sense to it, or it does not know an option.
_FAILED = 2


def find(search_path: str) -> str:
    folders = os.pathsep.join(part for part in search_path.split(os.pathsep) if part.startswith("/"))
    return (shutil.which("rg", path=folders) or "") if folders else ""


async def run(
    program: str, root: Path, query: Query, *, max_lines: int, timeout_s: float
) -> tuple[list[tuple[str, int]], bool] | None:
    """Paths and lines, and whether that is all; None where it cannot answer."""
    spec = ProcessSpec((program, *_arguments(query)), name="rg", cwd=root, close_wait_s=0.05, term_wait_s=0.5)
    output, ended = bytearray(), False
    try:
        async with ChildProcess.start(spec) as child:
            child.close_stdin()
            try:
                async with asyncio.timeout(timeout_s):
                    async for piece in child.stdout:
                        output += piece
                        if len(output) > _MAX_BYTES or output.count(b"\n") > max_lines:
                            break
                    else:
                        ended = True
                        if await child.wait() >= _FAILED:
                            return None
            except TimeoutError:
                pass
    except ProcessError:
        return None
    found = [line for raw in bytes(output).split(b"\n")[:max_lines] if (line := _line(raw)) is not None]
    return found, ended


def _arguments(query: Query) -> list[str]:
    words = [*_OPTIONS]
    if not query.regex:
        words.append("--fixed-strings")
    if query.ignore_case:
        words.append("--ignore-case")
    glob = query.glob.removeprefix("./").lstrip("/")
    if glob and not glob.startswith("!"):  # which would mean: all others
        words.append(f"--glob={glob}")
    return [*words, f"--regexp={query.pattern}", "--", f"./{query.below}"]


def _line(raw: bytes) -> tuple[str, int] | None:
    path, _, rest = raw.partition(b"\0")
    number = rest.partition(b":")[0]
    return (os.fsdecode(path).removeprefix("./"), int(number)) if number.isdigit() else None
