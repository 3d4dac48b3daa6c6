"""A file with a second name may be one from outside: no tool reads it, and whatever is written, the other name keeps
what it had."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from aish.app.code_tools import settings_of
from aish.config.schema.tools import IdeConfig
from aish.errors import ToolError
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace
from support.ide_tools import field, ide_with

SECRET = "def secret_key(): ...\n"
RIPGREP = shutil.which("rg")


@pytest.fixture
def secret(root: Path) -> Path:
    """Outside, with the name `hard.py` inside."""
    outside = root.parent / "outside.py"
    outside.write_text(SECRET)
    os.link(outside, root / "hard.py")
    (root / "a.py").write_text("from hard import secret_key\n")
    return outside


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_file", {}),
        ("search", {"pattern": "secret"}),
        ("outline", {}),
        ("hover", {"line": 1, "symbol": "secret_key"}),
        ("definition", {"line": 1, "symbol": "secret_key"}),
        ("references", {"line": 1, "symbol": "secret_key"}),
        ("rename", {"line": 1, "symbol": "secret_key", "new_name": "other"}),
        ("format", {}),
        ("code_action", {"line": 1}),
    ],
)
async def test_no_tool_reads_it_and_each_says_why(tools, secret, tool, more):
    with pytest.raises(ToolError, match="hard link") as refused:
        await tools(tool, path="hard.py", **more)
    assert "secret_key" not in refused.value.message
    assert secret.read_text() == SECRET


@pytest.mark.parametrize("tool", ["hover", "definition", "references"])
async def test_what_is_asked_about_another_file_shows_none_of_its_lines(tools, secret, tool):
    assert "def secret" not in await tools(tool, path="a.py", line=1, symbol="secret_key")


async def test_symbols_pass_it_over_and_say_so(tools, secret):
    found = await tools("symbols", query="secret_key")
    assert "hard.py" not in found and field(found, "status") == "partial"
    assert "1 files are hard links" in found


@pytest.mark.parametrize("search_path", [str(Path(RIPGREP).parent) if RIPGREP else "", ""])
async def test_a_search_passes_it_over_and_says_so(tools, secret, search_path):
    tools.ide._search_path = search_path
    found = await tools("search", pattern="secret_key")
    assert "a.py" in found and "hard.py" not in found
    assert field(found, "status") == "partial" and "1 files are hard links" in found


async def test_packages_that_a_package_manager_has_linked_are_read_and_searched(tools, root):
    cached, linked = root.parent / "cached.js", root / "node_modules" / "x" / "index.js"
    cached.write_text("let needle\n")
    linked.parent.mkdir(parents=True)
    os.link(cached, linked)
    assert "let needle" in await tools("read_file", path="node_modules/x/index.js")
    assert "let needle" in await tools("search", pattern="needle")
    cached.chmod(0o600)
    with pytest.raises(ToolError, match="hard link"):
        await tools("read_file", path="node_modules/x/index.js")


@pytest.mark.parametrize(("link", "leads_to", "name"), [
    ("venv", ".", "venv/hard.py"),
    ("node_modules/l.py", "../hard.py", "node_modules/l.py"),
])  # fmt: skip
async def test_a_name_among_packages_that_leads_elsewhere_is_not_one_of_them(tools, root, secret, link, leads_to, name):
    secret.chmod(0o644)
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(leads_to)
    with pytest.raises(ToolError, match="hard link"):
        await tools("read_file", path=name)


async def test_it_is_read_and_still_not_written_where_the_configuration_says_so(root, secret):
    assert settings_of(IdeConfig(hard_links=True), {}).hard_links and not settings_of(IdeConfig(), {}).hard_links
    async with ide_with(root, diagnostics_wait_s=0.2, hard_links=True) as tools:
        revision = field(await tools("read_file", path="hard.py"), "revision")
        assert "hard.py" in await tools("search", pattern="def secret_key")
        with pytest.raises(ToolError, match="hard link"):
            await tools("edit", edits=[{"path": "hard.py", "revision": revision, "old": "secret", "new": "public"}])
    assert secret.read_text() == SECRET


class Dies(BaseException):
    """What ends a process, as far as files are concerned."""


class Changing:
    """A change of `a` and `b` to capitals. Before a step, or after a death there, one of them gets a second name."""

    def __init__(self, root: Path, linked: str) -> None:
        self.root, self.linked, self.outside = root, root / linked, root.parent / "second"
        self.held = b""
        for name in "ab":
            (root / name).write_bytes(name.encode())
        self._space = Workspace(root)

    def applier(self, step=lambda what: None) -> JournaledApplier:
        return JournaledApplier(self._space, self.root.parent / "state", step=step)

    def edits(self) -> list[FileEdit]:
        return [FileEdit(name, content_hash(name.encode()), name.upper().encode()) for name in "ab"]

    def link(self) -> None:
        if not self.held:
            os.link(self.linked, self.outside)
            self.held = self.outside.read_bytes()

    def texts(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.root.iterdir()}

    def check(self) -> None:
        """The second name has what it had; no file is of another change than the rest, but the one that has it."""
        assert self.outside.read_bytes() == self.held
        texts = self.texts()
        other = "b" if self.linked.name == "a" else "a"
        assert texts.keys() == {"a", "b"} and texts[other] in (other.encode(), other.upper().encode())
        assert texts[other].isupper() == texts[self.linked.name].isupper() or texts[self.linked.name] == self.held


STEPS = ["write the intent", "stage a", "begin", "place a", "place b", "sync the folder of b", "keep"]


@pytest.mark.parametrize("linked", ["a", "b"])
@pytest.mark.parametrize("at", STEPS)
async def test_a_second_name_that_comes_during_a_change_keeps_what_it_has(root, at, linked):
    """Also when the change is taken back, and when it is undone later."""
    change = Changing(root, linked)
    await change.applier(lambda what: change.link() if what == at else None).apply(change.edits(), title="to capitals")
    change.check()
    with contextlib.suppress(ToolError):  # there is nothing to undo
        await change.applier().undo()
    change.check()


@pytest.mark.parametrize("linked", ["a", "b"])
@pytest.mark.parametrize("at", STEPS)
async def test_a_second_name_that_comes_after_a_kill_keeps_what_it_has(root, at, linked):
    change = Changing(root, linked)

    def die(what: str) -> None:
        if what == at:
            raise Dies

    with pytest.raises(Dies):
        change.applier(die)._apply(change.edits(), "to capitals")
    change.link()
    await change.applier().recover()
    change.check()


async def test_what_cannot_be_taken_back_because_of_a_second_name_leaves_nothing_of_ours(root):
    """`a` is in place and has got a second name; `b` cannot follow."""
    change = Changing(root, "a")

    def meddle(what: str) -> None:
        if what == "place b":
            change.link()
            (root / "b").write_bytes(b"somebody's")

    done = await change.applier(meddle).apply(change.edits(), title="to capitals")
    assert [conflict.path for conflict in done.conflicts] == ["to capitals", "b", "a"]
    assert change.texts() == {"a": b"A", "b": b"somebody's"}
    assert change.outside.read_bytes() == b"A"
