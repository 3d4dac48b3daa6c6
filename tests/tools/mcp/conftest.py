"""Hostile servers to talk to. Whatever a test does with one: no process of it is left, and no secret has been shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.hostile import SECRET, Hostile, group_exists


@pytest.fixture
async def hostile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Hostile]:
    server = Hostile(tmp_path)
    yield server
    for pid in server.pids():
        await eventually(lambda leader=pid: not group_exists(leader))  # type: ignore[misc]
    for error in server.errors:
        assert str(error).startswith(f"MCP server files: {error.phase}: {error.kind}")
    for text in (*server.shown, repr(server.events), caplog.text):
        assert SECRET not in text
