"""Connections: reuse, retry, cancellation, the pool, and what goes out."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aish.errors import BadResponse, ConnectFailed, ConnectionLost, TooLarge, UsageError, WireTimeout
from aish.net.event_loop import READ_BYTES
from aish.net.http.client import ClientExchange, HttpBounds, HttpClient, Timeouts
from support.eventually import eventually
from support.garbage import left_to_the_collector
from support.raw_server import DEADLINE_S, Peer, nothing_left, open_sockets, raw_server

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
PATIENT = Timeouts()
ENDLESS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n"


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left():
        yield


async def greet_forever(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(HELLO)


async def get(client: HttpClient, url: str, timeouts: Timeouts = PATIENT) -> bytes:
    async with client.request("GET", url, timeouts=timeouts) as response:
        return await response.read()


async def test_answers_with_status_reason_headers_and_body() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 418 I am a teapot\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n\r\ntea")

    async with (
        raw_server(script) as server,
        HttpClient() as client,
        client.request("GET", f"{server.url}/pot?kind=green") as response,
    ):
        assert (response.status, response.reason) == (418, "I am a teapot")
        assert response.headers["CONTENT-LENGTH"] == "3"
        assert [value for name, value in response.headers if name == "x-a"] == ["1", "2"]
        assert response.headers.get("absent", "none") == "none"
        assert "absent" not in response.headers
        assert await response.read() == b"tea"
    assert server.requests[0].path == "/pot?kind=green"


async def test_sends_host_length_and_refuses_encodings() -> None:
    async with (
        raw_server(greet_forever) as server,
        HttpClient() as client,
        client.request("post", f"{server.url}/x", headers={"X-Key": "k"}, body=b"{}") as response,
    ):
        await response.read()
    request = server.requests[0]
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.headers["host"] == server.url.removeprefix("http://")
    assert request.headers["x-key"] == "k"
    assert request.headers["content-length"] == "2"
    assert request.headers["accept-encoding"] == "identity"


async def test_an_empty_post_says_that_its_body_is_empty() -> None:
    async with (
        raw_server(greet_forever) as server,
        HttpClient() as client,
        client.request("POST", server.url) as response,
    ):
        await response.read()
    assert server.requests[0].headers["content-length"] == "0"


async def test_one_connection_serves_request_after_request() -> None:
    async with raw_server(greet_forever) as server, HttpClient() as client:
        for _ in range(5):
            assert await get(client, server.url) == b"hello"
        assert len(server.peers) == 1
        assert len(server.requests) == 5


async def test_a_connection_is_kept_even_if_a_finished_body_was_not_read() -> None:
    async with raw_server(greet_forever) as server, HttpClient() as client:
        for _ in range(2):
            async with client.request("GET", server.url) as response:
                assert response.status == 200
        assert len(server.peers) == 1


async def test_leaving_before_the_end_closes_the_connection_at_once_and_never_reuses_it() -> None:
    departures: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        departures.append(await peer.left())

    async with raw_server(script) as server, HttpClient() as client:
        for _ in range(2):
            async with client.request("GET", server.url) as response:
                assert await anext(response) == b"one"
        await server.scripts_ended()
        assert len(departures) == len(server.peers) == 2


async def test_cancelling_while_waiting_for_headers_is_seen_by_the_server() -> None:
    asked, departures = asyncio.Event(), list[str]()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        departures.append(await peer.left())

    async with raw_server(script) as server, HttpClient() as client:
        task = asyncio.create_task(get(client, server.url))
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.scripts_ended()
        assert departures


async def test_cancelling_while_waiting_for_the_body_is_seen_by_the_server() -> None:
    asked, departures = asyncio.Event(), list[str]()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        asked.set()
        departures.append(await peer.left())

    async with raw_server(script) as server, HttpClient() as client:
        task = asyncio.create_task(get(client, server.url))
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.scripts_ended()
        assert departures


async def test_a_stale_reused_connection_is_replaced_once() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        if peer.number == 1:
            await peer.request()
            return  # closes without a byte
        await greet_forever(peer)

    async with raw_server(script) as server, HttpClient() as client:
        assert await get(client, server.url) == b"hello"
        assert await get(client, server.url) == b"hello"
        assert [len(peer.requests) for peer in server.peers] == [2, 1]


async def test_what_was_sent_before_a_retry_does_not_wait_for_the_collector() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        if peer.number == 1:
            await peer.request()
            return  # closes without a byte
        await greet_forever(peer)

    async with raw_server(script) as server, HttpClient() as client:
        await get(client, server.url)
        with left_to_the_collector() as found:
            await get(client, server.url)
        assert len(server.peers) == 2
    assert not found


async def test_the_retry_itself_is_not_retried() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.send(HELLO)
            await peer.request()

    async with raw_server(script) as server, HttpClient() as client:
        await get(client, server.url)
        with pytest.raises(ConnectionLost, match="before it answered"):
            await get(client, server.url)
        assert len(server.peers) == 2


async def test_a_request_is_sent_twice_at_most_though_the_second_time_on_a_connection_that_was_used_before() -> None:
    sent: Counter[str] = Counter()

    async def script(peer: Peer) -> None:
        for number in (1, 2):
            sent[(await peer.request()).path] += 1
            if number == 1:
                await peer.send(HELLO)

    bounds = HttpBounds(max_connections_per_origin=2)
    async with raw_server(script) as server, HttpClient(bounds=bounds) as client:
        asked = (get(client, f"{server.url}/{number}") for number in range(12))
        await asyncio.gather(*asked, return_exceptions=True)
    assert len(sent) == 12
    assert max(sent.values()) == 2


async def test_the_retry_takes_a_new_connection_though_others_are_idle() -> None:
    both = asyncio.Barrier(2)

    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number <= 2:
            await both.wait()
        await peer.send(HELLO)
        if peer.number <= 2:
            await peer.request()  # then closes: both idle connections are stale

    async with raw_server(script) as server, HttpClient() as client:
        await asyncio.gather(get(client, server.url), get(client, server.url))
        assert await get(client, server.url) == b"hello"
        assert len(server.peers) == 3


async def test_a_new_connection_that_dies_is_not_retried() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    async with raw_server(script) as server, HttpClient() as client:
        with pytest.raises(ConnectionLost):
            await get(client, server.url)
        assert len(server.peers) == 1


async def test_a_server_that_hangs_up_on_everybody_fails_every_request_at_once() -> None:
    async def script(peer: Peer) -> None:
        peer.reset()

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(max_connections_per_origin=3)) as client:
        outcomes = await asyncio.wait_for(
            asyncio.gather(*(get(client, server.url) for _ in range(30)), return_exceptions=True), DEADLINE_S
        )
        assert all(isinstance(outcome, ConnectionLost | ConnectFailed) for outcome in outcomes)


async def test_a_connection_that_dies_while_it_is_handed_to_a_waiter_is_replaced() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        await peer.left()

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(max_connections_per_origin=1)) as client:
        async with client.request("GET", server.url) as first:
            await first.read()
            waiting = asyncio.create_task(get(client, server.url))
            await asyncio.sleep(0)
        connection = next(iter(client._pool._alive))
        transport = connection._transport
        connection.connection_lost(None)  # the loop may tell us before the waiter has run
        assert await asyncio.wait_for(waiting, DEADLINE_S) == b"hello"
        assert len(server.peers) == 2
        assert transport is not None
        transport.abort()


async def test_a_reused_connection_that_dies_after_a_byte_of_answer_is_not_retried() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        await peer.request()
        await peer.send(b"HTTP/1.1 2")

    async with raw_server(script) as server, HttpClient() as client:
        await get(client, server.url)
        with pytest.raises(ConnectionLost, match="in the middle"):
            await get(client, server.url)
        assert len(server.peers) == 1


async def test_a_request_that_was_answered_is_not_made_again_whatever_the_answer() -> None:
    """A gateway says 408 of a call that took too long, and the call may have had its effect."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        await peer.request()
        await peer.send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlate")

    async with raw_server(script) as server, HttpClient() as client:
        await get(client, server.url)
        async with client.request("POST", server.url, body=b"{}") as response:
            assert (response.status, await response.read()) == (408, b"late")
        assert [len(peer.requests) for peer in server.peers] == [2]


async def test_what_comes_before_a_request_is_written_is_no_answer_to_it() -> None:
    async with raw_server(greet_forever) as server, HttpClient() as client:
        await get(client, server.url)
        (connection,) = client._pool._alive
        connection.batcher.active_requests = 2
        asking = asyncio.ensure_future(get(client, server.url))
        await asyncio.sleep(0)  # it waits for the end of the round
        connection.data_received(HELLO.replace(b"hello", b"stale"))
        assert await asking == b"hello"
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


async def test_an_answer_that_came_whole_may_be_read_at_any_time() -> None:
    async with (
        raw_server(greet_forever) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert not response.at_end  # there is a piece to read
        assert not client._pool.deadlines._watched
        assert await response.read() == b"hello"
        assert response.at_end


class Paced:
    """An answer in pieces, each sent when the one before it has been `seen`; the last with the end of it."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self._seen = asyncio.Semaphore(0)

    def seen(self) -> None:
        self._seen.release()

    async def script(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for place, piece in enumerate(self._pieces):
            if place:
                async with asyncio.timeout(DEADLINE_S):
                    await self._seen.acquire()
            end = b"0\r\n\r\n" if piece is self._pieces[-1] else b""
            await peer.send(b"%x\r\n%b\r\n%b" % (len(piece), piece, end))


async def test_what_is_taken_as_it_comes_is_not_handed_out_and_what_is_not_taken_is() -> None:
    paced = Paced(b"one", b"two", b"three", b"four", b"the end")
    offered: list[bytes] = []

    def take(piece: bytes) -> bool:
        offered.append(piece)
        if piece == b"three":
            return False
        paced.seen()
        return True

    read: list[bytes] = []
    async with (
        raw_server(paced.script) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        read.append(await response.next_piece())
        response.offer_to(take)
        paced.seen()
        while piece := await response.next_piece():
            read.append(piece)
            paced.seen()
    assert offered == [b"two", b"three", b"four"]  # not the last: its reader has to learn of the end
    assert read == [b"one", b"three", b"the end"]


async def test_what_comes_before_it_is_waited_for_is_not_offered() -> None:
    paced = Paced(b"one", b"two", b"the end")
    async with (
        raw_server(paced.script) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert await response.next_piece() == b"one"
        response.offer_to(lambda piece: True)
        paced.seen()
        await eventually(lambda: bool(response._pieces))
        assert await response.next_piece() == b"two"
        paced.seen()
        assert await response.next_piece() == b"the end"


async def test_what_the_taker_raises_is_raised_where_the_piece_was_waited_for() -> None:
    paced = Paced(b"one", b"two", b"the end")

    def take(piece: bytes) -> bool:
        raise ZeroDivisionError

    async with (
        raw_server(paced.script) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert await response.next_piece() == b"one"
        response.offer_to(take)
        paced.seen()
        with left_to_the_collector() as found:
            with pytest.raises(ZeroDivisionError):
                await response.next_piece()
            await asyncio.sleep(0)
        assert found == []
        response.offer_to(lambda piece: False)
        paced.seen()
        assert await response.next_piece() == b"the end"


async def test_a_reader_that_is_cancelled_as_the_taker_raises_is_cancelled() -> None:
    def take(piece: bytes) -> bool:
        raise StopIteration

    async with (
        raw_server(say_one_word) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert await response.next_piece() == b"one"
        response.offer_to(take)
        reading = asyncio.ensure_future(response.next_piece())
        await asyncio.sleep(0)
        response._connection.data_received(b"3\r\ntwo\r\n")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_what_is_taken_is_no_silence() -> None:
    """What becomes of that is told by the tests of the deadlines."""
    paced = Paced(b"one", b"two", b"the end")
    heard: list[bool] = []

    def take(piece: bytes) -> bool:
        asyncio.get_running_loop().call_soon(lambda: heard.append(response._watch.has_received))
        asyncio.get_running_loop().call_soon(paced.seen)
        return True

    async with (
        raw_server(paced.script) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert await response.next_piece() == b"one"
        response.offer_to(take)
        paced.seen()
        assert await response.next_piece() == b"the end"
    assert heard == [True]


async def test_an_answer_that_breaks_off_after_what_was_taken_raises() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        async with asyncio.timeout(DEADLINE_S):
            await waited.wait()
        await peer.send(b"3\r\ntwo\r\n", b"what is this?\r\n")

    waited, taken = asyncio.Event(), []
    async with raw_server(script) as server, HttpClient() as client, client.request("GET", server.url) as response:
        assert await response.next_piece() == b"one"
        response.offer_to(lambda piece: not taken.append(piece))
        waited.set()
        with pytest.raises(BadResponse):
            await response.next_piece()
    assert taken == [b"two"]


async def test_nothing_is_taken_once_the_reader_has_been_cancelled() -> None:
    taken: list[bytes] = []
    async with (
        raw_server(say_one_word) as server,
        HttpClient() as client,
        client.request("GET", server.url) as response,
    ):
        assert await response.next_piece() == b"one"
        response.offer_to(lambda piece: not taken.append(piece))
        reading = asyncio.ensure_future(response.next_piece())
        await asyncio.sleep(0)
        reading.cancel()
        response._connection.data_received(b"3\r\ntwo\r\n")
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert taken == []
        assert await response.next_piece() == b"two"


async def say_one_word(peer: Peer) -> None:
    await peer.request()
    await peer.send(ENDLESS)
    await peer.left()


async def test_an_idle_connection_that_dies_is_dropped_without_being_asked() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(max_connections_per_origin=1)) as client:
        before = open_sockets()
        await get(client, server.url)
        await server.scripts_ended()
        await eventually(lambda: open_sockets() == before)
        await get(client, server.url)
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


async def test_an_idle_connection_that_speaks_unasked_is_dropped() -> None:
    answered, departures = asyncio.Event(), list[str]()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        await asyncio.wait_for(answered.wait(), DEADLINE_S)
        await peer.send(HELLO)
        departures.append(await peer.left())

    async with raw_server(script) as server, HttpClient() as client:
        await get(client, server.url)
        answered.set()
        await server.scripts_ended()
        assert departures


async def test_bytes_after_the_answer_keep_the_connection_from_being_reused() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO + HELLO)
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        assert await get(client, server.url) == b"hello"
        assert await get(client, server.url) == b"hello"
        assert len(server.peers) == 2


async def test_an_idle_connection_expires() -> None:
    departures: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HELLO)
        departures.append(await peer.left())

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(idle_expiry_s=0.01)) as client:
        await get(client, server.url)
        await server.scripts_ended()
        assert departures == ["eof"]


async def test_connection_close_is_respected() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi")
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        for _ in range(2):
            assert await get(client, server.url) == b"hi"
        assert len(server.peers) == 2


async def test_no_more_connections_than_the_cap_and_everybody_is_served() -> None:
    async with raw_server(greet_forever) as server:
        async with HttpClient(bounds=HttpBounds(max_connections_per_origin=2)) as client:
            bodies = await asyncio.gather(*(get(client, server.url) for _ in range(20)))
        assert bodies == [b"hello"] * 20
        assert len(server.peers) <= 2


async def test_a_slot_freed_by_a_closed_connection_goes_to_a_waiter() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS if peer.number == 1 else HELLO)
        await peer.left()

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(max_connections_per_origin=1)) as client:
        async with client.request("GET", server.url) as first:
            await anext(first)
            waiting = asyncio.create_task(get(client, server.url))
            await asyncio.sleep(0)
        assert await asyncio.wait_for(waiting, DEADLINE_S) == b"hello"


async def test_waiting_for_a_slot_ends_with_the_connect_deadline_and_loses_no_slot() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS if peer.number == 1 else HELLO)
        await peer.left()

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(max_connections_per_origin=1)) as client:
        async with client.request("GET", server.url) as first:
            await anext(first)
            with pytest.raises(WireTimeout) as caught:
                await get(client, server.url, Timeouts(connect_s=0.02))
            assert caught.value.phase == "connect"
            waiting = asyncio.create_task(get(client, server.url))
            await asyncio.sleep(0)
            waiting.cancel()
        assert await get(client, server.url) == b"hello"


async def test_a_waiter_cancelled_just_as_it_is_served_gives_the_connection_on() -> None:
    async with raw_server(greet_forever) as server:
        async with HttpClient(bounds=HttpBounds(max_connections_per_origin=1)) as client:
            async with client.request("GET", server.url) as first:
                await first.read()
                waiting = asyncio.create_task(get(client, server.url))
                await asyncio.sleep(0)
            waiting.cancel()  # it has been handed the connection and has not run since
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await get(client, server.url) == b"hello"
        assert len(server.peers) == 1


async def test_closing_the_client_ends_a_live_answer_and_a_waiting_request() -> None:
    departures: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        departures.append(await peer.left())

    async with raw_server(script) as server:
        client = HttpClient(bounds=HttpBounds(max_connections_per_origin=1))
        async with client.request("GET", server.url) as response:
            assert await anext(response) == b"one"
            waiting = asyncio.create_task(get(client, server.url))
            await asyncio.sleep(0)
            await client.aclose()
            with pytest.raises(ConnectionLost, match="the client was closed"):
                await anext(response)
            with pytest.raises(ConnectFailed, match="the client was closed"):
                await waiting
        await client.aclose()
        with pytest.raises(ConnectFailed, match="the client is closed"):
            await get(client, server.url)
        await server.scripts_ended()
        assert departures


async def test_reading_an_answer_after_leaving_it_is_an_error_and_not_an_end() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        async with client.request("GET", server.url) as response:
            await anext(response)
        with pytest.raises(ConnectionLost, match="left before its end"):
            await anext(response)


async def test_a_piece_that_comes_as_its_reader_leaves_is_there_for_the_next() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client, client.request("GET", server.url) as response:
        assert await response.__anext__() == b"one"
        reader = asyncio.create_task(response.__anext__())
        await asyncio.sleep(0)
        assert isinstance(response, ClientExchange)
        response.feed(b"3\r\ntwo\r\n")
        response.feed(b"5\r\nthree\r\n")
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert [await response.__anext__(), await response.__anext__()] == [b"two", b"three"]


async def test_two_readers_of_one_answer_are_refused() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client, client.request("GET", server.url) as response:
        await anext(response)
        first = asyncio.create_task(anext(response))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        with pytest.raises(UsageError):
            await anext(response)
        first.cancel()


async def test_a_unix_socket_is_reached_by_its_path(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    async with raw_server(greet_forever, unix_path=path) as server, HttpClient() as client:
        for _ in range(2):
            assert await get(client, f"{server.url}/v1/models?x=1") == b"hello"
        assert [request.path for request in server.requests] == ["/v1/models?x=1"] * 2
        assert server.requests[0].headers["host"] == "localhost"
        assert len(server.peers) == 1


async def test_a_missing_unix_socket_is_a_plain_message(tmp_path: Path) -> None:
    async with HttpClient() as client:
        with pytest.raises(ConnectFailed, match="there is no such socket"):
            await get(client, f"unix://{tmp_path}/none.sock:/")


def open_files_allowed() -> int:
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.mark.skipif(open_files_allowed() < 4096, reason="needs two thousand sockets")
async def test_a_thousand_streams_are_open_at_once() -> None:
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ENDLESS)
        await release.wait()
        await peer.send(b"0\r\n\r\n")
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        streams = [asyncio.create_task(get(client, server.url)) for _ in range(1000)]
        await eventually(lambda: len(server.requests) == 1000, 30)
        release.set()
        assert await asyncio.wait_for(asyncio.gather(*streams), 30) == [b"one"] * 1000


async def test_ipv6_literals_work() -> None:
    async with raw_server(greet_forever, host="::1") as server, HttpClient() as client:
        assert await get(client, server.url) == b"hello"
        assert server.requests[0].headers["host"].startswith("[::1]:")


async def test_a_refused_connection_names_the_origin_and_not_the_query() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers, and nobody else can take it
        taken.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with HttpClient() as client:
            with pytest.raises(ConnectFailed) as caught:
                await get(client, f"{origin}/x?key=hunter2")
    assert caught.value.message == f"{origin}: connection refused"
    assert caught.value.hint
    assert isinstance(caught.value.__cause__, OSError)


async def test_failing_to_connect_uses_up_no_slot() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with HttpClient(bounds=HttpBounds(max_connections_per_origin=1)) as client:
            for _ in range(3):
                with pytest.raises(ConnectFailed):
                    await get(client, f"http://127.0.0.1:{taken.getsockname()[1]}", Timeouts(connect_s=1))


async def test_an_unknown_host_is_a_plain_message() -> None:
    async with HttpClient() as client:
        with pytest.raises(ConnectFailed, match="no such host is known"):
            await get(client, "http://nobody.invalid/")


async def test_nagle_is_off() -> None:
    async with raw_server(greet_forever) as server, HttpClient() as client:
        await get(client, server.url)
        connections = list(client._pool._alive)
        sock = connections[0]._transport.get_extra_info("socket")  # type: ignore[union-attr]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_a_large_upload_arrives_whole() -> None:
    body = bytes(range(256)) * 40_000
    async with raw_server(greet_forever) as server, HttpClient() as client:
        for _ in range(2):
            async with client.request("POST", server.url, body=body) as response:
                assert await response.read() == b"hello"
        assert all(request.body == body for request in server.requests)
        assert len(server.peers) == 1


async def test_an_answer_that_does_not_wait_for_the_upload_is_delivered() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        for _ in range(2):
            async with client.request("POST", server.url, body=bytes(64 * 1024 * 1024)) as response:
                assert response.status == 413
                assert await response.read() == b"no"
        assert len(server.peers) == 2, "half a request was sent on it"


async def test_a_second_try_that_is_answered_before_its_end_is_half_a_request() -> None:
    body = bytes(64 * 1024 * 1024)

    async def script(peer: Peer) -> None:
        if peer.number == 2:
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
            await peer.left()
            return
        await peer.request()
        await peer.send(HELLO)
        await peer.request()  # all of it, and no answer

    async with raw_server(script) as server, HttpClient() as client:
        await get(client, server.url)
        async with client.request("POST", server.url, body=body) as response:
            assert (response.status, await response.read()) == (413, b"no")
        await get(client, server.url)
        assert len(server.peers) == 3, "half a request was sent on the second"


async def test_the_peer_has_to_wait_while_nobody_reads() -> None:
    total = 64 * 1024 * 1024
    piece = bytes(64 * 1024)
    blocked = asyncio.Event()
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        peer.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        while sent < total:
            peer.writer.write(piece)
            sent += len(piece)
            try:
                await asyncio.wait_for(peer.writer.drain(), 0.3)
            except TimeoutError:
                blocked.set()
                await asyncio.wait_for(peer.writer.drain(), DEADLINE_S)

    async with raw_server(script) as server, HttpClient() as client, client.request("GET", server.url) as response:
        await asyncio.wait_for(blocked.wait(), DEADLINE_S)
        assert sent < total // 2
        assert response._buffered_bytes < 1024 * 1024  # type: ignore[attr-defined]
        size = 0
        async for data in response:
            size += len(data)
        assert size == total


async def test_a_body_is_read_in_pieces_that_memory_at_hand_can_hold() -> None:
    big = bytes(4 * 1024 * 1024)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(big) + big)

    async with raw_server(script) as server, HttpClient() as client, client.request("GET", server.url) as response:
        sizes = [len(piece) async for piece in response]
    assert sum(sizes) == len(big)
    assert max(sizes) <= READ_BYTES


async def test_a_connection_left_while_reading_was_paused_serves_again() -> None:
    big = bytes(300 * 1024)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(big) + big)

    async with raw_server(script) as server, HttpClient(bounds=HttpBounds(high_water_bytes=1024)) as client:
        for _ in range(3):
            assert await get(client, server.url) == big
        assert len(server.peers) == 1


async def test_read_stops_at_its_bound() -> None:
    async with raw_server(greet_forever) as server, HttpClient(bounds=HttpBounds(max_body_bytes=4)) as client:
        with pytest.raises(TooLarge, match="larger than 4 bytes"):
            await get(client, server.url)
        async with client.request("GET", server.url) as response:
            assert await response.read(max_bytes=5) == b"hello"


@pytest.mark.parametrize(
    "headers",
    [
        {"x": "a\r\nevil: 1"},
        {"x": "a\nb"},
        {"x": "a\0b"},
        {"x": "ü"},
        {"x\r\nevil": "1"},
        {"": "1"},
        {"x y": "1"},
        {"Content-Length": "3"},
        {"Transfer-Encoding": "chunked"},
    ],
)
async def test_headers_that_could_change_the_request_are_refused(headers: dict[str, str]) -> None:
    client = HttpClient()
    with pytest.raises(UsageError) as caught:
        client.request("GET", "http://127.0.0.1:1/", headers=headers)
    assert all(value not in str(caught.value) for value in headers.values())


@pytest.mark.parametrize("method", ["GET / HTTP/1.1\r\nx:", "", "G T"])
async def test_a_method_that_is_no_word_is_refused(method: str) -> None:
    with pytest.raises(UsageError):
        HttpClient().request(method, "http://127.0.0.1:1/")


async def test_no_header_shows_in_a_repr() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nset-cookie: hunter2\r\ncontent-length: 0\r\n\r\n")

    async with raw_server(script) as server, HttpClient() as client:
        call = client.request("GET", f"{server.url}/?k=hunter2", headers={"authorization": "hunter2"})
        async with call as response:
            assert "hunter2" not in repr(response) + repr(response.headers) + repr(call) + repr(client)
