"""Rewinds sessions: takes a checkpoint of the workspace before a turn's first effect, and brings back files,
conversation, or both.

What is known of a session's checkpoints is one document in the store. Turns are never deleted: a rewind of the
conversation notes which turns the model no longer sees, so the beginning of the next prompt is that of an earlier one.
Before files are brought back, a checkpoint of the present state is taken, so each rewind can be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from aish.engine.prompt import compaction
from aish.errors import AishError, CheckpointError, SessionNotFound, UsageError
from aish.ports import Checkpoints, Clock, Store
from aish.types.checkpoints import (
    REWIND_KIND,
    Checkpoint,
    Cut,
    FileChanges,
    PastRewind,
    RewindResult,
    RewindScope,
    RewindTarget,
    SessionRewinds,
    TurnCheckpoint,
)
from aish.types.messages import TextPart, UserMessage
from aish.types.records import Document, TurnRecord

# Checkpoints of more turns than this are deleted before (`tools/checkpoints`).
_MAX_CHECKPOINTS = 200
_MAX_REWINDS = 20
_MAX_TARGETS = 30
_TITLE_CHARS = 80
_MAX_NOTICES = 100
_LOCK_WAIT_S = 2.0
_MAX_TRIES = 20
# A checkpoint ends by itself before that, unless another window is busy or a file system hangs.
_TAKE_WAIT_S = 15.0
_NOT_STORED = "the checkpoint is not stored on this machine any more"
_DISABLED = "checkpoints are switched off (rewind.enabled)"

MakeCheckpoints = Callable[[], Checkpoints]
HoldSession = Callable[[str, float], AbstractAsyncContextManager[None]]


async def find_rewinds(store: Store, session: str) -> SessionRewinds:
    document = await store.find(REWIND_KIND, session) if session else None
    return msgspec.json.decode(document.body, type=SessionRewinds) if document else SessionRewinds()


async def _store_rewinds(store: Store, session: str, rewinds: SessionRewinds) -> None:
    await store.put(Document(REWIND_KIND, session, msgspec.json.encode(rewinds)))


async def _add_checkpoint(store: Store, session: str, added: TurnCheckpoint) -> None:
    """Adds to what is stored, also while another window adds to it."""
    for _ in range(_MAX_TRIES):
        document = await store.find(REWIND_KIND, session)
        rewinds = msgspec.json.decode(document.body, type=SessionRewinds) if document else SessionRewinds()
        stored = (*rewinds.checkpoints, added)[-_MAX_CHECKPOINTS:]
        changed = Document(
            REWIND_KIND, session, msgspec.json.encode(msgspec.structs.replace(rewinds, checkpoints=stored))
        )
        is_stored = await store.swap(changed, old=document.body) if document else await store.put_new(changed)
        if is_stored:
            return
    raise CheckpointError("other windows keep changing this session's checkpoints; try again")


class TurnCheckpoints:
    """Takes checkpoints before effects. A turn has at most one. `make_checkpoints` None: they are switched off."""

    def __init__(self, make_checkpoints: MakeCheckpoints | None, store: Callable[[], Store]) -> None:
        self._make_checkpoints = make_checkpoints
        self._store = store
        self.is_enabled = make_checkpoints is not None
        self._shown: set[str] = set()

    async def take(self, session: str, turn: str) -> str:
        """Takes the checkpoint of a turn if it has none. Returns a notice for the user if that fails for a reason that
        was not shown yet. Never raises."""
        if not self.is_enabled or not session:
            return ""
        try:
            rewinds = await find_rewinds(self._store(), session)
            if any(one.turn == turn for one in rewinds.checkpoints):
                return ""
            found = await self._take(turn)
            await _add_checkpoint(self._store(), session, found)
            problem = found.problem
        except Exception as exc:
            problem = exc.message if isinstance(exc, AishError) else type(exc).__name__
        return self._notice(problem)

    async def take_for_last_turn(self, session: str) -> str:
        """The same for the newest turn of a session, before a command runs that its answer has proposed."""
        if not self.is_enabled or not session:
            return ""
        for turn in await self._store().list_turns(session, limit=1):
            return await self.take(session, turn.id)
        return ""

    async def _take(self, turn: str) -> TurnCheckpoint:
        assert self._make_checkpoints is not None
        try:
            async with asyncio.timeout(_TAKE_WAIT_S):
                return TurnCheckpoint(turn, await self._make_checkpoints().take())
        except CheckpointError as exc:
            return TurnCheckpoint(turn, problem=exc.message)
        except TimeoutError:
            return TurnCheckpoint(turn, problem=f"no checkpoint could be taken within {_TAKE_WAIT_S:g} s")

    def _notice(self, problem: str) -> str:
        if not problem or problem in self._shown or len(self._shown) >= _MAX_NOTICES:
            return ""
        self._shown.add(problem)
        return f"this turn cannot be rewound, its files are not kept: {problem}"


class Rewinds:
    """`hold_session` gives a session to this task alone; `check_idle` closes turns that a crash left open. Both raise
    SessionBusy while a turn is running."""

    def __init__(
        self,
        make_checkpoints: MakeCheckpoints | None,
        store: Store,
        clock: Clock,
        hold_session: HoldSession,
        check_idle: Callable[[str], Awaitable[object]],
    ) -> None:
        self._make_checkpoints = make_checkpoints
        self._store = store
        self._clock = clock
        self._hold_session = hold_session
        self._check_idle = check_idle

    async def list_targets(self, session: str, *, with_files: bool = True) -> Sequence[RewindTarget]:
        """The newest turns and rewinds, oldest first, with what bringing each back would change now."""
        found = await self._find_targets(session)
        targets = found.targets[-_MAX_TARGETS:]
        if not with_files:
            return [msgspec.structs.replace(target, problem="") for target in targets]
        changes = await self._compare([place for target in targets for place in found.places[target.id]])
        return [_with_files(target, found, changes) for target in targets]

    async def find_target(self, session: str, id: str) -> RewindTarget:
        """One of all turns and rewinds. Raises UsageError."""
        found = await self._find_targets(session)
        target = found.find(id)
        return _with_files(target, found, await self._compare(found.places[id]))

    async def _find_targets(self, session: str) -> _Targets:
        return _Targets(await self._store.list_turns(session), await find_rewinds(self._store, session))

    async def rewind(self, session: str, id: str, scope: RewindScope) -> RewindResult:
        """Brings back the state before a turn or a rewind. Raises AishError; then files are brought back at most in
        part, and the conversation is as it was."""
        async with self._hold_session(session, _LOCK_WAIT_S):
            if await self._store.find_session(session) is None:
                raise SessionNotFound(f"no session {session}")
            await self._check_idle(session)
            found = await self._find_targets(session)
            target = found.find(id)
            places = () if scope is RewindScope.CONVERSATION else _places_of(found, target)
            before = [await self._get_checkpoints().take(place) for place in places]
            rewinds = found.add_rewind(target, self._clock.now_ms(), before)
            await _store_rewinds(self._store, session, rewinds)  # first, so that a crash in between loses nothing
            files = [await self._get_checkpoints().restore(place) for place in places]
            if (now := [one.before for one in files]) != before:  # the user has changed a file in between
                rewinds = found.add_rewind(target, self._clock.now_ms(), now)
                await _store_rewinds(self._store, session, rewinds)
            turns = 0 if scope is RewindScope.FILES else await self._cut(session, rewinds, found.cuts_before(target))
            changes = [(place.root, one.changes) for place, one in zip(places, files, strict=True)]
            return RewindResult(rewinds.rewinds[-1].id, tuple(changes), turns)

    async def _cut(self, session: str, rewinds: SessionRewinds, cuts: tuple[Cut, ...]) -> int:
        """Returns how many more turns are cut now. The summary goes, too, if it covers a turn that leaves or comes
        back."""
        first = _first_difference(rewinds.cuts, cuts)
        if first is not None and (await compaction.find_summary(self._store, session)).upto >= first:
            await self._store.delete(compaction.KIND, session)
        await _store_rewinds(self._store, session, msgspec.structs.replace(rewinds, cuts=cuts))
        return _count_turns(cuts) - _count_turns(rewinds.cuts)

    def _get_checkpoints(self) -> Checkpoints:
        if self._make_checkpoints is None:
            raise CheckpointError(_DISABLED)
        return self._make_checkpoints()

    async def _compare(self, checkpoints: Sequence[Checkpoint]) -> dict[tuple[str, int], FileChanges | str]:
        """By root and number: what would change, or why that is unknown."""
        found: dict[tuple[str, int], FileChanges | str] = {}
        for root in dict.fromkeys(one.root for one in checkpoints):
            numbers = {one.number for one in checkpoints if one.root == root}
            try:
                changes = await self._get_checkpoints().compare(root, numbers)
            except CheckpointError as exc:
                found.update({(root, number): exc.message for number in numbers})
            else:
                found.update({(root, number): changes.get(number, _NOT_STORED) for number in numbers})
        return found


class _Targets:
    """What a session can be rewound to. `places` are the checkpoints to bring back, by the id of the target."""

    def __init__(self, turns: Sequence[TurnRecord], rewinds: SessionRewinds) -> None:
        self._rewinds = rewinds
        self._last = turns[-1].number if turns else 0
        self.targets: list[RewindTarget] = []
        self.places: dict[str, tuple[Checkpoint, ...]] = {}
        by_turn = {one.turn: one for one in rewinds.checkpoints}
        since = [(turn.number, by_turn[turn.id]) for turn in turns if turn.id in by_turn]
        for turn in turns:
            self._add_turn(turn, [one for number, one in since if number >= turn.number])
        for past in rewinds.rewinds:
            self.targets.append(RewindTarget(past.id, past.at_ms, f"before the rewind to {past.to}"))
            self.places[past.id] = past.before
        self.targets.sort(key=lambda target: target.at_ms)

    def _add_turn(self, turn: TurnRecord, since: Sequence[TurnCheckpoint]) -> None:
        """The files are those before the first effect in this turn or a later one, in each workspace."""
        id = str(turn.number)
        places: dict[str, Checkpoint] = {}
        for one in since:
            if one.checkpoint is not None:
                places.setdefault(one.checkpoint.root, one.checkpoint)
        problem = since[0].problem if since else ""
        is_cut = self._rewinds.has_cut(turn.number)
        question = _question_of(turn)
        self.targets.append(RewindTarget(id, turn.started_ms, question, problem=problem, is_cut=is_cut, turn=turn.id))
        self.places[id] = () if problem else tuple(places.values())

    def find(self, id: str) -> RewindTarget:
        for target in self.targets:
            if target.id == id:
                return target
        raise UsageError(f"there is no turn {id} to rewind to", hint=":rewind lists them")

    def cuts_before(self, target: RewindTarget) -> tuple[Cut, ...]:
        """The parts that are no longer in the conversation once it is rewound."""
        if target.id.isdecimal():
            return _join_cuts((*self._rewinds.cuts, (int(target.id), self._last)))
        past = next(one for one in self._rewinds.rewinds if one.id == target.id)
        return _join_cuts((*past.cuts, (past.last + 1, self._last)))

    def add_rewind(self, target: RewindTarget, now_ms: int, before: Sequence[Checkpoint]) -> SessionRewinds:
        earlier = self._rewinds.rewinds
        number = int(earlier[-1].id[1:]) + 1 if earlier else 1
        past = PastRewind(f"r{number}", now_ms, target.id, self._last, tuple(before), self._rewinds.cuts)
        return msgspec.structs.replace(self._rewinds, rewinds=(*earlier, past)[-_MAX_REWINDS:])


def _places_of(found: _Targets, target: RewindTarget) -> Sequence[Checkpoint]:
    if target.problem:
        raise CheckpointError(f"the files cannot be brought back: {target.problem}")
    return found.places[target.id]


def _with_files(
    target: RewindTarget, found: _Targets, changes: dict[tuple[str, int], FileChanges | str]
) -> RewindTarget:
    files: list[tuple[str, FileChanges]] = []
    for place in found.places[target.id]:
        change = changes[place.root, place.number]
        if isinstance(change, str):
            return msgspec.structs.replace(target, problem=change)
        files.append((place.root, change))
    return msgspec.structs.replace(target, files=tuple(files) or None)


def _join_cuts(cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    joined: list[Cut] = []
    for first, last in sorted(cuts):
        if first > last:
            continue
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _first_difference(before: Sequence[Cut], after: Sequence[Cut]) -> int | None:
    """The first turn that only one of them cuts; None if there is none."""
    turns: set[int] = set()
    for first, last in {*before} ^ {*after}:
        turns.update((first, last + 1))
    old, new = SessionRewinds(cuts=tuple(before)), SessionRewinds(cuts=tuple(after))
    return min((turn for turn in turns if old.has_cut(turn) != new.has_cut(turn)), default=None)


def _count_turns(cuts: Sequence[Cut]) -> int:
    return sum(last - first + 1 for first, last in cuts)


def _question_of(turn: TurnRecord) -> str:
    """The first line of what the user asked."""
    for message in turn.input:
        if isinstance(message, UserMessage) and message.parts and isinstance(message.parts[0], TextPart):
            return " ".join(message.parts[0].text.split())[:_TITLE_CHARS]
    return ""
