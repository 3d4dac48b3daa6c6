"""The owner of child processes keeps its promises on uvloop, too: what is tested of it there holds here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import process.test_process as on_asyncio

uvloop = pytest.importorskip("uvloop", reason="it does not exist for this system")

Behaviour = Callable[[], Coroutine[Any, Any, None]]
BEHAVIOURS: list[Behaviour] = [
    one
    for name, one in vars(on_asyncio).items()
    if name.startswith("test_") and inspect.iscoroutinefunction(one) and not inspect.signature(one).parameters
]


def test_there_is_something_to_hold() -> None:
    assert len(BEHAVIOURS) > 15


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_it_holds_on_uvloop(behaviour: Behaviour) -> None:
    uvloop.run(behaviour())
