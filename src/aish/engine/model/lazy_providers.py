"""Providers by name, each made when it is first asked for: what a run does not use is never loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from aish.ports import Provider


class LazyProviders(Mapping[str, Provider]):
    """Looking whether a name is there, and going through the names, makes none."""

    def __init__(self, makers: Mapping[str, Callable[[], Provider]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Provider] = {}

    @classmethod
    def of(cls, providers: Mapping[str, Provider]) -> LazyProviders:
        """Of those that are there already."""
        made = cls({})
        for name, provider in providers.items():
            made.add(name, provider)
        return made

    def add(self, name: str, provider: Provider) -> None:
        """One that was found later; a name that is taken stays whose it is."""
        if name not in self._makers:
            self._makers[name] = lambda: provider
            self._made[name] = provider

    async def aclose(self) -> None:
        """Of those that were made. One that fails does not keep the others open."""
        await asyncio.gather(*(provider.aclose() for provider in self._made.values()), return_exceptions=True)

    def __getitem__(self, name: str) -> Provider:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
