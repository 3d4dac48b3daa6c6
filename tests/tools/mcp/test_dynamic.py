"""Connections to servers that requests bring along: how long they are kept, how many there are, when they end."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aish.errors import DynamicMcpFailed, DynamicMcpRefused
from aish.tools.mcp.dynamic import DynamicMcpServers
from aish.types.tools import DynamicMcpServer
from support.eventually import eventually
from support.hostile_mcp_http import http_mcp

HERE = ("http://127.0.0.1:*",)


@pytest.fixture
async def pool():
    """Closes at once what nobody holds."""
    found = DynamicMcpServers(HERE, idle_s=0.01, connect_s=5.0)
    yield found
    await found.aclose()


async def test_a_connection_is_kept_while_it_is_held_and_closed_when_idle(pool):
    async with http_mcp("session") as server:
        held = await pool.connect([DynamicMcpServer("far", server.url)])
        assert [spec.name for spec in held["far"][0].specs()] == ["echo", "other"]
        pool._sweep()
        assert len(pool) == 1
        del held
        gc.collect()
        await eventually(lambda: len(pool) == 0)
        await eventually(lambda: any(request.method == "DELETE" for request in server.requests))


async def test_requests_at_once_share_one_connection_and_its_failure(pool):
    async with http_mcp() as server:
        wanted = [DynamicMcpServer("far", server.url)]
        one, two = await asyncio.gather(pool.connect(wanted), pool.connect(wanted))
        assert one["far"][0] is two["far"][0]
        assert server.methods().count("initialize") == 1
    failed = await asyncio.gather(
        *(pool.connect([DynamicMcpServer("gone", "http://127.0.0.1:1/mcp")]) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in failed] == [DynamicMcpFailed] * 3


async def test_a_server_that_does_not_answer_is_given_up():
    async with http_mcp() as server:

        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        server.on["initialize"] = never
        pool = DynamicMcpServers(HERE, connect_s=0.05)
        with pytest.raises(DynamicMcpFailed) as caught:
            await pool.connect([DynamicMcpServer("far", server.url)])
        assert caught.value.label == "far"
        assert len(pool) == 0
        await pool.aclose()


async def test_the_longest_unused_makes_room_and_nobody_who_is_held():
    pool = DynamicMcpServers(HERE, max_per_owner=2)
    async with http_mcp() as server:
        held = [await pool.connect([DynamicMcpServer("far", server.url, "a", token)]) for token in ("1", "2")]
        with pytest.raises(DynamicMcpRefused) as caught:
            await pool.connect([DynamicMcpServer("far", server.url, "a", "3")])
        assert caught.value.kind == "too_many"
        await pool.connect([DynamicMcpServer("far", server.url, "b", "3")])  # of another owner
        held.pop(0)
        gc.collect()
        await pool.connect([DynamicMcpServer("far", server.url, "a", "3")])
        assert held[0]["far"][0].server.state == "ready"
        await pool.aclose()


async def test_nothing_shows_credentials():
    server = DynamicMcpServer("far", "http://h/?x=1", "me", "tok-1", {"x-key": "val-2"})
    assert "tok-1" not in repr(server)
    assert "val-2" not in repr(server)
