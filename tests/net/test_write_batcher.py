"""What is written to several connections in one round of the loop goes out together, and none of it is lost."""

import asyncio
import gc
import inspect
import socket
import weakref
from contextlib import asynccontextmanager

import pytest

from aish.net.event_loop import WriteBatcher, get_write_batcher


@asynccontextmanager
async def connected():
    """A transport, and the other end of it."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    with theirs:
        yield transport, theirs
        transport.abort()


def shared_outbox():
    batcher = get_write_batcher(asyncio.get_running_loop())
    batcher.active_requests = 2
    return batcher


def arrived(end):
    try:
        return end.recv(1000)
    except BlockingIOError:
        return b""


async def test_what_is_put_goes_out_when_the_round_ends_before_what_is_scheduled_later():
    seen = []
    async with connected() as (first, far_first), connected() as (second, far_second):
        batcher = shared_outbox()
        batcher.put(first, b"one ")
        batcher.put(second, b"two")
        batcher.put(first, b"more")
        assert (arrived(far_first), arrived(far_second)) == (b"", b"")
        asyncio.get_running_loop().call_soon(lambda: seen.append((arrived(far_first), arrived(far_second))))
        await asyncio.sleep(0)
    assert seen == [(b"one more", b"two")]


async def test_who_is_alone_is_not_kept_waiting():
    async with connected() as (transport, far):
        batcher = get_write_batcher(asyncio.get_running_loop())
        batcher.active_requests = 1
        batcher.put(transport, b"now")
        assert arrived(far) == b"now"


async def test_what_is_flushed_goes_out_at_once_and_only_once():
    async with connected() as (transport, far):
        batcher = shared_outbox()
        batcher.put(transport, b"now")
        batcher.flush()
        assert arrived(far) == b"now"
        batcher.put(transport, b"then")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert arrived(far) == b"then"


async def test_a_connection_that_ended_meanwhile_keeps_nothing_from_the_others(caplog):
    async with connected() as (gone, _), connected() as (there, far):
        batcher = shared_outbox()
        batcher.put(gone, b"lost")
        batcher.put(there, b"kept")
        gone.abort()
        await asyncio.sleep(0)
        assert arrived(far) == b"kept"
        assert not caplog.records  # to write to it is not even tried


async def test_nor_does_one_that_takes_no_more_and_it_ends():
    async with connected() as (full, _), connected() as (there, far):
        batcher = shared_outbox()
        full.write_eof()
        batcher.put(full, b"lost")
        batcher.put(there, b"kept")
        await asyncio.sleep(0)
        assert arrived(far) == b"kept"
        assert full.is_closing()


async def test_a_loop_has_one_outbox():
    loop = asyncio.get_running_loop()
    assert get_write_batcher(loop) is get_write_batcher(loop)


def test_a_loop_is_not_kept_by_its_outbox():
    loop = asyncio.new_event_loop()
    batcher = get_write_batcher(loop)
    assert isinstance(batcher, WriteBatcher)
    known = weakref.ref(loop)
    loop.close()
    del loop
    gc.collect()
    assert known() is None


ON_A_LOOP = [one for name, one in list(vars().items()) if name.startswith("test_") and inspect.iscoroutinefunction(one)]


@pytest.mark.parametrize("behaviour", ON_A_LOOP, ids=lambda behaviour: behaviour.__name__)
def test_it_holds_on_uvloop_too(behaviour, caplog):
    uvloop = pytest.importorskip("uvloop", reason="it does not exist for this system")
    uvloop.run(behaviour(*[caplog] * len(inspect.signature(behaviour).parameters)))
