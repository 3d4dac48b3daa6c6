"""What changed on disk, seen by the kernel and seen by looking."""

from __future__ import annotations

import shutil

import pytest

from aish.tools.code.files.change_feed import ChangeFeed
from aish.tools.code.files.inotify import InotifyWatch
from aish.tools.code.files.watcher import CHANGED, CREATED, REMOVED, PollingWatch


def is_python(name: str) -> bool:
    return name.endswith(".py")


@pytest.fixture(params=["kernel", "looking"])
def watched(request, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "sub" / "b.py").write_text("b")
    made = (InotifyWatch if request.param == "kernel" else PollingWatch)(tmp_path, is_python)
    yield tmp_path, made
    made.close()


def test_nothing_changed_is_nothing(watched):
    _, watch = watched
    assert watch.changes() == {}


def test_a_write_a_new_file_and_a_removal_are_told_apart_and_told_once(watched):
    root, watch = watched
    (root / "a.py").write_text("another")
    (root / "sub" / "c.py").write_text("new")
    (root / "sub" / "b.py").unlink()
    assert watch.changes() == {"a.py": CHANGED, "sub/c.py": CREATED, "sub/b.py": REMOVED}
    assert watch.changes() == {}


def test_a_file_replaced_by_renaming_has_changed(watched):
    root, watch = watched
    (root / "staged.tmp").write_text("replaced")
    (root / "staged.tmp").rename(root / "a.py")
    assert watch.changes() == {"a.py": CHANGED}


def test_new_folders_are_watched_with_what_is_in_them(watched):
    root, watch = watched
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "deep" / "d.py").write_text("d")
    assert watch.changes() == {"new/deep/d.py": CREATED}
    (root / "new" / "deep" / "d.py").write_text("more")
    assert watch.changes() == {"new/deep/d.py": CHANGED}


def test_a_folder_that_goes_takes_its_files_along(watched):
    root, watch = watched
    shutil.rmtree(root / "sub")
    assert watch.changes() == {"sub/b.py": REMOVED}


def test_a_folder_that_is_moved_away_takes_its_files_along(watched, tmp_path_factory):
    root, watch = watched
    (root / "sub").rename(tmp_path_factory.mktemp("elsewhere") / "sub")
    assert watch.changes() == {"sub/b.py": REMOVED}


def test_no_file_is_lost_in_a_storm_of_new_and_renamed_folders(watched):
    root, watch = watched
    known = {"a.py", "sub/b.py"}
    for number in range(300):
        (root / f"new{number}" / "deep" / "deeper").mkdir(parents=True)
        (root / f"new{number}" / "deep" / "deeper" / "x.py").write_text("x")
        (root / f"new{number}" / "deep").rename(root / f"new{number}" / "moved")
        if number % 2:
            (root / f"new{number}").rename(root / f"renamed{number}")
    for path, kind in watch.changes().items():
        (known.discard if kind == REMOVED else known.add)(path)
    assert known == {path.relative_to(root).as_posix() for path in root.rglob("*.py")}
    for path in root.rglob("*.py"):
        path.write_text("written again")
    assert watch.changes() == dict.fromkeys(known, CHANGED)


def test_folders_that_are_never_source_are_not_watched(watched):
    root, watch = watched
    (root / ".mypy_cache").mkdir()
    (root / ".mypy_cache" / "x.py").write_text("x")
    (root / "notes.txt").write_text("not wanted")
    assert watch.changes() == {}


@pytest.mark.parametrize("listing", ["node_modules", "node_modules/@types", ".venv/lib/python3.11/site-packages"])
def test_after_a_package_was_installed_everything_may_have_changed(watched, listing):
    root, made = watched
    (root / listing).mkdir(parents=True)
    assert made.changes() is None
    assert made.changes() == {}
    (root / listing / "package").mkdir()
    (root / listing / "package" / "x.py").write_text("x")
    assert made.changes() is None
    (root / listing / "package" / "x.py").write_text("by hand, which is not seen")
    assert made.changes() == {}
    (root / listing / "package").rename(root / listing / "other")
    assert made.changes() is None


def test_an_environment_that_is_made_bit_by_bit_is_watched_in_the_end(watched):
    root, made = watched
    site = root / ".venv" / "lib" / "python3.11" / "site-packages"
    (root / ".venv").mkdir()
    made.changes()
    site.mkdir(parents=True)
    assert made.changes() is None
    assert made.changes() == {}
    (site / "package").mkdir()
    assert made.changes() is None
    shutil.rmtree(root / ".venv")
    made.changes()
    assert made.changes() == {}


def test_links_are_not_followed(watched, tmp_path_factory):
    root, watch = watched
    outside = tmp_path_factory.mktemp("outside")
    (root / "link").symlink_to(outside)
    (outside / "x.py").write_text("x")
    assert watch.changes() == {}


def test_what_has_another_name_through_a_link_changes_under_both(watched):
    root, watch = watched
    (root / "also.py").symlink_to("a.py")
    (root / "sub" / "again.py").symlink_to("../also.py")
    (root / "way").symlink_to("sub")
    watch.changes()
    (root / "a.py").write_text("another")
    assert watch.changes() == dict.fromkeys(("a.py", "also.py", "sub/again.py", "way/again.py"), CHANGED)
    (root / "sub" / "b.py").write_text("another")
    (root / "sub" / "c.py").write_text("new")
    changed = {"sub/b.py": CHANGED, "way/b.py": CHANGED, "sub/c.py": CREATED, "way/c.py": CREATED}
    assert watch.changes() == changed
    assert watch.changes() == {}


def test_a_link_that_comes_goes_or_leads_elsewhere_takes_its_names_along(watched):
    root, watch = watched
    (root / "other").mkdir()
    (root / "other" / "b.py").write_text("other")
    watch.changes()
    (root / "way").symlink_to("sub")
    assert watch.changes() == {"way/b.py": CREATED}
    (root / "way").unlink()
    (root / "way").symlink_to("other")
    assert watch.changes() == {"way/b.py": CHANGED}
    (root / "way").unlink()
    assert watch.changes() == {"way/b.py": REMOVED}


def test_links_in_a_circle_and_above_themselves_are_survived(watched):
    root, watch = watched
    (root / "up").symlink_to(".")
    (root / "sub" / "up").symlink_to("..")
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "a.py").write_text("another")
    assert watch.changes() == {"a.py": CHANGED}


def test_made_and_then_changed_is_made_and_removed_and_made_again_is_changed(watched):
    root, watch = watched
    (root / "n.py").write_text("1")
    (root / "n.py").write_text("2")
    (root / "a.py").unlink()
    (root / "a.py").write_text("again")
    assert watch.changes() == {"n.py": CREATED, "a.py": CHANGED}


def test_more_changes_than_the_kernel_counts_are_all_found(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("a")
    watch = InotifyWatch(tmp_path, is_python)
    overflow = watch._events
    monkeypatch.setattr(watch, "_events", lambda data: [*overflow(data), (None, 0x4000, "")])
    (tmp_path / "b.py").write_text("b")
    found = watch.changes()
    watch.close()
    assert found.keys() == {"a.py", "b.py"}


def test_each_listener_hears_everything_since_it_last_asked(tmp_path):
    (tmp_path / "a.py").write_text("a")
    news = ChangeFeed(tmp_path, is_python)
    news.reset("one")
    news.reset("two")
    (tmp_path / "a.py").write_text("b")
    assert news.take("one") == {"a.py": CHANGED}
    (tmp_path / "c.py").write_text("c")
    assert news.take("one") == {"c.py": CREATED}
    assert news.take("two") == {"a.py": CHANGED, "c.py": CREATED}
    assert news.take("two") == {}
    news.close()


def test_a_listener_that_starts_late_hears_only_what_comes_after(tmp_path):
    news = ChangeFeed(tmp_path, is_python)
    (tmp_path / "a.py").write_text("a")
    news.reset("late")
    assert news.take("late") == {}
    news.close()


@pytest.mark.parametrize("folder", ["dist", "target", "build"])
def test_what_is_built_is_imported_and_so_it_is_watched(watched, folder):
    root, watch = watched
    (root / folder).mkdir()
    (root / folder / "made.py").write_text("made")
    assert watch.changes() == {f"{folder}/made.py": CREATED}
    (root / folder / "made.py").write_text("made again")
    assert watch.changes() == {f"{folder}/made.py": CHANGED}


def test_a_write_is_seen_before_the_file_is_closed(watched):
    root, watch = watched
    with (root / "a.py").open("a") as file:
        file.write("more")
        file.flush()
        assert watch.changes() == {"a.py": CHANGED}
        file.write("and more")
        file.flush()
        assert watch.changes() == {"a.py": CHANGED}


def test_more_changes_than_are_kept_are_everything_until_the_listener_starts_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("aish.tools.code.files.change_feed._MAX_COLLECTED", 2)
    news = ChangeFeed(tmp_path, is_python)
    news.reset("slow")
    news.reset("quick")
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("x")
        assert news.take("quick") == {name: CREATED}
    assert news.peek("slow") is None
    assert news.take("slow") is None
    assert news.take("slow") is None
    news.reset("slow")
    assert news.take("slow") == {}
    news.close()


def test_where_the_kernel_can_watch_no_longer_everything_may_have_changed(tmp_path, monkeypatch):
    news = ChangeFeed(tmp_path, is_python)
    news.reset("one")

    def fail() -> dict[str, int]:
        raise OSError("no watches left")

    monkeypatch.setattr(news._watch, "changes", fail)
    (tmp_path / "a.py").write_text("a")
    assert news.take("one") is None
    news.close()
