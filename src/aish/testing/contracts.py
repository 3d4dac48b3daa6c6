"""Runs the checks of a contract and says which promises are broken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Subject = TypeVar("Subject")
Check = Callable[[Subject], Awaitable[None]]

CHECK_TIMEOUT_S = 60.0
END_S = 5.0  # what is cancelled ends soon


class ContractBroken(AssertionError):
    """`broken` are the promises that do not hold, in words, with what happened instead."""

    def __init__(self, contract: str, broken: Sequence[str]) -> None:
        super().__init__(f"the contract of a {contract} is broken:\n" + "\n".join(f"- {line}" for line in broken))
        self.broken = tuple(broken)


async def run_checks(contract: str, checks: Sequence[Check[Subject]], subject: Subject) -> None:
    """Runs all checks, each within a minute. A check is a promise: the first line of its docstring. Raises
    ContractBroken."""
    broken = []
    for check in checks:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await check(subject)
        except Exception as exc:  # whatever an author's code raises breaks the promise
            promise = (check.__doc__ or check.__name__).strip().splitlines()[0]
            what = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
            broken.append(f"{promise} ({what})")
    if broken:
        raise ContractBroken(contract, broken)
