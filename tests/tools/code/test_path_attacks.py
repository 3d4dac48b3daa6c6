"""Everything that could lead an edit or a look out of the workspace does not; every honest name works."""

from __future__ import annotations

import contextlib
import os
import threading
import unicodedata

import pytest

from aish.errors import ToolError
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace
from support.ide_tools import field, ide_with

SECRET = b"outside\n"


@pytest.fixture
def world(tmp_path):
    """A root, and beside it what must never be read or written."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.py").write_bytes(b"inside\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.py").write_bytes(SECRET)
    (tmp_path / "root-evil").mkdir()
    (tmp_path / "root-evil" / "a.py").write_bytes(SECRET)
    (root / "link.py").symlink_to(tmp_path / "outside" / "a.py")
    (root / "relative.py").symlink_to("../outside/a.py")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "chain").symlink_to("folder")
    (root / "loop").symlink_to("loop")
    (root / "dangling.py").symlink_to(tmp_path / "outside" / "new.py")
    (root / "proc").symlink_to("/proc/self/cwd")
    os.link(tmp_path / "outside" / "a.py", root / "hard.py")
    os.mkfifo(root / "pipe")
    (root / ".git" / "hooks").mkdir(parents=True)
    return root


ATTACKS = [
    "link.py", "relative.py", "folder/a.py", "chain/a.py", "loop", "dangling.py", "proc/a.py", "pipe", "hard.py",
    "../outside/a.py", "sub/../../outside/a.py", "./../outside/a.py", "sub/..", "..", ".", "sub", "/etc/passwd",
    "{root}/../outside/a.py", "{root}-evil/a.py", "{outside}/a.py", "//{outside}/a.py", "{root}/folder/a.py",
    "file://{outside}/a.py", "file://{root}/../outside/a.py", "file://{root}/%2e%2e/outside/a.py",
    "file://{root}/%2E%2E/outside/a.py", "file://{root}%2f..%2foutside%2fa.py", "file://{root}/..%2foutside/a.py",
    "file://{root}/sub%00/a.py", "file://{root}/%252e%252e/outside/a.py", "file://elsewhere{root}/sub/a.py",
    "file://{root}/sub/a.py?x", "file://{root}/sub/a.py#x", "file://{root}/%c0%ae%c0%ae/outside/a.py",
    "file://{root}/%ff", "file:sub/a.py", "FILE://{outside}/a.py", "sub/a.py\0", "sub\\..\\..\\outside\\a.py",
    "．．/outside/a.py", "\u2025/outside/a.py", "sub/a.py/", "sub/a.py/.", "sub/a.py/x", "~/a.py", "$HOME/a.py",
    "SUB/A.PY", "sub/a.py ", "", "x" * 5000, "sub/" + "y" * 300,
]  # fmt: skip
# Names with nothing of a trick in them after all: they are the file itself, or free names inside.
INSIDE = {"sub/a.py/", "sub/a.py/."}
FREE = {
    "file://{root}/%252e%252e/outside/a.py", "sub\\..\\..\\outside\\a.py", "．．/outside/a.py", "\u2025/outside/a.py",
    "~/a.py", "$HOME/a.py", "SUB/A.PY", "sub/a.py ",
}  # fmt: skip


def outside_of(root):
    beside = (path for path in root.parent.rglob("*") if root not in path.parents and path.is_file())
    return {str(path): path.read_bytes() for path in beside if "edits" not in path.parts}


def named(attack, root):
    return attack.format(root=root, outside=root.parent / "outside")


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one not in INSIDE])
async def test_nothing_outside_is_read_changed_made_or_removed_by_any_name(world, attack):
    before = outside_of(world)
    name = named(attack, world)
    async with ide_with(world, diagnostics_wait_s=0.2) as tools:
        with pytest.raises(ToolError):
            await tools("read_file", path=name)
        for edit in (
            {"revision": content_hash(SECRET)[:16], "old": "outside", "new": "owned"},
            {"revision": content_hash(SECRET)[:16], "start_line": 1, "new": "owned"},
        ):
            with pytest.raises(ToolError):
                await tools("edit", edits=[{"path": name, **edit}])
        if attack not in FREE:
            with pytest.raises(ToolError):
                await tools("edit", edits=[{"path": name, "revision": "new", "new": "owned"}])
    assert outside_of(world) == before


@pytest.mark.parametrize(
    ("attack", "base", "content"),
    [
        (one, base, content)
        for one in ATTACKS
        if one not in INSIDE
        for base in (SECRET, None)
        if base is not None or one not in FREE
        for content in (b"owned", None)
    ],
)
async def test_the_applier_itself_refuses_them_whoever_computed_the_edit(world, attack, base, content):
    before = outside_of(world)
    space = Workspace(world)
    edit = FileEdit(named(attack, world), content_hash(base) if base else None, content)
    inside = FileEdit("sub/a.py", content_hash(b"inside\n"), b"changed")
    if base is None and content is None:
        inside = FileEdit("sub/a.py", content_hash(b"another"), b"changed")  # to remove nothing is no attack
    try:
        refused = bool(
            (await JournaledApplier(space, world.parent / "edits").apply([inside, edit], title="x")).conflicts
        )
    except ToolError:
        refused = True
    space.close()
    assert refused
    assert outside_of(world) == before
    assert (world / "sub" / "a.py").read_bytes() == b"inside\n"


@pytest.mark.parametrize("form", ["{link}/sub/a.py", "file://{link}/sub/a.py", "{below}/a.py"])
async def test_an_absolute_name_through_a_link_that_leads_inside_is_a_name_of_the_file(world, form):
    """As a shell has it whose working directory was reached through a link; the root was given without one."""
    link, below = world.parent / "link", world.parent / "below"
    link.symlink_to(world)
    below.symlink_to(world / "sub")
    path = form.format(link=link, below=below)
    async with ide_with(world, diagnostics_wait_s=0.2) as tools:
        revision = field(await tools("read_file", path=path), "revision")
        await tools("edit", edits=[{"path": path, "revision": revision, "old": "inside", "new": "edited"}])
    assert (world / "sub" / "a.py").read_bytes() == b"edited\n"


@pytest.mark.parametrize(
    "form", ["{link}/../outside/a.py", "{link}/sub/../../outside/a.py", "{file}", "{away}/a.py", "{link}/away/a.py"]
)
async def test_no_link_makes_an_absolute_name_lead_out_again(world, form):
    link, file, away = world.parent / "link", world.parent / "file.py", world.parent / "away"
    link.symlink_to(world)
    file.symlink_to(world / "sub" / "a.py")
    away.symlink_to(world.parent / "outside")
    (world / "away").symlink_to(away)
    path = form.format(link=link, file=file, away=away)
    async with ide_with(world, diagnostics_wait_s=0.2) as tools:
        with pytest.raises(ToolError, match=r"outside|'\.\.'"):
            await tools("read_file", path=path)


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".git/config", ".GIT/config", "sub/.git/hooks/x", "way/config", "way/hooks/x"]
)
async def test_gits_own_files_are_not_for_editing(world, path):
    (world / "way").symlink_to(".git")
    async with ide_with(world, diagnostics_wait_s=0.2) as tools:
        with pytest.raises(ToolError, match="use git"):
            await tools("edit", edits=[{"path": path, "revision": "new", "new": "owned"}])
    assert not (world / path).exists()


@pytest.mark.parametrize(
    "name",
    [
        "sub/a.py", "./sub/a.py", "sub//a.py", "sub/./a.py", "{root}/sub/a.py", "file://{root}/sub/a.py",
        "file://localhost{root}/sub/a.py", "file:{root}/sub/a.py", "file://{root}/sub/%61.py",
        "sub/a.py/", "sub/a.py/.", "{link}/sub/a.py", "file://{link}/sub/a.py",
    ],
)  # fmt: skip
async def test_every_honest_name_of_a_file_reads_and_edits_it(world, name):
    link = world.parent / "link"
    link.symlink_to(world)
    path = name.format(root=world, link=link)
    async with ide_with(link, diagnostics_wait_s=0.2) as tools:
        revision = field(await tools("read_file", path=path), "revision")
        await tools("edit", edits=[{"path": path, "revision": revision, "old": "inside", "new": "edited"}])
    assert (world / "sub" / "a.py").read_bytes() == b"edited\n"


@pytest.mark.parametrize(
    "name",
    [
        "with space.py", "percent%20.py", "hash#.py", "question?.py", "..dots", "...", "a..b/c..py", ".hidden", "-dash",
        "tab\there", "new\nline", "quote'\".py", "back\\slash", "ünïcødé.py", "日本語/ファイル.py", "👩‍💻.py", "ab%00c",
        ".gitignore", ".github/workflow.yml", "é" * 120,
    ],
)  # fmt: skip
async def test_unusual_names_are_made_read_edited_and_undone(world, name):
    async with ide_with(world, diagnostics_wait_s=0.2) as tools:
        await tools("edit", edits=[{"path": name, "revision": "new", "new": "one\n"}])
        assert (world / name).read_text() == "one\n"
        uri = (world / name).as_uri()
        # An escaped backslash hides what is a separator elsewhere, and is refused.
        revision = field(await tools("read_file", path=name if "%5C" in uri else uri), "revision")
        await tools("edit", edits=[{"path": name, "revision": revision, "old": "one", "new": "two"}])
        assert (world / name).read_text() == "two\n"
        await tools.ide.undo()
        await tools.ide.undo()
    assert not (world / name).exists()


async def test_two_unicode_forms_of_a_name_are_two_files_where_the_disk_says_so(world):
    composed, apart = unicodedata.normalize("NFC", "é.py"), unicodedata.normalize("NFD", "é.py")
    (world / composed).write_text("composed\n")
    if (world / apart).exists():
        pytest.skip("the disk takes them for one")
    async with ide_with(world, diagnostics_wait_s=0.2) as tools:
        with pytest.raises(ToolError, match="does not exist"):
            await tools("read_file", path=apart)
        await tools("edit", edits=[{"path": apart, "revision": "new", "new": "apart\n"}])
    assert (world / composed).read_text() == "composed\n" and (world / apart).read_text() == "apart\n"


@pytest.mark.parametrize("kind", ["link", "folder"])
async def test_a_folder_that_is_swapped_all_the_time_never_leads_an_edit_outside(world, kind):
    """Between any two steps of ours a folder may become a link to another, or another folder."""
    outside = world.parent / "outside"
    (world / "other").mkdir()
    (world / "other" / "a.py").write_bytes(b"inside\n")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            (world / "sub").rename(world / "away")
            if kind == "link":
                (world / "sub").symlink_to(outside)
                (world / "sub").unlink()
            else:
                (world / "other").rename(world / "sub")
                (world / "sub").rename(world / "other")
            (world / "away").rename(world / "sub")

    space = Workspace(world)
    applier = JournaledApplier(space, world.parent / "edits")
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for n in range(300):
            held = b"inside\n" if n % 2 == 0 else SECRET
            edit = FileEdit("sub/a.py", content_hash(held), SECRET if n % 2 == 0 else b"inside\n")
            with contextlib.suppress(ToolError):
                applier._apply([edit], "race")
    finally:
        stop.set()
        swapper.join(30)
    assert [path.name for path in outside.iterdir()] == ["a.py"]
    assert (outside / "a.py").read_bytes() == SECRET
    edit = FileEdit("sub/a.py", content_hash((world / "sub" / "a.py").read_bytes()), b"at rest")
    assert not applier._apply([edit], "at rest").conflicts  # whatever was left half done has been mended
    space.close()


async def test_a_folder_that_becomes_a_link_between_check_and_write_takes_the_change_back(world):
    def swap(what):
        if what == "place sub/a.py":
            (world / "sub").rename(world / "moved")
            (world / "sub").symlink_to(world.parent / "outside")

    space = Workspace(world)
    edits = [FileEdit("first.py", None, b"first"), FileEdit("sub/a.py", content_hash(b"inside\n"), b"owned")]
    outcome = await JournaledApplier(space, world.parent / "edits", step=swap).apply(edits, title="race")
    space.close()
    assert outcome.conflicts
    assert (world.parent / "outside" / "a.py").read_bytes() == SECRET
    assert (world / "moved" / "a.py").read_bytes() == b"inside\n"
    assert not (world / "first.py").exists()
