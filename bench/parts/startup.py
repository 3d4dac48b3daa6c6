"""Start-up and memory: the version, the first prompt on a terminal, one answer; aish beside programs like it.

Rounds take turns, so that what disturbs one disturbs the others; the first is thrown away, since it fills caches. Every
program has a home of its own that lasts over its rounds, as a person's does. A program that fails says why once and is
left out of what it failed at.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.children import Failed, Timing, drawn, ended
from bench.effort import Effort
from bench.gateway_parts import gateways, kinds
from bench.parts.programs import PROGRAMS, Program, scripted
from bench.peers import PeerMissing
from bench.rows import Bar, Figure, Row, median, row

DisplayOptions = Callable[[Program, Path], Timing | None]
PART = "startup"
ANSWER = b"tok000"  # how a stream of the upstream begins
SLOW = ("aider", "shell-gpt", "opencode")
SLOW_MS = 3000.0  # what is slower has a third of the rounds: its figure is not in doubt


@dataclass
class Found:
    """What one look gave, program by program, round by round."""

    timings: dict[str, list[Timing]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def figures(self, of: Callable[[Timing], Figure]) -> dict[str, Figure]:
        return {name: median(map(of, timings)) for name, timings in self.timings.items()}


def rows(effort: Effort) -> Iterator[Row]:
    with ExitStack() as stack:
        upstream = stack.enter_context(gateways.upstream_running())
        port = gateways.free_port()
        # codex speaks /v1/responses only, which our own server puts in front of the same upstream.
        server = stack.enter_context(gateways.running(kinds.aish(upstream, port), port))
        programs, missing = _programs(effort, upstream.url, f"http://127.0.0.1:{server.port}/v1")
        homes = {each.name: stack.enter_context(_home(each)) for each in programs}
        rounds = effort.rounds(9, 2)
        version = _in_turns(programs, homes, rounds, _version)
        yield from _version_rows(version, missing, rounds)
        prompt = _in_turns(programs, homes, rounds, _prompt)
        yield from _prompt_rows(prompt, missing, rounds)
        answer = _in_turns(programs, homes, rounds, _answer)
        yield from _answer_rows(answer, missing, rounds)
        yield from _scripted_rows(homes["aish"], rounds)


def _programs(effort: Effort, url: str, responses_url: str) -> tuple[list[Program], dict[str, str]]:
    found, missing = [], {}
    for name, make in PROGRAMS.items():
        if not effort.peers and name not in ("aish", "python", "bash"):
            continue
        if effort.quick and name in SLOW:
            missing[name] = "left out of a quick run: it takes seconds to start"
            continue
        try:
            found.append(make(responses_url if name == "codex" else url))
        except PeerMissing as exc:
            missing[name] = str(exc)
    return found, missing


@contextmanager
def _home(program: Program) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"bench-{program.name}-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for name, text in program.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        yield home


def _version(program: Program, home: Path) -> Timing | None:
    return ended(program.version, home, program.env) if program.version else None


def _prompt(program: Program, home: Path) -> Timing | None:
    return drawn(program.prompt, program.mark, home, program.env) if program.prompt else None


def _answer(program: Program, home: Path) -> Timing | None:
    return ended(program.answer, home, program.env, mark=ANSWER) if program.answer else None


def _in_turns(programs: list[Program], homes: dict[str, Path], rounds: int, look: DisplayOptions) -> Found:
    found = Found()
    for number in range(rounds + 1):
        for program in programs:
            if program.name in found.failed or _enough(found, program.name, number):
                continue
            try:
                timing = look(program, homes[program.name])
            except Failed as exc:
                found.failed[program.name] = str(exc)
                continue
            if timing and number:
                found.timings.setdefault(program.name, []).append(timing)
    return found


def _enough(found: Found, name: str, number: int) -> bool:
    seen = found.timings.get(name, [])
    return bool(seen) and seen[-1].wall_ms > SLOW_MS and number % 3 != 1


def _shared(
    found: Found, missing: dict[str, str], of: Callable[[Timing], Figure], names: dict[str, str]
) -> dict[str, Any]:
    """Figures sorted into ours, limits and peers, for `row`."""
    figures = found.figures(of)
    limits = {title: figures[name] for name, title in names.items() if name in figures}
    peers = {name: figure for name, figure in figures.items() if name not in ("aish", "python", "bash")}
    return {"limits": limits, "peers": peers, "notes": {**missing, **found.failed}}


def _version_rows(found: Found, missing: dict[str, str], rounds: int) -> Iterator[Row]:
    names = {"python": "python -c pass"}
    for what, unit, of, bar in (
        ("--version", "ms", _wall, Bar(most=1.5, of="python -c pass")),
        ("--version, CPU", "ms", _cpu, None),
        ("--version, peak memory", "MB", _memory, None),
    ):
        ours = found.figures(of).get("aish")
        yield row(PART, what, unit, ours, bar=bar, rounds=rounds, **_shared(found, missing, of, names))


def _prompt_rows(found: Found, missing: dict[str, str], rounds: int) -> Iterator[Row]:
    names = {"python": "bare prompt_toolkit", "bash": "bash -i"}
    for what, unit, of, bar in (
        ("first prompt", "ms", _wall, Bar(most=1.6, of="bare prompt_toolkit")),
        ("first prompt, CPU", "ms", _cpu, None),
        ("first prompt, memory (PSS)", "MB", _memory, None),
    ):
        ours = found.figures(of).get("aish")
        yield row(PART, what, unit, ours, bar=bar, rounds=rounds, **_shared(found, missing, of, names))


def _answer_rows(found: Found, missing: dict[str, str], rounds: int) -> Iterator[Row]:
    for what, unit, of in (
        ("one answer, its first words", "ms", lambda timing: timing.marked_ms),
        ("one answer, CPU", "ms", _cpu),
        ("one answer, peak memory", "MB", _memory),
    ):
        yield row(PART, what, unit, found.figures(of).get("aish"), rounds=rounds, **_shared(found, missing, of, {}))


def _scripted_rows(home: Path, rounds: int) -> Iterator[Row]:
    timings = [ended(scripted(), home, {}) for _ in range(rounds + 1)][1:]
    wall = median(timing.wall_ms for timing in timings)
    yield row(PART, "one answer of fake-tool, in all", "ms", wall, bar=Bar(most=250), rounds=rounds)


def _wall(timing: Timing) -> Figure:
    return timing.wall_ms


def _cpu(timing: Timing) -> Figure:
    return timing.cpu_ms


def _memory(timing: Timing) -> Figure:
    return timing.memory_mb
