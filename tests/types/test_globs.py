from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.types import globs as globs_module
from aish.types.globs import Globs

NAMES = st.text("ab._*?[]!-", max_size=6)


@given(NAMES, st.lists(NAMES, max_size=5))
def test_a_name_is_meant_where_any_of_the_globs_means_it(name, globs):
    expected = any(fnmatchcase(name, form) for glob in globs for form in (glob, glob.replace(".", "__", 1)))
    assert (name in Globs(globs)) is expected


@pytest.mark.parametrize("glob", ["runtime.add", "runtime__add", "runtime.*", "run*", "*__a?d", "*"])
def test_a_tool_may_be_written_with_a_dot_and_with_wild_cards(glob):
    assert "runtime__add" in Globs([glob])
    assert "runtime__add" not in Globs(["runtime", "add", "Runtime__add", "runtime.sub"])


def test_plain_names_are_looked_up_however_many_there_are(monkeypatch):
    monkeypatch.setattr(globs_module, "translate", None)
    many = Globs(f"tool_{number}" for number in range(10_000))
    assert "tool_9999" in many
    assert "tool_10000" not in many
