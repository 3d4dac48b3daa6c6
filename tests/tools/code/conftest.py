"""An empty workspace and the tools on it, for tests that bring nothing of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.ide_tools import Tools, ide_with


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
async def tools(root: Path) -> AsyncIterator[Tools]:
    async with ide_with(root, diagnostics_wait_s=0.5) as made:
        yield made
