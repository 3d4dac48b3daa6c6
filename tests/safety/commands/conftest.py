"""One person's shell: home /home/ann, standing in the workspace /home/ann/project."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aish.safety.commands import LineVerdict, ShellContext, classify

Judge = Callable[..., LineVerdict]


@pytest.fixture
def judge() -> Judge:
    def judge(line: str, **known: dict[str, str]) -> LineVerdict:
        context = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",), **known)
        return classify(line, context)

    return judge
