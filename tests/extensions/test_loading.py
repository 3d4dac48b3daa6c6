"""Exactly the Python that was pinned is imported, and what is wrong with it is told with its place."""

from __future__ import annotations

import importlib
import py_compile
import shutil
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from aish.extensions.folder_hash import hash_folder
from aish.extensions.loading import MAX_FILE_BYTES, LoadError, load_source
from aish.extensions.manifest import PythonSource

GOOD = '@tool\ndef one() -> int:\n    "One."\n    return 1\n'


def source_of(path: Path, code: str) -> PythonSource:
    path.write_text("from aish import tool\n" + code)
    return PythonSource("my", path=str(path), revision=sha256(path.read_bytes()).hexdigest())


def test_a_file_is_loaded_from_the_content_that_was_pinned(tmp_path: Path):
    source = source_of(tmp_path / "a.py", GOOD)
    assert [tool.name for tool in load_source(source).manifest.tools] == ["one"]
    (tmp_path / "a.py").write_text("other")
    with pytest.raises(LoadError, match="has changed"):
        load_source(source)


def test_a_file_that_is_too_large_or_gone_is_told(tmp_path: Path):
    source = source_of(tmp_path / "a.py", GOOD + "#" * MAX_FILE_BYTES)
    with pytest.raises(LoadError, match="is larger than"):
        load_source(source)
    (tmp_path / "a.py").unlink()
    with pytest.raises(LoadError, match="FileNotFoundError"):
        load_source(source)


def test_the_place_of_an_error_is_the_line_of_the_file(tmp_path: Path):
    code = "def deep():\n    return {}['x']\n\nimport json\njson.loads('{')\n"
    with pytest.raises(LoadError, match=rf"{tmp_path}/a.py:6: JSONDecodeError"):
        load_source(source_of(tmp_path / "a.py", code))


def test_bytecode_beside_a_pinned_module_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = tmp_path / "pinned_module.py"
    module.write_text("raise SystemExit('bytecode was run')\n")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compiled = Path(py_compile.compile(str(module), doraise=True, invalidation_mode=unchecked))
    assert compiled.exists()
    module.write_text("other = 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    with pytest.raises(LoadError, match="bytecode was run"):  # as an unpinned one, which is what the user installed
        load_source(PythonSource("it", module="pinned_module", revision="1.0"))
    shutil.rmtree(tmp_path / "__pycache__")
    sys.modules.pop("pinned_module", None)
    py_compile.compile(str(module), doraise=True, invalidation_mode=unchecked)
    digest = hash_folder(tmp_path)
    module.write_text("from aish import tool\n" + GOOD)
    with pytest.raises(LoadError, match="has changed since it was enabled"):
        load_source(PythonSource("it", module="pinned_module", revision=digest))
    loaded = load_source(PythonSource("it", module="pinned_module", revision=hash_folder(tmp_path)))
    assert [tool.name for tool in loaded.manifest.tools] == ["one"]
    assert sys.pycache_prefix is None
