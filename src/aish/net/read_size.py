"""Limits how much an event loop reads at once.

asyncio reads up to 256 KiB. For such a buffer glibc maps new memory and unmaps it after each read, which takes 16 µs:
half of the cost of a small message. Buffers of 64 KiB come from free memory, and a pipe holds no more than that.
"""

from __future__ import annotations

import asyncio

READ_BYTES = 64 * 1024


def limit_read_size(transport: asyncio.BaseTransport) -> None:
    """Works on asyncio's own transports for sockets and pipes; does nothing for TLS and for other event loops."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES
