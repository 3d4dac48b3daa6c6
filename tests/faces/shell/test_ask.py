"""One question on the command line."""

import argparse
import io
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from aish.config.schema import Config
from aish.faces.shell.ask import run
from aish.types.command_hints import CommandHint
from aish.types.models import ModelInfo

DU = CommandHint("du", "how much space files take", "du -ah . | sort -rh | head -20")


@pytest.fixture
def small(monkeypatch):
    """A runtime whose model is small, and is not there to be asked."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    async def find(text):
        return [DU]

    async def resolve(model):
        return SimpleNamespace(info=ModelInfo("embedded", "small", parameters=135_000_000))

    @asynccontextmanager
    async def engine(**options):
        yield SimpleNamespace(router=SimpleNamespace(resolve=resolve))

    around = SimpleNamespace(env={})
    return SimpleNamespace(config=Config(), notices=(), find_commands=find, engine=engine, surroundings=around)


def asked(question):
    unsaid = {"model": "", "session": "", "resume": False, "system": "", "tools": None, "max_steps": None}
    return argparse.Namespace(question=[question], sample=False, json=False, yes=False, **unsaid)


def test_a_question_for_a_command_is_answered_by_the_machine_where_the_model_is_small(small, capsys):
    """It would make one up."""
    assert run(asked("how do I find the biggest files here?"), small) == 0
    assert DU.example in capsys.readouterr().out


def test_other_questions_go_to_the_model(small, capsys):
    with pytest.raises(AttributeError):  # there is none here
        run(asked("tell me a joke"), small)
