"""Mentions bring along what they name, and nothing else; one that names nothing is an error before anything is sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aish.errors import ToolError, UsageError
from aish.frontends.mentions import MAX_CHARS, MentionScope, expand_mentions
from aish.types.messages import ImagePart, TextPart, UserMessage
from aish.types.tools import ToolOutput


async def read_skill(name: str) -> str:
    return f"how {name} is done"


def scope(folder: Path, servers: Any = None) -> MentionScope:
    return MentionScope(folder, servers or {}, frozenset({"release"}), read_skill)


async def asked(text: str, folder: Path) -> UserMessage:
    return await expand_mentions(text, scope(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "my notes.txt").write_text("four\nfive\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("print('hello')\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("what is @notes.txt", "one\ntwo"),
        ("what is (@notes.txt)?", "one\ntwo"),
        ("lines @notes.txt:2-3, please", "2: two\n3: three"),
        ("line @notes.txt:2", "2: two"),
        ("see @src", "app.py"),
        ("see @src/app.py.", "hello"),
        ('see @"my notes.txt", please', "four\nfive"),
        ('see (@"my notes.txt:2")', "2: five"),
        ("@notes.txt:2-3\nwhat is this?", "2: two\n3: three"),
    ],
)
async def test_what_is_named_goes_along(folder, text, found):
    message = await asked(text, folder)
    assert found in message.text and message.text.startswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "mail me@example.com",
        r"a plain \@notes.txt",
        "run `@notes.txt` now",
        "@dataclass\nclass A: pass",
        "@app.route('/x')\ndef x():",
    ],
)
async def test_other_uses_of_the_sign_are_left_alone(folder, text):
    message = await asked(text, folder)
    assert message.text == text.replace("\\@", "@")


@pytest.mark.parametrize(
    "text",
    [
        "@missing.txt",
        "see @src/none.py",
        "@notes.txt:9-12",
        "@notes.txt:3-2",
        "@notes.txt:0-2",
        "hey @nobody",
        '@"my note"',
        f"@notes.txt:{'9' * 5000}",
    ],
)
async def test_what_is_not_there_is_an_error(folder, text):
    with pytest.raises(UsageError, match=r"names no file|there are lines"):
        await asked(text, folder)


@pytest.mark.parametrize("name", ["pipe", "pipe.png"])
async def test_a_pipe_is_not_waited_for(folder, name):
    os.mkfifo(folder / name)
    with pytest.raises(UsageError, match="not a plain file"):
        await asked(f"@{name}", folder)


async def test_binary_files_are_refused_and_large_ones_are_cut_with_a_note(folder):
    (folder / "x.bin").write_bytes(b"\x7fELF\0\0\0")
    with pytest.raises(UsageError, match="not text"):
        await asked("@x.bin", folder)
    (folder / "big.txt").write_text("x" * (MAX_CHARS + 10))
    message = await asked("@big.txt", folder)
    assert f"the first {MAX_CHARS} characters" in message.text and len(message.text) < MAX_CHARS + 200


async def test_an_image_goes_along_as_one(folder):
    (folder / "pic.png").write_bytes(b"\x89PNG")
    message = await asked("what is on @pic.png", folder)
    assert any(isinstance(part, ImagePart) and part.media_type == "image/png" for part in message.parts)


class Server:
    """Has one memo, and says so in as many words as it likes."""

    def __init__(self, memo: str) -> None:
        self.memo = memo

    @property
    def session(self) -> Server:
        return self

    async def read_resource(self, uri: str) -> ToolOutput:
        if uri != "memo":
            raise ToolError(f"there is no {uri}")
        return ToolOutput((TextPart(self.memo), ImagePart(data="aGk=")))


@pytest.mark.parametrize("text", ["what is @desk:memo?", "@desk:memo\nwhat is it?"])
async def test_a_resource_of_a_server_goes_along(folder, text):
    message = await expand_mentions(text, scope(folder, {"desk": Server("buy milk")}))
    assert "[@desk:memo]\nbuy milk" in message.text
    assert message.parts[-1] == ImagePart(data="aGk=")


async def test_a_resource_that_is_not_there_sends_nothing_and_a_long_one_is_cut(folder):
    places = scope(folder, {"desk": Server("x" * (MAX_CHARS + 7))})
    with pytest.raises(UsageError, match="@desk:lost: there is no lost; nothing was sent"):
        await expand_mentions("see @desk:lost", places)
    with pytest.raises(UsageError, match="names no file, range or resource"):
        await expand_mentions("see @model_cache:memo", places)
    assert (await expand_mentions("see @desk:memo", places)).text.endswith("[aish] … 7 characters left out …")


async def test_a_hundred_mentions_are_too_many(folder):
    for number in range(30):
        (folder / f"f{number}").write_text("x")
    with pytest.raises(UsageError, match="30 mentions"):
        await asked(" ".join(f"@f{number}" for number in range(30)), folder)


async def test_a_folder_above_is_that_folder(folder):
    message = await asked("see @../.. now", folder / "src")
    assert "[@../..]" in message.text


async def test_a_name_too_long_for_any_file_is_one_that_is_not_there(folder):
    with pytest.raises(UsageError, match="names no file"):
        await asked("@" + "x" * 5000, folder)


async def test_a_skill_that_a_question_begins_with_goes_along(folder):
    message = await asked("/release version 2 of @notes.txt", folder)
    assert message.parts[0] == TextPart("/release version 2 of @notes.txt")
    assert "the skill release" in message.parts[1].text and "how release is done" in message.parts[1].text
    assert "[@notes.txt]" in message.parts[2].text


@pytest.mark.parametrize("text", ["/other thing", "use /release", "/releases", "/"])
async def test_only_the_name_of_a_skill_at_the_beginning_means_one(folder, text):
    assert (await asked(text, folder)).parts == (TextPart(text),)
