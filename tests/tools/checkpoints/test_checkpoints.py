"""Checkpoints of real folders: what they hold, what a restore brings back, and what goes wrong around them."""

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from aish.errors import CheckpointError
from aish.tools.checkpoints import checkpoints as module
from aish.tools.checkpoints import database, restore, scan
from aish.tools.checkpoints.checkpoints import CheckpointSettings, WorkspaceCheckpoints, find_workspace
from aish.types.checkpoints import Checkpoint, FileChanges

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no checkpoints on Windows")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def make(root: Path, **settings) -> WorkspaceCheckpoints:
    base = root.parent
    defaults = {"state": base / "state", "home": base / "home"}
    return WorkspaceCheckpoints(CheckpointSettings(**{**defaults, **settings}), lambda: root)


def run(work):
    return asyncio.run(work)


def git(folder: Path, *words: str) -> str:
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Every path below a folder with its mode and its content."""
    found: dict[str, tuple[int, bytes | None]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = os.fsencode(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        found[os.fsencode(path.relative_to(folder)).hex()] = (mode, content)
    return found


def test_a_mode_is_never_changed_through_a_link_that_takes_the_place_of_a_file(root, monkeypatch):
    outside, file = root.parent / "outside", root / "f"
    outside.touch(0o600)
    file.touch(0o666)
    file.chmod(0o666)
    points = make(root)
    then = run(points.take())
    file.chmod(0o600)
    real = os.lstat

    def swap(name, **where):
        status = real(name, **where)
        if name == b"f" and not file.is_symlink():
            file.unlink()
            file.symlink_to(outside)
        return status

    monkeypatch.setattr("aish.tools.checkpoints.restore.os.lstat", swap)
    done = run(points.restore(then))
    assert stat.S_IMODE(real(outside).st_mode) == 0o600 and [path for path, _ in done.changes.left] == ["f"]


def test_a_file_that_comes_back_lends_nobody_the_rights_of_its_new_owner(root):
    (root / "tool").touch()
    (root / "tool").chmod(0o6755)
    points = make(root)
    then = run(points.take())
    (root / "tool").unlink()
    run(points.restore(then))
    assert stat.S_IMODE((root / "tool").stat().st_mode) == 0o755


def test_files_come_back_as_they_were_after_changes_removals_and_new_files(root):
    (root / "src").mkdir()
    (root / "src/a.py").write_text("a = 1\n")
    (root / "src/b.py").write_text("b = 1\n")
    (root / "gone").mkdir()
    (root / "gone/c.txt").write_text("c")
    before = snapshot(root)
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "src/a.py").write_text("a = 2\n")
    shutil.rmtree(root / "gone")
    (root / "new").mkdir()
    (root / "new/d.txt").write_text("d")
    expected = FileChanges(("gone/c.txt",), ("src/a.py",), ("new/d.txt",))
    assert run(checkpoints.compare(taken.root, [taken.number])) == {taken.number: expected}
    assert run(checkpoints.restore(taken)).changes == expected
    assert snapshot(root) == before


def test_a_restore_can_itself_be_taken_back(root):
    (root / "a").write_text("first")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "a").write_text("what the user wrote since")
    (root / "b").write_text("also the user's")
    after = snapshot(root)
    restored = run(checkpoints.restore(taken))
    assert (root / "a").read_text() == "first" and not (root / "b").exists()
    run(checkpoints.restore(restored.before))
    assert snapshot(root) == after


def test_modes_links_empty_folders_and_odd_names_come_back(root):
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "empty/deeper").mkdir(parents=True)
    (root / "empty").chmod(0o750)
    (root / "link").symlink_to("run.sh")
    (root / "broken").symlink_to("/nowhere/at/all")
    (root / "linked_folder").symlink_to("empty")
    for name in (b"new\nline", b"sp ace", b"-rf", b"\xff\xfe", "ümlaut".encode(), b"'\"$(x)`"):
        (root / os.fsdecode(name)).write_bytes(name)
    before = snapshot(root)
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "run.sh").chmod(0o644)
    (root / "link").unlink()
    (root / "link").symlink_to("elsewhere")
    (root / "linked_folder").unlink()
    (root / "linked_folder").mkdir()  # a folder in place of a link
    (root / "broken").unlink()
    (root / "broken").write_text("a file in place of a link")
    shutil.rmtree(root / "empty")
    (root / "empty").write_text("a file in place of a folder")
    for path in list(root.iterdir()):
        if path.is_file() and path.name not in ("run.sh", "empty", "broken", "link"):
            path.unlink()
    changes = run(checkpoints.restore(taken)).changes
    assert changes.left == ()
    assert snapshot(root) == before


def test_files_that_a_command_made_unreadable_get_their_modes_back(root, monkeypatch):
    """Root may read everything, so the refusal is the test's own."""
    (root / "secret").write_text("1")
    (root / "locked").mkdir()
    (root / "locked/a").write_text("2")
    checkpoints = make(root)
    before = snapshot(root)
    taken = run(checkpoints.take())
    (root / "secret").chmod(0)
    (root / "locked").chmod(0)
    plain = os.open

    def refuse(path, flags, *rest, dir_fd=None, **more):
        if path in ("secret", "locked") and dir_fd is not None:
            raise PermissionError(13, "Permission denied")
        return plain(path, flags, *rest, dir_fd=dir_fd, **more)

    with monkeypatch.context() as patch:
        patch.setattr("aish.tools.checkpoints.scan.os.open", refuse)
        changes = run(checkpoints.restore(taken)).changes
    assert changes == FileChanges(replaced=("locked", "secret"))
    assert snapshot(root) == before


def test_a_link_is_never_followed(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("not ours")
    (root / "folder").mkdir()
    (root / "folder/file").write_text("ours")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    shutil.rmtree(root / "folder")
    (root / "folder").symlink_to(outside)
    run(checkpoints.restore(taken))
    assert (outside / "file").read_text() == "not ours"
    assert not (root / "folder").is_symlink() and (root / "folder/file").read_text() == "ours"


def test_ignored_files_are_left_out_and_left_alone(root):
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "build").mkdir()
    (root / "build/out").write_text("1")
    (root / "a.log").write_text("1")
    (root / "a.py").write_text("1")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "build/out").write_text("2")
    (root / "a.log").write_text("2")
    (root / "b.log").write_text("2")
    (root / "a.py").write_text("2")
    changes = run(checkpoints.restore(taken)).changes
    assert changes == FileChanges(replaced=("a.py",))
    assert [(root / name).read_text() for name in ("build/out", "a.log", "b.log", "a.py")] == ["2", "2", "2", "1"]


def test_a_file_that_is_no_longer_ignored_is_not_taken_for_a_new_one(root):
    (root / ".gitignore").write_text(".env\n")
    (root / ".env").write_text("KEY=1")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / ".gitignore").write_text("")
    changes = run(checkpoints.restore(taken)).changes
    assert changes.replaced == (".gitignore",) and changes.removed == ()
    assert (root / ".env").read_text() == "KEY=1"


def test_a_file_that_a_turn_hides_behind_an_ignore_rule_comes_back_and_its_present_state_is_kept(root):
    (root / "a.py").write_text("good")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / ".gitignore").write_text("*\n")
    (root / "a.py").write_text("bad")
    run(checkpoints.take())
    restored = run(checkpoints.restore(taken))
    assert (root / "a.py").read_text() == "good"
    run(checkpoints.restore(restored.before))
    assert (root / "a.py").read_text() == "bad"


def test_large_files_are_left_out_by_rule_and_named(root):
    with (root / "disk.img").open("wb") as file:
        file.truncate(10 * 1024**3)  # 10 GB, with nothing in it
    (root / "small").write_text("1")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "disk.img").unlink()
    (root / "small").write_text("2")
    with (root / "new.img").open("wb") as file:
        file.truncate(10 * 1024**3)
    changes = run(checkpoints.restore(taken)).changes
    assert changes.replaced == ("small",)
    assert [path for path, _ in changes.left] == ["disk.img", "new.img"]
    assert (root / "new.img").stat().st_size == 10 * 1024**3  # it would be lost, so it stays
    assert sum(path.stat().st_size for path in (root.parent / "state").rglob("*.db")) < 1024**2


def test_a_workspace_that_takes_too_long_is_stored_in_several_turns(root, monkeypatch):
    for number in range(40):
        (root / f"{number}").write_text(f"content {number}")
    checkpoints = make(root)
    clock = iter(range(10_000))
    monkeypatch.setattr(scan, "monotonic", lambda: next(clock))  # every look at the clock takes a second
    monkeypatch.setattr(scan, "time_ns", lambda: time.time_ns() + 10**9)  # no file is new
    problems = 0
    while True:
        try:
            taken = run(checkpoints.take())
            break
        except CheckpointError as exc:
            assert "within 10 s" in exc.message
            problems += 1
        assert problems < 10
    assert problems > 1
    monkeypatch.undo()
    before = snapshot(root)
    shutil.rmtree(root)
    root.mkdir()
    run(checkpoints.restore(taken))
    assert snapshot(root).keys() == before.keys()


def test_a_workspace_larger_than_the_store_has_no_checkpoint(root):
    for number in range(20):
        (root / f"{number}").write_bytes(os.urandom(100_000))
    with pytest.raises(CheckpointError, match="more than the 1 MB of"):
        run(make(root, max_store_bytes=1024**2).take())


def test_old_checkpoints_make_room_for_new_ones_and_the_store_stays_within_its_size(root):
    checkpoints = make(root, max_store_bytes=2 * 1024**2)
    taken = []
    for _ in range(12):
        (root / "a").write_bytes(os.urandom(400_000))
        taken.append(run(checkpoints.take()))
    content = (root / "a").read_bytes()
    (root / "a").unlink()
    run(checkpoints.restore(taken[-1]))
    assert (root / "a").read_bytes() == content
    [file] = (root.parent / "state").rglob("*.db")
    assert file.stat().st_size <= 3 * 1024**2
    with pytest.raises(CheckpointError, match="not stored any more"):
        run(checkpoints.restore(taken[0]))


def test_only_so_many_checkpoints_are_stored(root, monkeypatch):
    monkeypatch.setattr(database, "MAX_CHECKPOINTS", 3)
    monkeypatch.setattr(database, "_PRUNE_AT_ONCE", 2)
    checkpoints = make(root)
    taken = []
    for number in range(4):
        (root / "a").write_text(f"{number}")
        taken.append(run(checkpoints.take()))
    numbers = [one.number for one in taken]
    assert set(run(checkpoints.compare(str(root), numbers))) == set(numbers[2:])


def test_old_checkpoints_go_with_old_sessions(root, monkeypatch):
    checkpoints = make(root, keep_days=7)
    taken = []
    for days in (0, 5, 10):
        (root / "a").write_text(f"{days}")
        now_ns = (1000 + days) * 86_400 * 10**9
        monkeypatch.setattr("aish.tools.checkpoints.checkpoints.time.time_ns", lambda now_ns=now_ns: now_ns)
        taken.append(run(checkpoints.take()))
    assert set(run(checkpoints.compare(str(root), [one.number for one in taken]))) == {one.number for one in taken[1:]}


def test_nothing_is_written_when_nothing_has_changed(root):
    (root / "a").write_text("1")
    checkpoints = make(root)
    first = run(checkpoints.take())
    os.utime(root / "a")
    again = run(checkpoints.take())
    assert again.number == first.number


def test_a_change_with_the_same_size_and_time_is_seen(root):
    file = root / "a"
    file.write_text("1")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    times = file.stat()
    file.write_text("2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert run(checkpoints.compare(taken.root, [taken.number]))[taken.number].replaced == ("a",)


def test_a_checkpoint_on_a_full_disk_fails_and_changes_nothing(root, tmp_path):
    """A process that may write files of 100 kB only, as on a disk that is full."""
    (root / "a").write_bytes(os.urandom(1_000_000))
    program = textwrap.dedent(
        f"""
        import asyncio, resource, signal
        from pathlib import Path
        from aish.errors import CheckpointError
        from aish.tools.checkpoints.checkpoints import CheckpointSettings, WorkspaceCheckpoints
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        settings = CheckpointSettings(Path({str(tmp_path / "state")!r}), Path("/none"))
        try:
            asyncio.run(WorkspaceCheckpoints(settings, lambda: Path({str(root)!r})).take())
        except CheckpointError as exc:
            print(exc.message)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "checkpoints cannot be stored in" in done.stdout, done.stderr
    taken = run(make(root).take())  # with room again, the store is whole
    content = (root / "a").read_bytes()
    (root / "a").unlink()
    run(make(root).restore(taken))
    assert (root / "a").read_bytes() == content


def test_nothing_is_brought_back_when_the_present_state_cannot_be_stored(root):
    (root / "a").write_text("1")
    checkpoints = make(root, max_store_bytes=1024**2)
    taken = run(checkpoints.take())
    (root / "a").write_text("mine")
    (root / "b").write_bytes(os.urandom(3 * 1024**2))
    with pytest.raises(CheckpointError, match="max_store_mb"):
        run(checkpoints.restore(taken))
    assert (root / "a").read_text() == "mine"


def test_the_present_state_makes_room_for_itself_but_not_at_the_cost_of_what_is_brought_back(root):
    checkpoints = make(root, max_store_bytes=2 * 1024**2)
    taken = []
    for _ in range(4):
        (root / "a").write_bytes(os.urandom(400_000))
        taken.append(run(checkpoints.take()))
    content = os.urandom(400_000)
    (root / "a").write_bytes(os.urandom(400_000))
    (root / "b").write_bytes(content)
    run(checkpoints.take(taken[0]))
    before = run(checkpoints.restore(taken[0])).before
    assert not (root / "b").exists()
    run(checkpoints.restore(before))
    assert (root / "b").read_bytes() == content


def test_a_store_that_cannot_be_made_is_a_plain_error(root, tmp_path):
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(CheckpointError, match="checkpoints cannot be stored in"):
        run(make(root).take())


def test_a_broken_store_is_a_plain_error(root, tmp_path):
    run(make(root).take())
    [file] = (tmp_path / "state").rglob("*.db")
    file.write_bytes(b"no database at all, but long enough to be looked at " * 100)
    with pytest.raises(CheckpointError, match="checkpoints cannot be stored in"):
        run(make(root).take())


def test_the_store_is_private(root, tmp_path):
    (root / ".env").write_text("KEY=1")
    run(make(root).take())
    [file] = (tmp_path / "state").rglob("*.db")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_store_itself_and_hidden_files_are_not_stored(root):
    (root / "aish.db").write_text("conversations")
    (root / "a").write_text("1")
    checkpoints = make(root, state=root / "data/checkpoints", hides=(root / "aish.db",))
    taken = run(checkpoints.take())
    (root / "aish.db").unlink()
    (root / "a").unlink()
    changes = run(checkpoints.restore(taken)).changes
    assert changes.restored == ("a",)
    assert [path for path, _ in changes.left] == ["aish.db"]


def test_a_home_directory_and_the_root_are_no_workspaces(root):
    home = root / "home"
    home.mkdir()
    checkpoints = make(root, home=home)
    for workspace in (home, root, Path("/")):
        with pytest.raises(CheckpointError, match="is no workspace"):
            run(checkpoints.take(Checkpoint(str(workspace), 1)))
    assert not (root.parent / "state").exists()


def test_a_repository_in_mid_rebase_keeps_its_own_state(root):
    git(root, "init", "-q", "-b", "main")
    for text in ("one", "two"):
        (root / "a").write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-qm", text)
    git(root, "checkout", "-qb", "side", "HEAD~1")
    (root / "a").write_text("other")
    git(root, "commit", "-qam", "other")
    git(root, "rebase", "main")
    assert (root / ".git/rebase-merge").is_dir()
    state, conflict = snapshot(root / ".git"), (root / "a").read_text()
    assert "<<<<<<<" in conflict
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "a").write_text("resolved wrongly")
    run(checkpoints.restore(taken))
    assert (root / "a").read_text() == conflict
    assert snapshot(root / ".git") == state


def test_files_of_nested_repositories_and_submodules_are_brought_back_without_their_git_state(root):
    nested = root / "vendor/lib"
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / "lib.c").write_text("int x;")
    submodule = root / "module"
    submodule.mkdir()
    (submodule / ".git").write_text("gitdir: ../.git/modules/module\n")
    (submodule / "m.c").write_text("int m;")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    state = snapshot(nested / ".git")
    (nested / "lib.c").write_text("broken")
    (submodule / "m.c").unlink()
    (submodule / ".git").write_text("gitdir: elsewhere\n")
    run(checkpoints.restore(taken))
    assert (nested / "lib.c").read_text() == "int x;" and (submodule / "m.c").read_text() == "int m;"
    assert snapshot(nested / ".git") == state
    assert (submodule / ".git").read_text() == "gitdir: elsewhere\n"


def test_a_repository_made_since_keeps_its_git_folder(root):
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "clone").mkdir()
    git(root / "clone", "init", "-q")
    (root / "clone/a").write_text("1")
    changes = run(checkpoints.restore(taken)).changes
    assert changes.removed == ("clone/a",)
    assert changes.left == (("clone", "it holds files that are not stored"),)
    assert (root / "clone/.git").is_dir()


def test_no_program_of_the_repository_runs(root):
    """Hooks, filters and monitors are the person's own; a checkpoint starts no process at all."""
    git(root, "init", "-q")
    marker = root.parent / "ran"
    git(root, "config", "core.fsmonitor", f"touch {marker}")
    git(root, "config", "filter.x.clean", f"touch {marker}; cat")
    (root / ".gitattributes").write_text("* filter=x text eol=crlf\n")
    (root / "a").write_bytes(b"unix\nlines\n")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "a").write_bytes(b"")
    run(checkpoints.restore(taken))
    assert (root / "a").read_bytes() == b"unix\nlines\n" and not marker.exists()


def test_two_windows_that_rewind_at_once_wait_for_each_other(root):
    for number in range(50):
        (root / f"{number}").write_text("first")
    one, other = make(root), make(root)
    first = run(one.take())
    for number in range(50):
        (root / f"{number}").write_text("second")
    second = run(one.take())

    async def both():
        return await asyncio.gather(one.restore(first), other.restore(second), one.restore(first))

    results = run(both())
    assert {path.read_text() for path in root.iterdir()} in ({"first"}, {"second"})
    assert all(result.changes.left == () for result in results)


def test_a_window_that_waits_too_long_is_told_so(root, monkeypatch):
    import fcntl

    checkpoints = make(root)
    run(checkpoints.take())
    [file] = (root.parent / "state").rglob("lock")
    monkeypatch.setattr(database, "_LOCK_WAIT_S", 0.0)
    with file.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match="another aish has been busy"):
            run(checkpoints.take())


def test_a_file_that_changes_during_the_restore_is_left_and_named(root, monkeypatch):
    (root / "a").write_text("1")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    (root / "a").write_text("2")
    from aish.tools.checkpoints import checkpoints as module

    plain = module.restore_tree

    def change_first(*given):
        (root / "a").write_text("the user saves right now")
        return plain(*given)

    monkeypatch.setattr(module, "restore_tree", change_first)
    changes = run(checkpoints.restore(taken)).changes
    assert changes.left == (("a", "it has just changed"),)
    assert (root / "a").read_text() == "the user saves right now"


@pytest.mark.parametrize(
    ("launched", "now", "expected"),
    [
        ("home/p", "home/p", "home/p"),
        ("home/p", "home/p/src", "home/p"),
        ("home", "home/p/src", "home/p"),
        ("home", "home/q", "home/q"),
        ("home/q", "home/p/src", "home/p"),
        ("home", "home", "home"),
    ],
)
def test_the_workspace_is_the_folder_of_the_start_or_the_project_the_user_went_to(tmp_path, launched, now, expected):
    (tmp_path / "home/p/.git").mkdir(parents=True)
    (tmp_path / "home/p/src").mkdir()
    (tmp_path / "home/q").mkdir()
    assert find_workspace(tmp_path / launched, tmp_path / now, tmp_path / "home") == tmp_path / expected


def test_turns_that_wait_for_a_checkpoint_leave_threads_for_other_work(root):
    import fcntl

    points = make(root)
    run(points.take())
    [lock] = (root.parent / "state").rglob("lock")

    async def work() -> None:
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            takes = [asyncio.ensure_future(points.take()) for _ in range(50)]
            await asyncio.sleep(0)  # all of them begin
            async with asyncio.timeout(10):
                assert await asyncio.to_thread(lambda: "done") == "done"
        assert len({taken.number for taken in await asyncio.gather(*takes)}) == 1

    run(work())


def stored(root: Path) -> tuple[int, int]:
    """How many checkpoints and contents there are."""
    (file,) = (root.parent / "state").rglob("checkpoints.db")
    with closing(sqlite3.connect(file)) as db:
        return tuple(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("checkpoints", "objects"))


def test_listing_what_would_change_stores_nothing(root):
    (root / "a").write_text("1")
    checkpoints = make(root)
    taken = run(checkpoints.take())
    before = stored(root)
    for number in range(3):
        (root / "a").write_text(f"changed {number}")
        (root / f"new{number}").write_text("x")
        changes = run(checkpoints.compare(taken.root, [taken.number]))[taken.number]
        assert changes.replaced == ("a",) and len(changes.removed) == number + 1
    assert stored(root) == before
    assert run(checkpoints.take()).number != taken.number


def test_a_workspace_that_outgrew_its_store_can_be_listed_no_more_and_loses_nothing(root):
    (root / "a").write_bytes(os.urandom(1000))
    checkpoints = make(root, max_store_bytes=300_000)
    taken = run(checkpoints.take())
    (root / "b").write_bytes(os.urandom(400_000))
    with pytest.raises(CheckpointError, match="take more than"):
        run(checkpoints.compare(taken.root, [taken.number]))
    (root / "b").unlink()
    assert run(checkpoints.compare(taken.root, [taken.number]))[taken.number].count == 0


async def test_a_rewind_that_is_cancelled_brings_its_files_back_before_the_next_one_begins(root, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()
    checkpoints = make(root)
    (root / "a").write_text("1")
    taken = await checkpoints.take()
    (root / "a").write_text("2")

    def restore_slowly(*given):
        begun.set()
        may_end.wait(20)
        return restore.restore_tree(*given)

    monkeypatch.setattr(module, "restore_tree", restore_slowly)
    restoring = asyncio.create_task(checkpoints.restore(taken))
    await asyncio.to_thread(begun.wait, 20)
    restoring.cancel()
    listing = asyncio.create_task(checkpoints.compare(taken.root, [taken.number]))
    done, _ = await asyncio.wait({restoring, listing}, timeout=0)
    assert not done
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert (root / "a").read_text() == "1" and (await listing)[taken.number].count == 0


async def test_a_scan_that_is_cancelled_stops(root, monkeypatch):
    begun, may_go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []
    for number in range(50):
        (root / f"f{number}").mkdir()
    scan_folder = scan.WorkspaceScan._scan_folder

    def scan_when_told(self, fd, path, *given):
        seen.append(path)
        if path:
            begun.set()
            may_go_on.wait(20)
        return scan_folder(self, fd, path, *given)

    monkeypatch.setattr(scan.WorkspaceScan, "_scan_folder", scan_when_told)
    checkpoints = make(root)
    taking = asyncio.create_task(checkpoints.take())
    await asyncio.to_thread(begun.wait, 20)
    taking.cancel()
    await asyncio.wait({taking}, timeout=0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await taking
    monkeypatch.undo()
    assert len(seen) == 2 and (await checkpoints.take()).number
