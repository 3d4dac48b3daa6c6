"""Several processes answer at one port: whichever is asked for the figures answers for all of them."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aish.config.schema.config import Config
from aish.frontends.http.server.lifespan import ReloadOnSignal
from support.command import Command, ended
from support.eventually import eventually
from support.free_port import free_port
from support.recorded_replies import Gate, Hold, Reply, Text
from support.recording_upstream import recording_upstream, text
from support.serving import refuses, request

ASKED = {"model": "some-model", "messages": [{"role": "user", "content": "x"}], "stream": True}


def figure(port, name, **labels):
    page = request(port, "GET", "/metrics")[1].decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())


def under_way(port):
    """Told by many, so that each worker is asked; each tells of the question itself, too."""
    return {figure(port, "aish_requests_under_way") - 1 for _ in range(12)}


def is_ready(port):
    try:
        return request(port, "GET", "/readyz")[0] == 200
    except OSError:
        return False


@contextmanager
def answering(port, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with closing(connection):
        connection.request("POST", "/v1/chat/completions", json.dumps({**ASKED, **fields}))
        yield connection.getresponse()


async def test_what_one_worker_has_under_way_is_told_by_each(tmp_path):
    port, gate = free_port(), Gate()
    with recording_upstream() as upstream:
        upstream.reply(Reply((Text("begun"), Hold(gate), Text("done"))))
        server = Command(tmp_path).start(
            "serve", "--workers", "2", "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}"
        )
        asking = threading.Thread(target=request, args=(port, "POST", "/v1/chat/completions", ASKED), daemon=True)
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
            asking.start()
            gate.reached()
            await eventually(lambda: under_way(port) == {1}, timeout_s=30)
            gate.open()
            await eventually(lambda: under_way(port) == {0}, timeout_s=30)
            await eventually(lambda: figure(port, "aish_turns_total", end="answered") == 1, timeout_s=30)
            asking.join(30)
        finally:
            gate.open()
            ended(server, signal.SIGTERM)


@asynccontextmanager
async def two_workers(tmp_path, gate):
    """The server, ready, and its port; the model answers once the gate is open."""
    port = free_port()
    with recording_upstream() as upstream:
        upstream.reply(Reply((Text("begun"), Hold(gate), Text("done"))))
        server = Command(tmp_path).start(
            "serve", "--workers", "2", "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}"
        )
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
            yield server, port
        finally:
            gate.open()
            ended(server, signal.SIGTERM)


def workers_of(server):
    """Their ids, of those that are alive."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return {int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")
async def test_what_a_killed_worker_had_under_way_is_told_no_more(tmp_path):
    gate = Gate()
    async with two_workers(tmp_path, gate) as (server, port):

        def told():
            """With the question itself. Asked seldom: of the last one the other worker tells for up to a second."""
            return figure(port, "aish_requests_under_way")

        with answering(port):
            gate.reached()
            await eventually(lambda: told() == 2, timeout_s=30, every_s=1.5)
            killed = workers_of(server)
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
            await eventually(lambda: len(workers_of(server) - killed) == 2, timeout_s=30)
            await eventually(lambda: is_ready(port), timeout_s=60)
            await eventually(lambda: told() == 1, timeout_s=30, every_s=1.5)


async def test_what_one_worker_has_told_to_its_end_is_in_the_trace_that_each_gives(tmp_path):
    port, gate = free_port(), Gate()

    def told(turn):
        found = [request(port, "GET", f"/v1/traces/{turn}") for _ in range(8)]  # so that each worker is asked
        return {(status, json.loads(body).get("end")) for status, body in found}

    with recording_upstream() as upstream:
        upstream.reply(Reply((Text("begun"), Hold(gate), Text("done"))))
        upstream.always(text("x"))
        server = Command(tmp_path).start(
            "serve", "--workers", "2", "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}"
        )
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
            with answering(port) as reply:
                turn = reply.headers["x-turn-id"]
                await eventually(lambda: told(turn) == {(200, None)}, timeout_s=30)
                gate.open()
                assert b"[DONE]" in reply.read()
            assert told(turn) == {(200, "answered")}
            for stream in (True, False) * 3:
                with answering(port, stream=stream) as reply:
                    reply.read()
                assert told(reply.headers["x-turn-id"]) == {(200, "answered")}
        finally:
            gate.open()
            ended(server, signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_configuration_that_is_read_anew_leaves_alone_what_is_under_way(tmp_path, workers):
    port, gate, command, answers = free_port(), Gate(), Command(tmp_path), []
    two = {**ASKED, "messages": ASKED["messages"] * 2}

    def statuses():
        return {request(port, "POST", "/v1/chat/completions", two)[0] for _ in range(8)}

    with recording_upstream() as upstream:
        upstream.reply(Reply((Text("begun"), Hold(gate), Text("done"))))
        upstream.always(text("x"))
        command.write_config("[serve]\ndrain_s = 0\n")
        server = command.start(
            "serve", "--workers", workers, "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}"
        )
        asking = threading.Thread(
            target=lambda: answers.append(request(port, "POST", "/v1/chat/completions", ASKED)), daemon=True
        )
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
            asking.start()
            gate.reached()
            command.write_config("[serve]\ndrain_s = 0\nmax_messages = 1\n")
            server.send_signal(signal.SIGHUP)
            await eventually(lambda: statuses() == {400}, timeout_s=30)
            gate.open()
            asking.join(30)
        finally:
            gate.open()
            ended(server, signal.SIGTERM)
    [(status, body)] = answers
    assert status == 200 and b'"done"' in body and b"[DONE]" in body


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
async def test_what_is_asked_for_while_it_is_read_is_read_again():
    begun, go_on, taken = asyncio.Event(), asyncio.Event(), []

    async def reload(runtime):
        taken.append(runtime)
        begun.set()
        await go_on.wait()

    old, new = [SimpleNamespace(config=Config(), redact_text=str) for _ in range(2)]
    kept = iter([old, new])
    service = SimpleNamespace(reload=reload, runtime=SimpleNamespace(reload=lambda: next(kept)))
    async with ReloadOnSignal(service) as reloading:
        os.kill(os.getpid(), signal.SIGHUP)
        await begun.wait()
        reloading.reload()
        reloading.reload()
        go_on.set()
        await eventually(lambda: taken == [old, new])


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
async def test_the_names_and_the_log_of_a_server_are_read_anew_too(tmp_path):
    home, port = Command(tmp_path), free_port()
    home.write_config('[serve]\nhosts = ["old.example"]\n')
    server = home.start("serve", "--listen", f"127.0.0.1:{port}")

    def status(host):
        return request(port, "GET", "/healthz", host=host)[0]

    try:
        await eventually(lambda: is_ready(port), timeout_s=60)
        assert (status("old.example"), status("new.example")) == (200, 403)
        home.write_config('[serve]\nhosts = ["new.example"]\n[log]\nlevel = "info"\nformat = "json"\n')
        server.send_signal(signal.SIGHUP)
        await eventually(lambda: status("new.example") == 200, timeout_s=30)
        assert status("old.example") == 403
    finally:
        log = ended(server, signal.SIGTERM).err
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert "/healthz" in [line.get("route") for line in lines]


@pytest.mark.parametrize("workers", ["0", "-1", "65"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(tmp_path, workers):
    done = Command(tmp_path).run("serve", "--workers", workers)
    assert done.code == 2 and "--workers must be between 1 and 64" in done.err


async def test_while_workers_end_nobody_waits_at_their_place(tmp_path):
    gate = Gate()
    async with two_workers(tmp_path, gate) as (server, port):
        with answering(port) as reply:
            gate.reached()
            server.send_signal(signal.SIGTERM)
            await eventually(lambda: refuses(port), timeout_s=5)
            gate.open()
            assert b"[DONE]" in reply.read()


SUPERVISED = """
import signal, uvicorn
from aish.frontends.http.server.serve import _Workers

workers = _Workers(uvicorn.Config("nowhere:app", workers=2, log_config=None), sockets=[])
workers.init_processes()
killed = list(workers.processes)
for worker in killed:
    worker.process.kill()
    worker.process.join()
"""


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("assert not killed[0].ping(timeout=None)", id="nobody waits for its word"),
        pytest.param(
            "signal.raise_signal(signal.SIGTERM); workers.keep_subprocess_alive(); assert workers.processes == killed",
            id="none takes its place once all are to end",
        ),
    ],
)
def test_a_worker_that_has_ended_does_not_hold_up_the_others(then):
    """A process of its own: it takes the signals, and starts others."""
    words = [sys.executable, "-c", SUPERVISED + then]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_workers_end_with_a_supervisor_that_was_killed(tmp_path):
    port = free_port()
    with recording_upstream() as upstream:
        server = Command(tmp_path).start(
            "serve", "--workers", "2", "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}"
        )
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
        finally:
            ended(server, signal.SIGKILL)  # returns when nobody has its pipes any more, which the workers have, too
        await eventually(lambda: not is_ready(port), timeout_s=30)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_that_cannot_start_says_so_with_its_code(tmp_path, workers):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = Command(tmp_path).run("serve", "--workers", workers, "--listen", place)
    assert (refused.code, f"the server could not start at {place}" in refused.err) == (2, True)
    keyless = Command(tmp_path).run("serve", "--workers", workers, "--listen", f"0.0.0.0:{free_port()}")
    assert (keyless.code, "needs a key" in keyless.err) == (2, True)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_key_of_this_run_may_stand_in_a_variable(tmp_path, workers):
    command, port = Command(tmp_path, env={"SERVER_KEY": "of this run"}), free_port()
    server = command.start("serve", "--workers", workers, "--listen", f"127.0.0.1:{port}", "--key-env", "SERVER_KEY")
    try:
        await eventually(lambda: is_ready(port), timeout_s=60)
        assert request(port, "GET", "/v1/models")[0] == 401
        assert request(port, "GET", "/v1/models", authorization="Bearer of this run")[0] == 200
    finally:
        ended(server, signal.SIGTERM)


def test_a_variable_that_tools_would_see_holds_no_key(tmp_path):
    ran = Command(tmp_path, env={"GATEWAY": "of this run"}).run("serve", "--key-env", "GATEWAY")
    assert ran.code == 2
    assert "GATEWAY is no name for a variable that holds a secret" in ran.err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_variable_that_holds_no_key_keeps_the_server_from_starting(tmp_path, workers):
    ran = Command(tmp_path, env={"SERVER_KEY": " "}).run("serve", "--workers", workers, "--key-env", "SERVER_KEY")
    assert ran.code == 2
    assert ran.err.count("the variable SERVER_KEY, which is to hold a key, is not set") == 1
