"""What a key that is no administrator's may store is limited, and what it deletes is free again."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from aish.frontends.http.auth import storage_quota
from aish.frontends.http.auth.keys import create_key
from aish.types.events import TextDelta
from support.engines import Bench
from support.http_face import face

LIMIT = 20_000
LONG = "word " * 1000


@asynccontextmanager
async def serving(bench: Bench, **serve):
    """The frontend, and what a tenant and an administrator send as their keys."""
    (key, _), (boss, _) = [await create_key(bench.store, name, admin=name == "boss") for name in ("ann", "boss")]
    async with face(bench, **{"max_stored_bytes": LIMIT, **serve}) as http:
        yield http, {"x_api_key": key}, {"x_api_key": boss}


def bench() -> Bench:
    return Bench(*[[TextDelta("ok")]] * 40)


async def ask(http, key, **fields):
    body = {"model": "scripted:model", "messages": [{"role": "user", "content": LONG}], **fields}
    return await http.ask("POST", "/v1/chat/completions", body, **key)


async def respond(http, key):
    return await http.ask("POST", "/v1/responses", {"model": "scripted:model", "input": LONG}, **key)


async def fill(http, key, store):
    for number in range(20):
        if (reply := await store(http, key, number)).status != 200:
            return number, reply
    raise AssertionError("never full")


async def in_a_session(http, key, number):
    return await ask(http, key, session_id=f"s{number}")


async def as_a_response(http, key, number):
    return await respond(http, key)


@pytest.fixture(autouse=True)
def counts_at_once(monkeypatch):
    monkeypatch.setattr(storage_quota, "_COUNT_AT_MOST_EVERY_S", -1.0)


@pytest.mark.parametrize("store", [in_a_session, as_a_response])
async def test_a_key_cannot_fill_the_store(store):
    async with serving(bench()) as (http, ann, boss):
        stored, reply = await fill(http, ann, store)
        assert stored >= 1 and reply.status == 429
        assert reply.json["error"]["code"] == "storage_quota_exceeded"
        assert reply.json["error"]["type"] == "insufficient_quota"
        assert "delete sessions" in reply.json["error"]["message"]
        assert reply.headers["x-should-retry"] == "false"
        assert (await respond(http, boss)).status == 200


async def test_over_its_limit_a_key_still_reads_and_what_it_deletes_is_free_again():
    async with serving(bench()) as (http, ann, _):
        stored, _ = await fill(http, ann, in_a_session)
        listed = (await http.ask("GET", "/v1/sessions", **ann)).json["data"]
        assert len(listed) == stored
        for session in listed:
            assert (await http.ask("DELETE", f"/v1/sessions/{session['id']}", **ann)).status == 200
        assert (await ask(http, ann)).status == 200


async def test_what_another_process_has_stored_counts():
    shared = bench()
    async with serving(shared) as (http, ann, _), face(Bench(store=shared.store), max_stored_bytes=LIMIT) as other:
        await fill(http, ann, in_a_session)
        assert (await ask(other, ann)).status == 429


async def test_no_limit_is_zero():
    async with serving(bench(), max_stored_bytes=0) as (http, ann, _):
        for number in range(10):
            assert (await in_a_session(http, ann, number)).status == 200


async def test_the_store_is_not_counted_for_every_request(monkeypatch):
    monkeypatch.setattr(storage_quota, "_COUNT_AT_MOST_EVERY_S", 1.0)
    made, counts = bench(), []
    count = made.store.stored_bytes

    async def counted(owner):
        counts.append(owner)
        return await count(owner)

    monkeypatch.setattr(made.store, "stored_bytes", counted)
    async with serving(made, max_stored_bytes=10_000_000) as (http, ann, _):
        for _ in range(5):
            assert (await ask(http, ann)).status == 200
    assert len(counts) == 1
