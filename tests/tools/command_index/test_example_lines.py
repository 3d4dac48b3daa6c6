"""Lines to start from: of tldr pages, of manual pages, and of the user's own history where that is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.safety.redaction.redactor import Redactor
from aish.tools.command_index.example_lines import find_best, history_lines, manual_examples, tldr_lines
from aish.tools.command_index.index import CommandIndex

PAGE = """# frob

> Knit sweaters.
> More information: <https://example.com>.

- Knit a sweater of a pattern:

`frob {{[-p|--pattern]}} {{path/to/pattern_file}}`

- List all patterns:

`frob --list`

- Another program:

`sudo frob`
"""
MANUAL = """.TH FROB 1
.SH NAME
frob \\- knit woollen sweaters
.SH EXAMPLES
Knit a striped sweater:
.PP
.nf
$ frob \\-\\-stripes red,blue sweater.txt
.fi
.SH AUTHOR
frob was written by somebody
"""


def folder_with(place: Path, *names: str) -> str:
    place.mkdir()
    for name in names:
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    return str(place)


def pages_in(place: Path) -> Path:
    (place / "common").mkdir(parents=True)
    (place / "common" / "frob.md").write_text(PAGE)
    (place / "common" / "absent.md").write_text(PAGE.replace("frob", "absent"))
    return place


def test_of_a_tldr_page_come_the_lines_with_capitals_to_fill_in(tmp_path: Path) -> None:
    found = [(line.task, line.line, line.sample) for line in tldr_lines({"frob"}, [pages_in(tmp_path / "pages")])]
    assert found == [
        ("Knit a sweater of a pattern", "frob --pattern PATTERN_FILE", False),
        ("List all patterns", "frob --list", False),
    ]


def test_of_a_manual_come_its_examples_and_nothing_else() -> None:
    [line] = manual_examples("frob", MANUAL)
    assert (line.task, line.line) == ("Knit a striped sweater:", "frob --stripes red,blue sweater.txt")


def test_a_manuals_example_is_shown_and_not_run_and_a_whole_tldr_line_may_be(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", "frob")
    manuals = tmp_path / "man1"
    manuals.mkdir()
    (manuals / "frob.1").write_text(MANUAL)
    index = CommandIndex(tmp_path / "a.db", path, (manuals,))
    [hint] = [hint for hint in index.search("knit a striped sweater") if hint.program == "frob"]
    assert (hint.example, hint.is_ready) == ("frob --stripes red,blue sweater.txt", False)
    index = CommandIndex(tmp_path / "b.db", path, (manuals,), tldr=[pages_in(tmp_path / "pages")])
    [hint] = [hint for hint in index.search("list the woollen patterns") if hint.program == "frob"]
    assert (hint.example, hint.is_ready) == ("frob --list", True)


HISTORY = """#1700000000
docker compose logs billing
: 1700000001:0;docker compose restart billing
- cmd: docker compose ps
docker login -p hunter2hunter2
docker run -e API_KEY=abc billing
rm -rf billing
notthere restart billing
docker compose logs billing
"""


def test_of_a_history_come_the_latest_lines_once_without_secrets_and_removals(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text(HISTORY + "docker exec known-secret-value sh\n")
    redactor = Redactor(["known-secret-value"])
    found = [line.line for line in history_lines(file, {"docker", "rm"}, redactor.text)]
    assert found == ["docker compose logs billing", "docker compose ps", "docker compose restart billing"]


def test_the_history_is_read_only_where_it_is_given(tmp_path: Path) -> None:
    path = folder_with(tmp_path / "bin", "docker", "ls")
    (tmp_path / "history").write_text(HISTORY)
    asked = "how do I restart the billing container"
    plain = CommandIndex(tmp_path / "a.db", path, ()).search(asked)
    assert not any("billing" in hint.example for hint in plain)
    index = CommandIndex(tmp_path / "a.db", path, (), history=tmp_path / "history")
    here = [hint for hint in index.search(asked) if hint.here]
    assert here[-1].example == "docker compose restart billing"
    assert b"billing" not in (tmp_path / "a.db").read_bytes()


def test_one_word_in_common_is_not_enough_for_a_line_of_the_history(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("docker compose ps\n")
    lines = list(history_lines(tmp_path / "history", {"docker"}, str))
    assert find_best(iter(lines), ["docker", "sweater"]) is None
    assert find_best(iter(lines), ["docker", "compose"]) is not None


@given(st.text(max_size=400))
def test_any_page_and_any_history_can_be_read(text: str) -> None:
    for line in manual_examples("frob", ".SH EXAMPLES\n" + text):
        assert line.line.startswith("frob ")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00docker ps -a\n", b"", b"docker ps \x1b[31m -a\n" * 3])
def test_a_history_of_odd_bytes_gives_only_lines_that_can_be_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "history").write_bytes(content)
    assert all(line.line.isprintable() for line in history_lines(tmp_path / "history", {"docker"}, str))
    assert not list(history_lines(tmp_path / "none", {"docker"}, str))
