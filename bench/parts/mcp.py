"""The MCP client beside the official SDK and FastMCP: its import, and calls over stdio and HTTP.

Calls are made with client and server on one core: they work one after the other anyway, and waking another core costs
every client more than the work that is to be compared.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

from bench import mcp
from bench.effort import Effort
from bench.peers import PeerMissing, installed
from bench.rows import Bar, Row, median, row

PART = "mcp"
OURS = "aish"
PEERS = {"mcp-sdk": ("mcp", "calls_sdk.py"), "fastmcp": ("fastmcp", "calls_fastmcp.py")}
CALLS = {OURS: 1000, "mcp-sdk": 150, "fastmcp": 100}  # about as long for each

Clients = dict[str, tuple[str, str, str]]  # interpreter, what is imported, script


def rows(effort: Effort) -> Iterator[Row]:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    clients, notes = found_clients(effort)
    rounds = effort.rounds(9, 1)
    taken: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(rounds + 1):
        for name, (python, module, _) in clients.items():
            took = float(mcp.output(python, "-c", mcp.IMPORT.format(module))) * 1e3
            taken[name] += [took] if number else []  # the first compiles and fills the page cache
    figures = {name: median(each) for name, each in taken.items()}
    ours, bar = figures.pop(OURS), Bar(most=1 / 8, of="mcp-sdk")
    yield row(PART, "import of the client", "ms", ours, peers=figures, bar=bar, rounds=rounds, notes=notes)
    stdio, http = mcp.echo_servers()
    with mcp.one_core():
        yield from compared("stdio", 4, effort, clients, "stdio", *stdio)
        with mcp.running(*http) as server:
            url = f"http://127.0.0.1:{mcp.ask(server)}/mcp"
            yield from compared("HTTP, kept alive", 5, effort, clients, "http", url)
    if not effort.quick:
        yield from bounds()


def found_clients(effort: Effort) -> tuple[Clients, dict[str, str]]:
    clients: Clients = {OURS: (mcp.OWN, "aish.tools.mcp.connect", "calls_own.py")}
    notes = {}
    for name, (module, script) in PEERS.items() if effort.peers else ():
        try:
            clients[name] = (str(installed(name).folder / "bin" / "python"), module, script)
        except PeerMissing as exc:
            notes[name] = str(exc)
    return clients, notes


def compared(title: str, bar: float, effort: Effort, clients: Clients, *target: str) -> Iterator[Row]:
    """Calls a second, and the client's own processor time for each."""
    rounds = effort.rounds(31, 2)
    rates: dict[str, list[float]] = {name: [] for name in clients}
    costs: dict[str, list[float]] = {name: [] for name in clients}
    with ExitStack() as stack:
        running: dict[str, subprocess.Popen[str]] = {}
        for name, (python, _, script) in clients.items():
            running[name] = stack.enter_context(mcp.running(python, str(mcp.PARTS / script), *target))
        for number in range(rounds + 1):
            for name, process in running.items():
                rate, cost = mcp.calls(process, CALLS[name])
                rates[name] += [rate] if number else []
                costs[name] += [cost] if number else []
    by_rate, by_cost = ({name: median(each) for name, each in found.items()} for found in (rates, costs))
    ours, held = by_rate.pop(OURS), Bar(least=bar, of="mcp-sdk")
    yield row(PART, f"calls over {title}", "/s", ours, peers=by_rate, better="more", bar=held, rounds=rounds)
    yield row(PART, f"calls over {title}, client CPU each", "µs", by_cost.pop(OURS), peers=by_cost, rounds=rounds)


def bounds() -> Iterator[Row]:
    seen = json.loads(mcp.output(mcp.OWN, str(mcp.PARTS / "long_lines.py")))
    what = "a line of 16 MiB, times one of 4"
    yield row(PART, what, "", seen["read_16_s"] / seen["read_4_s"], bar=Bar(most=8), rounds=5)
    grown, bar = seen["refusal_grown_mib"], Bar(most=mcp.REFUSAL_MIB)
    yield row(PART, "memory grown by refusing a line of 64 MiB", "MiB", grown, bar=bar)
    many = json.loads(mcp.output(mcp.OWN, str(mcp.PARTS / "many_servers.py")))
    free_ms, bar = many["free_s"] * 1e3, Bar(most=mcp.FREE_MS)
    yield row(PART, "20 servers, 5 of them bad: held up for", "ms", free_ms, bar=bar)
