"""Taking edits back: the last one, exactly, only if nobody has changed the files since, also after a restart."""

from __future__ import annotations

import pytest

from aish.errors import ToolError
from aish.tools.code.edits import undo_log
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace
from support.ide_tools import field, ide_with


@pytest.fixture
def applier(root, tmp_path):
    space = Workspace(root)
    yield JournaledApplier(space, tmp_path / "state")
    space.close()


async def change(applier, root, path, content, title=""):
    held = root / path
    base = content_hash(held.read_bytes()) if held.exists() else None
    return await applier.apply([FileEdit(path, base, content)], title=title or f"{path} to {content!r}")


async def test_edits_are_taken_back_last_first_until_there_is_none(applier, root):
    (root / "a").write_bytes(b"0")
    for content in (b"1", b"2", b"3"):
        await change(applier, root, "a", content)
    for content in (b"2", b"1", b"0"):
        undone = await applier.undo()
        assert undone.outcome.applied == ("a",)
        assert (root / "a").read_bytes() == content
    with pytest.raises(ToolError, match="there is nothing to undo"):
        await applier.undo()


async def test_a_file_comes_back_with_its_mode_and_a_folder_that_was_made_goes(applier, root):
    (root / "a").write_bytes(b"#!/bin/sh\n")
    (root / "a").chmod(0o755)
    await change(applier, root, "a", None)
    await change(applier, root, "deep/er/b", b"b")
    await applier.undo()
    assert not (root / "deep").exists()
    await applier.undo()
    assert (root / "a").read_bytes() == b"#!/bin/sh\n" and (root / "a").stat().st_mode & 0o777 == 0o755


async def test_a_folder_in_which_somebody_else_has_put_something_stays(applier, root):
    await change(applier, root, "made/b", b"b")
    (root / "made" / "theirs").write_text("theirs")
    await applier.undo()
    assert [path.name for path in (root / "made").iterdir()] == ["theirs"]


async def test_nothing_is_taken_back_if_a_file_has_changed_since_and_it_is_still_there_to_undo(applier, root):
    for name in "ab":
        (root / name).write_bytes(b"0")
    edits = [FileEdit(name, content_hash(b"0"), b"1") for name in "ab"]
    await applier.apply(edits, title="both")
    (root / "b").write_bytes(b"somebody's")
    undone = await applier.undo()
    assert [(one.path, one.reason) for one in undone.outcome.conflicts] == [("b", "it changed since that edit")]
    assert (root / "a").read_bytes() == b"1" and (root / "b").read_bytes() == b"somebody's"
    (root / "b").write_bytes(b"1")
    assert (await applier.undo()).outcome.applied == ("a", "b")


async def test_one_of_several_is_taken_back_by_its_id(applier, root):
    first = await change(applier, root, "a", b"1", "the first")
    await change(applier, root, "b", b"1", "the second")
    assert [undoable.title for undoable in await applier.list_undoable()] == ["the second", "the first"]
    assert (await applier.undo(first.undo)).title == "the first"
    assert not (root / "a").exists() and (root / "b").exists()
    with pytest.raises(ToolError, match="there is no edit nonsense to undo"):
        await applier.undo("nonsense")
    for id in ("../journal", "lock", ""):
        assert all(undoable.id != id for undoable in await applier.list_undoable())


async def test_edits_can_be_undone_by_another_process_later(applier, root, tmp_path):
    (root / "a").write_bytes(b"0")
    await change(applier, root, "a", b"1")
    await JournaledApplier(Workspace(root), tmp_path / "state").undo()
    assert (root / "a").read_bytes() == b"0"


async def test_the_oldest_are_forgotten_past_a_number(applier, root):
    for n in range(undo_log.MAX_ENTRIES + 3):
        await change(applier, root, "a", str(n).encode())
    undoable = await applier.list_undoable()
    assert (
        len(undoable) == undo_log.MAX_ENTRIES
        and undoable[0].title == f"a to {str(undo_log.MAX_ENTRIES + 2).encode()!r}"
    )


async def test_the_oldest_are_forgotten_past_a_size_but_never_the_last(applier, root):
    for n in range(6):
        (root / f"{n}").write_bytes(b"x" * (14 * 1024 * 1024))
        await change(applier, root, f"{n}", b"small", f"{n}")
    assert [undoable.title for undoable in await applier.list_undoable()] == ["5", "4", "3", "2"]


async def test_two_workspaces_do_not_undo_one_another(applier, root, tmp_path):
    (tmp_path / "other").mkdir()
    await change(applier, root, "a", b"1")
    with pytest.raises(ToolError, match="nothing to undo"):
        await JournaledApplier(Workspace(tmp_path / "other"), tmp_path / "state").undo()


async def test_the_tools_take_back_what_a_model_edited(root):
    (root / "a.py").write_bytes(b"one\r\n")
    async with ide_with(root, diagnostics_wait_s=0.5) as tools:
        revision = field(await tools("read_file", path="a.py"), "revision")
        done = await tools("edit", edits=[{"path": "a.py", "revision": revision, "old": "one", "new": "two"}])
        assert (root / "a.py").read_bytes() == b"two\r\n"
        (undoable,) = await tools.ide.list_undoable()
        assert undoable.id == field(done, "undo") and undoable.paths == ("a.py",)
        assert "undone: edit a.py" in await tools.ide.undo()
        assert (root / "a.py").read_bytes() == b"one\r\n"
        with pytest.raises(ToolError, match="nothing to undo"):
            await tools.ide.undo()
