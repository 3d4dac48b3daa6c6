"""Whether an edit was made can be told afterwards, from the hashes of its files."""

from __future__ import annotations

from pathlib import Path

from support.ide_tools import ide_with


async def test_an_edit_that_was_made_not_made_or_touched_by_others_is_told_apart(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    async with ide_with(root) as tools:
        revision = (await tools("read_file", path="a.txt")).split("revision=")[1].split()[0]
        edits = [
            {"path": "a.txt", "revision": revision, "old": "one", "new": "two"},
            {"path": "b.txt", "revision": "new", "new": "fresh\n"},
        ]
        witness = await tools.ide.compute_witness("edit", {"edits": edits})
        assert witness
        assert "two" not in witness  # digests, no content
        assert await tools.ide.has_happened(witness) is False
        await tools("edit", edits=edits)
        assert await tools.ide.has_happened(witness) is True
        (root / "a.txt").write_text("three\n")
        assert await tools.ide.has_happened(witness) is None


async def test_what_only_reads_has_no_witness(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    async with ide_with(root) as tools:
        assert await tools.ide.compute_witness("search", {"pattern": "x"}) == ""
