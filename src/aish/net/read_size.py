"""How much an event loop reads at once.

asyncio asks for 256 KiB every time. For so much glibc maps fresh memory, and unmaps it after the read: 16 µs, half of
what a whole small message costs otherwise. 64 KiB come from memory at hand, and are all that a pipe holds.
"""

from __future__ import annotations

import asyncio

READ_BYTES = 64 * 1024


def read_little(transport: asyncio.BaseTransport) -> None:
    """Where it can be set: on asyncio's own transports for sockets and pipes, not for TLS and not with other loops."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES
