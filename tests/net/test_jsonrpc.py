"""The JSON-RPC peer and its framings, without any process: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import BadResponse, ConnectionLost, ProcessError, TooLarge, UsageError, WireTimeout
from aish.net.framing import ContentLengthFraming, Framing, NewlineFraming, Oversize
from aish.net.jsonrpc import Peer, RpcError
from aish.net.jsonrpc_message import (
    decode_messages,
    encode_notification,
    encode_rpc_request,
    guess_request_id,
    parse_integer,
)
from support.eventually import eventually

FRAMINGS = [NewlineFraming, ContentLengthFraming]


class Wire:
    """The other side: reads what was sent, says what it likes."""

    def __init__(self, framing: Framing | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._framing = framing or NewlineFraming()
        self.blocked: asyncio.Event | None = None

    async def write(self, data: bytes) -> None:
        if self.blocked is not None:
            await self.blocked.wait()
        self.sent += [json.loads(body) for body in self._framing.feed(data) if isinstance(body, bytes)]

    def say(self, message: Any) -> None:
        self._said.put_nowait(self._framing.frame(json.dumps(message).encode()))

    def say_raw(self, data: bytes) -> None:
        self._said.put_nowait(data)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._said.get()
        if data is None:
            raise StopAsyncIteration
        return data


@asynccontextmanager
async def talking(**options: Any) -> AsyncIterator[tuple[Peer, Wire]]:
    framing = options.pop("framing", NewlineFraming)
    wire = Wire(framing())
    max_bytes = options.pop("line_bytes", 1000)
    peer = Peer(wire.write, framing(max_bytes), title="files", **options)
    reading = asyncio.create_task(peer.read(wire))
    try:
        async with asyncio.timeout(10):
            yield peer, wire
    finally:
        reading.cancel()
        await asyncio.wait({reading})
        await peer.aclose()


async def asked(peer: Peer, wire: Wire, **options: Any) -> asyncio.Task[msgspec.Raw]:
    """A request that has been sent."""
    count = len(wire.sent)
    task = asyncio.create_task(peer.request("m", {}, **({"timeout_s": 5} | options)))
    await eventually(lambda: len(wire.sent) > count)
    return task


# Framing


@pytest.mark.parametrize("framing", FRAMINGS)
@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40).map(lambda raw: json.dumps(raw.hex()).encode()), max_size=6),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_messages_come_out_whole_however_the_bytes_are_split(
    framing: type[Framing], bodies: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(framing().frame(body) for body in bodies)
    reader = framing()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert [body for piece in pieces for body in reader.feed(piece)] == bodies


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    step=st.integers(1, 30),
    framing=st.sampled_from(FRAMINGS),
)
def test_what_is_too_long_is_dropped_and_the_rest_is_read(sizes: list[int], step: int, framing: type[Any]) -> None:
    data = b"".join(framing().frame(b"x" * size) for size in sizes)
    reader = framing(30)
    out = [body for start in range(0, len(data), step) for body in reader.feed(data[start : start + step])]
    assert [body.size if isinstance(body, Oversize) else len(body) for body in out] == sizes
    assert all(isinstance(body, Oversize) == (size > 30) for body, size in zip(out, sizes, strict=True))


def test_both_ends_of_a_dropped_line_are_kept_and_no_more() -> None:
    reader = NewlineFraming(1000)
    out: list[bytes | Oversize] = []
    for piece in (b"A" * 900, b"B" * 5_000_000, b"C" * 900, b"Z\nnext\n"):
        out += reader.feed(piece)
    dropped, following = out
    assert isinstance(dropped, Oversize)
    assert dropped.head.startswith(b"A" * 900 + b"B")
    assert dropped.tail.endswith(b"B" + b"C" * 900 + b"Z")
    assert len(dropped.head) == len(dropped.tail) == 4096
    assert following == b"next"


def test_sixteen_mebibytes_in_one_line_are_joined_once() -> None:
    reader = NewlineFraming(32 * 1024 * 1024)
    for _ in range(256):
        assert reader.feed(b"x" * 65536) == []
    (line,) = reader.feed(b"\n")
    assert len(line) == 16 * 1024 * 1024  # type: ignore[arg-type]


def test_garbage_before_a_length_is_skipped() -> None:
    reader = ContentLengthFraming()
    assert reader.feed(b"log line\r\nContent-Length: 2\r\nContent-Type: x\r\n\r\n{}") == [b"{}"]
    assert reader.feed(b"no length here\r\n\r\ncontent-length:2\n\n[]") == [b"[]"]
    assert reader.garbage == 1
    assert reader.feed(b"z" * 100_000) == []
    assert reader.feed(b"\r\nContent-Length: 2\r\n\r\n{}") == [b"{}"]


def test_a_line_end_inside_a_message_never_reaches_the_wire() -> None:
    assert NewlineFraming().frame(b'{\n"a":\r\n1}') == b'{ "a":  1}\n'


# Messages


@given(st.integers(-5, 10**12), st.text(), st.dictionaries(st.text(), st.text() | st.integers(0, 2**53) | st.none()))
def test_what_is_written_is_one_line_of_valid_utf8_json(id: int, method: str, params: dict[str, Any]) -> None:
    line = NewlineFraming().frame(encode_rpc_request(id, method, params))
    assert line.count(b"\n") == 1
    assert json.loads(line.decode()) == {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def test_params_may_be_left_out() -> None:
    assert json.loads(encode_notification("x")) == {"jsonrpc": "2.0", "method": "x"}


def test_a_message_that_cannot_be_written_is_refused() -> None:
    for params in ({"a": "\ud800"}, {"a": object()}):
        with pytest.raises(UsageError):
            encode_rpc_request(1, "m", params)


@pytest.mark.parametrize(
    ("id", "number"), [(4, 4), ("4", 4), (4.0, 4), ("x", None), (4.5, None), (None, None), (True, None)]
)
def test_an_id_is_known_however_it_is_written(id: object, number: int | None) -> None:
    assert parse_integer(id) == number


@given(st.binary(max_size=200))
def test_any_bytes_at_all_are_messages_or_a_bad_response(data: bytes) -> None:
    with suppress(BadResponse):
        decode_messages(data)


@given(
    result=st.recursive(
        st.text(max_size=20) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "result", "a"]), inner),
    ),
    order=st.permutations(["id", "jsonrpc", "result"]),
    id=st.integers(0, 10**9),
)
def test_the_id_of_an_answer_is_told_from_its_ends_or_not_at_all(result: object, order: list[str], id: int) -> None:
    fields = {"id": id, "jsonrpc": "2.0", "result": result}
    line = json.dumps({key: fields[key] for key in order}).encode()
    assert guess_request_id(line, line) == id


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"a":1}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"text":",\\"id\\":1}',
        b'{"result":{"text":"x","id":1}}',
        b'{"result":"x,\\"id\\":1}',
        b"noise",
        b"",
    ],
)
def test_the_id_is_not_guessed_where_it_is_not_certain(line: bytes) -> None:
    assert guess_request_id(line, line) is None


# Requests


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_an_answer_finds_its_request(framing: type[Framing]) -> None:
    async with talking(framing=framing) as (peer, wire):
        first, second = await asked(peer, wire), await asked(peer, wire)
        assert [message["id"] for message in wire.sent] == [1, 2]
        wire.say({"id": "2", "result": "two"})
        wire.say({"jsonrpc": "2.0", "id": 1, "result": None})
        assert msgspec.json.decode(await second) == "two"
        assert msgspec.json.decode(await first) is None


async def test_an_error_answer_is_raised_with_code_and_data() -> None:
    async with talking() as (peer, wire):
        waiting = await asked(peer, wire)
        wire.say({"id": 1, "error": {"code": "-32602", "message": "no", "data": [1]}})
        with pytest.raises(RpcError) as caught:
            await waiting
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, "no", [1])


async def test_a_request_has_a_deadline() -> None:
    async with talking() as (peer, wire):
        with pytest.raises(WireTimeout) as caught:
            await peer.request("slow", {}, timeout_s=0.05)
        assert caught.value.phase == "request"
        wire.say({"id": 1, "result": "late"})
        await eventually(lambda: peer.skipped.strays == 1)


async def test_waiting_for_a_slot_counts_against_the_deadline() -> None:
    async with talking(max_in_flight=1) as (peer, wire):
        waiting = await asked(peer, wire)
        with pytest.raises(WireTimeout):
            await peer.request("second", {}, timeout_s=0.05)
        assert len(wire.sent) == 1
        wire.say({"id": 1, "result": 1})
        await waiting
        again = await asked(peer, wire)
        wire.say({"id": wire.sent[-1]["id"], "result": 1})
        await again


async def test_a_request_that_cannot_be_sent_in_time_is_not_reported_as_cancelled() -> None:
    async with talking(cancel_notice=lambda id, method: ("cancelled", {"id": id})) as (peer, wire):
        wire.blocked = asyncio.Event()
        with pytest.raises(WireTimeout):
            await peer.request("m", {}, timeout_s=0.05)
        wire.blocked.set()
        await asked(peer, wire)
        assert [message["method"] for message in wire.sent] == ["m"]


async def test_a_cancelled_request_is_announced_by_the_hook() -> None:
    async with talking(cancel_notice=lambda id, method: ("cancelled", {"id": id, "was": method})) as (peer, wire):
        waiting = await asked(peer, wire)
        waiting.cancel()
        await eventually(lambda: len(wire.sent) == 2)
    assert wire.sent[1]["params"] == {"id": 1, "was": "m"}


async def test_closing_fails_all_that_is_pending_at_once_and_all_that_follows() -> None:
    async with talking() as (peer, wire):
        waiting = [await asked(peer, wire) for _ in range(3)]
        peer.close(lambda: ProcessError("it went"))
        for task in waiting:
            with pytest.raises(ProcessError, match="it went"):
                await task
        peer.close(lambda: ConnectionLost("another reason"))
        with pytest.raises(ProcessError, match="it went"):
            await peer.request("m", {}, timeout_s=1)
        with pytest.raises(ProcessError, match="it went"):
            await peer.notify("m")


async def test_a_message_too_large_to_send_is_refused() -> None:
    async with talking(max_bytes=100) as (peer, wire):
        with pytest.raises(TooLarge):
            await peer.request("m", {"a": "x" * 100}, timeout_s=1)
        assert wire.sent == []


# What the other side sends


async def test_garbage_is_counted_and_skipped() -> None:
    async with talking() as (peer, wire):
        waiting = await asked(peer, wire)
        wire.say_raw(b'banner\n{"a":\n\xff\xfe\n[]\n7\n{"method":5}\n{"id":1}x\n')
        wire.say({"id": 77, "result": "not asked"})
        wire.say({"id": 1, "result": "ok", "extra": 1})
        await waiting
        assert (peer.skipped.garbage, peer.skipped.strays) == (7, 1)


async def test_an_answer_too_long_fails_its_request_by_name() -> None:
    async with talking() as (peer, wire):
        first, second = await asked(peer, wire), await asked(peer, wire)
        wire.say({"id": 2, "result": "x" * 5000})
        with pytest.raises(TooLarge):
            await second
        wire.say({"junk": "x" * 5000})
        wire.say({"id": 1, "result": "fine"})
        assert msgspec.json.decode(await first) == "fine"
        assert peer.skipped.oversize == 2


class Echo:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.going = asyncio.Event()

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        if method == "wait":
            await self.going.wait()
        if method == "no":
            raise RpcError(-1, "no", data="d")
        if method == "broken":
            raise ConnectionLost("secret detail")
        return {"method": method, "params": params}

    def notification(self, method: str, params: msgspec.Raw) -> None:
        self.heard.append(method)


async def test_requests_of_the_other_side_are_answered_by_the_handler() -> None:
    async with talking(handler=Echo()) as (_, wire):
        for id, method in (("a", "hello"), (2, "no"), (3, "broken")):
            wire.say({"jsonrpc": "2.0", "id": id, "method": method, "params": [1]})
        await eventually(lambda: len(wire.sent) == 3)
    answers = {message["id"]: message for message in wire.sent}
    assert answers["a"]["result"] == {"method": "hello", "params": [1]}
    assert answers[2]["error"] == {"code": -1, "message": "no", "data": "d"}
    assert answers[3]["error"] == {"code": -32603, "message": "Internal error"}


async def test_without_a_handler_every_request_is_refused() -> None:
    async with talking() as (_, wire):
        wire.say({"id": 1, "method": "sampling/createMessage", "params": {}})
        await eventually(lambda: wire.sent)
    assert wire.sent == [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}]


async def test_only_so_many_requests_are_handled_at_once() -> None:
    handler = Echo()
    async with talking(handler=handler) as (_, wire):
        for id in range(20):
            wire.say({"id": id, "method": "wait"})
        await eventually(lambda: len(wire.sent) == 4)
        handler.going.set()
        await eventually(lambda: len(wire.sent) == 20)
    assert sum("error" in message for message in wire.sent) == 4


async def test_notifications_reach_the_handler_in_order() -> None:
    handler = Echo()
    async with talking(handler=handler) as (_, wire):
        wire.say([{"method": "a"}, {"method": "b"}])
        wire.say({"method": "c", "params": {}})
        await eventually(lambda: handler.heard == ["a", "b", "c"])


async def test_answers_that_nobody_reads_do_not_pile_up() -> None:
    async with talking(handler=Echo()) as (peer, wire):
        wire.blocked = asyncio.Event()
        for id in range(1000):
            wire.say({"id": id, "method": "hello"})
        wire.say({"method": "end"})
        handler = peer._handler
        await eventually(lambda: "end" in handler.heard)  # type: ignore[attr-defined]
        wire.blocked.set()
        await eventually(lambda: wire.sent)
        assert len(wire.sent) <= 64
