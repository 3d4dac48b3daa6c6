"""The history of the prompt: shared, bounded, imported from bash, searched by Ctrl-R."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.shell.prompt.history import HistoryEntry, PromptHistory, entry_now, parse_bash_history
from aish.frontends.shell.prompt.history_search import HistoryIndex


def lines(history):
    return [entry.line for entry in history.entries]


def test_what_one_shell_adds_another_sees_at_its_next_look(tmp_path):
    one, other = (PromptHistory(tmp_path / "h") for _ in range(2))
    one.add(entry_now("make", cwd="/src", status=2, duration_s=1.5))
    (seen,) = other.refresh()
    assert (seen.line, seen.cwd, seen.status, seen.duration_s) == ("make", "/src", 2, 1.5) and seen.ended_s > 0
    other.add(entry_now("for x in 1\ndo ls\ndone"))
    assert [entry.line for entry in one.refresh()] == ["for x in 1\ndo ls\ndone"]
    assert lines(one) == lines(other)
    assert (tmp_path / "h").stat().st_mode & 0o777 == 0o600


def test_only_the_end_is_read_at_first_and_the_rest_when_it_is_searched(tmp_path):
    first = PromptHistory(tmp_path / "h")
    for number in range(500):
        first.add(entry_now(f"echo {number}"))
    history = PromptHistory(tmp_path / "h", tail_bytes=1000)
    history.refresh()
    assert 5 < len(history.entries) < 50 and history.last_line == "echo 499"
    first.add(entry_now("echo more"))
    history.load_all()
    assert lines(history) == [*(f"echo {number}" for number in range(500)), "echo more"]


def test_a_long_history_loses_its_older_half_and_other_shells_go_on_with_the_rest(tmp_path):
    one, other = (PromptHistory(tmp_path / "h", max_bytes=10_000) for _ in range(2))
    for number in range(400):
        one.add(entry_now(f"echo {number}"))
    assert (tmp_path / "h").stat().st_size <= 10_000
    other.load_all()
    assert lines(other)[-1] == "echo 399" and len(other.entries) < 400
    other.add(entry_now("last"))
    one.refresh()
    assert one.last_line == "last"


def test_a_broken_line_of_the_file_is_left_out(tmp_path):
    history = PromptHistory(tmp_path / "h")
    history.add(entry_now("one"))
    with (tmp_path / "h").open("ab") as file:
        file.write(b'{"line": "cut\n\xff\xfe\n[1]\n')
    history.add(entry_now("two"))
    assert lines(PromptHistory(tmp_path / "h")) == []
    other = PromptHistory(tmp_path / "h")
    other.refresh()
    assert lines(other) == ["one", "two"]


def test_a_history_that_cannot_be_written_is_kept_while_the_shell_is_there(tmp_path):
    (tmp_path / "h").mkdir()
    history = PromptHistory(tmp_path / "h")
    history.add(entry_now("first"))
    history.add(entry_now("second"))
    assert lines(history) == ["first", "second"]


async def test_the_file_of_bash_is_taken_over_once_and_then_what_was_added(tmp_path):
    bash = tmp_path / "bash_history"
    bash.write_text("ls\ngit status\n")
    history = PromptHistory(tmp_path / "h")
    await history.import_bash_file(str(bash))
    history.add(entry_now("make"))
    bash.write_text("ls\ngit status\nmake\nfrom another terminal\n")
    again = PromptHistory(tmp_path / "h")
    await again.import_bash_file(str(bash))
    assert lines(again) == ["ls", "git status", "make", "from another terminal"]
    bash.write_text("git status\nnew\n")  # bash has rewritten it
    await again.import_bash_file(str(bash))
    assert lines(again) == ["ls", "git status", "make", "from another terminal", "new"]
    await again.import_bash_file(str(tmp_path / "none"))
    await again.import_bash_file("")
    assert len(again.entries) == 5


def test_the_file_of_older_versions_is_taken_over(tmp_path):
    (tmp_path / "history").write_text("\n# 2026-01-01 10:00:00\n+ls\n\n# 2026-01-01 10:00:01\n+for x\n+do\n")
    history = PromptHistory(tmp_path / "history.jsonl")
    history.import_old_file(tmp_path / "history")
    history.import_old_file(tmp_path / "history")
    assert lines(history) == ["ls", "for x\ndo"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls\n\n# a comment\n", [("ls", 0.0), ("# a comment", 0.0)]),
        (
            "#1700000000\nls\n#1700000001\nfor x in 1\ndo :\ndone\n",
            [("ls", 1.7e9), ("for x in 1\ndo :\ndone", 1.7e9 + 1)],
        ),
        ("old\n#1700000000\nnew\n", [("old", 0.0), ("new", 1.7e9)]),
        ("", []),
    ],
)
def test_times_in_the_file_of_bash_tell_entries_of_many_lines(text, expected):
    assert [(entry.line, entry.ended_s) for entry in parse_bash_history(text)] == expected


def index(*texts, cwd=None):
    return HistoryIndex(
        [HistoryEntry(text, 0.0, "/a" if number % 2 else "/b") for number, text in enumerate(texts)], cwd
    )


def search(query, *texts, cwd=None):
    return [entry.line for entry in index(*texts, cwd=cwd).search(query)]


def test_lines_that_begin_with_the_query_come_first_and_newer_ones_before_older():
    found = search("git", "digit", "a git", "git old", "xgitx", "git new")
    assert found == ["git new", "git old", "a git", "xgitx", "digit"]


def test_all_words_must_occur_in_any_order_or_the_letters_in_theirs():
    texts = ("docker run -it web", "run docker", "git commit -m x", "ls")
    assert search("run docker", *texts) == ["run docker", "docker run -it web"]
    assert search("gcm", *texts) == ["git commit -m x"]
    assert search("GIT Commit", *texts) == ["git commit -m x"]
    assert search("zq", *texts) == []


def test_duplicates_are_found_once_as_the_newest():
    assert search("", "a", "b", "a") == ["a", "b"]


def test_a_directory_limits_what_is_found():
    assert search("", "zero", "one", "two", "three", cwd="/a") == ["three", "one"]


@given(st.lists(st.text(max_size=8), max_size=12), st.text(max_size=3))
def test_what_is_found_contains_the_letters_of_the_query(texts, query):
    found = search(query, *[text.replace("\0", "") for text in texts])
    assert len(found) == len(set(found))
    wanted = "".join(query.lower().replace("\0", "").split())
    for line in found:
        left = iter(line.lower())
        assert all(word in line.lower() for word in query.lower().replace("\0", "").split()) or all(
            letter in left for letter in wanted
        )
