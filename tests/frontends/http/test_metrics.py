"""What is counted for Prometheus: all of it, in a form its own parser reads, with labels that cannot grow for ever."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aish.engine.model.ledger import Prices
from aish.engine.model.selection import Routing
from aish.errors import ProviderRejected, ProviderUnavailable
from aish.frontends.http.auth.keys import create_key
from aish.frontends.http.metrics.counters import _ASKED_AGAIN, _MAX_MODELS, Metrics, TurnMeter
from aish.providers.scripted import ScriptedProvider, from_steps
from aish.providers.tool_calling.strategies import _NOTICES
from aish.types.chunks import UsageChunk
from aish.types.context import ContextRules
from aish.types.events import Event, StepStarted, TextDelta, ToolResult, TurnEnd, TurnStarted
from aish.types.messages import ToolMessage
from aish.types.tools import Effect, ResultStatus
from aish.types.usage import Price, Usage
from support.engines import Bench, Tools, call
from support.eventually import eventually
from support.http_face import FakeRuntime, face, function

ROOT = Path(__file__).parents[3]


async def counted(http):
    return samples((await http.ask("GET", "/metrics")).body)


def samples(page):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if "bucket" not in sample.name and not sample.name.endswith("_created")
    }


async def test_a_turn_is_counted_in_all_that_is_promised():
    async def fail(arguments, context):
        raise ValueError("no")

    bench = Bench(
        [call("t__x"), call("t__bad", index=1), UsageChunk(Usage(100, 10))],
        [TextDelta("x"), TextDelta("y"), UsageChunk(Usage(200, 20, cached_tokens=90))],
        tools=Tools().add("t__x").add("t__bad", fail),
        settings={"prices": Prices({"scripted:model": Price(1.0, 1.0)})},
    )
    async with face(bench) as http:
        await http.chat(tools=[function("t__x"), function("t__bad")])
        await http.ask("GET", "/v1/nothing")
        values = await counted(http)
    model = "scripted:model"
    assert values["aish_requests_total", "/v1/chat/completions", "200"] == 1
    assert values["aish_requests_total", "404", "unknown"] == 1
    assert values["aish_turns_total", "answered", model] == 1
    assert values["aish_first_token_seconds_count", model] == 1
    assert values["aish_tokens_per_second_count", model] == 1
    assert values["aish_rounds_per_turn_sum", model] == 2
    assert values["aish_tokens_total", "in", model] == 300
    assert values["aish_tokens_total", "out", model] == 30
    assert values["aish_tokens_total", "cached", model] == 90
    assert values["aish_cost_dollars_total", model] == pytest.approx(330 / 1e6)
    assert values["aish_tool_calls_total", "ok", "t__x"] == 1
    assert sum(value for key, value in values.items() if key[0] == "aish_tool_calls_total" and "t__bad" in key) == 1
    assert values["aish_requests_under_way",] == 1
    for state in ("connecting", "ready", "failed", "closed"):
        assert values["aish_mcp_servers", state] == 0


async def test_an_answer_that_breaks_off_is_counted():
    async with face(Bench([TextDelta("half"), ProviderUnavailable("gone")])) as http:
        await http.chat(stream=True)
        values = await counted(http)
    assert values["aish_broken_streams_total", "scripted:model"] == 1
    assert values["aish_turns_total", "failed", "scripted:model"] == 1


async def test_a_stream_that_fails_before_its_first_word_is_a_failed_turn_everywhere():
    async with face(Bench([ProviderUnavailable("gone")])) as http:
        reply = await http.chat(stream=True)
        assert reply.status == 502
        assert (await counted(http))["aish_turns_total", "failed", "scripted:model"] == 1
        record = await http.service.store.find_turn(reply.headers["x-turn-id"])
    assert record is not None and record.end is TurnEnd.FAILED


async def test_a_turn_whose_client_has_gone_is_counted_and_its_key_pays():
    bench = Bench([TextDelta("half an answer"), 30.0])
    key, _ = await create_key(bench.store, "ann", tokens_per_day=24)
    async with face(bench) as http:
        asked = {"model": "scripted:model", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        visit = http.visit("POST", "/v1/chat/completions", asked, x_api_key=key)
        running = asyncio.create_task(visit.run(http.app))
        await eventually(lambda: b"half" in visit.reply.body)
        visit.leave()
        await running
        again = await http.ask("POST", "/v1/chat/completions", asked, x_api_key=key)
        values = samples(http.service.metrics.page())
    assert values["aish_turns_total", "cancelled", "scripted:model"] == 1
    assert values["aish_tokens_total", "out", "scripted:model"] > 0
    assert again.status == 402


async def test_a_call_whose_client_has_gone_is_counted_under_its_tool():
    async def wait(arguments, context):
        await asyncio.Event().wait()

    bench = Bench([call("t__x")], tools=Tools().add("t__x", wait))
    async with face(bench) as http:
        asked = {"model": "scripted:model", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        visit = http.visit("POST", "/v1/chat/completions", {**asked, "tools": [function("t__x")]})
        running = asyncio.create_task(visit.run(http.app))
        await eventually(lambda: bench.tools.calls)
        visit.leave()
        await running
        values = await counted(http)
    assert [key for key in values if key[0] == "aish_tool_calls_total"] == [
        ("aish_tool_calls_total", "cancelled", "t__x")
    ]


async def test_a_turn_that_nobody_waited_for_is_counted():
    bench = Bench([30.0])
    async with face(bench) as http:
        asked = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
        visit = http.visit("POST", "/v1/chat/completions", asked)
        running = asyncio.create_task(visit.run(http.app))
        await eventually(lambda: bench.scripted.requests)
        visit.leave()
        await running
        assert (await counted(http))["aish_turns_total", "cancelled", "scripted:model"] == 1


async def test_a_fallback_and_a_request_in_another_form_are_retries():
    broken = ScriptedProvider("scripted", {"model": from_steps([[ProviderUnavailable("gone")]])})
    spare = ScriptedProvider("spare", {"model": from_steps([[TextDelta("here")]])})
    bench = Bench(provider=broken, others=[spare], settings={"routing": Routing(fallback="spare:model")})
    async with face(bench) as http:
        assert (await http.chat()).status == 200
        assert (await counted(http))["aish_retries_total", "fallback", "scripted:model"] == 1
    refused = ProviderRejected("only user and assistant roles are supported", status=400)

    def play(request):
        if any(isinstance(message, ToolMessage) for message in request.messages):
            return [refused]
        return [TextDelta("done")] if len(request.messages) > 1 else [call("t__x")]

    strict = ScriptedProvider("scripted", {"model": play})
    bench = Bench(provider=strict, tools=Tools().add("t__x"))
    async with face(bench) as http:
        assert (await http.chat(tools=[function("t__x")])).status == 200
        assert (await counted(http))["aish_retries_total", "form", "scripted:model"] == 1


@pytest.mark.parametrize("said", _NOTICES.values())
def test_every_other_way_to_offer_tools_is_known_as_a_retry(said):
    assert [kind for words, kind in _ASKED_AGAIN if words in said] == ["form"]


async def test_turns_that_did_not_fit_are_counted():
    bench = Bench(*[[TextDelta("a"), UsageChunk(Usage(1, 1))]] * 4, settings={"rules": ContextRules(max_turns=1)})
    async with face(bench) as http:
        for text in ("one", "two", "three", "four"):
            await http.chat(session_id="s", use_server_history=True, messages=[{"role": "user", "content": text}])
        values = await counted(http)
    assert values["aish_turns_left_out_total", "scripted:model"] >= 1
    assert values["aish_prefixes_lost_total", "scripted:model"] >= 1


async def test_mcp_servers_are_counted_by_state():
    class Server:
        def __init__(self, state):
            self.state = state

    runtime = FakeRuntime(Bench())
    runtime.mcp_servers = {"a": Server("ready"), "b": Server("ready"), "c": Server("failed")}
    async with face(runtime.bench, runtime=runtime) as http:
        values = await counted(http)
    assert (values["aish_mcp_servers", "ready"], values["aish_mcp_servers", "failed"]) == (2, 1)


async def test_names_that_clients_choose_never_become_labels():
    async with face(Bench([TextDelta("x")])) as http:
        for number in range(50):
            await http.chat(model=f"none:{number}")
            await http.ask("GET", f"/v1/sessions/made-up-{number}")
            await http.ask("GET", f"/made/up/{number}")
            await http.ask("BREW", "/v1/models")
        values = await counted(http)
    assert len([key for key in values if key[0] == "aish_requests_total"]) < 10
    assert not any("made-up" in label or "none:" in label for key in values for label in key)


def test_there_is_a_limit_to_models_and_tools_that_are_counted_by_name():
    metrics = Metrics()
    for number in range(2000):
        meter = TurnMeter(metrics)
        bodies = [
            TurnStarted(f"up:model-{number}", ()),
            StepStarted(f"up:model-{number}"),
            ToolResult(f"mcp__tool-{number}", ResultStatus.OK, (), Effect.READ),
        ]
        meter.observe([Event("", "turn_1", seq, 0, body) for seq, body in enumerate(bodies, 1)])
    families = {family.name: family for family in text_string_to_metric_families(metrics.page().decode())}
    tools = {sample.labels["tool"] for sample in families["aish_tool_calls"].samples}
    assert len(tools) <= 302
    assert "other" in tools
    models = {sample.labels["model"] for sample in families["aish_turns"].samples}
    assert len(models) <= 102
    assert "other" in models


def test_the_dashboard_asks_for_what_is_counted_and_nothing_else():
    dashboard = json.loads((ROOT / "examples" / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    names = {name for query in asked for name in re.findall(r"\baish_[a-z_]+", query)}
    registered = list(Metrics().registry.collect())
    known = {
        f"{metric.name}{suffix}"
        for metric in registered
        for suffix in {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}[metric.type]
    }
    assert names <= known
    counted_names = {name.removesuffix("_total").removesuffix("_bucket") for name in names}
    assert {metric.name for metric in registered} - counted_names == set()


def test_no_two_panels_of_the_dashboard_overlap():
    panels = json.loads((ROOT / "examples" / "grafana.json").read_text())["panels"]
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_models_beyond_the_most_that_are_told_apart_are_counted_by_the_same_meters(monkeypatch):
    metrics = Metrics()
    for number in range(_MAX_MODELS):
        metrics.model_counters(f"up:{number}")
    beyond = metrics.model_counters("up:beyond")
    made = []
    monkeypatch.setattr("aish.frontends.http.metrics.counters.ModelCounters", lambda *given: made.append(given))
    assert metrics.model_counters("up:another") is beyond
    assert made == []
