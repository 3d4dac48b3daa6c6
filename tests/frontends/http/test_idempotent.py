"""The same request asked again: while it runs, after it ended, after it failed, and with other words."""

import asyncio
import json

import pytest

from aish.errors import ProviderUnavailable, StoreError
from aish.safety.redaction.redactor import Redactor
from aish.types.events import TextDelta
from aish.types.tools import Effect
from support.engines import Bench, Tools, call, policy_gate, said
from support.eventually import eventually
from support.http_face import face, function

BODY = {"model": "scripted:model", "messages": [{"role": "user", "content": "x"}], "tools": [function("t__w")]}


def bench(*, wait: asyncio.Event | None = None, last=None):
    async def write(arguments, context):
        if wait is not None:
            await wait.wait()
        return said("written")

    tools = Tools().add("t__w", write, effect=Effect.WRITE)
    return Bench([call("t__w")], last or [TextDelta("done")], tools=tools, gate=policy_gate(write="allow"))


def cut(text: str) -> list[str]:
    return [text[place : place + 3] for place in range(0, len(text), 3)]


def escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def ask(http, key="k", path="/v1/chat/completions", **fields):
    return http.visit("POST", path, {**BODY, **fields}, idempotency_key=key)


@pytest.mark.parametrize("stream", [True, False])
async def test_afterwards_the_same_reply_is_given_again_and_nothing_is_run(stream):
    under = bench()
    async with face(under) as http:
        first = await ask(http, stream=stream).run(http.app)
        second = await ask(http, stream=stream).run(http.app)
    assert first.status == second.status == 200 and first.body == second.body
    assert second.headers["idempotent-replayed"] == "true"
    assert len(under.tools.calls) == 1


async def test_a_reply_that_is_kept_without_a_secret_says_how_long_it_is_now():
    """Or whoever reads it waits for the rest."""
    secret = "a-secret-that-is-longer-than-what-stands-for-it"
    async with face(Bench([TextDelta(f"it is {secret}")], redactor=Redactor([secret]))) as http:
        first = await ask(http).run(http.app)
        second = await ask(http).run(http.app)
    assert secret.encode() in first.body and secret.encode() not in second.body
    assert int(second.headers["content-length"]) == len(second.body)


ASKED = {
    "/v1/chat/completions": {"stream": True, "logprobs": True, "tools": [function("mine")]},
    "/v1/messages": {"stream": True, "max_tokens": 99},
    "/v1/responses": {"stream": True, "store": False, "messages": None, "input": "x", "tools": []},
}


@pytest.mark.parametrize("path", ASKED)
async def test_a_secret_that_a_stream_told_in_pieces_is_not_kept(path):
    secret = 'Zq9Xw8-"kjvWp2mQz'
    told = [TextDelta(piece, [{"token": piece, "logprob": -1}]) for piece in ("it ", "is ", *cut(secret), " ok")]
    fields = {"tools": [], **ASKED[path]}
    if fields["tools"]:  # and once more in the arguments of a call
        told += [call("mine", ""), *(call("", piece) for piece in ('{"a": "', *cut(escaped(secret)), '"}'))]
    under = Bench(told, redactor=Redactor([secret]))
    async with face(under) as http:
        first = await ask(http, path=path, **fields).run(http.app)
        second = await ask(http, path=path, **fields).run(http.app)
        (kept,) = [document.body for document in await under.store.list_documents("idempotent")]
    assert first.status == second.status == 200 and second.headers["idempotent-replayed"] == "true"
    assert b"Xw8" in first.body
    for piece in (b"Zq9", b"Xw8", b"kjv", b"jvW", b"Wp2", b"p2m", b"mQz"):
        assert piece not in kept and piece not in second.body
    assert second.body.count(b"[redacted]") >= 1 and second.body.count(b"\n\n") == first.body.count(b"\n\n")


@pytest.mark.parametrize("weak", ["assistant", "completion", "content"])
async def test_a_password_that_is_a_word_of_the_api_leaves_a_kept_stream_as_it_was(weak):
    async with face(Bench([TextDelta("fine")], redactor=Redactor([weak]))) as http:
        first, second = [await ask(http, stream=True).run(http.app) for _ in range(2)]
    assert first.body == second.body and second.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("stream", [True, False])
async def test_at_once_both_follow_one_turn(stream):
    go = asyncio.Event()
    under = bench(wait=go)
    async with face(under) as http:
        visits = [asyncio.create_task(ask(http, stream=stream).run(http.app)) for _ in range(3)]
        await eventually(lambda: under.tools.calls)
        go.set()
        replies = await asyncio.gather(*visits)
    assert len({reply.body for reply in replies}) == 1 and b"done" in replies[0].body
    assert len(under.tools.calls) == 1


async def test_afterwards_all_who_ask_at_once_are_given_the_reply(monkeypatch):
    under = bench()
    put_new = under.store.put_new

    async def put_slowly(document):
        await asyncio.sleep(0.01)
        return await put_new(document)

    async with face(under) as http:
        first = await ask(http).run(http.app)
        monkeypatch.setattr(under.store, "put_new", put_slowly)
        replies = await asyncio.gather(*[ask(http).run(http.app) for _ in range(5)])
    assert {reply.body for reply in replies} == {first.body} and len(under.tools.calls) == 1


async def test_a_key_is_not_taken_by_a_request_for_which_there_was_no_room(monkeypatch):
    async with face(bench()) as http:
        monkeypatch.setattr(http.service.background_turns, "_max_turns", 0)
        assert (await ask(http).run(http.app)).status == 503
        monkeypatch.undo()
        assert (await ask(http).run(http.app)).status == 200


async def test_a_client_whose_connection_broke_finds_its_turn_again():
    go = asyncio.Event()
    under = bench(wait=go)
    async with face(under) as http:
        visit = ask(http, stream=True)
        first = asyncio.create_task(visit.run(http.app))
        await eventually(lambda: under.tools.calls)
        visit.leave()
        await first
        go.set()
        again = await ask(http, stream=True).run(http.app)
    assert b"done" in again.body and len(under.tools.calls) == 1


async def test_a_key_belongs_to_one_request():
    async with face(bench()) as http:
        await ask(http).run(http.app)
        reply = await ask(http, temperature=1).run(http.app)
    assert (reply.status, reply.json["error"]["code"]) == (422, "idempotency_key_reused")


async def test_a_failure_before_anything_was_done_is_not_kept():
    under = Bench([ProviderUnavailable("down")])
    async with face(under) as http:
        assert (await ask(http).run(http.app)).status == 502
        assert (await ask(http).run(http.app)).status == 502
    assert len(under.scripted.requests) == 2


async def test_a_failure_after_an_effect_is_kept():
    under = bench(last=[ProviderUnavailable("down")])
    async with face(under) as http:
        first = await ask(http).run(http.app)
        second = await ask(http).run(http.app)
    assert first.status == second.status == 424
    assert len(under.tools.calls) == 1


@pytest.mark.parametrize(("words", "status"), [("done", 200), ("done " * 20_000, 409)])
async def test_where_the_disk_is_full_as_it_ends_it_is_kept_later_and_nobody_waits_for_it(monkeypatch, words, status):
    under = bench(last=[TextDelta(words)])
    put = under.store.put

    async def put_later(document, *, wait=True):
        if wait and under.tools.calls:
            raise StoreError("the disk is full")
        await put(document)

    monkeypatch.setattr(under.store, "put", put_later)
    async with face(under) as http:
        first = await ask(http).run(http.app)
        await eventually(lambda: not http.app._idempotent._recordings)
        second = await ask(http).run(http.app)
    assert (first.status, second.status) == (200, status)
    assert (second.body == first.body) == (status == 200)
    assert len(under.tools.calls) == 1


async def test_where_the_disk_is_full_as_it_fails_its_key_is_free_later(monkeypatch):
    under = Bench([ProviderUnavailable("down")])

    async def delete(kind, id):
        raise StoreError("the disk is full")

    monkeypatch.setattr(under.store, "delete", delete)
    async with face(under) as http:
        assert (await ask(http).run(http.app)).status == 502
        await eventually(lambda: not http.app._idempotent._recordings)
        assert (await ask(http).run(http.app)).status == 502
    assert len(under.scripted.requests) == 2


async def test_what_another_process_left_is_not_run_again():
    under = bench()
    async with face(under) as http:
        await http.app._idempotent._claim(*_names(http))
        reply = await ask(http).run(http.app)
    assert (reply.status, reply.json["error"]["code"]) == (409, "idempotency_conflict")
    assert under.tools.calls == []


def _names(http):
    import json

    from aish.frontends.http.sessions.idempotency import _digest

    return _digest("", "k"), _digest("POST", "/v1/chat/completions", json.dumps(BODY).encode())


async def test_it_works_for_every_api():
    under = bench()
    async with face(under) as http:
        body = {"input": "x", "tools": [{"type": "function", "name": "t__w", "parameters": {}}], "messages": None}
        first = await ask(http, path="/v1/responses", **body).run(http.app)
        second = await ask(http, path="/v1/responses", **body).run(http.app)
    assert first.status == 200 and first.body == second.body
    assert len(under.tools.calls) == 1
