"""Facts without a disk. A part of `memory`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from aish.storage.texts import index_words
from aish.types.facts import Fact


class MemoryFacts:
    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}

    def _check_open(self) -> None:
        raise NotImplementedError

    async def put_facts(self, given: Sequence[Fact]) -> None:
        self._check_open()
        for fact in given:
            before = self._facts.get(fact.id)
            created_ms = before.created_ms if before else fact.created_ms
            self._facts[fact.id] = msgspec.structs.replace(fact, created_ms=created_ms)

    async def find_fact(self, id: str) -> Fact | None:
        self._check_open()
        return self._facts.get(id)

    async def delete_fact(self, id: str) -> bool:
        self._check_open()
        return self._facts.pop(id, None) is not None

    async def clear_facts(self) -> int:
        self._check_open()
        count = len(self._facts)
        self._facts.clear()
        return count

    async def list_facts(self, *, limit: int) -> Sequence[Fact]:
        self._check_open()
        return self._newest()[: max(limit, 0)]

    async def search_facts(self, query: str, *, limit: int) -> Sequence[Fact]:
        """Rare words count for more, as in the index of the SQLite store."""
        self._check_open()
        texts = [(fact, set(index_words(f"{fact.text} {' '.join(fact.tags)}"))) for fact in self._newest()]
        holding = Counter(word for _, words in texts for word in words)
        wanted = set(index_words(query))
        scored = [(sum(math.log(1 + len(texts) / holding[w]) for w in wanted & words), f) for f, words in texts]
        scored.sort(key=lambda pair: -pair[0])
        return [fact for score, fact in scored if score > 0][: max(limit, 0)]

    def _newest(self) -> list[Fact]:
        return sorted(self._facts.values(), key=lambda fact: (fact.updated_ms, fact.id), reverse=True)
