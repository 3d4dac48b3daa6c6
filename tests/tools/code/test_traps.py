"""What language servers really do, each met once and never again: one test for each trap."""

from __future__ import annotations

import re

import pytest

from aish.tools.code.files.source import SourceText
from aish.tools.code.files.watcher import PollingWatch
from aish.tools.code.lsp.edits import SingleFile, file_edits
from support.code_projects import PROJECTS
from support.eventually import eventually
from support.ide_tools import LANGUAGE_OF, field, hostile_ide, ide_with
from support.processes import is_running


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.py").write_text("def name(): pass\ndef name(): pass\ndef name(): pass\n")
    return folder


WRONG = {"basedpyright": "bank/wrong.py", "ty": "bank/wrong.py", "typescript": "src/wrong.ts"}
WRONG_TEXT = {".py": "x: int = 'text'\n", ".ts": "export const x: number = 'text';\n"}


@pytest.mark.parametrize("server", ["basedpyright", "ty", "typescript"])
async def test_1_and_2_a_server_that_wants_to_be_asked_is_asked_however_late_it_says_so(server, tmp_path):
    folder = PROJECTS[LANGUAGE_OF[server]]().write(tmp_path / "root")
    path = WRONG[server]
    (folder / path).write_text(WRONG_TEXT[path[-3:]])
    async with ide_with(folder, server) as tools:
        result = await tools("diagnostics", path=path)
    assert field(result, "status") == "fresh"
    assert f"{path}:1: error" in result


async def test_1_a_registration_that_comes_after_the_question_is_heard(root):
    async with hostile_ide(root, "register_late") as tools:
        result = await tools("diagnostics", path="a.py")
    assert field(result, "status") == "fresh"
    assert "pulled" in result


@pytest.mark.parametrize("server", ["basedpyright", "ty"])
async def test_4_what_an_import_leads_to_is_known_wherever_it_lies_and_however_it_is_written(server, tmp_path):
    folder = tmp_path / "root"
    (folder / "dist").mkdir(parents=True)
    (folder / "real").mkdir()
    (folder / "way").symlink_to("real")
    for path in ("dist/made.py", "real/linked.py", "written.py"):
        (folder / path).write_text("def take(x: int) -> None: ...\n")
    imports = "from dist import made\nfrom way import linked\nimport written\n"
    (folder / "use.py").write_text(f"{imports}made.take(1)\nlinked.take(1)\nwritten.take(1)\n")
    other = "def take(x: str) -> None: ...\n"
    async with ide_with(folder, server) as tools:
        assert "no problems" in await tools("diagnostics", path="use.py")
        (folder / "dist" / "made.py").write_text(other)
        assert "use.py:4: error" in await tools("diagnostics", path="use.py")
        (folder / "real" / "linked.py").write_text(other)
        assert "use.py:5: error" in await tools("diagnostics", path="use.py")
        with (folder / "written.py").open("w") as file:
            file.write(other)
            file.flush()
            assert "use.py:6: error" in await tools("diagnostics", path="use.py")


async def test_3_an_empty_push_without_a_version_is_not_the_last_word(root):
    async with hostile_ide(root, "push_empty_first") as tools:
        result = await tools("diagnostics", path="a.py")
    assert "one" in result and "two" in result
    assert field(result, "status") == "partial"


async def test_3_a_push_about_a_version_that_was_never_sent_is_not_about_this_text(root):
    async with hostile_ide(root, "push_ahead", wait_s=1, answer_timeout_s=30) as tools:
        result = await tools("diagnostics", path="a.py")
    assert field(result, "status") == "pending"
    assert "no problems" not in result


async def test_3_a_file_opened_again_is_not_judged_by_the_push_of_its_first_time(root):
    (root / "b.py").write_text("def name(): pass\n")
    async with hostile_ide(root, "push_once", wait_s=1, answer_timeout_s=30, max_open=1) as tools:
        assert field(await tools("diagnostics", path="a.py"), "status") == "fresh"
        await tools("diagnostics", path="b.py")
        (root / "a.py").write_text("def broken(: pass\n")
        result = await tools("diagnostics", path="a.py")
    assert field(result, "status") == "pending"


async def test_3_a_push_about_an_older_version_does_not_count(root):
    async with hostile_ide(root, "push_versions") as tools:
        assert "of version 1" in await tools("diagnostics", path="a.py")
        (root / "a.py").write_text("def other(): pass\n")
        result = await tools("diagnostics", path="a.py")
    assert field(result, "status") == "fresh"
    assert "of version 2" in result and "of version 1" not in result


@pytest.mark.parametrize("server", ["basedpyright", "ty", "typescript", "typescript-language-server", "clangd"])
async def test_4_a_closed_file_that_somebody_changed_on_disk_is_known_at_the_next_question(server, tmp_path):
    language = LANGUAGE_OF[server]
    made = PROJECTS[language]()
    folder = made.write(tmp_path / "root")
    home = made.definition[0] if language != "c" else "include/models.h"
    use = min(path for path in made.reference_files if "user_" in path)
    async with ide_with(folder, server) as tools:
        before = await tools("diagnostics", path=use)
        assert "error" not in before, before
        text = (folder / home).read_text()
        (folder / home).write_text(text.replace(made.symbol, "another_name"))
        after = await tools("diagnostics", path=use)
    assert field(after, "status") == "fresh"
    assert "error" in after, after


@pytest.mark.parametrize("server", ["basedpyright", "ty"])
async def test_4_a_file_that_somebody_made_is_known_at_the_next_question(server, tmp_path):
    folder = PROJECTS["python"]().write(tmp_path / "root")
    (folder / "bank/first.py").write_text("from bank.models import make_account\nmake_account('x')\n")
    async with ide_with(folder, server) as tools:
        at = {"path": "bank/first.py", "line": 2, "symbol": "make_account"}
        before = await tools("references", **at)
        (folder / "bank/second.py").write_text("from bank.models import make_account\nmake_account('y')\n")
        after = await tools("references", **at)
        (folder / "bank/second.py").unlink()
        removed = await tools("references", **at)
    counts = [int(field(result, "total")) for result in (before, after, removed)]
    assert counts == [125, 127, 125]


@pytest.mark.parametrize("server", ["ty", "clangd"])
async def test_4_where_the_kernel_does_not_watch_changes_are_known_all_the_same(server, tmp_path, monkeypatch):
    monkeypatch.setattr("aish.tools.code.files.change_feed.watch_files", PollingWatch)
    language = LANGUAGE_OF[server]
    made = PROJECTS[language]()
    folder = made.write(tmp_path / "root")
    home = made.definition[0] if language != "c" else "include/models.h"
    use = min(path for path in made.reference_files if "user_" in path)
    async with ide_with(folder, server) as tools:
        assert "no problems" in await tools("diagnostics", path=use)
        (folder / home).write_text((folder / home).read_text().replace(made.symbol, "another_name"))
        assert "error" in await tools("diagnostics", path=use)


async def test_5_a_server_that_renames_only_the_import_at_a_use_is_asked_at_the_declaration(tmp_path):
    """The ground truth tests hold every server to the outcome; this one shows that the trap is still there."""
    made = PROJECTS["typescript"]()
    folder = made.write(tmp_path / "root")
    path, line = max(place for place in made.references if "user_" in place[0])
    async with ide_with(folder, "typescript") as tools:
        result = await tools("rename", path=path, line=line, symbol=made.symbol, new_name="zz", preview=True)
        found = tools.ide.backends.servers.find("typescript")
        async with tools.ide.backends.servers.use("typescript", found) as session:
            column = (
                made.files[path].split("\n")[line - 1].index(made.symbol) + 2
            )  # the emoji: four bytes, one character
            where = {"line": line - 1, "character": column + 1}
            document = {"uri": session.documents.uri(path)}
            params = {"textDocument": document, "position": where, "newName": "zz"}
            raw = await session.connection.request("textDocument/rename", params)
    assert field(result, "files") == "62"
    assert len(set(re.findall(rb"file://[^\"]+", bytes(raw)))) == 1


async def test_7_shutdown_has_no_params_and_ends_the_server_well(root, tmp_path):
    async with hostile_ide(root, "no_shutdown_params") as tools:
        await tools("hover", path="a.py", line=1, symbol="name")
    assert "shut down well" in (tmp_path / "notes").read_text()


async def test_7_a_wrapper_and_the_one_that_does_the_work_both_end(root, tmp_path):
    async with hostile_ide(root, "wrapper") as tools:
        await tools("hover", path="a.py", line=1, symbol="name")
    pids = [int(line.split()[1]) for line in (tmp_path / "notes").read_text().splitlines() if line.startswith("pid")]
    assert pids
    await eventually(lambda: not any(is_running(pid) for pid in pids))


def _source(text="def name(): pass\n"):
    return SourceText("a.py", text.encode(), text)


_RANGE = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 8}}


@pytest.mark.parametrize(
    "edit",
    [
        {"changes": {"file:///r/a.py": [{"range": _RANGE, "newText": "new"}]}},
        {
            "documentChanges": [
                {"textDocument": {"uri": "file:///r/a.py"}, "edits": [{"range": _RANGE, "newText": "new"}]}
            ]
        },
        {
            "changes": {"file:///r/a.py": [{"range": _RANGE, "newText": "old shape"}]},
            "documentChanges": [
                {
                    "textDocument": {"uri": "file:///r/a.py", "version": None},
                    "edits": [{"range": _RANGE, "newText": "new", "annotationId": "x"}],
                }
            ],
        },
    ],
    ids=["changes", "documentChanges", "both"],
)
def test_8_both_shapes_of_an_edit_are_one_and_carry_the_hash_of_what_they_replace(edit):
    source = _source()
    (made,) = file_edits(edit, SingleFile(source), "utf-16")
    assert made.content == b"def new(): pass\n"
    assert made.base == source.hash
