"""A language server that crashes, answers late, talks nonsense and edits what it must not."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest

from aish.errors import ToolError
from support.eventually import eventually
from support.ide_tools import field, hostile_ide, listed
from support.processes import is_running

AT = {"path": "a.py", "line": 1, "symbol": "name"}
TEXT = "def name(): pass\ndef name(): pass\ndef name(): pass\n"


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text(TEXT)
    (tmp_path / "outside.py").write_text(TEXT)
    return folder


def notes(root) -> list[str]:
    return (root.parent / "notes").read_text().splitlines()


def pids(root) -> list[int]:
    return [int(line.split()[1]) for line in notes(root) if line.startswith("pid ")]


async def started(tools) -> None:
    """Until it has answered once: starting counts as waiting."""

    async def has_answered() -> bool:
        return field(await tools("references", **AT), "status") != "pending"

    await eventually(has_answered, 30)


def _key(offered: str) -> str:
    return next(line.split(":")[0] for line in offered.splitlines() if "Mend it" in line)


# Starting and ending


async def test_a_server_that_dies_at_its_start_says_why_and_is_not_started_for_ever(root):
    async with hostile_ide(root, "exit_at_start") as tools:
        with pytest.raises(ToolError, match="left pad"):
            await tools("hover", **AT)
        for _ in range(4):
            with pytest.raises(ToolError):
                await tools("hover", **AT)
        (server,) = tools.ide.backends.servers._servers.values()
        assert server.starts <= 3
        with pytest.raises(ToolError, match=r"crashed .* not started for"):
            await tools("hover", **AT)


async def test_a_deaf_server_is_pending_and_is_killed_at_the_end(root):
    async with hostile_ide(root, "deaf", wait_s=0.5) as tools:
        result = await tools("hover", **AT)
        assert field(result, "status") == "pending"
        await eventually(lambda: pids(root))
    await eventually(lambda: not is_running(pids(root)[0]))


async def test_what_is_said_after_shutdown_changes_nothing(root):
    async with hostile_ide(root, "talks_after_shutdown") as tools:
        assert "a symbol" in await tools("hover", **AT)
    await eventually(lambda: not is_running(pids(root)[0]))


async def test_an_idle_server_is_stopped_and_started_again_by_the_next_question(root):
    async with hostile_ide(root, idle_stop_s=0.05, check_every_s=0.05) as tools:
        assert "a symbol" in await tools("hover", **AT)
        await eventually(lambda: not is_running(pids(root)[0]))
        assert "a symbol" in await tools("hover", **AT)
        assert len(pids(root)) == 2


async def test_a_server_that_takes_too_much_memory_is_ended(root):
    async with hostile_ide(root, "swallows_memory", max_memory_mb=100, check_every_s=0.05) as tools:
        with suppress(ToolError):  # it may be gone before it has answered
            await tools("hover", **AT)
        (server,) = tools.ide.backends.servers._servers.values()
        await eventually(lambda: not server.running)
        assert "more than the 100 MB" in server.ended


async def test_several_questions_at_once_start_one_server(root):
    async with hostile_ide(root) as tools:
        await asyncio.gather(*(tools("hover", **AT) for _ in range(8)))
        assert len(pids(root)) == 1


async def test_a_question_that_is_cancelled_leaves_the_server_usable(root):
    async with hostile_ide(root, "late", wait_s=30) as tools:
        asking = asyncio.ensure_future(tools("hover", **AT))
        await eventually(lambda: "textDocument/hover" in (notes(root) if (root.parent / "notes").exists() else []))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert "answer 2" in await tools("hover", **AT)
        assert "$/cancelRequest" in notes(root)


# In the middle of a question


async def test_a_server_that_dies_in_a_question_is_started_again_and_asked_again(root):
    async with hostile_ide(root, "crash_once") as tools:
        assert "alive again" in await tools("hover", **AT)
    assert len(pids(root)) == 2


async def test_a_server_that_dies_in_every_question_is_given_up(root):
    async with hostile_ide(root, "crash_always") as tools:
        with pytest.raises(ToolError, match=r"went away twice|not started for|cannot be used"):
            await tools("hover", **AT)
    assert len(pids(root)) <= 3


async def test_a_late_answer_is_pending_and_is_not_taken_for_the_next(root):
    async with hostile_ide(root, "late", answer_timeout_s=0.6) as tools:
        await started(tools)
        first = await tools("hover", **AT)
        assert field(first, "status") == "pending"
        assert "not known yet" in first
        assert "answer 2" in await tools("hover", **AT)
        assert "answer 3" in await tools("hover", **AT)


async def test_strays_and_nonsense_between_messages_are_passed_over(root):
    async with hostile_ide(root, "strays") as tools:
        assert "found between strays" in await tools("hover", **AT)


@pytest.mark.parametrize("off_by", [-5, 5, 10_000_000, 10**12])
async def test_a_server_whose_messages_run_into_one_another_is_started_again(root, off_by):
    env = {"HOSTILE_OFF_BY": off_by, "HOSTILE_MENDS": 1}
    async with hostile_ide(root, "wrong_length", answer_timeout_s=1.5, env=env) as tools:
        await started(tools)

        async def is_well() -> bool:
            with suppress(ToolError):  # where what is left of a message says which question it answers
                return "counts well" in await tools("hover", **AT)
            return False

        await eventually(is_well, 20)
    assert len(pids(root)) == 2


async def test_a_server_that_never_frames_well_is_given_up(root):
    async with hostile_ide(root, "wrong_length", answer_timeout_s=1.5, env={"HOSTILE_OFF_BY": 7}) as tools:
        await started(tools)

        server_says = ""
        for _ in range(12):
            try:
                await tools("hover", **AT)
            except ToolError as exc:
                server_says = exc.message
                if "not started for" in server_says:
                    break
    assert "not started for" in server_says and "no message of the protocol" in server_says
    assert len(pids(root)) <= 3


async def test_what_we_do_not_know_is_refused_and_nobody_edits_unasked(root):
    async with hostile_ide(root, "asks_unknown") as tools:
        assert "asked" in await tools("hover", **AT)
        await eventually(lambda: sum(line.startswith("answer ") for line in notes(root)) == 3)
    answers = "\n".join(line for line in notes(root) if line.startswith("answer "))
    assert "-32601" in answers
    assert '"applied": false' in answers
    assert root.as_uri() in answers


async def test_a_question_dropped_because_something_changed_is_asked_again(root):
    async with hostile_ide(root, "content_modified") as tools:
        result = await tools("references", **AT)
    assert listed(result) == {("a.py", 1)}


async def test_a_message_larger_than_any_allowed_fails_its_question_only(root):
    async with hostile_ide(root, "floods", max_message_bytes=100_000) as tools:
        with pytest.raises(ToolError, match="too large"):
            await tools("hover", **AT)
        assert listed(await tools("references", **AT)) == {("a.py", 1)}


async def test_what_a_busy_server_knows_so_far_is_not_its_answer(root):
    async with hostile_ide(root, "busy") as tools:
        result = await tools("references", **AT)
    assert field(result, "status") == "fresh"
    assert listed(result) == {("a.py", 1), ("a.py", 2), ("a.py", 3)}


async def test_what_a_server_knows_that_stays_busy_is_partial_and_is_not_renamed_by(root):
    async with hostile_ide(root, "busy", wait_s=0.6, env={"HOSTILE_BUSY_S": 60}) as tools:
        await started(tools)
        result = await tools("references", **AT)
        assert field(result, "status") == "partial"
        renamed = await tools("rename", **AT, new_name="other")
    assert "nothing was changed" in renamed
    assert (root / "a.py").read_text() == TEXT


async def test_a_server_that_loads_in_silence_is_asked_until_its_answers_agree(root):
    async with hostile_ide(root, "slow_load") as tools:
        result = await tools("references", **AT)
    assert listed(result) == {("a.py", 1), ("a.py", 2), ("a.py", 3)}


async def test_no_diagnostics_in_time_is_pending_and_never_none(root):
    async with hostile_ide(root, "silent_diagnostics", wait_s=0.5) as tools:
        result = await tools("diagnostics", path="a.py")
    assert field(result, "status") == "pending"
    assert "this does not mean that there are none" in result
    assert "total=" not in result


async def test_where_more_changed_than_can_be_told_a_new_server_reads_everything_anew(root, monkeypatch):
    monkeypatch.setattr("aish.tools.code.files.change_feed._MAX_COLLECTED", 3)
    async with hostile_ide(root) as tools:
        await started(tools)
        for number in range(4):
            (root / f"n{number}.py").write_text(TEXT)
        assert field(await tools("references", **AT), "status") == "fresh"
    assert len(pids(root)) == 2
    assert "workspace/didChangeWatchedFiles" not in notes(root)


async def test_what_changes_while_a_server_starts_is_told_to_it(root):
    async with hostile_ide(root, "writes_at_start", env={"HOSTILE_WRITES": root / "b.py"}) as tools:
        await tools("hover", **AT)
        await eventually(lambda: "workspace/didChangeWatchedFiles" in notes(root))


# Edits


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("edit_outside", "outside the workspace"),
        ("edit_overlapping", "overlap"),
        ("edit_wrong_range", "does not fit"),
        ("edit_wrong_line", "does not fit"),
        ("edit_backwards", "does not fit"),
        ("edit_something_else", "something else"),
        ("edit_creates", "there already"),
        ("edit_nonsense", "cannot be read"),
    ],
)
async def test_a_wrong_edit_is_refused_as_a_whole(root, mode, reason):
    async with hostile_ide(root, mode) as tools:
        with pytest.raises(ToolError, match=reason):
            await tools("rename", **AT, new_name="other")
    assert (root / "a.py").read_text() == TEXT
    assert (root.parent / "outside.py").read_text() == TEXT


@pytest.mark.parametrize("name", ["", " ", "1st", "two words", "a;b", "a\nb", "a.b", "x" * 50 + "!"])
async def test_what_cannot_be_a_name_is_not_given_to_anything(root, name):
    async with hostile_ide(root) as tools:
        with pytest.raises(ToolError, match="cannot be a name"):
            await tools("rename", **AT, new_name=name)


@pytest.mark.parametrize("name", ["class", "None", "await"])
async def test_a_word_of_the_language_is_not_given_to_anything(root, name):
    async with hostile_ide(root) as tools:
        with pytest.raises(ToolError, match=f"'{name}' cannot be a name: it is a word of the language python"):
            await tools("rename", **AT, new_name=name)


async def test_a_rename_that_comes_to_nothing_says_what_may_be_the_reason(root):
    async with hostile_ide(root, "edit_nothing") as tools:
        for more in ({}, {"preview": True}):
            result = await tools("rename", **AT, new_name="other", **more)
            assert "ty changes nothing: it may not let name be renamed, or not to other" in result


async def test_two_things_beside_each_other_get_one_name_only_where_that_is_asked_for(root):
    text = "def name(): pass\nclass C:\n    def other(self): pass\ndef other(): pass\n"
    (root / "a.py").write_text(text)
    async with hostile_ide(root) as tools:
        with pytest.raises(ToolError, match=r"a\.py:4 declares other already, beside name"):
            await tools("rename", **AT, new_name="other")
        assert (root / "a.py").read_text() == text
        assert "other stands in a.py:3 already" in await tools("rename", **AT, new_name="other", merge=True)
    assert (root / "a.py").read_text() == text.replace("name", "other")


async def test_a_name_that_is_taken_elsewhere_in_a_file_is_said_and_shown(root):
    (root / "a.py").write_text("def name(): pass\nclass C:\n    def other(self): pass\n")
    async with hostile_ide(root) as tools:
        shown = await tools.ide.preview("rename", {**AT, "new_name": "other"}, "c")
        assert shown.startswith("note: other stands in a.py:3 already")
        assert "done: rename name to other" in await tools("rename", **AT, new_name="other")


async def test_the_text_of_a_deadline_is_the_one_that_was_set(root):
    async with hostile_ide(root, "mute_hover", answer_timeout_s=1.5) as tools:
        await started(tools)
        assert "textDocument/hover was not answered within 1.5 s" in await tools("hover", **AT)


async def test_an_action_that_is_done_is_asked_for_once(root):
    async with hostile_ide(root, "command_edits", wait_s=1) as tools:
        key = _key(await tools("code_action", path="a.py", line=1))
        asked = notes(root).count("textDocument/codeAction")
        await tools("code_action", path="a.py", line=1, apply=key)
    assert notes(root).count("textDocument/codeAction") == asked + 1


async def test_a_file_that_somebody_writes_while_a_rename_is_computed_is_left_alone(root):
    async with hostile_ide(root, "disk_changes_meanwhile", wait_s=1) as tools:
        result = await tools("rename", **AT, new_name="other")
    assert "nothing was changed: what is known is stale" in result
    assert "other" not in (root / "a.py").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "../outside.py", "%2e%2e/outside.py", "..%2foutside.py", "sub/../../outside.py", "link.py", "folder/outside.py",
        "pipe.py", "hard.py", "%00.py", "a.py%00", "a.py?query", "a.py#fragment",
    ],
)  # fmt: skip
async def test_no_name_leads_an_edit_out_of_the_workspace(root, name):
    outside = root.parent / "outside.py"
    (root / "link.py").symlink_to(outside)
    (root / "folder").symlink_to(root.parent)
    os.mkfifo(root / "pipe.py")
    os.link(outside, root / "hard.py")
    async with hostile_ide(root, "edit_outside", env={"HOSTILE_OUTSIDE": f"'{root}/{name}'"}, wait_s=1) as tools:
        with pytest.raises(ToolError):
            await tools("rename", **AT, new_name="other")
    assert outside.read_text() == TEXT
    assert (root / "a.py").read_text() == TEXT


async def test_an_edit_in_both_shapes_is_applied_once(root):
    async with hostile_ide(root, "edit_both_shapes", wait_s=1) as tools:
        await tools("rename", **AT, new_name="both")
    assert (root / "a.py").read_text() == TEXT.replace("name", "both", 1)


async def test_an_edit_through_a_link_that_leads_outside_is_refused(root):
    (root / "link.py").symlink_to(root.parent / "outside.py")
    async with hostile_ide(root, "edit_outside", env={"HOSTILE_OUTSIDE": root / "link.py"}) as tools:
        with pytest.raises(ToolError, match="outside"):
            await tools("rename", **AT, new_name="other")
    assert (root.parent / "outside.py").read_text() == TEXT


async def test_a_command_of_our_own_action_may_edit_and_the_edit_is_ours_to_apply(root):
    async with hostile_ide(root, "command_edits", wait_s=1) as tools:
        offered = await tools("code_action", path="a.py", line=1)
        assert "Mend it" in offered
        key = _key(offered)
        result = await tools("code_action", path="a.py", line=1, apply=key)
    assert "done: Mend it" in result
    assert (root / "a.py").read_text() == TEXT.replace("name", "good", 1)
    assert 'applied {"applied": true}' in notes(root)


async def test_an_action_that_was_offered_for_another_text_is_not_done(root):
    async with hostile_ide(root, "command_edits", wait_s=1) as tools:
        key = _key(await tools("code_action", path="a.py", line=1))
        (root / "a.py").write_text("x = 1\n")
        with pytest.raises(ToolError, match="list the actions again"):
            await tools("code_action", path="a.py", line=1, apply=key)
    assert (root / "a.py").read_text() == "x = 1\n"


async def test_a_workspace_root_that_is_a_link_is_the_folder_it_leads_to(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    async with hostile_ide(tmp_path / "link") as tools:
        assert listed(await tools("references", **AT)) == {("a.py", 1)}
