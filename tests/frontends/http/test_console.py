"""The console's side of the server: its files, and signing in with a key."""

import asyncio
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.http.auth.authentication import CONSOLE_COOKIE, CONSOLE_KIND
from aish.frontends.http.auth.console_session import LIFETIME_S
from aish.frontends.http.auth.keys import create_key, revoke_key
from aish.frontends.http.console.files import ConsoleFiles
from aish.frontends.http.server.http_errors import HttpProblem
from aish.types.events import TextDelta
from support.engines import Bench
from support.http_face import face


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "console"
    (place / "views").mkdir(parents=True)
    (place / "index.html").write_text("<!doctype html>" + "<p>page</p>" * 50)
    (place / "views" / "chat.js").write_text("export const chat = 1;\n" * 50)
    (place / ".hidden.js").write_text("secret")
    (tmp_path / "outside.js").write_text("secret")
    monkeypatch.setattr("aish.frontends.http.server.endpoints.ConsoleFiles", lambda: ConsoleFiles(place))
    return place


async def test_the_page_is_open_and_lets_nothing_run_but_its_own_files(folder):
    async with face(Bench(), keys=["k"]) as http:
        page = await http.ask("GET", "/")
        assert page.status == 200
        assert page.body.startswith(b"<!doctype html>")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        script = await http.ask("GET", "/console/views/chat.js")
        assert script.status == 200
        assert script.headers["content-type"].startswith("text/javascript")


async def test_a_file_travels_compressed_and_only_when_it_has_changed(folder):
    async with face(Bench()) as http:
        small = await http.ask("GET", "/", accept_encoding="gzip, br")
        assert small.headers["content-encoding"] == "gzip"
        assert gzip.decompress(small.body) == (folder / "index.html").read_bytes()
        etag = small.headers["etag"]
        same = await http.ask("GET", "/", if_none_match=etag)
        assert (same.status, same.body) == (304, b"")
        (folder / "index.html").write_text("another, and longer than before" * 100)
        changed = await http.ask("GET", "/", if_none_match=etag)
        assert changed.status == 200
        assert changed.headers["etag"] != etag


@pytest.mark.parametrize(
    "path",
    [
        "../outside.js", "views/../../outside.js", ".hidden.js", "views", "none.js", "views/", "/etc/passwd", "a//b.js",
        "index.html/x", "index.py", "\0.js", "x" * 5000 + ".js", "%2e%2e/outside.js", "..\\outside.js", "",
    ],
)  # fmt: skip
async def test_nothing_but_files_of_the_page_is_served(folder, path):
    async with face(Bench()) as http:
        reply = await http.ask("GET", f"/console/{path}")
        assert reply.status == 404
        assert b"secret" not in reply.body


@given(path=st.text(alphabet="./\\a\0%s-_~", max_size=20))
def test_no_path_leads_out_of_the_folder(tmp_path_factory, path):
    base = tmp_path_factory.getbasetemp() / "closed"
    (base / "console").mkdir(parents=True, exist_ok=True)
    (base / "a.js").write_text("outside")
    with pytest.raises(HttpProblem, match="has no file"):
        asyncio.run(ConsoleFiles(base / "console").file(None, None, f"{path}a.js"))


async def test_without_a_key_only_the_beginning_is_told():
    async with face(Bench(), keys=["k"]) as http:
        shown = (await http.ask("GET", "/v1/console")).json
        assert shown == {"version": shown["version"], "keys": True, "signed_in": False}
    async with face(Bench()) as http:
        shown = (await http.ask("GET", "/v1/console")).json
        assert (shown["keys"], shown["signed_in"], shown["csrf"], shown["workspace"]) == (False, True, "", "/work")


async def test_a_key_becomes_a_cookie_that_scripts_and_other_sites_never_hold():
    async with face(Bench([TextDelta("x")]), keys=["k"]) as http:
        assert (await http.ask("POST", "/v1/console/session", {"key": "wrong"})).status == 401
        reply = await http.ask("POST", "/v1/console/session", {"key": "k"})
        assert reply.status == 200
        cookie = reply.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={LIFETIME_S}"))
        assert "Secure" not in cookie
        token = cookie.partition(";")[0]
        assert (await http.ask("GET", "/v1/models", cookie=token)).status == 200
        assert (await http.ask("GET", "/v1/models", cookie=f"{CONSOLE_COOKIE}=made-up")).status == 401
        assert (await http.ask("GET", "/v1/models", cookie=token, sec_fetch_site="cross-site")).status == 401
        assert (await http.ask("GET", "/v1/models", cookie=token, sec_fetch_site="same-site")).status == 401
        shown = (await http.ask("GET", "/v1/console", cookie=token)).json
        assert shown["signed_in"]
        assert shown["csrf"] == reply.json["csrf"]


async def test_by_https_the_cookie_is_secure():
    async with face(Bench(), keys=["k"], hosts=["h.example"]) as http:
        reply = await http.ask(
            "POST", "/v1/console/session", {"key": "k"}, host="h.example", origin="https://h.example"
        )
        assert "; Secure" in reply.headers["set-cookie"]


async def test_what_changes_anything_needs_the_csrf_word_beside_the_cookie():
    body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
    async with face(Bench([TextDelta("x")]), keys=["k"]) as http:
        signed = await http.ask("POST", "/v1/console/session", {"key": "k"})
        token, csrf = signed.headers["set-cookie"].partition(";")[0], signed.json["csrf"]
        asked = ("POST", "/v1/chat/completions", body)
        refused = await http.ask(*asked, cookie=token)
        assert (refused.status, refused.json["error"]["code"]) == (403, "csrf")
        assert (await http.ask(*asked, cookie=token, x_aish_csrf="0" * 64)).status == 403
        assert (await http.ask(*asked, cookie=token, x_aish_csrf=csrf)).status == 200
        assert (await http.ask(*asked, authorization="Bearer k")).status == 200
        assert (await http.ask("DELETE", "/v1/console/session", cookie=token)).status == 403
        assert (await http.ask("DELETE", "/v1/console/session", cookie=token, x_aish_csrf=csrf)).status == 200
        assert (await http.ask("GET", "/v1/models", cookie=token)).status == 401


async def test_a_session_may_what_its_key_may_and_ends_with_it(monkeypatch):
    monkeypatch.setattr("aish.frontends.http.auth.authentication._CACHE_S", 0.0)
    bench = Bench([TextDelta("x")])
    key, record = await create_key(bench.store, "ann", models=("other:*",))
    await create_key(bench.store, "bob")
    async with face(bench) as http:
        signed = await http.ask("POST", "/v1/console/session", {"key": key})
        token = signed.headers["set-cookie"].partition(";")[0]
        assert (await http.ask("GET", "/v1/models", cookie=token)).json["data"] == []
        assert await revoke_key(bench.store, record.id)
        assert (await http.ask("GET", "/v1/models", cookie=token)).status == 401
    kept = [document for document in bench.store._documents.values() if document.kind == CONSOLE_KIND]
    assert len(kept) == 1
    assert token.partition("=")[2] not in str(kept)
    assert key not in str(kept)
    assert kept[0].expires_ms - kept[0].created_ms == LIFETIME_S * 1000


async def test_a_sign_in_is_never_given_to_anybody_again():
    async with face(Bench(), keys=["k"]) as http:
        asked = [await http.ask("POST", "/v1/console/session", {"key": "k"}, idempotency_key="again") for _ in range(2)]
        assert asked[0].headers["set-cookie"] != asked[1].headers["set-cookie"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"key": 1}', b"{" * 2000, b"x" * 20_000])
async def test_a_bad_sign_in_is_a_clear_refusal(body):
    async with face(Bench(), keys=["k"]) as http:
        assert (await http.ask("POST", "/v1/console/session", body)).status in (400, 413)


async def test_looking_is_not_counted_as_asking_but_asking_is():
    bench = Bench([TextDelta("x")])
    key, _ = await create_key(bench.store, "ann", per_minute=1)
    body = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}]}
    async with face(bench) as http:
        signed = await http.ask("POST", "/v1/console/session", {"key": key})
        token, csrf = signed.headers["set-cookie"].partition(";")[0], signed.json["csrf"]
        for _ in range(5):
            assert (await http.ask("GET", "/v1/sessions", cookie=token)).status == 200
        asked = [await http.ask("POST", "/v1/chat/completions", body, cookie=token, x_aish_csrf=csrf) for _ in range(2)]
        assert [reply.status for reply in asked] == [200, 429]
