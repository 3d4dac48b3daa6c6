"""What is made from the schema: the rows of `show`, the starter file and the reference page."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aish.config.reference import init_config, reference_page, show_rows, show_value, starter_text
from aish.config.schema.tree import leaves
from aish.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "config.md"


def test_every_key_is_documented_where_it_is_defined() -> None:
    undocumented = [".".join(path) for path, leaf in leaves() if not leaf.description.endswith(".")]
    assert undocumented == []
    assert len(list(leaves())) > 50


def test_the_committed_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), (
        "run `python -m aish.config.reference > docs/config.md`"
    )


def test_the_reference_page_names_every_key() -> None:
    page = reference_page()
    assert [path for path, _ in leaves() if f"| `{path[-1]}` |" not in page and path[-1] != "NAME"] == []


def test_rows_have_every_key_with_value_and_origin(world) -> None:
    world.user('model = "a \\"b\\""\n[providers.p]\nurl = "http://x"\nheaders = {"a b" = "x"}\n')
    rows = {row.key: (row.value, row.origin) for row in show_rows(world.load())}
    assert rows["model"] == ('"a \\"b\\""', f"{world.user_file}:1")
    assert rows["limits.max_steps"] == ("8", "default")
    assert rows["limits.max_tokens"] == ("", "default")
    assert rows["tools.offer"] == ('["*"]', "default")
    assert rows["store.enabled"] == ("true", "default")
    assert rows['providers.p.headers."a b"'] == ("***", f"{world.user_file}:4")
    assert rows["discovery.servers"][0].startswith('[{name = "ollama", url = "http://127.0.0.1:11434"')


def test_shown_values_are_toml(world) -> None:
    world.user('model = "tab\\t é \\u007f \\u0000 ☃"\nsystem = """two\nlines"""\n')
    config = world.load().config
    for value in (config.model, config.system, ["*"], 1.5, 10**20, True):
        assert tomllib.loads(f"x = {show_value(value)}") == {"x": value}
    assert show_value("\udc80") == '"?"'


def test_the_starter_file_changes_nothing_as_it_is(world) -> None:
    defaults = world.load().config
    init_config(world.user_file)
    assert world.load().config == defaults
    assert stat.S_IMODE(world.user_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.user_file.parent.stat().st_mode) == 0o700


def test_the_starter_file_with_everything_uncommented_is_right(world) -> None:
    uncommented = re.sub(r"^#(?=[a-z\[])", "", starter_text(), flags=re.M)
    world.user(uncommented)
    assert world.problems() == []
    config = world.load().config
    assert config.providers["local"].url == "http://127.0.0.1:8080"
    assert config.discovery == type(config.discovery)()
    assert all(f"{path[-1]} = " in uncommented for path, _ in leaves() if path[-1] != "NAME")


def test_a_key_uncommented_without_its_table_is_an_error_not_another_setting(world) -> None:
    text = starter_text()
    presets = text.index("#[presets.fast]")
    world.user(text[:presets] + text[presets:].replace("#model = ", "model = ", 1))
    assert len(world.problems()) == 1


def test_the_starter_file_never_overwrites(world) -> None:
    world.user('model = "mine"')
    with pytest.raises(ConfigError, match="is already there"):
        init_config(world.user_file)
    assert world.user_file.read_text() == 'model = "mine"'


def test_a_starter_file_that_cannot_be_written_is_an_error_in_words(world) -> None:
    (world.home / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        init_config(world.home / "file" / "config.toml")


def test_loading_needs_nothing_heavy() -> None:
    code = "import sys, aish.config.load; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {
        "asyncio",
        "dataclasses",
        "tomllib",
        "tempfile",
        "hashlib",
        "hmac",
        "difflib",
        "sqlite3",
        "ssl",
        "socket",
        "subprocess",
        "jsonschema_rs",
    }
    assert heavy & set(done.stdout.split()) == set()
