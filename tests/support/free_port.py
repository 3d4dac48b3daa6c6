"""A port that nobody listens on, for servers that must be told theirs and for addresses where nobody is to answer.

What the kernel chooses lies at 32768 and above, and it may choose the same again for anybody, before its test uses it.
These lie below, each is given out once, and each process of a test run has its own.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from functools import cache

PORTS = range(12_000, 32_000)


def free_port() -> int:
    return next(port for port in _ports() if _is_free(port))


@cache
def _ports() -> Iterator[int]:
    """pytest-xdist names its processes gw0, gw1. The order is not that of `random`, which tests seed."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = PORTS[number :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    return iter(random.SystemRandom().sample(ports, len(ports)))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
