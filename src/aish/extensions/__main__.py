"""`python -m aish.extensions`: the tool process on stdin and stdout. aish starts it, and it ends with aish."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from aish.extensions.host import Host

_READ_BYTES = 64 * 1024


def main(words: Sequence[str]) -> None:
    """`words`: the megabytes of memory that the process may use; 0 means no limit."""
    if words and (megabytes := int(words[0])):
        _limit_memory(megabytes)
    source, sink = _take_over_streams()
    with suppress(KeyboardInterrupt, BrokenPipeError, ConnectionResetError):  # aish has ended
        asyncio.run(_serve(source, sink))
    os._exit(0)  # a thread that never ends does not keep the process


async def _serve(source: int, sink: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(sink, "wb", 0))
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    host = Host(write)
    while data := await reader.read(_READ_BYTES):
        host.feed(data)


def _take_over_streams() -> tuple[int, int]:
    """The descriptors of the protocol. Afterwards stdin is empty and stdout is stderr, also for programs that a tool
    starts: neither can take from the protocol or garble it."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, sink


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, hard))


if __name__ == "__main__":
    main(sys.argv[1:])
