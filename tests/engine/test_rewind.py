"""Rewinding sessions, with an engine, a store and the files of a real folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aish.engine.rewind import TurnCheckpoints, find_rewinds
from aish.errors import CheckpointError, SessionBusy, UsageError
from aish.ports import CallContext, Store
from aish.storage.memory import MemoryStore
from aish.storage.sqlite.store import SqliteStore
from aish.tools.checkpoints.checkpoints import CheckpointSettings, WorkspaceCheckpoints
from aish.types.checkpoints import Checkpoint, RewindScope
from aish.types.chunks import CallFragment
from aish.types.decisions import PROVED_RULE, Decision, EffectRequest, Verdict
from aish.types.events import Status, TextDelta, ToolResult
from aish.types.messages import AssistantMessage, user
from aish.types.records import Document
from aish.types.tools import Arguments, Effect, ToolOutput
from support.engines import Bench, Tools, bodies, call, policy_gate, said

FILES, CONVERSATION, BOTH = RewindScope.FILES, RewindScope.CONVERSATION, RewindScope.BOTH


class Place:
    """A workspace, and an engine whose tools write and read in it. Each answer makes the calls that are given."""

    def __init__(self, base: Path, *answers: list[Any], store: Store | None = None, **settings: Any) -> None:
        self.root = base / "work"
        self.root.mkdir(exist_ok=True)
        checkpoint_settings = CheckpointSettings(base / "state", base / "home", **settings)
        self.takes = 0
        self.checkpoints = WorkspaceCheckpoints(checkpoint_settings, self._find_root)
        tools = Tools().add("t__write", self._write, effect=Effect.WRITE).add("t__read")
        steps = [step for answer in answers for step in ([*answer], [TextDelta("done")]) if step]
        self.bench = Bench(
            *steps, tools=tools, gate=policy_gate(write="allow"), store=store,
            settings={"checkpoints": lambda: self.checkpoints},
        )  # fmt: skip
        self.engine = self.bench.engine
        self.session = ""

    def _find_root(self) -> Path:
        self.takes += 1
        return self.root

    async def _write(self, arguments: Arguments, context: CallContext) -> ToolOutput:
        path = self.root / str(arguments["path"])
        if arguments["text"] is None:
            path.unlink()
        else:
            path.write_text(str(arguments["text"]))
        return said("written")

    async def ask(self, text: str = "go") -> list[Any]:
        events = await self.bench.run(text, session=self.session)
        self.session = events[0].session
        return events

    async def rewind(self, id: str, scope: RewindScope = BOTH) -> Any:
        return await self.engine.rewinds.rewind(self.session, id, scope)

    async def questions(self) -> list[str]:
        history = await self.engine.history(self.session)
        return [message.text for message in history if message == user(message.text)]


def write(path: str, text: str | None, *, index: int = 0) -> CallFragment:
    value = "null" if text is None else f'"{text}"'
    return call("t__write", f'{{"path": "{path}", "text": {value}}}', index=index)


async def test_a_turn_without_an_effect_takes_no_checkpoint(tmp_path):
    place = Place(tmp_path, [call("t__read")])
    await place.ask()
    assert place.takes == 0 and not (tmp_path / "state").exists()


async def test_a_proved_command_takes_no_checkpoint(tmp_path):
    class Proved:
        is_visible = policy_gate().is_visible
        find_like = policy_gate().find_like

        async def authorise(self, effect: EffectRequest, ask: Any) -> Decision:
            return Decision(Verdict.ALLOW, PROVED_RULE)

    place = Place(tmp_path, [write("a", "1")])
    place.bench.engine._gate = Proved()
    await place.ask()
    assert place.takes == 0


async def test_a_turn_takes_one_checkpoint_before_its_first_effect(tmp_path):
    place = Place(tmp_path, [write("a", "1"), write("b", "2", index=1), call("t__read", index=2)])
    (place.root / "a").write_text("0")
    await place.ask()
    assert place.takes == 1
    [target] = await place.engine.rewinds.list_targets(place.session)
    [(root, changes)] = target.files
    assert Path(root) == place.root
    assert (changes.replaced, changes.removed) == (("a",), ("b",))


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_files_and_conversation_come_back_also_after_a_restart(tmp_path, kind):
    store = kind() if kind is MemoryStore else kind(tmp_path / "aish.db")
    place = Place(tmp_path, [write("a", "1")], [write("b", "2")], [write("a", None)], store=store)
    for text in ("one", "two", "three"):
        await place.ask(text)
    after = Place(tmp_path, [TextDelta("four")], store=store)
    after.session = place.session
    result = await after.rewind("2")
    assert result.turns == 2
    assert (after.root / "a").read_text() == "1" and not (after.root / "b").exists()
    assert await after.questions() == ["one"]
    await after.ask("instead")
    sent = [message.text for message in after.bench.scripted.requests[-1].messages]
    assert "two" not in sent and "three" not in sent and sent[-1] == "instead" and "one" in sent
    assert await after.questions() == ["one", "instead"]
    assert len(await store.list_turns(after.session)) == 4  # nothing is deleted


async def test_the_prompt_after_a_rewind_begins_as_an_earlier_one_did(tmp_path):
    place = Place(tmp_path, [], [], [], [])
    for text in ("one", "two", "three"):
        await place.ask(text)
    await place.rewind("2", CONVERSATION)
    await place.ask("other")
    requests = place.bench.scripted.requests
    assert requests[-1].messages[:-1] == requests[1].messages[:-1]


async def test_files_alone_come_back_and_the_conversation_stays(tmp_path):
    place = Place(tmp_path, [write("a", "1")])
    await place.ask("one")
    await place.rewind("1", FILES)
    assert not (place.root / "a").exists()
    assert await place.questions() == ["one"]


async def test_a_turn_without_an_effect_is_rewound_to_the_next_effect(tmp_path):
    place = Place(tmp_path, [], [write("a", "1")], [write("a", "2")])
    for _ in range(3):
        await place.ask()
    (place.root / "a").write_text("mine")
    await place.rewind("1")
    assert not (place.root / "a").exists()
    assert await place.questions() == []


async def test_what_the_user_changed_since_comes_back_when_the_rewind_is_taken_back(tmp_path):
    place = Place(tmp_path, [write("a", "1")])
    await place.ask("one")
    (place.root / "a").write_text("the user's own words")
    result = await place.rewind("1")
    assert not (place.root / "a").exists() and await place.questions() == []
    await place.rewind(result.undo)
    assert (place.root / "a").read_text() == "the user's own words"
    assert await place.questions() == ["one"]


async def test_turns_made_after_a_rewind_leave_the_conversation_when_it_is_taken_back(tmp_path):
    place = Place(tmp_path, [], [], [])
    await place.ask("one")
    await place.ask("two")
    result = await place.rewind("2", CONVERSATION)
    await place.ask("another two")
    back = await place.rewind(result.undo, CONVERSATION)
    assert await place.questions() == ["one", "two"]
    await place.rewind(back.undo, CONVERSATION)
    assert await place.questions() == ["one", "another two"]


async def test_a_summary_that_may_tell_of_rewound_turns_goes(tmp_path):
    place = Place(tmp_path, [], [])
    await place.ask("one")
    await place.ask("two")
    await place.bench.store.put(Document("summary", place.session, b'{"upto":2,"text":"two was said"}'))
    await place.rewind("2", CONVERSATION)
    assert await place.bench.store.find("summary", place.session) is None


async def test_a_summary_of_turns_that_stay_stays_and_the_prompt_begins_as_before(tmp_path):
    place = Place(tmp_path, [], [], [], [], [])
    for text in ("one", "two", "three"):
        await place.ask(text)
    await place.bench.store.put(Document("summary", place.session, b'{"upto":1,"text":"one was said"}'))
    await place.ask("four")
    result = await place.rewind("4", CONVERSATION)
    await place.ask("another four")
    requests = place.bench.scripted.requests
    assert "one was said" in requests[-1].messages[0].text
    assert requests[-1].messages[:-1] == requests[-2].messages[:-1]
    await place.rewind(result.undo, CONVERSATION)
    assert await place.bench.store.find("summary", place.session) is not None
    await place.rewind("1", CONVERSATION)
    assert await place.bench.store.find("summary", place.session) is None


async def test_a_checkpoint_that_fails_is_told_once_and_the_turn_goes_on(tmp_path):
    place = Place(tmp_path, [write("a", "1")], [write("b", "1")])
    (tmp_path / "state").write_text("no folder")
    first, second = await place.ask(), await place.ask()
    notices = [body.text for body in bodies(first, Status) if "rewound" in body.text]
    assert len(notices) == 1 and "cannot be stored" in notices[0]
    assert not [body for body in bodies(second, Status) if "rewound" in body.text]
    assert (place.root / "b").read_text() == "1"
    target = await place.engine.rewinds.find_target(place.session, "1")
    assert target.files is None and "cannot be stored" in target.problem
    with pytest.raises(CheckpointError, match="cannot be brought back"):
        await place.rewind("1")
    assert await place.questions() == ["go", "go"]  # both or nothing
    await place.rewind("1", CONVERSATION)
    assert await place.questions() == []


async def test_a_failure_of_any_kind_does_not_stop_the_turn(tmp_path):
    place = Place(tmp_path, [write("a", "1")])

    async def fail(before: Checkpoint | None = None) -> Checkpoint:
        raise ValueError("a defect")

    place.checkpoints.take = fail
    events = await place.ask()
    assert (place.root / "a").exists() and bodies(events, ToolResult)


async def test_checkpoints_that_are_gone_are_named(tmp_path):
    place = Place(tmp_path, [write("a", "1")])
    await place.ask()
    [file] = (tmp_path / "state").rglob("*.db")
    file.unlink()
    [target] = await place.engine.rewinds.list_targets(place.session)
    assert "not stored on this machine" in target.problem


async def test_a_session_that_is_answering_is_not_rewound(tmp_path, monkeypatch):
    monkeypatch.setattr("aish.engine.rewind._LOCK_WAIT_S", 0.05)
    place = Place(tmp_path, [write("a", "1")], [write("b", "1")])
    await place.ask()
    async with place.engine.turn(place.bench.request(session=place.session)) as batches:
        await anext(batches)
        with pytest.raises(SessionBusy):
            await place.rewind("1")
    assert (place.root / "a").exists()


async def test_two_windows_that_rewind_at_once_do_it_one_after_the_other(tmp_path):
    place = Place(tmp_path, [write("a", "1")], [write("a", "2")])
    await place.ask()
    await place.ask()
    results = await asyncio.gather(place.rewind("1", FILES), place.rewind("2", FILES))
    assert len({result.undo for result in results}) == 2
    assert not (place.root / "a").exists() or (place.root / "a").read_text() == "1"


async def test_a_target_that_is_not_there_is_an_error(tmp_path):
    place = Place(tmp_path, [])
    await place.ask()
    for id in ("7", "r1", "x"):
        with pytest.raises(UsageError, match="there is no turn"):
            await place.rewind(id)


async def test_deleting_a_session_deletes_what_is_known_of_its_checkpoints(tmp_path):
    place = Place(tmp_path, [write("a", "1")])
    await place.ask()
    assert await place.bench.store.find("rewind", place.session) is not None
    await place.bench.store.delete_session(place.session)
    assert await place.bench.store.find("rewind", place.session) is None


async def test_a_command_that_an_answer_proposed_gets_the_checkpoint_of_its_turn(tmp_path):
    place = Place(tmp_path, [])
    await place.ask()
    (place.root / "a").write_text("1")
    assert await place.engine.turn_checkpoints.take_for_last_turn(place.session) == ""
    (place.root / "a").unlink()  # what the command did
    await place.rewind("1", FILES)
    assert (place.root / "a").read_text() == "1"


async def test_a_call_without_a_model_after_a_turn_gets_the_checkpoint_of_that_turn(tmp_path):
    place = Place(tmp_path, [])
    await place.ask()
    await place.engine.call_tool("t__write", '{"path": "a", "text": "1"}', after=place.session)
    await place.rewind("1", FILES)
    assert not (place.root / "a").exists()


async def test_an_answer_stays_as_it_was_in_the_recording(tmp_path):
    place = Place(tmp_path, [write("a", "1")])
    events = await place.ask()
    await place.rewind("1")
    assert await place.bench.recorded(events)
    assert AssistantMessage("done") not in await place.engine.history(place.session)


async def test_a_rewind_that_breaks_off_can_still_be_taken_back(tmp_path, monkeypatch):
    place = Place(tmp_path, [write("a", "1")])
    await place.ask()

    async def die_half_way(checkpoint: Checkpoint) -> Any:
        (place.root / "a").write_text("half way")
        raise CheckpointError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(place.checkpoints, "restore", die_half_way)
        with pytest.raises(CheckpointError, match="the disk is gone"):
            await place.rewind("1")
    assert await place.questions() == ["go"]
    await place.rewind("r1")
    assert (place.root / "a").read_text() == "1"


async def test_a_slow_checkpoint_says_what_is_being_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("aish.engine.tools.executor._SLOW_S", 0.0)
    place = Place(tmp_path, [write("a", "1")])
    events = await place.ask()
    assert [body.text for body in bodies(events, Status) if "are being stored" in body.text]


async def test_a_checkpoint_that_hangs_does_not_hold_up_the_turn(tmp_path, monkeypatch):
    monkeypatch.setattr("aish.engine.rewind._TAKE_WAIT_S", 0.05)
    place = Place(tmp_path, [write("a", "1")])

    async def hang(before: Checkpoint | None = None) -> Checkpoint:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(place.checkpoints, "take", hang)
    events = await place.ask()
    assert (place.root / "a").exists()
    assert [body.text for body in bodies(events, Status) if "within 0.05 s" in body.text]


async def test_checkpoints_that_windows_take_at_the_same_time_are_all_noted(tmp_path):
    place = Place(tmp_path, store=SqliteStore(tmp_path / "store.db"))
    (place.root / "a").write_text("1")
    turns = [f"turn_{number}" for number in range(8)]
    takers = [TurnCheckpoints(lambda: place.checkpoints, lambda: place.engine.store) for _ in turns]
    await asyncio.gather(*(taker.take("s", turn) for taker, turn in zip(takers, turns, strict=True)))
    noted = await find_rewinds(place.engine.store, "s")
    assert sorted(one.turn for one in noted.checkpoints) == turns
    await place.engine.aclose()
