"""Gets diagnostics for exactly the text that was sent, however a server delivers them.

Some servers push, some are asked, and some register for being asked up to a second after a file was opened. So we wait
for whichever comes first. A reply to our request is fresh, and so is a push with our version. A push with a version
that was not sent yet is ignored. A push without a version may be about an older text or incomplete, so we wait until no
more come and mark it. After the deadline the report is not fresh, never just empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from aish.errors import WireTimeout
from aish.tools.code.lsp.answers import WireProblem, decoded, problems
from aish.tools.code.lsp.connection import Connection
from aish.tools.code.lsp.documents import Documents, Opened
from aish.tools.code.lsp.inbox import PULL, Pushed
from aish.tools.code.lsp.tsserver import ask_compiler

# Waiting times after a push without a version. An empty one is often only the first of two.
SETTLE_S = 0.4
SETTLE_EMPTY_S = 1.2


class Report(msgspec.Struct, frozen=True):
    """`fresh`: about exactly the text that was sent. Neither fresh nor `is_final`: the last known diagnostics."""

    problems: tuple[WireProblem, ...]
    fresh: bool = False
    settled: bool = False


async def diagnose(
    connection: Connection, documents: Documents, path: str, opened: Opened, *, timeout_s: float
) -> Report:
    """Never raises WireTimeout: after the deadline the report is not fresh."""
    uri = documents.uri(path)
    try:
        async with asyncio.timeout(timeout_s):
            return await _first(connection, uri, lambda: _versions(documents.find(path), opened), opened, timeout_s)
    except (TimeoutError, WireTimeout):
        known = connection.inbox.pushed(uri)
        return Report(known.problems if known else ())


def _versions(now: Opened | None, opened: Opened) -> tuple[int, int]:
    """Returns the versions of our text: the one we sent, and a later one with the same content."""
    again = now if now is not None and now.hash == opened.hash else opened
    return opened.version, again.version


async def _first(
    connection: Connection, uri: str, versions: Callable[[], tuple[int, int]], opened: Opened, timeout_s: float
) -> Report:
    inbox = connection.inbox
    if connection.spec.ask_compiler:
        found = await ask_compiler(connection, uri, timeout_s=timeout_s)
        return Report(found, fresh=True, settled=True)
    while True:
        if connection.can(PULL):
            return await _pull(connection, uri, timeout_s)
        pushed = inbox.pushed(uri)
        if pushed is not None and pushed.version in versions():
            return Report(pushed.problems, fresh=True, settled=True)
        if pushed is not None and pushed.version is None and pushed.number > opened.pushes:
            if await _is_quiet(connection, uri, pushed):
                return Report(pushed.problems, settled=True)
            continue
        await inbox.changed()


async def _pull(connection: Connection, uri: str, timeout_s: float) -> Report:
    raw = await connection.request(PULL, {"textDocument": {"uri": uri}}, timeout_s=timeout_s)
    answer: dict[str, Any] = decoded(raw, dict[str, Any])
    items = answer.get("items")
    if not isinstance(items, list):  # "unchanged", although we gave no earlier result
        return Report(())
    return Report(tuple(problems(items)), fresh=True, settled=True)


async def _is_quiet(connection: Connection, uri: str, pushed: Pushed) -> bool:
    """Whether no other push for this file comes for a while."""
    try:
        async with asyncio.timeout(SETTLE_S if pushed.problems else SETTLE_EMPTY_S):
            while connection.inbox.pushed(uri) is pushed:
                await connection.inbox.changed()
    except TimeoutError:
        return True
    return False
