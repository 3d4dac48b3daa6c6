"""The server's log: JSON lines with the ids they belong to, without secrets, and one object on each."""

import io
import json
import logging
import signal
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.http.server.logs import JsonLines, TextLines
from aish.safety.redaction.redactor import Redactor
from aish.types.events import TextDelta
from support.command import Command, ended
from support.engines import Bench
from support.eventually import eventually
from support.free_port import free_port
from support.http_face import face
from support.serving import refuses, request

SECRET = "hunter2-hunter2"


@contextmanager
def logged(kind=JsonLines):
    """What is logged meanwhile, by everything of aish."""
    stream, logger = io.StringIO(), logging.getLogger("aish")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(kind(Redactor([SECRET]).text))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_a_request_is_one_line_with_its_ids():
    async with face(Bench([TextDelta("x")])) as http:
        with logged() as stream:
            reply = await http.chat(session_id="s1")
            await http.ask("GET", "/v1/nothing/here")
        told, missed = lines(stream)
    assert told["request"] == reply.headers["x-request-id"]
    assert told["turn"] == reply.headers["x-turn-id"]
    assert (told["session"], told["level"], told["message"]) == ("s1", "info", "request")
    assert (told["method"], told["route"], told["status"]) == ("POST", "/v1/chat/completions", 200)
    assert told["duration_ms"] >= 0
    assert told["time"].endswith("+00:00")
    assert (missed["route"], missed["status"]) == ("unknown", 404)
    assert "turn" not in missed


async def test_a_defect_is_logged_with_the_request_that_met_it(monkeypatch):
    async with face(Bench()) as http:

        async def fail(*_args, **_more):
            raise ValueError(f"a defect with {SECRET}")

        monkeypatch.setattr(http.service.store, "list_sessions", fail)
        with logged() as stream:
            reply = await http.ask("GET", "/v1/sessions")
        failed = lines(stream)[0]
    assert reply.status == 500
    assert (failed["level"], failed["request"]) == ("error", reply.headers["x-request-id"])
    assert "ValueError: a defect with" in failed["error"]
    assert SECRET not in stream.getvalue()


@pytest.mark.parametrize("kind", [JsonLines, TextLines])
def test_nothing_secret_and_nothing_that_steers_a_terminal_is_written(kind):
    with logged(kind) as stream:
        logging.getLogger("aish.x").warning("said %s and \x1b[31mred\nand a second line", SECRET)
    text = stream.getvalue()
    assert SECRET not in text
    assert "\x1b" not in text
    assert text.count("\n") == 1


@given(text=st.text(max_size=200))
def test_whatever_is_logged_is_one_json_object_on_one_line(text):
    record = logging.LogRecord("aish.x", logging.INFO, "", 0, "%s", (text,), None)
    line = JsonLines(lambda text: text).format(record)
    assert "\n" not in line
    assert json.loads(line)["message"] == text


def test_a_message_without_end_is_cut():
    record = logging.LogRecord("aish.x", logging.INFO, "", 0, "x" * 1_000_000, (), None)
    assert len(JsonLines(lambda text: text).format(record)) < 20_000
    assert len(TextLines(lambda text: text).format(record)) < 20_000


async def test_the_server_writes_json_where_it_is_told_to(tmp_path):
    command, port = Command(tmp_path), free_port()
    command.write_config('[log]\nformat = "json"\nlevel = "info"\n')
    server = command.start("serve", "--listen", f"127.0.0.1:{port}")

    def is_ready():
        try:
            return request(port, "GET", "/readyz")[0] == 200
        except OSError:
            return False

    try:
        await eventually(is_ready, timeout_s=60)
    finally:
        ran = ended(server, signal.SIGTERM)
    told = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    assert [line["route"] for line in told if line.get("route")] == ["/readyz"]
    assert all(line["request"] for line in told if line.get("route"))


async def test_a_port_alone_is_one_of_this_machine(tmp_path):
    command, port = Command(tmp_path), free_port()
    server = command.start("serve", "--port", str(port))
    try:
        await eventually(lambda: not refuses(port), timeout_s=60)
    finally:
        ran = ended(server, signal.SIGTERM)
    assert f"http://127.0.0.1:{port}" in ran.out + ran.err
