"""Code tools beside the language servers behind them: warm questions through the tool and straight to the server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

from _pytest.outcomes import Skipped

from bench import ide
from bench.effort import Effort
from bench.rows import Bar, Row, row

PART = "ide"
OWN = "the server itself"


def rows(effort: Effort) -> Iterator[Row]:
    bar = Bar(most=ide.MAX_OUTLINE_MS)
    yield row(PART, f"an outline of {ide.OUTLINE_BYTES} bytes", "ms", ide.bench_outline(), bar=bar, rounds=50)
    for server in ("ty",) if effort.quick else ide.SERVERS:
        try:
            yield from server_rows(server, asyncio.run(ide.measured(server)))
        except (Exception, Skipped) as exc:  # a server that is not here is a row that says so
            sys.stderr.write(f"{server}: {type(exc).__name__} {exc}\n")
            yield row(PART, f"{server}: hover", "ms", None, notes={server: f"{type(exc).__name__} {exc}"})


def server_rows(server: str, found: ide.Measured) -> Iterator[Row]:
    bar = Bar(most=ide.MAX_RATIO, of=OWN)
    for what, (own, ours) in (("hover", found.hover), ("definition", found.definition)):
        yield row(PART, f"{server}: {what}, warm", "ms", ours, limits={OWN: own}, bar=bar, rounds=ide.ROUNDS)
    yield row(PART, f"{server}: an edit until its diagnostics", "ms", found.edited_ms, rounds=20)
    yield row(PART, f"{server}: a rename in 62 files", "ms", found.rename_ms)
