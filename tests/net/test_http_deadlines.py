"""Every phase of a request has its deadline, and each says which it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aish.errors import WireError, WireTimeout
from aish.net.event_loop import get_deadline_timer
from aish.net.http.client import HttpClient, Timeouts
from aish.net.http.deadlines import Watchdog
from support.raw_server import Peer, nothing_left, raw_server

TINY_S = 0.03


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left():
        yield


async def silent(peer: Peer) -> None:
    await peer.left()


async def phase_of(url: str, timeouts: Timeouts, body: bytes = b"") -> str:
    async with HttpClient() as client:
        with pytest.raises(WireTimeout) as caught:
            async with client.request("POST", url, body=body, timeouts=timeouts) as response:
                await response.read()
    assert "127.0.0.1" in caught.value.message or "localhost" in caught.value.message
    return caught.value.phase


async def test_a_tls_handshake_that_never_ends_is_a_connect_timeout() -> None:
    async with raw_server(silent) as server:
        url = server.url.replace("http://", "https://")
        assert await phase_of(url, Timeouts(connect_s=TINY_S)) == "connect"


async def test_the_total_counts_while_connecting_too() -> None:
    async with raw_server(silent) as server:
        url = server.url.replace("http://", "https://")
        assert await phase_of(url, Timeouts(total_s=TINY_S)) == "total"


async def test_no_answer_is_a_first_byte_timeout_and_the_server_is_told() -> None:
    departures: list[str] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        departures.append(await peer.left())

    async with raw_server(script) as server:
        assert await phase_of(server.url, Timeouts(first_byte_s=TINY_S)) == "first_byte"
        await server.scripts_ended()
        assert departures


async def test_interim_answers_and_trickling_headers_do_not_count_as_an_answer() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nx: ")
        await peer.left()

    async with raw_server(script) as server:
        assert await phase_of(server.url, Timeouts(first_byte_s=TINY_S)) == "first_byte"


async def test_silence_inside_the_body_is_an_idle_timeout_after_what_arrived() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel")
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        async with client.request("GET", server.url, timeouts=Timeouts(idle_s=TINY_S)) as response:
            assert await anext(response) == b"hel"
            with pytest.raises(WireTimeout) as caught:
                await anext(response)
        assert caught.value.phase == "idle"


@pytest.mark.parametrize("closes", [True, False])
async def test_a_rest_that_is_not_missed_ends_where_it_fails(closes: bool) -> None:  # noqa: FBT001
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel")
        if not closes:
            await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        async with client.request("GET", server.url) as response:
            assert await response.next_piece() == b"hel"
            response.make_rest_optional(TINY_S)
            assert await response.next_piece() == b""
        async with client.request("GET", server.url) as response:
            assert await response.next_piece() == b"hel"
        assert len(server.peers) == 2, "half an answer was left on the first"


async def test_a_chunk_that_never_brings_body_is_idle() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=")
        await peer.left()

    async with raw_server(script) as server:
        assert await phase_of(server.url, Timeouts(idle_s=TINY_S)) == "idle"


async def test_a_body_that_never_ends_meets_the_total() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"1\r\nx\r\n")

    async with raw_server(script) as server:
        assert await phase_of(server.url, Timeouts(total_s=0.1)) == "total"


async def test_an_upload_that_nobody_takes_is_a_send_timeout() -> None:
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await release.wait()

    async with raw_server(script) as server:
        assert await phase_of(server.url, Timeouts(idle_s=TINY_S), body=bytes(64 * 1024 * 1024)) == "send"
        release.set()


async def test_a_timed_out_connection_is_not_used_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number > 1:
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await peer.left()

    async with raw_server(script) as server, HttpClient() as client:
        with pytest.raises(WireTimeout):
            async with client.request("GET", server.url, timeouts=Timeouts(first_byte_s=TINY_S)):
                pass
        async with client.request("GET", server.url) as response:
            assert response.status == 200
        assert len(server.peers) == 2


class HandClock:
    """An event loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[HandTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> HandTimer:
        self.timers.append(HandTimer(when, callback))
        return self.timers[-1]

    def call_later(self, seconds: float, callback: Callable[[], None]) -> HandTimer:
        return self.call_at(self.now + seconds, callback)

    @property
    def live_timers(self) -> int:
        return sum(timer.live for timer in self.timers)

    def move_to(self, moment: float) -> None:
        self.timers = [timer for timer in self.timers if timer.live]
        while due := [timer for timer in self.timers if timer.live and timer.when <= moment]:
            timer = min(due, key=lambda timer: timer.when)
            self.now, timer.live = timer.when, False
            timer.callback()
            self.timers.remove(timer)
        self.now = moment


class HandTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback, self.live = when, callback, True

    def cancel(self) -> None:
        self.live = False


class Request:
    def __init__(self) -> None:
        self.waiting = True
        self.errors: list[WireError] = []

    def fail(self, error: WireError) -> None:
        self.errors.append(error)


def watched(timeouts: Timeouts, clock: HandClock | None = None) -> tuple[HandClock, Request, Watchdog]:
    clock, request = clock or HandClock(), Request()
    loop: Any = clock
    watch = Watchdog(loop, get_deadline_timer(loop), timeouts, "origin")
    watch.watch(request, "first_byte")
    return clock, request, watch


@pytest.mark.parametrize(("total_s", "phase"), [(3.0, "total"), (5.0, "total"), (5.1, "connect"), (None, "connect")])
def test_connecting_says_what_was_due_though_its_timer_comes_before_its_time(total_s: float | None, phase: str) -> None:
    clock: Any = HandClock()
    watch = Watchdog(clock, get_deadline_timer(clock), Timeouts(connect_s=5.0, total_s=total_s), "origin")
    clock.now = watch.connect_due() - 0.001
    assert watch.connect_error().phase == phase


def test_however_many_requests_wait_there_is_one_timer() -> None:
    clock = HandClock()
    requests = [watched(Timeouts(first_byte_s=120, idle_s=60), clock)[1:] for _ in range(50)]
    for tenth in range(500):
        clock.move_to(100 + tenth / 10)
        for _, watch in requests:
            watch.start_phase("idle")
        assert clock.live_timers == 1
    for _, watch in requests:
        watch.stop()
    clock.move_to(1000)
    assert clock.live_timers == 0
    assert not any(request.errors for request, _ in requests)


def test_what_is_due_soon_is_not_left_to_the_sweep() -> None:
    clock, request, _ = watched(Timeouts(first_byte_s=0.02))
    clock.move_to(100.02)
    assert [str(error) for error in request.errors] == ["origin: no answer within 0.02 s of the request"]


def test_idle_counts_from_the_last_piece() -> None:
    clock, request, watch = watched(Timeouts(first_byte_s=120, idle_s=60))
    watch.start_phase("idle")
    clock.move_to(159)
    watch.stamp = clock.now
    clock.move_to(218)
    assert not request.errors
    clock.move_to(219)
    assert [str(error) for error in request.errors] == ["origin: fell silent for 60 s in the middle of its answer"]


def test_idle_counts_from_what_was_taken_past_whoever_waits() -> None:
    clock, request, watch = watched(Timeouts(first_byte_s=120, idle_s=60))
    watch.start_phase("idle")
    clock.move_to(159)
    watch.has_received = True
    clock.move_to(218)
    assert not request.errors
    clock.move_to(220)  # by then the sweep has come round, which had set the time
    assert [str(error) for error in request.errors] == ["origin: fell silent for 60 s in the middle of its answer"]


def test_what_is_heard_does_not_put_off_the_end_of_it_all() -> None:
    clock, request, watch = watched(Timeouts(first_byte_s=120, idle_s=60, total_s=300))
    watch.start_phase("idle")
    for second in range(100, 400):
        clock.move_to(second)
        watch.has_received = True
    assert not request.errors
    clock.move_to(400)
    assert [getattr(error, "phase", "") for error in request.errors] == ["total"]


def test_a_slow_caller_is_not_taken_for_a_silent_peer() -> None:
    clock, request, watch = watched(Timeouts(idle_s=60))
    watch.start_phase("idle")
    request.waiting = False
    clock.move_to(10_000)
    assert not request.errors


def test_the_first_byte_may_take_longer_than_idle_allows() -> None:
    clock, request, _ = watched(Timeouts(first_byte_s=120, idle_s=60))
    clock.move_to(219)
    assert not request.errors
    clock.move_to(220)
    assert [getattr(error, "phase", "") for error in request.errors] == ["first_byte"]


def test_the_total_ends_a_request_that_is_busy_and_unwatched() -> None:
    clock, request, watch = watched(Timeouts(first_byte_s=120, idle_s=60, total_s=300))
    watch.start_phase("idle")
    request.waiting = False
    clock.move_to(399)
    assert not request.errors
    clock.move_to(400)
    assert [getattr(error, "phase", "") for error in request.errors] == ["total"]
