"""What the IDE tools cost beside the language servers behind them, and the bars they are held to.

python bench/ide.py [SERVER...]

Warm hover and definition through the tool against the same question put to the server itself, in turns, so that both
see the same machine; the median of each. Outline of an 8 KB file. An edit until its diagnostics are there. A rename in
62 files. Ratios count, milliseconds are this machine's.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from aish.tools.code.files.source import SourceText  # noqa: E402
from aish.tools.code.lsp.results import TextMap  # noqa: E402
from aish.tools.code.lsp.server import resident_mb  # noqa: E402
from aish.tools.code.outline import find_grammar, outline  # noqa: E402
from support.code_projects import PROJECTS, Project  # noqa: E402
from support.ide_tools import LANGUAGE_OF, Tools, field, ide_with  # noqa: E402

SERVERS = ("basedpyright", "ty", "typescript", "typescript-language-server", "clangd")
ROUNDS = 200
MAX_RATIO = 3.0
MAX_OUTLINE_MS = 5.0
OUTLINE_BYTES = 8192


async def main(servers: list[str]) -> int:
    failed = []
    say(f"{'server':<28}{'first':>8}{'hover':>16}{'definition':>16}{'edit→diag':>11}{'rename 62':>11}{'RSS MB':>8}")
    for server in servers:
        ratios = await bench_server(server)
        failed += [f"{server} {name} {ratio:.1f}x" for name, ratio in ratios.items() if ratio > MAX_RATIO]
    took_ms = bench_outline()
    say(f"outline of {OUTLINE_BYTES} bytes: {took_ms:.2f} ms")
    if took_ms > MAX_OUTLINE_MS:
        failed.append(f"outline {took_ms:.2f} ms")
    say(f"bars: hover and definition at most {MAX_RATIO:g}x the server's own, outline at most {MAX_OUTLINE_MS:g} ms: "
          f"{'missed by ' + ', '.join(failed) if failed else 'held'}")  # fmt: skip
    return 1 if failed else 0


@dataclass(frozen=True)
class Measured:
    """Milliseconds; hover and definition are the server's own and ours."""

    first_ms: float
    hover: tuple[float, float]
    definition: tuple[float, float]
    edited_ms: float
    rename_ms: float
    size_mb: float


async def bench_server(server: str) -> dict[str, float]:
    found = await measured(server)
    hover, definition = found.hover, found.definition
    shown = [f"{own_ms:.2f}→{ours_ms:.2f} {ours_ms / own_ms:.1f}x" for own_ms, ours_ms in (hover, definition)]
    say(
        f"{server:<28}{found.first_ms:>8.0f}{shown[0]:>16}{shown[1]:>16}{found.edited_ms:>11.1f}"
        f"{found.rename_ms:>11.0f}{found.size_mb:>8.0f}"
    )
    return {"hover": hover[1] / hover[0], "definition": definition[1] / definition[0]}


async def measured(server: str) -> Measured:
    language = LANGUAGE_OF[server]
    project = PROJECTS[language]()
    with tempfile.TemporaryDirectory() as folder:
        root = project.write(Path(folder)).resolve()
        async with ide_with(root, server) as tools:
            at = use_of(project)
            first_ms = await timed(lambda: tools("references", **at))
            own = await direct(tools, language, at)
            hover = await against(own("hover"), lambda: tools("hover", **at))
            definition = await against(own("definition"), lambda: tools("definition", **at))
            edited_ms = await edit_to_diagnostics(tools, root, at["path"])
            found = tools.ide.backends.servers.find(language)
            async with tools.ide.backends.servers.used(language, found) as session:
                size_mb = resident_mb(session.connection.pid) or 0
            rename_ms = await timed(lambda: tools("rename", **at, new_name="renamed_symbol"))
    return Measured(first_ms, hover, definition, edited_ms, rename_ms, size_mb)


def use_of(project: Project) -> dict[str, Any]:
    path, line = max(place for place in project.references if "user_" in place[0])
    return {"path": path, "line": line, "symbol": project.symbol}


async def direct(tools: Tools, language: str, at: dict[str, Any]) -> Callable[[str], Callable[[], Awaitable[Any]]]:
    """The bare question, with nothing of ours around it."""
    servers = tools.ide.backends.servers
    async with servers.used(language, servers.find(language)) as session:
        text = (tools.ide.space.root / at["path"]).read_text()
        source = SourceText(at["path"], text.encode(), text)
        column = source.line(at["line"]).index(at["symbol"])
        position = TextMap(source.lines, session.connection.encoding).position(at["line"] - 1, column)
        where = {"line": position.line, "character": position.character}
        params = {"textDocument": {"uri": session.documents.uri(at["path"])}, "position": where}
        return lambda what: lambda: session.connection.request(f"textDocument/{what}", params)


async def against(theirs: Callable[[], Awaitable[Any]], ours: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Medians in milliseconds, measured in turns."""
    for _ in range(20):
        await theirs()
        await ours()
    pairs = [(await timed(theirs), await timed(ours)) for _ in range(ROUNDS)]
    return statistics.median(own for own, _ in pairs), statistics.median(our for _, our in pairs)


async def edit_to_diagnostics(tools: Tools, root: Path, path: str) -> float:
    """Median from a write on disk to fresh diagnostics."""
    took = []
    original = (root / path).read_text()
    for number in range(20):
        (root / path).write_text(original + "\n" * number)

        async def ask() -> None:
            assert field(await tools("diagnostics", path=path), "status") == "fresh"

        took.append(await timed(ask))
    (root / path).write_text(original)
    return statistics.median(took)


def bench_outline() -> float:
    text = (ROOT / "src" / "aish" / "engine" / "turn.py").read_text()[:OUTLINE_BYTES]
    source, language = SourceText("turn.py", text.encode(), text), find_grammar("python")
    assert language is not None
    took = []
    for _ in range(50):
        began = time.perf_counter()
        outline(source, language)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def timed(do: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await do()
    return (time.perf_counter() - began) * 1000


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or list(SERVERS))))
