"""MCP servers that a request brings along by URL, over real connections: who is let in, what runs, what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aish.app.container import Container
from aish.config.load import load_config
from aish.errors import ConfigError
from aish.frontends.http.auth.keys import create_key
from aish.frontends.http.server.app import App
from aish.frontends.http.server.service import Service
from aish.frontends.runtime import LaunchContext
from support.eventually import eventually
from support.hostile_mcp_http import HttpMcp, as_json, http_mcp, instead, response
from support.http_face import Face, sse
from support.mcp_stub import text, tool
from support.responses_client import check_stream, events_of

CALL = [{"call": {"index": 0, "id": "c1", "name": "far__echo", "arguments": "{}"}}]
SAY = [{"text": "Done."}]
SECRET = "tok-very-secret-1234"

KEYS = ("ann", "bob", "boss")


class Here(Face):
    """A server of ours with its whole runtime, asked in this process."""

    wired: Container

    async def responses(self, input: Any = "go", **fields: Any) -> Any:
        return await self.ask("POST", "/v1/responses", {"model": "s:s", "input": input, **fields})

    def guests(self) -> int:
        found = self.wired._mcp._dynamic
        return len(found) if found is not None else 0


@asynccontextmanager
async def here(
    home: Path, *steps: Any, urls: tuple[str, ...] = ("http://127.0.0.1:*",), more: str = ""
) -> AsyncIterator[Here]:
    (home / "s.json").write_text(json.dumps(steps or [CALL, SAY]))
    config = home / ".config" / "aish" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        f'[providers.s]\nkind = "scripted"\nfile = "{home / "s.json"}"\n[ide]\nenabled = "never"\n'
        f"[discovery]\nenabled = false\n[serve]\nmcp_urls = {json.dumps(list(urls))}\n{more}"
    )
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    wired = Container(LaunchContext(home, env), load_config(cwd=home, env=env, flags={}))
    service = Service(wired)
    async with asyncio.timeout(30), service.open():
        face = Here(service, App(service, {}))
        face.wired = wired
        yield face


def far(server: HttpMcp | str, **fields: Any) -> dict[str, Any]:
    url = server if isinstance(server, str) else server.url
    return {"type": "mcp", "server_label": "far", "server_url": url, "require_approval": "never", **fields}


async def chat(face: Face, *tools: Any, **fields: Any) -> Any:
    return await face.chat("go", model="s:s", tools=list(tools), **fields)


def called(server: HttpMcp) -> int:
    return server.methods().count("tools/call")


async def test_a_chat_runs_a_tool_of_the_server_it_brings(private_home):
    async with http_mcp() as server, here(private_home) as face:
        reply = await chat(face, far(server))
        assert reply.status == 200, reply.body
        assert reply.json["choices"][0]["message"]["content"] == "Done."
        assert called(server) == 1
        streamed = sse(await chat(face, far(server), stream=True))
        assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in streamed if chunk["choices"])
        assert called(server) == 2
        assert server.methods().count("initialize") == 1  # kept for the next request


async def test_what_became_of_servers_that_were_brought_is_counted(private_home):
    async with http_mcp() as server, here(private_home, urls=("http://127.0.0.1:*/mcp",)) as face:
        asked = [server.url, server.url, "http://127.0.0.1:9/mcp", "http://127.0.0.1:9/other", "http://no/u@x"]
        statuses = [(await chat(face, far(url))).status for url in asked]
        page = face.service.metrics.page().decode()
    assert statuses == [200, 200, 424, 403, 403]
    counted = [line for line in page.splitlines() if line.startswith("aish_mcp_brought_total")]
    assert sorted(counted) == [
        'aish_mcp_brought_total{result="failed"} 1.0',
        'aish_mcp_brought_total{result="ready"} 2.0',
        'aish_mcp_brought_total{result="unlisted"} 2.0',
    ]


async def test_the_names_of_brought_tools_are_no_labels(private_home):
    async with http_mcp() as server, here(private_home) as face:
        assert (await chat(face, far(server))).status == 200
        page = face.service.metrics.page().decode()
    assert 'aish_tool_calls_total{status="ok",tool="brought"} 1.0' in page
    assert "far__" not in page


async def test_those_that_are_connected_are_shown_to_who_brought_them_and_counted(private_home):
    async with http_mcp() as server, here(private_home) as face:
        ann, bob, boss = [(await create_key(face.service.store, name, admin=name == "boss"))[0] for name in KEYS]
        path = f"{server.url}?tenant=7"
        body = {"model": "s:s", "messages": [{"role": "user", "content": "go"}], "tools": [far(path)]}
        reply = await face.ask("POST", "/v1/chat/completions", body, x_api_key=ann)
        assert reply.status == 200, reply.body
        shown = [(await face.ask("GET", "/v1/mcp", x_api_key=key)).json["data"] for key in (ann, bob, boss)]
        page = (await face.ask("GET", "/metrics", x_api_key=boss)).body.decode()
    assert shown[1] == [] and shown[0] == shown[2]
    (guest,) = shown[0]
    assert (guest["alias"], guest["state"]) == ("far", "ready")
    assert "echo" in [each["name"] for each in guest["tools"]]
    assert guest["brought"]["origin"] == server.url.removesuffix("/mcp")
    assert "aish_mcp_brought_open 1.0" in page


async def test_responses_list_the_tools_and_show_the_call(private_home):
    async with http_mcp() as server, here(private_home) as face:
        reply = await face.responses(tools=[far(server, allowed_tools=["echo"])])
        assert reply.status == 200, reply.body
        listing, call_item, message = reply.json["output"]
        assert [listing["type"], call_item["type"], message["type"]] == ["mcp_list_tools", "mcp_call", "message"]
        assert [each["name"] for each in listing["tools"]] == ["echo"]
        assert (call_item["server_label"], call_item["name"], call_item["output"]) == ("far", "echo", "called echo")
        streamed = await face.responses(tools=[far(server)], stream=True)
        check_stream(events_of(streamed.body))
        assert called(server) == 2


async def test_a_messages_client_brings_servers_in_its_own_words(private_home):
    async with http_mcp() as server, here(private_home) as face:
        given = {
            "model": "s:s",
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "go"}],
            "mcp_servers": [{"type": "url", "name": "far", "url": server.url, "authorization_token": SECRET}],
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "far"}],
        }
        reply = await face.ask("POST", "/v1/messages", given)
        assert reply.status == 200, reply.body
        assert reply.json["content"][-1]["text"] == "Done."
        assert called(server) == 1
        assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_only_allowed_tools_are_offered_and_run(private_home):
    async with http_mcp() as server, here(private_home) as face:
        reply = await chat(face, far(server, allowed_tools=["other"]))
        assert reply.status == 200
        assert called(server) == 0


async def test_without_a_list_nobody_is_connected_to(private_home):
    async with http_mcp() as server, here(private_home, urls=()) as face:
        reply = await chat(face, far(server))
        assert (reply.status, reply.json["error"]["code"]) == (403, "dynamic_mcp_off")
        assert server.requests == []


@pytest.mark.parametrize(
    ("urls", "path", "status"),
    [
        (("https://mcp.example.com/*",), "", 403),
        (("http://127.0.0.1:1",), "", 403),
        (("http://127.0.0.1:*/other/*",), "", 403),
        (("http://127.0.0.1:*/mcp",), "", 200),
        (("http://127.0.0.1:*/mcp",), "/../admin", 400),
        (("http://127.0.0.1:*/mcp*",), "/%2e%2e/admin", 400),
        (("http://127.0.0.1:*",), "?api_key=sk-1234", 400),
        (("http://127.0.0.1:*",), "#there", 400),
    ],
)
async def test_only_what_the_list_covers_is_connected_to(private_home, urls, path, status):
    async with http_mcp() as server, here(private_home, urls=urls) as face:
        reply = await chat(face, far(server.url + path))
        assert reply.status == status, reply.body
        if status != 200:
            assert reply.json["error"]["param"] == "tools[0].server_url"
            assert server.requests == []


async def test_credentials_in_a_url_are_refused_and_not_repeated(private_home):
    async with http_mcp() as server, here(private_home) as face:
        reply = await chat(face, far(server.url.replace("://", f"://user:{SECRET}@")))
        assert reply.status == 400
        assert SECRET.encode() not in reply.body
        assert server.requests == []


async def test_a_name_that_a_star_stands_for_may_not_lead_to_this_machine(private_home):
    async with http_mcp() as server, here(private_home, urls=("http://*:*",)) as face:
        for host in ("localhost", "127.0.0.1", "127.1", "[::1]"):
            reply = await chat(face, far(server.url.replace("127.0.0.1", host)))
            assert (reply.status, reply.json["error"]["code"]) == (424, "mcp_server_failed"), reply.body
        assert server.requests == []


async def test_a_redirect_leads_nowhere_that_the_list_does_not_cover(private_home):
    async with http_mcp() as server, here(private_home, urls=("http://127.0.0.1:*/mcp",)) as face:
        instead(server, "initialize", response(b"", "307 Temporary Redirect", kind="", location="/admin"))
        reply = await chat(face, far(server))
        assert reply.status == 424
        assert "/admin" not in [request.path for request in server.requests]


async def test_credentials_reach_the_server_and_are_kept_and_shown_nowhere(private_home, caplog):
    async with http_mcp() as server, here(private_home) as face:
        instead(
            server,
            "tools/call",
            lambda message: as_json({"jsonrpc": "2.0", "id": message["id"], "result": text(f"you sent {SECRET}")}),
        )
        reply = await face.responses(tools=[far(server, authorization=SECRET, headers={"x-team": "blue-team-key"})])
        assert reply.status == 200, reply.body
        assert all(request.headers["authorization"] == f"Bearer {SECRET}" for request in server.requests)
        assert all(request.headers["x-team"] == "blue-team-key" for request in server.requests)
        kept = await face.ask("GET", f"/v1/responses/{reply.json['id']}")
        await face.service.store.flush(durable=True)
        for told in (reply.body, kept.body, caplog.text.encode()):
            assert SECRET.encode() not in told
            assert b"blue-team-key" not in told
        assert kept.json["tools"][0]["server_url"] == server.url
    for file in private_home.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


async def test_one_keys_connection_serves_nobody_else(private_home):
    async with http_mcp() as server, here(private_home) as face:
        one, _ = await create_key(face.service.store, "one")
        two, _ = await create_key(face.service.store, "two")
        body = {"model": "s:s", "messages": [{"role": "user", "content": "go"}], "tools": [far(server)]}
        for key in (one, two, one):
            reply = await face.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}")
            assert reply.status == 200, reply.body
        assert server.methods().count("initialize") == 2
        body["tools"] = [far(server, authorization="another-token")]
        await face.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {one}")
        assert server.methods().count("initialize") == 3
        assert face.guests() == 3
        assert [spec for spec in face.service.engine.tools.specs() if spec.source == "far"] == []


async def test_a_server_that_fails_is_told_in_each_apis_shape_and_asked_again_next_time(private_home):
    async with http_mcp() as server, here(private_home) as face:
        instead(server, "initialize", response(b"no entry", "401 Unauthorized", kind="text/plain"))
        reply = await chat(face, far(server, authorization=SECRET))
        error = reply.json["error"]
        assert (reply.status, error["code"], error["param"]) == (424, "mcp_server_failed", "tools[0]")
        assert "far" in error["message"] and "401" in error["message"] and SECRET not in error["message"]
        assert (await chat(face, far(server, authorization=SECRET), stream=True)).status == 424
        assert (await face.responses(tools=[far(server, authorization=SECRET)])).status == 424
        given = {"model": "s:s", "max_tokens": 5, "messages": [{"role": "user", "content": "go"}]}
        given["mcp_servers"] = [{"type": "url", "name": "far", "url": server.url, "authorization_token": SECRET}]
        given["tools"] = [{"type": "mcp_toolset", "mcp_server_name": "far"}]
        told = await face.ask("POST", "/v1/messages", given)
        assert (told.status, told.json["type"]) == (424, "error")
        server.on.clear()
        assert (await chat(face, far(server, authorization=SECRET))).status == 200
        assert face.guests() == 1


async def test_what_the_client_has_not_agreed_to_is_asked_of_it(private_home):
    async with http_mcp() as server, here(private_home, CALL, SAY, more='approvals = "deny"\n') as face:
        first = await face.responses(tools=[far(server, require_approval="always")])
        assert first.json["output"][-1]["type"] == "mcp_approval_request", first.body
        assert called(server) == 0
        asked = first.json["output"][-1]["id"]
        yes = {"type": "mcp_approval_response", "approval_request_id": asked, "approve": True}
        tools = [far(server, require_approval="always")]
        again = await face.responses([yes], tools=tools, previous_response_id=first.json["id"])
        assert again.status == 200, again.body
        assert called(server) == 1
        refused = await chat(face, far(server, require_approval="always"))
        assert refused.status == 200
        assert called(server) == 1


async def test_a_client_may_agree_to_some_tools_and_be_asked_about_the_others(private_home):
    some = {"never": {"tool_names": ["echo"]}}
    async with http_mcp() as server, here(private_home, CALL, SAY, more='approvals = "deny"\n') as face:
        reply = await face.responses(tools=[far(server, require_approval=some)])
        assert [item["type"] for item in reply.json["output"]] == ["mcp_list_tools", "mcp_call", "message"]
        others = {"never": {"tool_names": ["other"]}}
        reply = await face.responses(tools=[far(server, require_approval=others)])
        assert reply.json["output"][-1]["type"] == "mcp_approval_request"
        assert called(server) == 1


async def test_what_the_gate_denies_stays_denied(private_home):
    more = '[gate]\ndeny = ["far__*"]\n'
    async with http_mcp() as server, here(private_home, more=more) as face:
        assert (await chat(face, far(server))).status == 200
        assert called(server) == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"server_label": "a__b"}, "tools[0].server_label"),
        ({"server_label": "x" * 40}, "tools[0].server_label"),
        ({"authorization": 5}, "tools[0].authorization"),
        ({"authorization": "a\nb"}, "tools[0].authorization"),
        ({"headers": {"Host": "evil.example"}}, "tools[0].headers"),
        ({"headers": {"x": "a\r\nb: c"}}, "tools[0].headers"),
        ({"headers": {"x y": "a"}}, "tools[0].headers"),
        ({"headers": ["x"]}, "tools[0].headers"),
        ({"headers": {"Authorization": "a"}, "authorization": "b"}, "tools[0].headers"),
        ({"server_url": 5}, "tools[0].server_url"),
    ],
)
async def test_bad_words_about_a_server_name_their_field(private_home, fields, param):
    async with http_mcp() as server, here(private_home) as face:
        reply = await chat(face, {**far(server), **fields})
        assert (reply.status, reply.json["error"]["param"]) == (400, param)
        assert server.requests == []


async def test_two_servers_of_one_name_are_refused(private_home):
    async with http_mcp() as server, here(private_home) as face:
        assert (await chat(face, far(server), far(server))).status == 400


async def test_a_key_for_certain_tools_brings_no_servers(private_home):
    async with http_mcp() as server, here(private_home) as face:
        key, _ = await create_key(face.service.store, "few", tools=("far__*",))
        body = {"model": "s:s", "messages": [{"role": "user", "content": "go"}], "tools": [far(server)]}
        reply = await face.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}")
        assert (reply.status, reply.json["error"]["code"]) == (403, "mcp_url_not_allowed")
        assert server.requests == []


async def test_all_is_closed_with_the_server(private_home):
    async with http_mcp("session") as server:
        async with here(private_home) as face:
            await chat(face, far(server))
        await eventually(lambda: any(request.method == "DELETE" for request in server.requests))


async def test_a_list_with_something_that_is_no_url_is_said_to_be_wrong(private_home):
    with pytest.raises(ConfigError) as caught:
        async with here(private_home, urls=("mcp.example.com",)):
            pass
    assert "mcp_urls" in caught.value.message


async def test_a_tool_with_an_odd_name_can_be_called_by_its_wire_name(private_home):
    step = [{"call": {"index": 0, "id": "c1", "name": "far__a_b", "arguments": "{}"}}]
    async with http_mcp() as server, here(private_home, step, SAY) as face:
        server.tools = [tool("a.b")]
        await chat(face, far(server))
        assert server.messages[-1]["params"]["name"] == "a.b"
