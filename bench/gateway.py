"""The server beside its peers over an upstream that costs nothing, in one run on one machine: `make bench-gateway`.

Prints what each gateway costs, ratios, and the bars they are held to; medians of rounds that take turns, so that what
disturbs one disturbs the others. Exit code 1 when a bar is missed. `direct` is the upstream without a gateway: the
limit. A peer that does not relay properly gets no figures. Needs Linux and `cc`; LiteLLM lives in an environment of its
own under `.cache` (`--peers none` goes without).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.gateway_parts import gateways, kinds, measures
from bench.gateway_parts.gate import faults
from bench.gateway_parts.gateways import DidNotStart, Gateway, Kind, Upstream
from bench.gateway_parts.measures import Figures, Sizes
from bench.gateway_parts.processes import load_average
from bench.peers import PeerMissing

KINDS: dict[str, Callable[..., Kind]] = {
    "aish": kinds.aish,
    "relay": kinds.relay,
    "litellm": kinds.litellm,
    "sglang-router": kinds.sglang_router,
    "portkey": kinds.portkey,
}
WITH_TOOLS = ("aish", "litellm")
TOOLS = ("look", "echo")
QUIET_S = 20.0
IDLE_NS = 10_000_000  # in a fifth of a second, of all of them: timers


@dataclass
class Bench:
    upstream: Upstream
    sizes: Sizes
    rounds: int
    tools: bool = True
    hold: bool = True
    figures: dict[str, Figures] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)

    def run(self, names: list[str]) -> None:
        with ExitStack() as stack:
            running = [Gateway("direct", self.upstream.port, self.upstream.pid, version=platform.platform())]
            for name in names:
                try:
                    with self.started(name):
                        pass  # what it is made of has been read from the disk
                    running.append(stack.enter_context(self.started(name)))
                except (DidNotStart, PeerMissing) as exc:
                    self.faults[name] = [f"does not start: {exc}"]
            fit = [gateway for gateway in running if self.passes(gateway)]
            self.in_turns(fit)
            for gateway in fit:
                self.once(gateway)
        for name in names if self.tools else ():
            if name not in self.faults and name in WITH_TOOLS:
                self.with_tools(name)

    def started(self, name: str) -> AbstractContextManager[Gateway]:
        port = gateways.free_port()
        return gateways.running(KINDS[name](self.upstream, port), port)

    def passes(self, gateway: Gateway) -> bool:
        idle = gateway.pss_mb()
        if found := list(faults(gateway)):
            self.faults[gateway.name] = found
            return False
        say(f"{gateway.name}: relays properly ({gateway.version})")
        if gateway.name != "direct":
            self.figures[gateway.name] = {"idle_mb": idle, "first_answer_s": gateway.first_answer_s}
        return True

    def in_turns(self, running: list[Gateway]) -> None:
        seen: dict[str, list[Figures]] = {gateway.name: [] for gateway in running}
        for number in range(self.rounds + 1):
            for measure in measures.ROUND:
                for gateway in reversed(running) if number % 2 else running:  # none always comes after the same one
                    sizes = self.sizes if number else measures.WARM  # thrown away
                    seen[gateway.name].append({"round": number, **self.measured(measure, gateway, sizes)})
                    self.settled(running)
            say(f"  round {number} of {self.rounds}, load average {load_average():.1f}")
        for name, found in seen.items():
            self.figures.setdefault(name, {}).update(medians([one for one in found if one["round"]]))

    def settled(self, running: list[Gateway]) -> None:
        """Waits until no gateway works on what is over: some do for a second, at the cost of the next one."""
        self.upstream.settled()
        deadline = time.monotonic() + QUIET_S
        while time.monotonic() < deadline:
            before = sum(gateway.cpu_ns() for gateway in running)
            time.sleep(0.2)
            if sum(gateway.cpu_ns() for gateway in running) - before < IDLE_NS:
                return

    def measured(self, measure: Callable[[Gateway, Sizes], Figures], gateway: Gateway, sizes: Sizes) -> Figures:
        try:
            found = measure(gateway, sizes)
            if not found["errors"] or gateway.name == "aish":
                return found
            # A refusal is quick: what refuses has no figure.
            self.faults.setdefault(f"{gateway.name}, {measure.__name__}", [f"{found['errors']:.0f} requests refused"])
            return {"errors": found["errors"]}
        except (subprocess.SubprocessError, ValueError) as exc:  # the others are measured all the same
            self.faults.setdefault(f"{gateway.name}, {measure.__name__}", [f"{type(exc).__name__} {exc}"])
            return {"errors": 1}

    def once(self, gateway: Gateway) -> None:
        figures = self.figures[gateway.name]
        try:
            self.once_each(gateway, figures)
        except (subprocess.SubprocessError, ValueError) as exc:  # the others are measured all the same
            self.faults[f"{gateway.name}, at its end"] = [f"{type(exc).__name__} {exc}"]

    def once_each(self, gateway: Gateway, figures: Figures) -> None:
        figures |= measures.cancel(gateway, self.upstream, self.sizes)
        self.upstream.settled()
        if self.hold:
            held = measures.hold(gateway, self.sizes)
            if held["held_errors"] and gateway.name != "aish":
                raise ValueError(f"{held['held_errors']:.0f} of {measures.HELD} slow streams refused")
            figures |= held
            if gateway.name != "direct":
                figures["after_mb"] = gateway.pss_mb()

    def with_tools(self, name: str) -> None:
        port = gateways.free_port()
        try:
            with gateways.running(KINDS[name](self.upstream, port, tools=True), port) as gateway:
                for tool in TOOLS:
                    self.figures[name] |= measures.tool_round(gateway, self.upstream, self.sizes, tool)
        except (DidNotStart, ValueError) as exc:
            self.faults[f"{name} with tools"] = [str(exc)]


def medians(rounds: list[Figures]) -> Figures:
    keys = {key for one in rounds for key in one} - {"round"}
    found = {key: statistics.median(one[key] for one in rounds if key in one) for key in sorted(keys)}
    found["errors"] = sum(one.get("errors", 0) for one in rounds)
    found["overtaken"] = sum(one.get("overtaken", 0) for one in rounds)
    return found


# The bars of the server.


@dataclass(frozen=True)
class Bar:
    title: str
    figure: str
    most: float | None = None  # of ours
    least: float | None = None
    over_direct: float | None = None  # of ours, above direct
    times_litellm: float | None = None  # at least

    @property
    def wanted(self) -> str:
        if self.times_litellm is not None:
            return f">= {self.times_litellm:g} x litellm"
        if self.over_direct is not None:
            return f"<= {self.over_direct:g} over direct"
        if self.least is not None:
            return f">= {self.least:g}"
        return f"<= {self.most:g}" if self.most is not None else "(no bar)"

    def met(self, figures: dict[str, Figures]) -> bool | None:
        """None where it cannot be told."""
        ours = figures.get("aish", {}).get(self.figure)
        direct = figures.get("direct", {}).get(self.figure)
        theirs = figures.get("litellm", {}).get(self.figure)
        if self.wanted == "(no bar)":
            return True
        if ours is None:
            return None if "aish" not in figures else False
        if self.times_litellm is not None:
            return None if theirs is None else ours >= self.times_litellm * theirs
        if self.over_direct is not None:
            return None if direct is None else ours - direct <= self.over_direct
        if self.least is not None:
            return ours >= self.least
        assert self.most is not None
        return ours <= self.most


BARS = (
    Bar("whole answers, requests/s (c=16)", "json_rps", times_litellm=70),
    Bar("  CPU a request, µs", "json_us", most=180),
    Bar("  latency p50 / c=16, ms", "json_p50_ms"),
    Bar("  latency p50 / c=1, ms (NODELAY)", "json_alone_p50_ms", most=5),
    Bar("burst, chunks/s", "burst_chunks_s"),
    Bar("  CPU a chunk, µs", "burst_us", most=6),
    Bar("  CPU a fragment of a tool call, µs", "burst_tool_us"),
    Bar("paced (40 x 50/s), CPU a chunk, µs", "paced_us", most=45),
    Bar("  added latency p50, ms", "age_p50_ms"),
    Bar("  added latency p99, ms", "age_p99_ms"),
    Bar("first token p50, ms", "ttft_p50_ms", over_direct=1),
    Bar("  p99, ms", "ttft_p99_ms"),
    Bar("  first chunks later than the second left", "overtaken", most=0),
    Bar(f"{measures.HELD} slow streams, PSS MB", "held_pss_mb", most=120),
    Bar("  stalled > 250 ms", "held_stalls", most=0),
    Bar("  alive", "held_live", least=measures.HELD),
    Bar("  refused or broken", "held_errors", most=0),
    Bar("  oldest chunk, ms", "held_age_max_ms"),
    Bar("  cores", "held_cores"),
    Bar("idle, PSS MB", "idle_mb", most=60),
    Bar("  after all this, PSS MB", "after_mb"),
    Bar("start to first answer, s", "first_answer_s", most=0.6),
    Bar("client gone to upstream aborted, max ms", "cancel_max_ms", most=50),
    Bar("  never aborted", "never_cancelled", most=0),
    Bar("  silent for 5 s instead", "cancel_failed", most=0),
    Bar("a tool round that reads, ms of ours", "round_look_ms", most=2),
    Bar("  CPU, µs", "round_look_us"),
    Bar("a tool round with effects, ms of ours", "round_echo_ms", most=2),
    Bar("  CPU, µs", "round_echo_us"),
    Bar("errors in all rounds", "errors", most=0),
)


def table(figures: dict[str, Figures]) -> Iterator[str]:
    yield f"{'what':<44} {'direct':>11} {'aish':>11} {'litellm':>11} {'aish/litellm':>13}  bar"
    for bar in BARS:
        direct, ours, theirs = (figures.get(name, {}).get(bar.figure) for name in ("direct", "aish", "litellm"))
        ratio = f"{ours / theirs:.4g}" if ours is not None and theirs else "-"
        met = {True: "ok" if bar.wanted != "(no bar)" else "", False: "MISSED", None: "not judged"}[bar.met(figures)]
        columns = " ".join(f"{shown(value):>11}" for value in (direct, ours, theirs))
        yield f"{bar.title:<44} {columns} {ratio:>13}  {bar.wanted} {met}"


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def finite(figures: Figures) -> dict[str, float | None]:
    return {key: None if math.isinf(value) else round(value, 4) for key, value in figures.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", choices=("none", "litellm", "all"), default="litellm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a judgement")
    parser.add_argument("--without-aish", action="store_true", help="the peers alone")
    parser.add_argument("--json", metavar="FILE", type=Path, help="all figures")
    wanted = parser.parse_args()
    names = [*(() if wanted.without_aish else ("aish",)), *(() if wanted.peers == "none" else ("litellm",))]
    with gateways.upstream_running() as upstream:
        bench = Bench(upstream, measures.QUICK if wanted.quick else Sizes(), 1 if wanted.quick else wanted.rounds)
        bench.run(names)
    say("")
    for line in table(bench.figures):
        say(line)
    for name, found in bench.faults.items():
        for fault in found:
            say(f"{name}: {fault}")
    missed = [bar.title.strip() for bar in BARS if bar.met(bench.figures) is False]
    if wanted.json:
        facts = {"load": load_average(), "python": sys.version, "machine": platform.platform(), "missed": missed}
        kept = {
            "figures": {name: finite(found) for name, found in bench.figures.items()},
            "faults": bench.faults,
        }
        wanted.json.write_text(json.dumps({**facts, **kept}, indent=1))
    return 0 if wanted.without_aish else int(bool(missed or "aish" in bench.faults))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
