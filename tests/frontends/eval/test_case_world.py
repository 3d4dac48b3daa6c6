"""The scratch tools: they do what they say, and nothing outside their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aish.errors import ToolError
from aish.frontends.eval.case_world import MAX_FILE_BYTES, ScratchFiles, ScratchRecords, create_files
from aish.frontends.eval.cases import World
from aish.types.messages import text_of


async def use(tools: ScratchFiles | ScratchRecords, name: str, **arguments: Any) -> str:
    return text_of((await tools.call(name, arguments, None)).parts)  # type: ignore[arg-type]


async def test_files_are_written_read_listed_and_deleted(tmp_path: Path) -> None:
    files = ScratchFiles(tmp_path)
    assert await use(files, "list") == "(no files)"
    await use(files, "write", path="a/b.txt", content="höhe\n")
    assert await use(files, "list") == "a/b.txt"
    assert await use(files, "read", path="a/b.txt") == "höhe\n"
    await use(files, "delete", path="a/b.txt")
    with pytest.raises(ToolError, match=r"no file a/b\.txt"):
        await use(files, "read", path="a/b.txt")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ".", "", "link/x"])
async def test_nothing_outside_the_folder_is_touched(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "out").mkdir()
    (folder / "link").symlink_to(tmp_path / "out")
    for name in ("read", "write", "delete"):
        with pytest.raises(ToolError, match="not in the working folder"):
            await use(ScratchFiles(folder), name, path=path, content="x")
    assert list((tmp_path / "out").iterdir()) == []


async def test_a_file_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no room"):
        await use(ScratchFiles(tmp_path), "write", path="a", content="x" * (MAX_FILE_BYTES + 1))


async def test_records_are_kept_for_the_length_of_a_case() -> None:
    start = {"phones": {"Ada": "1"}}
    records = ScratchRecords(start)
    await use(records, "put", table="phones", key="Bob", value="2")
    await use(records, "remove", table="phones", key="Ada")
    assert await use(records, "list", table="phones") == "Bob: 2"
    assert await use(records, "get", table="phones", key="Bob") == "2"
    assert start == {"phones": {"Ada": "1"}}
    with pytest.raises(ToolError, match="no table cars; there are phones"):
        await use(records, "list", table="cars")
    with pytest.raises(ToolError, match="no record Ada"):
        await use(records, "get", table="phones", key="Ada")


def test_a_world_cannot_be_laid_out_outside_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not in the scratch folder"):
        create_files(World(files={"../x": "y"}), tmp_path)
