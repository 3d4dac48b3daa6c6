"""The server as a gateway, beside others and beside none: whole answers, bursts, paced streams, first tokens, memory.

All of it is measured by bench/gateway.py; here its figures become rows. A gateway that does not relay properly has no
figures, and the row says what was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench import gateway
from bench.effort import Effort
from bench.gateway_parts import gateways, measures
from bench.gateway_parts.measures import Figures, Sizes
from bench.rows import Bar, Better, Row, row

PART = "gateway"
DIRECT = "direct"
# Nothing but a relay, of the same parts. The bars in microseconds were set on a machine where it took 54 a request,
# 1.6 a chunk of a burst and 35 a paced one; the rows beside it ask for the same distance on any machine.
RELAY = "relay"
LIMITS = (DIRECT, RELAY)
PEERS = ("litellm", "portkey", "sglang-router")
QUICK = Sizes(json_s=0.6, burst_s=0.6, paced_s=1.5, first_s=0.5, cancels=3)

LINES: tuple[tuple[str, str, str, Better, Bar | None], ...] = (
    ("whole answers, 16 at a time", "/s", "json_rps", "more", Bar(least=70, of="litellm")),
    ("whole answers: CPU a request", "µs", "json_us", "less", Bar(most=180)),
    ("whole answers: CPU a request, beside a relay", "µs", "json_us", "less", Bar(most=3.33, of=RELAY)),
    ("whole answers, one at a time: p50", "ms", "json_alone_p50_ms", "less", Bar(most=5)),
    ("bursts of 200 chunks, 8 at a time", "chunks/s", "burst_chunks_s", "more", None),
    ("bursts: CPU a chunk", "µs", "burst_us", "less", Bar(most=6)),
    ("bursts: CPU a chunk, beside a relay", "µs", "burst_us", "less", Bar(most=3.75, of=RELAY)),
    ("bursts: CPU a fragment of a tool call", "µs", "burst_tool_us", "less", None),
    ("40 streams of 50 chunks/s: CPU a chunk", "µs", "paced_us", "less", Bar(most=45)),
    ("40 streams: CPU a chunk, beside a relay", "µs", "paced_us", "less", Bar(most=1.29, of=RELAY)),
    ("40 streams: added to a chunk's way, p50", "ms", "age_p50_ms", "less", None),
    ("40 streams: added to a chunk's way, p99", "ms", "age_p99_ms", "less", None),
    ("first token: p50", "ms", "ttft_p50_ms", "less", Bar(most=1, of=DIRECT, over=True)),
    ("first token: p99", "ms", "ttft_p99_ms", "less", None),
    (f"{measures.HELD} slow streams: memory (PSS)", "MB", "held_pss_mb", "less", Bar(most=120)),
    (f"{measures.HELD} slow streams: alive", "", "held_live", "more", Bar(least=measures.HELD)),
    (f"{measures.HELD} slow streams: stalled for 250 ms", "", "held_stalls", "less", Bar(most=0)),
    (f"{measures.HELD} slow streams: cores", "", "held_cores", "less", None),
    ("idle: memory (PSS)", "MB", "idle_mb", "less", Bar(most=60)),
    ("start to first answer", "s", "first_answer_s", "less", Bar(most=0.6)),
    ("client gone to upstream ended, max", "ms", "cancel_max_ms", "less", Bar(most=50)),
    ("client gone: silent before that for 5 s", "", "cancel_failed", "less", Bar(most=0)),
    ("errors in all rounds", "", "errors", "less", Bar(most=0)),
)


def rows(effort: Effort) -> Iterator[Row]:
    names = ["aish", RELAY, *(PEERS if effort.peers else ())]
    notes = {}
    if effort.quick and effort.peers:
        names.remove("litellm")
        notes["litellm"] = "left out of a quick run: it takes ten seconds to start"
    rounds = effort.rounds(5, 1)  # LiteLLM differs by half from one to the next
    with gateways.upstream_running() as upstream:
        bench = gateway.Bench(upstream, QUICK if effort.quick else Sizes(), rounds, tools=False)
        bench.hold = not effort.quick
        bench.run(names)
    notes |= {name: "; ".join(faults) for name, faults in bench.faults.items()}
    yield from told(bench.figures, notes, rounds)


def told(figures: dict[str, Figures], notes: dict[str, str], rounds: int) -> Iterator[Row]:
    for what, unit, key, better, bar in LINES:
        found = {name: each[key] for name, each in figures.items() if key in each}
        ours, limits = found.pop("aish", None), {name: found.pop(name) for name in LIMITS if name in found}
        yield row(
            PART, what, unit, ours, peers=found, limits=limits, better=better, bar=bar, rounds=rounds, notes=notes
        )
