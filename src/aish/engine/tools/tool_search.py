"""Shows a model a few of very many tools, and finds the others for it.

The descriptions of hundreds of tools fill the window of a model and make it choose wrongly. If they would take more
than a share of the window, the model sees the tools that were used most, `tools__search` and `tools__call`. What it
finds with the first it calls with the second, so the tools of the prompt never change, and a backend need not read it
again. A call through `tools__call` is the call of that tool for everything else: the gate, limits, results.

Small models call a tool that they see rather than searching for the right one: of twelve requests a model of 1.5 B
parameters made one in two steps, and all twelve where it saw the tool. They see those that fit their question best.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aish.engine.prompt.token_counts import BYTES_PER_TOKEN, encode_counted_tools
from aish.engine.tools.selection import MANY_TOOLS, ToolSelection
from aish.engine.tools.tool_index import ToolIndex
from aish.ports import Clock, Store
from aish.tool_calls.repair.repair import BadArguments, parse_arguments
from aish.types.messages import ToolCall
from aish.types.records import Document
from aish.types.tools import HISTORY_SOURCE, SEARCH_SOURCE, Effect, ToolSpec

SEARCH_NAME, CALL_NAME = f"{SEARCH_SOURCE}__search", f"{SEARCH_SOURCE}__call"
# Of a model whose window is unknown; most of those are large ones.
_USUAL_WINDOW = 128_000
_MAX_FOUND = 5
_MAX_FOR_SMALL_MODELS = 8
_MUST_FIT = 3  # so many of the best are shown in any case
_MAX_NAMES_CHARS = 4000  # about 1 000 tokens
_MAX_SHOWN_SETS = 32
_MAX_COUNTED = 1000  # names of tools
_MAX_SIZES = 10_000  # clients of a server may bring servers with tools of any name
_SHOWN = "shown_tools"  # the kind of the documents with those of a session, which are deleted with it
_BY_QUESTION = 0  # instead of a room
_USES = "tool_uses"  # the kind of the document that counts them
_ALWAYS_OF_USE = (HISTORY_SOURCE, "shell", "skills")
_OWN_SOURCES = (HISTORY_SOURCE, "shell", "ide", "skills", "runtime")  # of aish itself, the most useful first

_CALL = ToolSpec(
    CALL_NAME,
    f"Call a tool that {SEARCH_NAME} has found.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool, as it was found"},
            "arguments": {"type": "object", "description": "Its arguments, by the schema that was found"},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
    Effect.READ,
    SEARCH_SOURCE,
)
_SEARCH_SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words"}},
    "required": ["query"],
    "additionalProperties": False,
}


class ToolUses:
    """Counts how often each tool was called, in a document of the store. The counts of a process hold from its next
    start on for what models see; of two processes that count at the same time one may lose some."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counts: Counter[str] | None = None

    async def load(self) -> Mapping[str, int]:
        if self._counts is None:
            document = await self._store.find(_USES, _USES)
            self._counts = Counter(_decode_counts(document.body) if document else {})
        return self._counts

    async def note(self, name: str) -> None:
        await self.load()
        assert self._counts is not None
        self._counts[name] += 1
        if len(self._counts) > 2 * _MAX_COUNTED:
            self._counts = Counter(dict(self._counts.most_common(_MAX_COUNTED)))
        body = msgspec.json.encode(dict(self._counts.most_common(_MAX_COUNTED)))
        await self._store.put(Document(_USES, _USES, body, created_ms=self._clock.now_ms()), wait=False)


def _decode_counts(body: bytes) -> dict[str, int]:
    try:
        return msgspec.json.decode(body, type=dict[str, int])
    except msgspec.MsgspecError:
        return {}


class ShownTools:
    """The tools that were shown in a session, in a document of the store: whichever process answers next shows the same
    ones, so that a backend need not read them again."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def find(self, session: str, room: int) -> frozenset[str]:
        """Empty if there are none yet, or if they were chosen for another room."""
        document = await self._store.find(_SHOWN, session) if session else None
        try:
            found = msgspec.json.decode(document.body, type=_ShownSet) if document else None
        except msgspec.MsgspecError:
            found = None
        return frozenset(found.names) if found is not None and found.room == room else frozenset()

    async def put(self, session: str, room: int, names: frozenset[str]) -> None:
        if session and names:
            body = msgspec.json.encode(_ShownSet(room, sorted(names)))
            await self._store.put(Document(_SHOWN, session, body, created_ms=self._clock.now_ms()))


class _ShownSet(msgspec.Struct, frozen=True):
    room: int
    names: list[str]


class ToolLimiter:
    """Decides which of the tools that a request may use are shown to the model."""

    def __init__(self, uses: ToolUses, shown_tools: ShownTools, max_window_share: float) -> None:
        self._uses = uses
        self._shown_tools = shown_tools
        self._max_share = max_window_share
        self._sizes: dict[str, tuple[ToolSpec, int]] = {}
        self._shown: OrderedDict[tuple[tuple[str, ...], int], frozenset[str]] = OrderedDict()
        self._index: tuple[Sequence[ToolSpec], ToolIndex] = ((), ToolIndex(()))

    def is_needed(self, tools: ToolSelection, window: int | None) -> bool:
        own = tools.own_specs
        return len(own) > MANY_TOOLS and sum(map(self._size, own)) > self._room(window)

    async def limit(
        self, tools: ToolSelection, window: int | None, session: str, *, demanded: str = ""
    ) -> ToolSelection:
        """The selection with the tools that were used most, and with the search. A session keeps those that it began
        with. `demanded` names one that the request has the model call."""
        own = tools.own_specs
        room = self._room(window)
        shown = await self._shown_tools.find(session, room)
        if shown.isdisjoint(spec.name for spec in own):
            shown = await self._choose_most_used(own, room)
            await self._shown_tools.put(session, room, shown)
        visible = [spec for spec in own if spec.name in shown or spec.name == demanded]
        hidden = [spec for spec in own if spec.name not in shown]
        return tools.show_only(visible, (_CALL, _describe_search(hidden)), ToolSearch(self._index_of(own), self._uses))

    async def _choose_most_used(self, own: Sequence[ToolSpec], room: int) -> frozenset[str]:
        """The same as long as this process runs."""
        names = tuple(spec.name for spec in own)
        shown = self._shown.get((names, room))
        if shown is None:
            shown = self._shown[names, room] = frozenset(self._choose(own, await self._uses.load(), room))
            if len(self._shown) > _MAX_SHOWN_SETS:
                self._shown.popitem(last=False)
        self._shown.move_to_end((names, room))
        return shown

    async def limit_to_question(
        self, tools: ToolSelection, question: str, session: str, *, with_own: bool, demanded: str = ""
    ) -> ToolSelection:
        """For small models: shows the tools that fit the question best, and `demanded`. The tools of the session's last
        question stay as long as the best ones are among them, so that the prompt seldom changes. `with_own` also shows
        the few tools of aish that are useful for any question."""
        own = tools.own_specs
        found = [spec.name for spec in self._index_of(own).search(question, _MAX_FOR_SMALL_MODELS)]
        last = await self._shown_tools.find(session, _BY_QUESTION)
        shown = last if last.issuperset(found[:_MUST_FIT]) and tools.has_all(last) else frozenset(found)
        if shown != last:
            await self._shown_tools.put(session, _BY_QUESTION, shown)
        always = _ALWAYS_OF_USE if with_own else ()
        visible = [spec for spec in own if spec.name in (*shown, demanded) or spec.source in always]
        return tools.show_only(visible, (), None)

    def find_for_plan(self, tools: ToolSelection, question: str) -> frozenset[str]:
        """The tools of ours that a model is told of when it plans: those that it sees, and those that fit best."""
        fitting = self._index_of(tools.own_specs).search(question, MANY_TOOLS)
        return frozenset(spec.name for spec in (*tools.specs, *fitting))

    def _room(self, window: int | None) -> int:
        """In bytes."""
        return int((window or _USUAL_WINDOW) * self._max_share) * BYTES_PER_TOKEN

    def _choose(self, own: Sequence[ToolSpec], uses: Mapping[str, int], room: int) -> Iterable[str]:
        """The tools that were used most, then those of aish itself, as many as there is room for."""

        def rank(spec: ToolSpec) -> tuple[int, int, str]:
            place = _OWN_SOURCES.index(spec.source) if spec.source in _OWN_SOURCES else len(_OWN_SOURCES)
            return -uses.get(spec.name, 0), place, spec.name

        for spec in sorted(own, key=rank):
            if not uses.get(spec.name) and spec.source not in _OWN_SOURCES:
                return
            room -= self._size(spec)
            if room >= 0:
                yield spec.name

    def _size(self, spec: ToolSpec) -> int:
        found = self._sizes.get(spec.name)
        if found is None or found[0] is not spec:
            if len(self._sizes) >= _MAX_SIZES:
                self._sizes.clear()
            found = self._sizes[spec.name] = spec, len(encode_counted_tools((spec,)))
        return found[1]

    def _index_of(self, own: Sequence[ToolSpec]) -> ToolIndex:
        known, index = self._index
        if len(known) != len(own) or any(a is not b for a, b in zip(known, own, strict=True)):
            index = ToolIndex(own)
            self._index = tuple(own), index
        return index


class ToolSearch(msgspec.Struct, frozen=True):
    """What a selection needs to search its tools and to call what was found."""

    index: ToolIndex
    uses: ToolUses

    def search(self, call: ToolCall) -> str | None:
        """The tools that a call of `tools__search` finds, with their schemas; None for another call. Raises
        BadArguments."""
        if call.name != SEARCH_NAME:
            return None
        fields, _ = parse_arguments(call.arguments)
        found = self.index.search(str(fields.get("query", "")), _MAX_FOUND)
        if not found:
            return "No tool fits these words. Try others, such as what it would read or change."
        return "\n\n".join(map(_describe_tool, found)) + f"\n\nCall one with {CALL_NAME}."

    def unwrap(self, call: ToolCall) -> ToolCall:
        """The call that a call of `tools__call` means. Raises BadArguments."""
        if call.name != CALL_NAME:
            return call
        fields, _ = parse_arguments(call.arguments)
        name, given = fields.get("name"), fields.get("arguments", {})
        if not isinstance(name, str) or not name:
            raise BadArguments(f"{CALL_NAME} needs the name of a tool")
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        return msgspec.structs.replace(call, name=name, arguments=text)


def _describe_tool(spec: ToolSpec) -> str:
    return f"{spec.name}: {spec.description}\nSchema: {msgspec.json.encode(spec.schema).decode()}"


def _describe_search(hidden: Sequence[ToolSpec]) -> ToolSpec:
    """The search, with the names of what it can find, cut where they would be too long."""
    sources: dict[str, list[str]] = {}
    for spec in hidden:
        sources.setdefault(spec.source, []).append(spec.name.partition("__")[2] or spec.name)
    lines, each = [], _MAX_NAMES_CHARS // max(1, len(sources))
    for source, names in sources.items():
        listed = ", ".join(names)
        cut = listed if len(listed) <= each else f"{listed[:each].rpartition(', ')[0]}, …"
        lines.append(f"- {source} ({len(names)}): {cut}")
    text = f"Find tools by what they do. There are {len(hidden)} more than you see:"
    return ToolSpec(SEARCH_NAME, "\n".join((text, *lines)), _SEARCH_SCHEMA, Effect.READ, SEARCH_SOURCE)
