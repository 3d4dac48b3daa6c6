"""Telemetry: spans and figures by the conventions, sent to a real collector, and never in the way of a turn."""

import json
import logging
import subprocess
import sys
import threading

import pytest

from aish.app.engines import add_telemetry
from aish.config.schema.config import TelemetryConfig
from aish.config.schema.values import Secret
from aish.engine.model.ledger import Prices
from aish.errors import ProviderUnavailable
from aish.safety.redaction.redactor import Redactor
from aish.storage.memory import MemoryStore
from aish.telemetry.store_tap import Telemetry, tap_store
from aish.types.chunks import UsageChunk
from aish.types.events import TextDelta
from aish.types.messages import user
from aish.types.usage import Price, Usage
from support.command import Command
from support.engines import Bench, Tools, call, said
from support.otlp_collector import otlp_collector

STEPS = ([TextDelta("one moment"), call("t__x", '{"a": 1}'), UsageChunk(Usage(100, 20))],
         [TextDelta("the "), TextDelta("answer"), UsageChunk(Usage(150, 5, 50))])  # fmt: skip


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Loading the libraries takes a second, on a busy machine many. No thread that sends outlives its test: those of
    OpenTelemetry draw from `random`, which other tests must find as they left it."""
    monkeypatch.setattr("aish.telemetry.store_tap.CLOSE_S", 60.0)
    yield
    while senders := [each for each in threading.enumerate() if each.name.startswith(("aish-telemetry", "Otel"))]:
        senders[0].join(30)
        assert not senders[0].is_alive(), senders[0].name


@pytest.fixture
def collector():
    with otlp_collector() as found:
        yield found


def bench_to(collector, *steps, tools=None, settings=None, redactor=None, **config):
    redact = (redactor or Redactor()).text
    store = add_telemetry(MemoryStore(), TelemetryConfig(otlp_endpoint=collector.url, **config), redact)
    prices = {"prices": Prices({"scripted:model": Price(1.0, 1.0)})}
    return Bench(*steps, tools=tools, store=store, settings=settings or prices, redactor=redactor)


async def test_a_turn_its_steps_and_its_calls_are_spans_of_one_trace(collector):
    bench = bench_to(collector, *STEPS, tools=Tools().add("t__x"), service_name="mine")
    events = await bench.run(session="s1", may_be_new=True)
    await bench.store.aclose()
    spans = {span.name: span for span in collector.spans if span.name != "chat model"}
    chats = [span for span in collector.spans if span.name == "chat model"]
    turn, tool = spans["invoke_agent aish"], spans["execute_tool t__x"]
    assert len(collector.spans) == 4
    assert len(chats) == 2
    assert {span.trace for span in collector.spans} == {turn.trace}
    assert {span.parent for span in (*chats, tool)} == {turn.id}
    assert turn.parent == b""
    assert turn.service == "mine"
    assert (turn.start_ns, turn.end_ns) == (events[0].at_ms * 10**6, events[-1].at_ms * 10**6)
    for span in (*chats, tool):
        assert turn.start_ns <= span.start_ns <= span.end_ns <= turn.end_ns
    assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert turn.attributes["aish.turn.id"] == events[0].turn
    assert turn.attributes["aish.turn.end"] == "answered"
    first, second = sorted(chats, key=lambda span: span.start_ns)
    assert first.attributes["gen_ai.operation.name"] == "chat"
    assert first.attributes["gen_ai.provider.name"] == "scripted"
    assert first.attributes["gen_ai.request.model"] == "model"
    assert first.attributes["gen_ai.conversation.id"] == "s1"
    assert first.attributes["gen_ai.usage.input_tokens"] == 100
    assert first.attributes["gen_ai.usage.output_tokens"] == 20
    assert first.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert second.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert second.attributes["gen_ai.usage.cache_read.input_tokens"] == 50
    assert second.attributes["gen_ai.response.time_to_first_chunk"] >= 0
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "t__x"
    assert tool.attributes["gen_ai.tool.call.id"]
    assert not any(span.failed for span in collector.spans)


async def test_a_turn_is_part_of_the_trace_of_whoever_asked(collector):
    bench = bench_to(collector, *STEPS, tools=Tools().add("t__x"))
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    events = await bench.run(traceparent=f"00-{trace}-{span}-01")
    await bench.store.aclose()
    assert events[0].body.traceparent == f"00-{trace}-{span}-01"
    assert {found.trace.hex() for found in collector.spans} == {trace}
    assert [found.parent.hex() for found in collector.spans if found.name == "invoke_agent aish"] == [span]
    assert {request.traceparent for request in bench.scripted.requests} == {f"00-{trace}-{span}-01"}


async def test_figures_tell_tokens_and_durations(collector):
    bench = bench_to(collector, *STEPS, tools=Tools().add("t__x"))
    await bench.run()
    await bench.store.aclose()
    tokens = {values["gen_ai.token.type"]: total for values, _, total in collector.figures["gen_ai.client.token.usage"]}
    assert tokens == {"input": 250, "output": 25}
    durations = collector.figures["gen_ai.client.operation.duration"]
    counted = {values["gen_ai.operation.name"]: count for values, count, _ in durations}
    assert counted == {"invoke_agent": 1, "chat": 2, "execute_tool": 1}


async def test_what_was_said_is_not_sent_unless_asked_for(collector):
    async def answer(arguments, context):
        return said("the tool's words")

    bench = bench_to(collector, *STEPS, tools=Tools().add("t__x", answer))
    await bench.run("my question")
    await bench.store.aclose()
    sent = b"".join(body for _, _, body in collector.requests)
    for words in (b"my question", b"the answer", b"one moment", b"the tool's words", b'"a": 1'):
        assert words not in sent


async def test_asked_for_it_is_sent_without_secrets(collector):
    async def answer(arguments, context):
        return said("the tool's words and hunter2-hunter2")

    split = [TextDelta("the answer hunter2-"), TextDelta("hunter2 ends")]
    bench = bench_to(
        collector,
        STEPS[0],
        split,
        tools=Tools().add("t__x", answer),
        content=True,
        redactor=Redactor(["hunter2-hunter2"]),
    )
    await bench.run("my question with hunter2-hunter2")
    await bench.store.aclose()
    spans = {span.name: span.attributes for span in collector.spans}
    asked = json.loads(spans["invoke_agent aish"]["gen_ai.input.messages"])
    assert asked[0]["role"] == "user"
    assert asked[0]["parts"][0]["content"].startswith("my question with ")
    assert json.loads(spans["execute_tool t__x"]["gen_ai.tool.call.arguments"]) == {"a": 1}
    assert spans["execute_tool t__x"]["gen_ai.tool.call.result"].startswith("the tool's words")
    said_last = [json.loads(s.attributes["gen_ai.output.messages"]) for s in collector.spans if s.name == "chat model"]
    assert any(message[0]["parts"][0]["content"].startswith("the answer ") for message in said_last)
    assert b"hunter2" not in b"".join(body for _, _, body in collector.requests)


async def test_a_failed_turn_and_a_failed_call_say_so(collector):
    async def fail(arguments, context):
        raise ValueError("no")

    bench = bench_to(collector, [call("t__x")], [ProviderUnavailable("it is gone")], tools=Tools().add("t__x", fail))
    await bench.run()
    await bench.store.aclose()
    failed = {span.name: span.attributes["error.type"] for span in collector.spans if span.failed}
    assert failed["invoke_agent aish"] == "ProviderUnavailable"
    assert failed["execute_tool t__x"]
    assert failed["chat model"] == "ProviderUnavailable"


async def test_configured_headers_are_sent_and_never_shown(collector):
    config = TelemetryConfig(otlp_endpoint=collector.url, headers={"x-key": Secret("hunter2-hunter2")})
    bench = Bench([TextDelta("x")], store=add_telemetry(MemoryStore(), config, str))
    await bench.run()
    await bench.store.aclose()
    assert {headers["x-key"] for _, headers, _ in collector.requests} == {"hunter2-hunter2"}
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize("status", [400, 500, None])
async def test_a_collector_that_fails_hurts_no_turn_and_is_told_of_once(collector, status, caplog, monkeypatch):
    """None: nobody listens there."""
    monkeypatch.setattr("aish.telemetry.store_tap.CLOSE_S", 1.0)
    monkeypatch.setattr("aish.telemetry.export._SEND_S", 1.5)
    if status is None:
        collector.url = "http://127.0.0.1:9"
    else:
        collector.status = status
    bench = bench_to(collector, *[[TextDelta("x")]] * 20)
    for _ in range(20):
        events = await bench.run()
        assert events[-1].body.reason == "answered"
    with caplog.at_level(logging.WARNING):
        await bench.store.aclose()
    assert sum("telemetry cannot be sent" in record.message for record in caplog.records) <= 1
    assert all(record.name.startswith("aish") for record in caplog.records)


async def test_a_sink_that_hangs_holds_up_no_turn_and_closing_only_so_long(monkeypatch):
    monkeypatch.setattr("aish.telemetry.store_tap.CLOSE_S", 0.1)
    stuck = threading.Event()

    class Hanging:
        def add(self, lines):
            stuck.wait(30)

        def close(self):
            stuck.wait(30)

    telemetry = Telemetry(Hanging)
    bench = Bench(*[[TextDelta("x")]] * 5, store=tap_store(MemoryStore(), telemetry))
    for _ in range(5):
        assert (await bench.run())[-1].body.reason == "answered"
    await bench.store.aclose()
    assert telemetry._thread.is_alive()
    stuck.set()
    telemetry._thread.join(10)
    assert not telemetry._thread.is_alive()


def test_the_queue_has_a_size():
    hold, seen = threading.Event(), []

    class Slow:
        def add(self, lines):
            hold.wait(30)
            seen.append(lines)

        def close(self):
            pass

    telemetry = Telemetry(Slow, max_bytes=1000)
    for _ in range(10_000):
        telemetry.put(b"x" * 100)
    assert len(telemetry._queue) <= 10
    assert telemetry.dropped >= 10_000 - 20
    hold.set()
    telemetry.close()
    assert 1 <= len(seen) <= 20


def test_a_sink_that_cannot_be_made_is_said_once_and_takes_nothing(caplog):
    def make():
        raise RuntimeError("no")

    telemetry = Telemetry(make)
    telemetry.put(b"x")
    telemetry._thread.join(10)
    telemetry.put(b"y")
    telemetry.close()
    assert len(telemetry._queue) == 1
    assert [record.message for record in caplog.records] == ["telemetry could not be set up; nothing is sent"]


def test_off_means_that_nothing_of_it_is_imported(tmp_path):
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from aish.config.load import load_config\n"
        "from aish.frontends.runtime import LaunchContext\n"
        "from aish.app.container import Container\n"
        f"here, env = Path({str(tmp_path)!r}), {{'HOME': {str(tmp_path)!r}}}\n"
        "wired = Container(LaunchContext(here, env), load_config(cwd=here, env=env, flags={}))\n"
        "async def main():\n"
        "    async with wired.engine(serving=True):\n"
        "        await wired.store.list_sessions(limit=1)\n"
        "asyncio.run(main())\n"
        "print(*[name for name in sys.modules if 'opentelemetry' in name or name == 'aish.telemetry.store_tap'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_the_command_line_sends_what_it_did(tmp_path, collector):
    command = Command(tmp_path)
    command.write_config(f'[telemetry]\notlp_endpoint = "{collector.url}"\n')
    for _ in range(5):  # on a busy machine the libraries may take longer to load than it waits at its end
        ran = command.run("--model", "scripted:fake-tool", "add 2 and 3")
        assert ran.code == 0, ran.err
        if collector.spans:
            break
    assert {span.name for span in collector.spans} == {
        "invoke_agent aish", "chat fake-tool", "execute_tool runtime__add",
    }  # fmt: skip


async def test_turns_that_never_end_are_given_up(collector, monkeypatch):
    monkeypatch.setattr("aish.telemetry.genai._MAX_OPEN", 3)
    bench = bench_to(collector, *[[TextDelta("x")]] * 9)
    lines = []
    for number in range(9):
        events = await bench.run(session=f"s{number}", may_be_new=True)
        lines.append((await bench.store.read_events(events[0].turn)).splitlines(keepends=True)[0])
    for line in lines:
        bench.store.append_events("turn_none", 1, 1, line.replace(b'"turn":"turn_', b'"turn":"turn_z'))
    await bench.store.aclose()
    turns = [span.attributes["aish.turn.id"] for span in collector.spans if span.name == "invoke_agent aish"]
    assert len(turns) == 9 + 9 - 3  # the last three are still open


async def test_what_is_sent_of_a_question_has_a_limit(collector):
    bench = bench_to(collector, [TextDelta(" ".join(str(number) for number in range(30_000)))], content=True)
    past = tuple(user("x" * 50_000) for _ in range(3))
    await bench.run(input=(*past, user("the last")))
    await bench.store.aclose()
    spans = {span.name: span.attributes for span in collector.spans}
    asked = json.loads(spans["invoke_agent aish"]["gen_ai.input.messages"])
    assert asked[-1]["parts"][0]["content"] == "the last"
    assert sum(len(message["parts"][0]["content"]) for message in asked) <= 64 * 1024
    assert len(spans["chat model"]["gen_ai.output.messages"]) < 70_000
