"""The command itself with models that write their calls as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish.types.events import ToolCallReady, ToolResult
from support.command import Command


@pytest.fixture
def aish(private_home: Path) -> Command:
    return Command(private_home, {"AISH_DISCOVERY__ENABLED": "false"})


def test_a_call_that_a_model_prints_is_run_and_not_shown(aish: Command):
    call = "Let me see. {'name': 'runtime__add', 'arguments': {'a': '2', 'b': 3,}}"
    model = aish.write_script("small", [[{"text": piece} for piece in call], [{"text": "It is five."}]])
    done = aish.run("--model", model, "--json", "add 2 and 3")
    (ready,) = [event.body for event in done.events if isinstance(event.body, ToolCallReady)]
    (result,) = [event.body for event in done.events if isinstance(event.body, ToolResult)]
    assert (ready.name, ready.arguments, result.parts[0].text) == ("runtime__add", '{"a":2,"b":3}', "5")
    assert {repair.kind.value for repair in ready.repairs} == {"quotes", "comma", "type"}
    shown = aish.run("--model", model, "add 2 and 3")
    assert "runtime__add" not in shown.out
    assert "It is five." in shown.out
