"""Manages remembered facts: adds, edits and forgets them, finds them by the end of an id, imports and exports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from aish.errors import AishError, UsageError
from aish.ports import Store
from aish.types.ids import new_id
from aish.types.records import Fact, FactKind

# A fact is a sentence or two; a page belongs in a file.
MAX_CHARS = 2000
MAX_TAGS = 20
MAX_TAG_CHARS = 100
_LATEST_MS = 1 << 53
# Facts read for one export, and facts written at a time by an import.
MAX_FACTS = 1_000_000
_BATCH = 1000
_LISTED = "`:memory list` and `aish memory list` show their ids"


class MemoryService:
    """`redacted` removes known secrets from texts before they are stored."""

    def __init__(self, store: Store, now_ms: int, redacted: Callable[[str], str]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._redacted = redacted

    async def add(self, text: str, kind: FactKind = FactKind.FACT, *, source: str = "user") -> Fact:
        """Adds a fact. Words that begin with # are its tags."""
        words = self._redacted(text).split(" ")
        tags = tuple(dict.fromkeys(word[1:] for word in words if word.startswith("#") and len(word) > 1))[:MAX_TAGS]
        plain = " ".join(word for word in words if not (word.startswith("#") and len(word) > 1)).strip()
        fact = Fact(new_id("fact"), _check(plain), self._now_ms, self._now_ms, kind, tags, source)
        await self._store.put_facts([fact])
        return fact

    async def edit(self, id: str, text: str) -> Fact:
        fact = await self.get(id)
        changed = msgspec.structs.replace(fact, text=_check(self._redacted(text)), updated_ms=self._now_ms)
        await self._store.put_facts([changed])
        return changed

    async def forget(self, id: str) -> Fact:
        fact = await self.get(id)
        await self._store.delete_fact(fact.id)
        return fact

    async def get(self, id: str) -> Fact:
        """Finds a fact by its id or by a unique end of one. Raises UsageError."""
        if not id:
            raise UsageError("which one?", hint=_LISTED)
        if found := await self._store.find_fact(id):
            return found
        matching = [fact for fact in await self._store.list_facts(limit=MAX_FACTS) if fact.id.endswith(id)]
        if len(matching) == 1:
            return matching[0]
        problem = f"nothing remembered has the id {id}" if not matching else f"{len(matching)} ids end in {id}"
        raise UsageError(problem, hint=_LISTED)

    async def load(self, lines: Iterable[bytes], *, source: str = "import") -> int:
        """Imports lines of JSON. All of them are checked before any is stored. Returns the number of facts."""
        facts = [self._parse(number, line, source) for number, line in enumerate(lines, 1) if line.strip()]
        for start in range(0, len(facts), _BATCH):
            await self._store.put_facts(facts[start : start + _BATCH])
        return len({fact.id for fact in facts})

    async def dump(self) -> Sequence[bytes]:
        facts = await self._store.list_facts(limit=MAX_FACTS)
        return [msgspec.json.encode(fact) + b"\n" for fact in reversed(facts)]

    def _parse(self, number: int, line: bytes, source: str) -> Fact:
        """Parses a line of our own export, an object with a `text`, or a string."""
        try:
            given: Any = msgspec.json.decode(line)
            given = {"text": given} if isinstance(given, str) else given
            defaults = {"id": new_id("fact"), "created_ms": self._now_ms, "updated_ms": self._now_ms, "source": source}
            fact = msgspec.convert({**defaults, **given}, Fact)
            fact = msgspec.structs.replace(fact, text=_check(self._redacted(fact.text)))
            _check_fields(fact)
        except (msgspec.MsgspecError, TypeError, UsageError, RecursionError) as exc:
            reason = exc.message if isinstance(exc, AishError) else str(exc)
            raise UsageError(
                f"line {number} is no fact: {reason}; nothing was imported",
                hint='each line is a JSON object such as {"text": "prefers tabs", "kind": "preference"}',
            ) from exc
        return fact


def short_id(fact: Fact) -> str:
    """The end of the id: long enough to be unique among the facts of a user."""
    return fact.id[-6:]


def _check_fields(fact: Fact) -> None:
    if not (0 <= fact.created_ms < _LATEST_MS and 0 <= fact.updated_ms < _LATEST_MS):
        raise UsageError("its time is out of range")
    if len(fact.tags) > MAX_TAGS or any(len(tag) > MAX_TAG_CHARS for tag in fact.tags):
        raise UsageError(f"at most {MAX_TAGS} tags of {MAX_TAG_CHARS} characters")
    if not fact.id or len(fact.id) > MAX_TAG_CHARS:
        raise UsageError("its id is empty or too long")


def _check(text: str) -> str:
    text = text.strip()
    if not text:
        raise UsageError("there is nothing to remember", hint=":remember TEXT")
    if len(text) > MAX_CHARS:
        raise UsageError(f"{len(text)} characters are too many to remember", hint=f"at most {MAX_CHARS}")
    return text
