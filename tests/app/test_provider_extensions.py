"""Providers of installed packages are found by their entry points."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aish import Aish
from aish.errors import ProviderUnavailable

CODE = """
from aish.testing import Scripted

def make(name, options):
    return Scripted(f"I am in {options['region']}.", name=name)

def broken(name, options):
    raise ValueError("no region")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "office_model-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "office_model.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: office-model\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[aish.providers]\noffice = office_model:make\nbad = office_model:broken\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    importlib.invalidate_caches()


def provider(extension: str, **options: Any) -> dict[str, Any]:
    return {"providers": {"mine": {"kind": "extension", "extension": extension, "options": options}}}


async def test_a_provider_gets_its_name_and_its_options(installed: None):
    async with Aish("mine:model", config=provider("office", region="eu")) as aish:
        reply = await aish.ask("where are you?")
    assert (reply.text, reply.model) == ("I am in eu.", "mine:model")


@pytest.mark.parametrize(
    ("extension", "problem"),
    [("nothing", "needs the extension nothing"), ("", "extension is not set"), ("bad", "ValueError: no region")],
)
async def test_what_is_missing_or_fails_is_an_error_that_names_it(installed: None, extension: str, problem: str):
    async with Aish("mine:model", config=provider(extension)) as aish:
        with pytest.raises(ProviderUnavailable) as caught:
            await aish.ask("where are you?")
    assert problem in caught.value.message


async def test_one_that_cannot_be_made_keeps_no_other_from_working(installed: None):
    missing, failing = ({"kind": "extension", "extension": extension} for extension in ("nothing", "bad"))
    made = provider("office", region="eu")["providers"]
    config = {"providers": {"first": missing, **made, "last": failing}, "discovery": {"enabled": False}}
    async with Aish("mine:model", config=config) as aish:
        names = await aish.models()
        assert (await aish.ask("where are you?")).text == "I am in eu."
        with pytest.raises(ProviderUnavailable, match="needs the extension nothing"):
            await aish.ask("where are you?", model="first")
    assert any(name.startswith("mine:") for name in names) and not any(name.startswith("first:") for name in names)


async def test_options_are_never_shown(installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from aish.config.load import load_config
    from aish.config.reference import show_rows

    loaded = load_config(cwd=tmp_path, env={"HOME": str(tmp_path)}, flags=provider("office", token="s3cret"))
    shown = json.dumps([list(row) for row in show_rows(loaded)])
    assert "providers.mine.options.token" in shown and "s3cret" not in shown
