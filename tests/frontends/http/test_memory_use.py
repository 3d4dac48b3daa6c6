"""A real server process gives memory back once a large request is over."""

import signal
import sys
from pathlib import Path

import pytest

from support.command import Command, ended
from support.eventually import eventually
from support.free_port import free_port
from support.recording_upstream import recording_upstream, text
from support.serving import request

WORDS = "word " * (30 * 200 * 1024)  # 30 MB
MAX_MORE_BYTES = 30 * 1024 * 1024  # less than one copy of it


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def is_ready(port):
    try:
        return request(port, "GET", "/readyz")[0] == 200
    except OSError:
        return False


def ask(port, words, **fields):
    asked = {"model": "some-model", "messages": [{"role": "user", "content": words}], **fields}
    return request(port, "POST", "/v1/chat/completions", asked)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told to give memory back")
@pytest.mark.parametrize("fields", [{}, {"session_id": "s"}], ids=["no session", "session"])
async def test_after_a_body_of_many_megabytes_the_memory_falls_back(tmp_path, fields):
    port = free_port()
    (tmp_path / "config.toml").write_text("[limits]\nmax_tokens = 100000000\n")
    with recording_upstream() as upstream:
        for _ in range(4):
            upstream.reply(text("ok"))
        server = Command(tmp_path).start("serve", "--listen", f"127.0.0.1:{port}", "--endpoint", f"up={upstream.url}")
        try:
            await eventually(lambda: is_ready(port), timeout_s=60)
            assert ask(port, "x") == 200
            before = resident_bytes(server.pid)
            for _ in range(2):
                assert ask(port, WORDS, **fields) == 200
                await eventually(lambda: resident_bytes(server.pid) < before + MAX_MORE_BYTES, timeout_s=30)
        finally:
            ended(server, signal.SIGTERM)
