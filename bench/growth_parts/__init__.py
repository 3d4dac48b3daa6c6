"""What is measured as it grows. A subject has three sizes, a cost for each, and the place in the code it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    name: str
    sizes: tuple[int, int, int]  # 1, 10 and 100 times
    unit: str
    cost: Callable[[int], float]  # microseconds of processor for the whole of that size
    where: str
