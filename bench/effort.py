"""How much is measured: the full run that the page is made from, or a quick look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    quick: bool = False
    peers: bool = True

    def rounds(self, full: int, quick: int) -> int:
        return quick if self.quick else full
