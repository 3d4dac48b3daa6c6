"""Runs ripgrep as a child process to find matching lines. The caller reads the files."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aish.errors import ProcessError
from aish.process.child import ChildProcess, ProcessSpec

if TYPE_CHECKING:
    from aish.tools.code.search.search import Query

# Ignore files outside the workspace are not used, as in our own walk.
_FILES = (
    "--no-config", "--color=never", "--null", "--hidden", "--no-messages", "--no-require-git", "--no-ignore-parent",
    "--no-ignore-global", "--no-ignore-exclude", "--glob=!.git", "--glob=!.hg", "--glob=!.svn",
)  # fmt: skip
_LINES = ("--no-heading", "--with-filename", "--line-number", "--sort=path", "--max-columns=200", "--max-filesize=4M")
_MAX_BYTES = 8 * 1024 * 1024
# The expression is invalid, or an option is unknown.
_FAILED = 2


def find_ripgrep(search_path: str) -> str:
    folders = os.pathsep.join(part for part in search_path.split(os.pathsep) if part.startswith("/"))
    return (shutil.which("rg", path=folders) or "") if folders else ""


async def search_lines(
    program: str, root: Path, query: Query, *, max_lines: int, timeout_s: float
) -> tuple[list[tuple[str, int]], bool] | None:
    """Returns paths and lines, and whether they are complete; None if ripgrep cannot answer."""
    output, ended = await _output(program, _arguments(query), root, max_lines=max_lines, timeout_s=timeout_s)
    if output is None:
        return None
    found = [line for raw in output.split(b"\n")[:max_lines] if (line := _line(raw)) is not None]
    return found, ended


async def list_files(program: str, root: Path, query: Query, *, timeout_s: float) -> tuple[list[str], bool]:
    """Returns all files that ripgrep would search, of any size, and whether they are complete."""
    words = [*_FILES, *_glob(query), "--files", "--", f"./{query.below}"]
    output, ended = await _output(program, words, root, max_lines=_MAX_BYTES, timeout_s=timeout_s)
    names = (output or b"").split(b"\0")[:-1]
    return [os.fsdecode(name).removeprefix("./") for name in names], ended


async def _output(
    program: str, words: Sequence[str], root: Path, *, max_lines: int, timeout_s: float
) -> tuple[bytes | None, bool]:
    """Returns the output, and whether it is complete; None if ripgrep cannot answer."""
    spec = ProcessSpec((program, *words), name="rg", cwd=root, close_wait_s=0.05, term_wait_s=0.5)
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
                            return None, False
            except TimeoutError:
                pass
    except ProcessError:
        return None, False
    return bytes(output), ended


def _arguments(query: Query) -> list[str]:
    words = [*_FILES, *_LINES, *_glob(query)]
    if not query.regex:
        words.append("--fixed-strings")
    if query.ignore_case:
        words.append("--ignore-case")
    return [*words, f"--regexp={query.pattern}", "--", f"./{query.below}"]


def _glob(query: Query) -> list[str]:
    glob = query.glob.removeprefix("./").lstrip("/")
    return [f"--glob={glob}"] if glob and not glob.startswith("!") else []  # a leading ! would invert it


def _line(raw: bytes) -> tuple[str, int] | None:
    path, _, rest = raw.partition(b"\0")
    number = rest.partition(b":")[0]
    return (os.fsdecode(path).removeprefix("./"), int(number)) if number.isdigit() else None
