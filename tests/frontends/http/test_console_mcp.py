"""MCP servers in the console: how they are, and connecting and disconnecting real ones."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from aish.app.container import Container
from aish.config.load import load_config
from aish.frontends.http.auth.keys import create_key
from aish.frontends.http.server.app import App
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import LaunchContext
from support.http_face import Face

TESTS = Path(__file__).parents[2]
CONFIG = """
[mcp.servers.desk]
command = {python}
args = ["-m", "support.mcp_stub"]
env = {{ PYTHONPATH = {tests} }}
[mcp.servers.broken]
command = "/nonexistent/server"
[mcp.servers.later]
url = "http://127.0.0.1:9/mcp"
enabled = false
"""


@pytest.fixture
async def http(tmp_path):
    file = tmp_path / ".config" / "aish" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG.format(python=json.dumps(sys.executable), tests=json.dumps(str(TESTS))))
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    runtime = Container(LaunchContext(tmp_path, env), load_config(cwd=tmp_path, env=env, flags={}))
    service = Service(runtime)
    async with asyncio.timeout(60), service.open():
        assert not await runtime.wait_for_mcp(30)
        yield Face(service, App(service, {}))


async def by_alias(http, **headers):
    return {server["alias"]: server for server in (await http.ask("GET", "/v1/mcp", **headers)).json["data"]}


async def test_each_server_is_shown_with_its_state_its_tools_and_its_log(http):
    servers = await by_alias(http)
    assert (servers["desk"]["state"], servers["desk"]["transport"]) == ("ready", "stdio")
    assert servers["desk"]["tools"]
    assert all(tool["name"].startswith("desk__") for tool in servers["desk"]["tools"])
    assert servers["broken"]["state"] == "failed"
    assert "/nonexistent/server" in servers["broken"]["error"]
    assert servers["broken"]["log_tail"]
    assert (servers["later"]["state"], servers["later"]["transport"]) == ("closed", "http")


async def test_a_server_is_disconnected_and_connected_again(http):
    assert (await http.ask("POST", "/v1/mcp/desk/disconnect")).json["state"] == "closed"
    assert (await by_alias(http))["desk"]["tools"] == []
    assert (await http.ask("POST", "/v1/mcp/desk/disconnect")).status == 404
    again = await http.ask("POST", "/v1/mcp/desk/connect")
    assert (again.status, again.json["state"]) == (200, "ready")
    assert again.json["tools"]
    refreshed = await http.ask("POST", "/v1/mcp/desk/refresh")
    assert (refreshed.status, refreshed.json["state"]) == (200, "ready")


async def test_a_server_that_several_connect_at_once_is_there_for_all_of_them(http):
    replies = await asyncio.gather(*(http.ask("POST", "/v1/mcp/desk/connect") for _ in range(3)))
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert (await by_alias(http))["desk"]["state"] == "ready"


async def test_what_fails_says_why(http):
    refused = await http.ask("POST", "/v1/mcp/broken/refresh")
    assert refused.status == 502
    assert "broken" in refused.json["error"]["message"]
    assert (await http.ask("POST", "/v1/mcp/broken/connect")).json["state"] == "failed"


async def test_only_servers_of_the_configuration_are_connected(http):
    for action in ("connect", "disconnect", "refresh"):
        reply = await http.ask("POST", f"/v1/mcp/made-up/{action}", {"command": ["sh"], "url": "http://x"})
        assert (reply.status, reply.json["error"]["code"]) == (404, "server_not_found")


async def test_whoever_is_no_administrator_sees_their_tools_and_changes_nothing(http):
    key, _ = await create_key(http.service.store, "ann", tools=("other__*",))
    servers = await by_alias(http, x_api_key=key)
    assert servers["desk"]["tools"] == []
    assert servers["broken"]["log_tail"] == []
    for action in ("connect", "disconnect", "refresh"):
        assert (await http.ask("POST", f"/v1/mcp/desk/{action}", x_api_key=key)).status == 403
