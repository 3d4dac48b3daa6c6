"""Holds providers by name and makes each when it is first used, so that unused ones are never loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from aish.ports import Provider


class LazyProviders(Mapping[str, Provider]):
    """Checking for a name and iterating over the names makes no provider."""

    def __init__(self, makers: Mapping[str, Callable[[], Provider]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Provider] = {}

    @classmethod
    def of(cls, providers: Mapping[str, Provider]) -> LazyProviders:
        """Wraps providers that exist already."""
        made = cls({})
        for name, provider in providers.items():
            made.add(name, provider)
        return made

    def add(self, name: str, provider: Provider) -> None:
        """Adds a provider that was found later. A name that is taken keeps its provider."""
        if name not in self._makers:
            self._makers[name] = lambda: provider
            self._made[name] = provider

    async def aclose(self) -> None:
        """Closes the providers that were made, even if one of them fails."""
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
