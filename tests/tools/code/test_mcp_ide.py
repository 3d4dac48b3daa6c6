"""An IDE behind MCP owns its workspace: it answers, its raw tools are hidden, and no server of ours is started."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from aish.app import runtime
from aish.errors import ToolError
from aish.tools.code.contents import Contents, apply_in_ide
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace
from support.ide_tools import field
from support.mcp_ide import UNSAVED

IDE = Path(__file__).parents[2] / "support" / "mcp_ide.py"
CONTEXT = SimpleNamespace(session="s", turn="t", call="c", status=lambda text: None)


@pytest.fixture
def root(tmp_path, private_home, monkeypatch):
    folder = tmp_path / "root"
    (folder / ".git").mkdir(parents=True)
    (folder / "open.py").write_text("def saved(): pass\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("AISH_DISCOVERY__ENABLED", "false")
    return folder


def configure(home: Path, root: Path, more: str = "") -> None:
    file = home / ".config" / "aish" / "config.toml"
    file.parent.mkdir(parents=True)
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(IDE), str(root)])}\n"
    file.write_text(f"[mcp.servers.editor]\n{command}{more}")


class Tools:
    def __init__(self, registry) -> None:
        self.registry = registry

    async def __call__(self, name: str, **arguments) -> str:
        output = await self.registry.call(f"ide__{name}", arguments, CONTEXT)
        return output.parts[0].text

    @property
    def names(self) -> set[str]:
        return {spec.name for spec in self.registry.specs()}


@pytest.fixture
async def tools(root, private_home):
    configure(private_home, root)
    wired = runtime()
    async with wired.engine():
        assert await wired.wait_for_mcp(30) == []
        yield Tools(wired._tools)


def asked(root: Path) -> list[dict]:
    return [json.loads(line) for line in (root.parent / "asked.jsonl").read_text().splitlines()]


async def test_its_raw_tools_are_hidden_and_its_other_tools_are_not(tools):
    assert "ide__hover" in tools.names
    assert {name for name in tools.names if name.startswith("editor__")} == {"editor__spell_check"}
    with pytest.raises(ToolError, match="gone"):
        await tools.registry.call("editor__lsp_hover", {}, CONTEXT)


async def test_what_nobody_saved_is_what_is_read_and_asked_about(tools, root):
    read = await tools("read_file", path="open.py")
    assert "def unsaved()" in read and "def saved()" not in read
    hover = await tools("hover", path="open.py", line=2, symbol="unsaved")
    assert field(hover, "backend") == "mcp:editor"
    assert "hover of unsaved in line 2" in hover


async def test_places_come_as_json_or_as_lines_and_what_is_outside_is_named_only(tools):
    references = await tools("references", path="open.py", line=2, symbol="unsaved")
    assert (field(references, "total"), field(references, "files")) == ("2", "1")
    definition = await tools("definition", path="open.py", line=2, symbol="unsaved")
    assert "open.py:1\n1\tdef unsaved(): pass" in definition
    assert "/usr/lib/python3/typing.py:9 (outside the workspace, not read)" in definition


async def test_a_position_counts_as_the_protocol_does(tools, root):
    await tools("references", path="open.py", line=2, symbol="unsaved")
    (params,) = [params["arguments"] for params in asked(root) if params["name"] == "lsp.references"]
    assert params == {"uri": (root / "open.py").as_uri(), "position": {"line": 1, "character": 0}}


async def test_diagnostics_are_its_own(tools):
    result = await tools("diagnostics", path="open.py")
    assert "open.py:2: error: from the IDE" in result


async def test_edits_go_through_it_and_not_to_the_disk_behind_it(tools, root):
    revision = field(await tools("read_file", path="open.py"), "revision")
    edit = {"path": "open.py", "revision": revision, "old": "def unsaved", "new": "def mended"}
    await tools("edit", edits=[edit])
    assert "def mended" in await tools("read_file", path="open.py")
    assert (root / "open.py").read_text() == "def saved(): pass\n"
    written = [params["arguments"] for params in asked(root) if params["name"] == "fs.write"]
    assert written == [{"path": "open.py", "content": UNSAVED.replace("def unsaved", "def mended")}]


async def test_what_it_does_not_offer_starts_no_server_beside_it(tools):
    result = await tools("format", path="open.py")
    assert field(result, "status") == "unsupported"
    assert "the IDE that owns this workspace does not offer it" in result


async def test_what_it_refuses_is_told(tools):
    with pytest.raises(ToolError, match="mcp:editor answered: no"):
        await tools("rename", path="open.py", line=1, symbol="unsaved", new_name="x")


async def test_with_mcp_none_its_tools_are_plain_tools(root, private_home):
    configure(private_home, root, '[ide]\nmcp = "none"\n')
    wired = runtime()
    async with wired.engine():
        assert await wired.wait_for_mcp(30) == []
        tools = Tools(wired._tools)
        assert "editor__lsp_hover" in tools.names
        assert "def saved()" in await tools("read_file", path="open.py")


async def test_it_is_not_asked_to_follow_a_link_out_of_the_workspace(tools, root):
    secret = root.parent / "secret.txt"
    secret.write_text("secret = 1\n")
    (root / "out.py").symlink_to(secret)
    with pytest.raises(ToolError):
        await tools("read_file", path="out.py")
    with pytest.raises(ToolError):
        await tools("edit", edits=[{"path": "out.py", "revision": "new", "new": "owned"}])
    assert not any(
        params["arguments"].get("path") == "out.py" for params in asked(root) if "fs.write" in params["name"]
    )


@pytest.mark.parametrize(("path", "reason"), [("open.py", "there already"), (".git/hooks/pre-commit", "use git")])
async def test_what_may_not_be_written_on_disk_is_not_written_through_it(tools, root, path, reason):
    with pytest.raises(ToolError, match=reason):
        await tools("edit", edits=[{"path": path, "revision": "new", "new": "owned"}])
    assert [params for params in asked(root) if params["name"] == "fs.write"] == []


class Failing:
    """An IDE whose disk is full at the third write."""

    def __init__(self) -> None:
        self.files = {"a.py": "a", "b.py": "b", "c.py": "c"}
        self.writes = 0

    async def read(self, path: str) -> str | None:
        return self.files.get(path)

    async def write(self, path: str, content: str) -> None:
        self.writes += 1
        if self.writes == 3:
            raise ToolError("disk full")
        self.files[path] = content


async def test_where_one_write_fails_those_before_it_are_put_back(tmp_path):
    ide, space = Failing(), Workspace(tmp_path)
    edits = [FileEdit(path, content_hash(text.encode()), b"new") for path, text in ide.files.items()]
    with pytest.raises(ToolError, match=r"c\.py was not written: disk full; nothing stays changed"):
        await apply_in_ide(space, ide, edits)
    assert ide.files == {"a.py": "a", "b.py": "b", "c.py": "c"}
    space.close()


async def test_a_change_that_is_cancelled_in_the_middle_is_put_back(tmp_path):
    ide, space = Failing(), Workspace(tmp_path)
    write, reached = ide.write, asyncio.Event()

    async def slow(path: str, content: str) -> None:
        await write(path, content)
        if path == "b.py" and content == "new":
            reached.set()
            await asyncio.Event().wait()

    ide.write, ide.writes = slow, -10
    edits = [FileEdit(path, content_hash(text.encode()), b"new") for path, text in ide.files.items()]
    applying = asyncio.ensure_future(apply_in_ide(space, ide, edits))
    await asyncio.wait_for(reached.wait(), 5)
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert ide.files == {"a.py": "a", "b.py": "b", "c.py": "c"}
    space.close()


class Swapping:
    """An IDE on the disk: while it reads or writes one of its files, somebody leads the name elsewhere."""

    def __init__(self, root: Path, *, at: str, swap) -> None:
        self.root, self.at, self.swap = root, at, swap
        self.written: list[str] = []

    def offers_files(self) -> bool:
        return True

    async def read(self, path: str) -> str | None:
        text = (self.root / path).read_text()
        if self.at == f"read {path}":
            self.swap()
            text = (self.root / path).read_text()
        return text

    async def write(self, path: str, content: str) -> None:
        if self.at == f"write {path}" and path not in self.written:
            self.swap()
        self.written.append(path)
        (self.root / path).write_text(content)


@pytest.fixture
def led(tmp_path):
    """A workspace with files, a folder outside, and what leads `sub` there."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "sub", outside):
        folder.mkdir(parents=True)
    for file in (root / "a.py", root / "sub" / "b.py", root / "c.py", outside / "b.py"):
        file.write_text("x")

    def swap() -> None:
        (root / "sub").rename(root / "was")
        (root / "sub").symlink_to(outside)

    return root, outside, swap


async def test_a_file_that_was_led_to_another_folder_inside_is_found_too(led):
    root, _, _ = led
    ide, space = Swapping(root, at="write sub/b.py", swap=lambda: (root / "sub").rename(root / "was")), Workspace(root)
    (root / "other").mkdir()
    moved = ide.swap
    ide.swap = lambda: (moved(), (root / "sub").symlink_to("other"))
    with pytest.raises(ToolError, match="became another one"):
        await apply_in_ide(space, ide, [FileEdit("sub/b.py", content_hash(b"x"), b"new")])
    space.close()


@pytest.mark.parametrize("at", ["write a.py", "read c.py"])
async def test_a_name_that_is_led_outside_between_the_check_and_the_write_is_not_written(led, at):
    root, outside, swap = led
    ide, space = Swapping(root, at=at, swap=swap), Workspace(root)
    edits = [FileEdit(path, content_hash(b"x"), b"new") for path in ("a.py", "sub/b.py", "c.py")]
    with pytest.raises(ToolError, match="outside the workspace"):
        await apply_in_ide(space, ide, edits)
    assert "sub/b.py" not in ide.written
    assert (outside / "b.py").read_text() == "x"
    assert (root / "a.py").read_text() == "x"
    space.close()


async def test_a_name_that_is_led_outside_within_the_write_is_found_and_said(led):
    root, _, swap = led
    ide, space = Swapping(root, at="write sub/b.py", swap=swap), Workspace(root)
    edits = [FileEdit(path, content_hash(b"x"), b"new") for path in ("a.py", "sub/b.py", "c.py")]
    with pytest.raises(ToolError, match=r"sub/b\.py may be written elsewhere, look there: .*nothing stays changed"):
        await apply_in_ide(space, ide, edits)
    assert ide.written == ["a.py", "sub/b.py", "a.py"]
    assert (root / "a.py").read_text() == "x"
    space.close()


async def test_what_the_ide_read_through_a_name_that_was_led_outside_is_not_told(led):
    root, outside, swap = led
    (outside / "b.py").write_text("secret")
    space = Workspace(root)
    ide = Swapping(root, at="read sub/b.py", swap=swap)
    contents = Contents(space, SimpleNamespace(), lambda: ide)
    with pytest.raises(ToolError, match="outside the workspace"):
        await contents.read("sub/b.py")
    space.close()
