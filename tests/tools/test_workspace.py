from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest

from aish.errors import ToolError
from aish.tools.workspace import HardLinked, Workspace


@pytest.fixture(params=[True, False], ids=["openat2", "stepwise"])
def space(request, tmp_path: Path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("inside")
    (root / "sub" / "b.txt").write_text("deeper")
    (tmp_path / "secret.txt").write_text("outside")
    made = Workspace(root, use_openat2=request.param)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["a.txt", "./a.txt", "sub/b.txt", "sub//b.txt"])
def test_files_below_the_root_are_read_by_relative_names(space, name):
    assert space.read(name) in (b"inside", b"deeper")


def test_absolute_names_and_file_uris_below_the_root_are_the_same_files(space):
    assert space.read(str(space.root / "a.txt")) == b"inside"
    assert space.read((space.root / "a.txt").as_uri()) == b"inside"
    assert space.read(f"file://localhost{space.root}/sub/b.txt") == b"deeper"


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "sub/../../secret.txt",
        "sub/../a.txt",
        "/etc/passwd",
        "file:///etc/passwd",
        "file://elsewhere/a.txt",
        "file:///%2e%2e/secret.txt",
        "file:a.txt",
        "file:///x?y",
        "file:///%ff",
        "a\0.txt",
        "x" * 5000,
        "",
    ],
)
def test_names_that_lead_outside_are_refused(space, name):
    with pytest.raises(ToolError):
        space.read(name)
    with pytest.raises(ToolError):
        space.write(name, b"x")


def test_escaped_separators_in_uris_are_refused(space):
    with pytest.raises(ToolError, match="separator"):
        space.read(f"file://{space.root}%2fa.txt")


def test_a_symlink_out_of_the_workspace_is_refused_for_reading_and_for_writing(space):
    (space.root / "out").symlink_to(space.root.parent)
    (space.root / "file").symlink_to(space.root.parent / "secret.txt")
    for name in ("out/secret.txt", "file"):
        with pytest.raises(ToolError):
            space.read(name)
    with pytest.raises(ToolError):
        space.write("out/new.txt", b"x")
    with pytest.raises(ToolError):
        space.write("file", b"x")
    assert (space.root.parent / "secret.txt").read_text() == "outside"
    assert not (space.root.parent / "new.txt").exists()


def test_the_magic_links_of_proc_are_no_way_out(space):
    (space.root / "fd").symlink_to("/proc/self/cwd")
    with pytest.raises(ToolError):
        space.read("fd/pyproject.toml")


def test_only_regular_files_are_read_and_a_pipe_does_not_hang(space):
    os.mkfifo(space.root / "pipe")
    with pytest.raises(ToolError, match="regular"):
        space.read("pipe")
    with pytest.raises(ToolError):
        space.read("sub")


def test_a_file_that_is_too_large_is_refused_with_its_size(space):
    (space.root / "big").write_bytes(b"x" * 101)
    with pytest.raises(ToolError, match="101 bytes"):
        space.read("big", max_bytes=100)


def test_a_write_replaces_the_content_and_keeps_the_mode(space):
    target = space.root / "a.txt"
    target.chmod(0o754)
    space.write("a.txt", b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o754
    space.write("sub/new.txt", b"made")
    assert (space.root / "sub" / "new.txt").read_bytes() == b"made"
    assert sorted(path.name for path in (space.root / "sub").iterdir()) == ["b.txt", "new.txt"]


@pytest.mark.parametrize("name", ["hard", "sub/hard", "packages/x/hard"])
def test_a_hard_link_is_not_read(space, name):
    (space.root / "packages" / "x").mkdir(parents=True)
    os.link(space.root.parent / "secret.txt", space.root / name)
    for read in (space.read, space.check_readable):
        with pytest.raises(HardLinked, match=r"hard link.* perhaps outside .*ide\.hard_links = true"):
            read(name)


def test_a_hard_link_is_read_where_it_may_be(space):
    """Among packages unless it is private, and everywhere where that was wanted."""
    linked, secret = space.root / "packages" / "x" / "hard", space.root.parent / "secret.txt"
    linked.parent.mkdir(parents=True)
    os.link(secret, linked)
    with contextlib.closing(Workspace(space.root, packages={"packages"})) as with_packages:
        assert with_packages.read("packages/x/hard") == b"outside"
        secret.chmod(0o640)
        with pytest.raises(HardLinked):
            with_packages.read("packages/x/hard")
    with contextlib.closing(Workspace(space.root, hard_links=True)) as with_all:
        assert with_all.read("packages/x/hard") == b"outside"
        with pytest.raises(ToolError, match="hard link"):
            with_all.write("packages/x/hard", b"x")


def test_a_hard_link_is_not_written(space):
    os.link(space.root.parent / "secret.txt", space.root / "hard")
    with pytest.raises(ToolError, match="hard link"):
        space.write("hard", b"x")
    assert (space.root.parent / "secret.txt").read_text() == "outside"


def test_a_missing_folder_is_said(space):
    with pytest.raises(ToolError, match="does not exist"):
        space.write("nowhere/x", b"x")


def test_swapping_a_folder_for_a_symlink_during_reads_never_leads_outside(space):
    """The race: `sub` flips between a real folder and a link to the outside while it is read through."""
    real, link = space.root / "real", space.root / "link"
    (space.root / "sub").rename(real)
    (real / "secret.txt").write_text("inside too")
    link.symlink_to(space.root.parent)
    stop = threading.Event()

    def flip():
        while not stop.is_set():
            for source in (real, link):
                source.rename(space.root / "sub")
                (space.root / "sub").rename(source)

    flipping = threading.Thread(target=flip)
    flipping.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                seen.add(space.read("sub/secret.txt"))
            except ToolError:
                continue
    finally:
        stop.set()
        flipping.join(timeout=30)
    assert b"outside" not in seen


def test_a_folder_is_listed_by_name_with_what_each_is_and_links_are_not_followed(space):
    (space.root / "link").symlink_to(space.root / "sub")
    os.mkfifo(space.root / "pipe")
    assert space.entries() == [("a.txt", "file"), ("link", "other"), ("pipe", "other"), ("sub", "folder")]
    assert space.entries("sub") == [("b.txt", "file")]
    for name in ("a.txt", "missing", "..", "pipe"):
        with pytest.raises(ToolError):
            space.entries(name)


def test_what_has_a_name_exists_also_a_link_that_leads_nowhere(space):
    (space.root / "dangling").symlink_to("nowhere")
    assert [space.exists(name) for name in ("a.txt", "sub", "sub/b.txt", "dangling")] == [True] * 4
    assert [space.exists(name) for name in ("missing", "missing/deep", "sub/missing")] == [False] * 3
    with pytest.raises(ToolError):
        space.exists("../secret.txt")


def test_what_cannot_be_written_is_refused(space, tmp_path):
    os.link(tmp_path / "secret.txt", space.root / "hard.txt")
    for name in ("hard.txt", "sub", "missing/x.txt", "../secret.txt"):
        with pytest.raises(ToolError):
            space.write(name, b"x")


def test_a_name_is_the_same_however_it_is_written(space):
    names = ("a.txt", "./a.txt", str(space.root / "a.txt"), (space.root / "a.txt").as_uri())
    assert {space.relative(name) for name in names} == {"a.txt"}


@pytest.fixture(params=[True, False], ids=["openat2", "stepwise"])
def home(request, tmp_path: Path):
    """A workspace that holds files of aish itself."""
    for name in ("data/aish/aish.db", "config/aish/config.toml", "store.db", "src/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("hush")
    (tmp_path / "link").symlink_to("data/aish/aish.db")
    (tmp_path / "src" / "folder").symlink_to("../data/aish")
    hides = [tmp_path / name for name in ("data/aish", "config/aish", "store.db", "not-there")]
    made = Workspace(tmp_path, use_openat2=request.param, hides=hides)
    yield made
    made.close()


@pytest.mark.parametrize(
    "name",
    ["data/aish/aish.db", "config/aish/config.toml", "store.db", "link", "src/folder/aish.db", "src/../store.db"],
)
def test_what_belongs_to_aish_itself_is_not_opened_by_whatever_name(home, name):
    for use in (home.read, home.check_readable, home.exists, lambda n: home.write(n, b"x")):
        if use == home.exists and name == "link":
            continue
        with pytest.raises(ToolError):
            use(name)
    assert (home.root / "data/aish/aish.db").read_text() == "hush"
    assert (home.root / "store.db").read_text() == "hush"


def test_nothing_new_is_put_where_aish_keeps_its_files(home):
    for name in ("data/aish/approved.json", "not-there", "config/aish"):
        with pytest.raises(ToolError):
            home.write(name, b"[]")
        with pytest.raises(ToolError), home.folder_of(name):
            pass
    with pytest.raises(ToolError):
        home.entries("data/aish")
    assert home.read("src/a.py") == b"hush"
    home.write("src/b.py", b"x")


def test_a_workspace_among_the_files_of_aish_opens_nothing(tmp_path):
    (tmp_path / "aish.db").write_text("hush")
    space = Workspace(tmp_path, hides=[tmp_path])
    with pytest.raises(ToolError, match="belongs to aish"):
        space.read("aish.db")
    space.close()
