from __future__ import annotations

import ast
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from requirements import REQUIREMENTS

TESTS = Path(__file__).parent


def _names() -> list[str]:
    return [
        f"{path.relative_to(TESTS).as_posix()}::{node.name}"
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


NAMES = _names()
PATTERNS = [pattern for patterns in REQUIREMENTS.values() for pattern in patterns]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_promise_is_proved_by_tests_that_exist(pattern):
    assert any(fnmatchcase(name, pattern) for name in NAMES)


def test_every_end_to_end_and_contract_test_serves_a_promise():
    checked = [name for name in NAMES if name.startswith(("e2e/", "contracts/"))]
    idle = [name for name in checked if not any(fnmatchcase(name, pattern) for pattern in PATTERNS)]
    assert checked and idle == []
