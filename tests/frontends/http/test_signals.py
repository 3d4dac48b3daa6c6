"""Signals end the server, and its exit code says how: 0 as it was told to, 130 by Ctrl-C."""

import http.client
import json
import os
import signal
from contextlib import asynccontextmanager, closing

import pytest

from support.command import Command, ended
from support.eventually import eventually
from support.free_port import free_port
from support.recorded_replies import Gate, Hold, Reply, Text
from support.recording_upstream import recording_upstream
from support.serving import refuses, request

ASKED = {"model": "some-model", "messages": [{"role": "user", "content": "x"}], "stream": True}
WORKERS = pytest.mark.parametrize("workers", ["1", "2"])
FOREVER = "[serve]\ndrain_s = 3600\n"  # longer than any test may last


def is_ready(port):
    try:
        return request(port, "GET", "/readyz")[0] == 200
    except OSError:
        return False


def rest_of(reply):
    try:
        return reply.read()
    except http.client.IncompleteRead as exc:
        return exc.partial
    except ConnectionError:
        return b""


@asynccontextmanager
async def answering(tmp_path, workers, gate):
    """A server in the middle of an answer, which ends once the gate is open; its port; the answer."""
    port, command = free_port(), Command(tmp_path)
    command.write_config(FOREVER)
    with recording_upstream() as upstream:
        upstream.reply(Reply((Text("begun"), Hold(gate), Text("done"))))
        words = ("--workers", workers, "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}")
        server = command.start("serve", *words, own_group=True)
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
                connection.request("POST", "/v1/chat/completions", json.dumps(ASKED))
                reply = connection.getresponse()
                gate.reached()
                yield server, port, reply
        finally:
            gate.open()
            if server.poll() is None:
                ended(server)


@WORKERS
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_what_is_under_way_comes_to_its_end_first(tmp_path, workers, number, code):
    gate = Gate()
    async with answering(tmp_path, workers, gate) as (server, port, reply):
        server.send_signal(number)
        await eventually(lambda: refuses(port), timeout_s=30)
        gate.open()
        assert b"[DONE]" in reply.read()
        _, err = server.communicate(timeout=60)
        assert (server.returncode, b"Traceback" in err) == (code, False)


@WORKERS
async def test_ctrl_c_at_a_terminal_reaches_every_worker_and_hurries_none(tmp_path, workers):
    gate = Gate()
    async with answering(tmp_path, workers, gate) as (server, port, reply):
        os.killpg(server.pid, signal.SIGINT)
        await eventually(lambda: refuses(port), timeout_s=30)
        gate.open()
        assert b"[DONE]" in reply.read()
        server.communicate(timeout=60)
        assert server.returncode == 130


@WORKERS
async def test_a_second_sigterm_hurries_nobody(tmp_path, workers):
    """`timeout` sends it to a process and then to its group; so do others."""
    gate = Gate()
    async with answering(tmp_path, workers, gate) as (server, port, reply):
        server.send_signal(signal.SIGTERM)
        os.killpg(server.pid, signal.SIGTERM)
        await eventually(lambda: refuses(port), timeout_s=30)
        server.send_signal(signal.SIGTERM)
        gate.open()
        assert b"[DONE]" in reply.read()
        server.communicate(timeout=60)
        assert server.returncode == 0


@WORKERS
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
async def test_ctrl_c_after_that_does_not_wait_and_what_is_broken_off_says_so(tmp_path, workers, first):
    gate = Gate()
    async with answering(tmp_path, workers, gate) as (server, port, reply):
        server.send_signal(first)
        await eventually(lambda: refuses(port), timeout_s=30)
        assert server.poll() is None
        ran = ended(server, signal.SIGINT)
        assert (ran.code, "Traceback" in ran.err) == (130, False)
        said = rest_of(reply)
        assert b"done" not in said and b'"error"' in said and said.endswith(b"[DONE]\n\n")
