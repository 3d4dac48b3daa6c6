"""Edits of files: all of them or none, against what was read, with what must be kept of a file kept."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aish.errors import ToolError
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.edits.undo_log import UndoLog
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace
from support.ide_tools import ide_with


class Location:
    """A workspace with an applier. `on` runs something of somebody else's before a step of ours."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.state = folder / "state"
        self.root.mkdir(parents=True)
        self.on = {}
        self.space = Workspace(self.root)
        self.applier = JournaledApplier(self.space, self.state, step=lambda what: self.on.pop(what, lambda: None)())

    def write(self, **files):
        for name, content in files.items():
            (self.root / f"{name}.py").write_bytes(content)

    def edit(self, path, content):
        held = self.root / path
        return FileEdit(path, content_hash(held.read_bytes()) if held.exists() else None, content)

    async def apply(self, *edits, title="a change"):
        return await self.applier.apply(edits, title=title)

    def tree(self):
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def state_names(self):
        (folder,) = self.state.iterdir()
        return sorted(path.name.partition("-")[0] for path in folder.iterdir())


@pytest.fixture
def place(tmp_path):
    made = Location(tmp_path)
    yield made
    made.space.close()


def reasons(outcome):
    return {conflict.path: conflict.reason for conflict in outcome.conflicts}


async def test_files_are_changed_made_moved_and_removed_together(place):
    place.write(a=b"a", b=b"b", c=b"c")
    (place.root / "b.py").chmod(0o755)
    edits = [
        place.edit("a.py", b"A"),
        FileEdit("new/folder/b.py", None, b"b"),
        place.edit("b.py", None),
        place.edit("c.py", None),
        place.edit("made.py", b""),
    ]
    outcome = await place.apply(*edits)
    assert outcome.conflicts == () and set(outcome.applied) == {edit.path for edit in edits}
    assert place.tree() == {"a.py": b"A", "new/folder/b.py": b"b", "made.py": b""}
    assert (place.root / "new/folder/b.py").stat().st_mode & 0o777 == 0o755
    assert place.state_names() == ["lock", "undo"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
async def test_the_mode_is_kept(place, mode):
    place.write(a=b"a")
    (place.root / "a.py").chmod(mode)
    await place.apply(place.edit("a.py", b"b"))
    assert (place.root / "a.py").stat().st_mode & 0o777 == mode


async def test_one_file_that_changed_or_is_gone_or_is_there_already_stops_all_and_each_is_named(place):
    place.write(a=b"a", b=b"b", c=b"c", d=b"d")
    edits = [place.edit(f"{name}.py", b"x") for name in "abc"]
    place.write(b=b"somebody else's")
    (place.root / "c.py").unlink()
    before = place.tree()
    outcome = await place.apply(*edits, FileEdit("d.py", None, b"x"))
    assert outcome.applied == () and outcome.undo == ""
    assert reasons(outcome) == {
        "b.py": "it changed since it was read", "c.py": "it is gone", "d.py": "it is there already",
    }  # fmt: skip
    assert place.tree() == before


async def test_a_file_that_changes_while_others_are_put_in_place_takes_everything_back(place):
    place.write(a=b"a", b=b"b", c=b"c")
    (place.root / "a.py").chmod(0o755)
    edits = [place.edit("c.py", None), place.edit("a.py", b"A"), place.edit("b.py", b"B"), FileEdit("n/n", None, b"n")]
    place.on["place b.py"] = lambda: place.write(b=b"somebody else's")
    outcome = await place.apply(*edits)
    assert "changed in the meantime" in outcome.conflicts[0].reason
    assert reasons(outcome)["b.py"] == "another program changed it, and it stays as it is"
    assert place.tree() == {"a.py": b"a", "b.py": b"somebody else's", "c.py": b"c"}
    assert not (place.root / "n").exists()
    assert (place.root / "a.py").stat().st_mode & 0o777 == 0o755
    assert place.state_names() == ["lock"]


async def test_a_new_file_is_never_put_over_one_that_has_come_to_be_there(place):
    place.write(a=b"a")
    place.on["place new.py"] = lambda: place.write(new=b"somebody else's")
    outcome = await place.apply(place.edit("a.py", b"A"), FileEdit("new.py", None, b"mine"))
    assert outcome.conflicts
    assert place.tree() == {"a.py": b"a", "new.py": b"somebody else's"}


async def test_staging_that_fails_leaves_nothing_behind(place):
    place.write(a=b"a")
    (place.root / "sub").mkdir()
    (place.root / "sub" / "b.py").write_bytes(b"b")
    edits = [place.edit("a.py", b"A"), place.edit("sub/b.py", b"B")]
    place.on["stage sub/b.py"] = lambda: (place.root / "sub").rename(place.root / "moved")
    with pytest.raises(ToolError, match="does not exist"):
        await place.apply(*edits)
    assert place.tree() == {"a.py": b"a", "moved/b.py": b"b"}
    assert place.state_names() == ["lock"]


async def test_a_file_that_is_named_twice_or_by_two_names_is_refused(place):
    (place.root / "real").mkdir()
    (place.root / "real" / "a.py").write_bytes(b"a")
    (place.root / "link").symlink_to("real")
    outcome = await place.apply(place.edit("real/a.py", b"1"), place.edit("link/a.py", b"2"))
    assert reasons(outcome) == {"link/a.py": "it is the same file as real/a.py"}
    outcome = await place.apply(place.edit("real/a.py", b"1"), place.edit("real/a.py", b"2"))
    assert reasons(outcome) == {"real/a.py": "it is edited twice in one change"}
    assert place.tree()["real/a.py"] == b"a"


async def test_an_edit_that_changes_nothing_writes_nothing(place):
    place.write(a=b"a")
    before = (place.root / "a.py").stat()
    outcome = await place.apply(place.edit("a.py", b"a"))
    assert outcome.applied == ("a.py",) and outcome.undo == ""
    assert (place.root / "a.py").stat().st_ino == before.st_ino


async def test_more_than_can_be_kept_for_undoing_is_refused(place):
    for n in range(5):
        (place.root / f"{n}.py").write_bytes(b"x" * (15 * 1024 * 1024))
    outcome = await place.apply(*(place.edit(f"{n}.py", b"small") for n in range(5)))
    assert "make smaller ones" in reasons(outcome)["4.py"]
    assert all((place.root / f"{n}.py").stat().st_size > 1000 for n in range(5))


async def test_a_record_of_changes_that_cannot_be_kept_means_no_change(tmp_path, place):
    place.write(a=b"a")
    (tmp_path / "file").write_text("")
    applier = JournaledApplier(place.space, tmp_path / "file" / "state")
    with pytest.raises(ToolError, match="no record of changes can be kept"):
        await applier.apply([place.edit("a.py", b"b")], title="x")
    assert place.tree() == {"a.py": b"a"}


async def test_contents_are_private_where_they_are_kept(place):
    place.write(a=b"secret")
    await place.apply(place.edit("a.py", b"other"))
    (folder,) = place.state.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


async def test_who_else_changes_files_here_is_waited_for_and_named(place):
    place.write(a=b"a")
    undo_log = UndoLog(place.state, place.root.resolve(), lock_wait_s=0.05)
    held = threading.Event()
    done = threading.Event()

    def hold():
        with UndoLog(place.state, place.root.resolve()).lock():
            held.set()
            done.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(10)
    with (
        pytest.raises(ToolError, match=rf"another aish \(.*/{os.getpid()}/.*\) has been changing files"),
        undo_log.lock(),
    ):
        pass
    done.set()
    other.join(10)
    with undo_log.lock():
        pass


async def test_many_changes_at_once_are_made_one_after_the_other(place):
    place.write(a=b"0", b=b"0")
    edits = [
        [FileEdit(path, content_hash(b"0"), content) for path in ("a.py", "b.py")] for content in (b"1", b"2", b"3")
    ]
    outcomes = [None] * 3

    def work(n):
        outcomes[n] = JournaledApplier(place.space, place.state)._apply(edits[n], str(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(bool(outcome.conflicts) for outcome in outcomes) == [False, True, True]
    tree = place.tree()
    assert tree["a.py"] == tree["b.py"] != b"0"


async def test_a_root_that_is_a_link_is_the_folder_that_it_leads_to(tmp_path, place):
    place.write(a=b"a")
    (tmp_path / "link").symlink_to(place.root)
    space = Workspace(tmp_path / "link")
    applier = JournaledApplier(space, place.state)
    edit = FileEdit(str(tmp_path / "link" / "a.py"), content_hash(b"a"), b"b")
    assert (await applier.apply([edit], title="x")).conflicts == ()
    assert place.tree() == {"a.py": b"b"}
    undone = await place.applier.undo()
    space.close()
    assert undone.title == "x" and place.tree() == {"a.py": b"a"}


NAMES = st.sampled_from(["a", "b", "sub/c", "sub/d", "x/y/e"])
CONTENTS = st.one_of(st.none(), st.binary(max_size=40))
TREES = st.dictionaries(NAMES, st.binary(max_size=40), max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TREES, after=st.dictionaries(NAMES, CONTENTS, min_size=1, max_size=5))
async def test_any_change_leads_to_what_it_says_and_undoing_leads_back(tmp_path_factory, before, after):
    place = Location(tmp_path_factory.mktemp("place"))
    for path, content in before.items():
        (place.root / path).parent.mkdir(parents=True, exist_ok=True)
        (place.root / path).write_bytes(content)
    wanted = {path: content for path, content in {**before, **after}.items() if content is not None}
    outcome = await place.apply(*(place.edit(path, content) for path, content in after.items()))
    assert not outcome.conflicts and place.tree() == wanted
    if outcome.undo:
        assert not (await place.applier.undo()).outcome.conflicts
    assert place.tree() == before
    assert not list(place.root.rglob(".aish-*"))
    place.space.close()


KINDS = {
    "binary": (b"\x7fELF\0\0", "binary file"),
    "not utf-8": (b"caf\xe9 one\n", "not UTF-8"),
    "huge": (b"one\n" * 1_500_000, "more than"),
    "folder": (None, "not a regular file"),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_no_text_to_edit_is_refused_with_the_reason_and_stays(tmp_path, kind):
    content, reason = KINDS[kind]
    root = tmp_path / "root"
    root.mkdir()
    if content is None:
        (root / "f").mkdir()
    else:
        (root / "f").write_bytes(content)
    revision = content_hash(content or b"")[:16]
    async with ide_with(root, diagnostics_wait_s=0.2) as tools:
        with pytest.raises(ToolError, match=reason):
            await tools("edit", edits=[{"path": "f", "revision": revision, "old": "one", "new": "two"}])
    assert content is None or (root / "f").read_bytes() == content


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one", b"two"),
        (b"one\n", b"two\n"),
        (b"one\r\nx\r\n", b"two\r\nx\r\n"),
        (b"x\rone\r", b"x\rtwo\r"),
        (b"\xef\xbb\xbfone\r\n", b"\xef\xbb\xbftwo\r\n"),
        (b"one\nmixed\r\n", b"two\nmixed\r\n"),
    ],
)
async def test_line_ends_a_mark_and_a_missing_last_end_stay_as_they_are(tmp_path, before, after):
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_bytes(before)
    async with ide_with(root, diagnostics_wait_s=0.2) as tools:
        edit = {"path": "f", "revision": content_hash(before)[:16], "old": "one", "new": "two"}
        await tools("edit", edits=[edit])
        assert (root / "f").read_bytes() == after
        await tools.ide.undo()
    assert (root / "f").read_bytes() == before
