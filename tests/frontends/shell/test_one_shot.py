"""One question on the command line."""

import argparse
import io
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from aish.config.schema.config import Config
from aish.frontends.shell.one_shot import run
from aish.types.live_shell import CommandHint
from aish.types.models import ModelProfile
from support.python_tools import NoExtensions

DU = CommandHint("du", "how much space files take", "du -ah . | sort -rh | head -20")


@pytest.fixture
def small(monkeypatch):
    """A runtime whose model is small, and is not there to be asked."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    async def find(text):
        return [DU]

    async def resolve(model):
        return SimpleNamespace(info=ModelProfile("embedded", "small", parameters=135_000_000))

    @asynccontextmanager
    async def engine(**options):
        yield SimpleNamespace(router=SimpleNamespace(resolve=resolve))

    around = SimpleNamespace(env={})
    return SimpleNamespace(
        skills=tuple,
        agents=SimpleNamespace(files=()),
        prompt_files=tuple,
        extensions=NoExtensions(),
        config=Config(),
        notices=(),
        find_commands=find,
        engine=engine,
        launch_context=around,
        instruction_files=tuple,
    )


def asked(question):
    unsaid = {"model": "", "session": "", "resume": False, "system": "", "tools": None, "mode": None, "max_steps": None}
    return argparse.Namespace(question=[question], sample=False, json=False, yes=False, **unsaid)


def test_a_question_for_a_command_is_answered_by_the_machine_where_the_model_is_small(small, capsys):
    """It would make one up."""
    assert run(asked("how do I find the biggest files here?"), small) == 0
    assert DU.example in capsys.readouterr().out


@pytest.mark.parametrize("question", ["tell me a joke", "How do I say hello in French?", "how do I cook rice?"])
def test_other_questions_go_to_the_model(small, question):
    with pytest.raises(AttributeError):  # there is none here
        run(asked(question), small)


def test_a_question_about_what_is_piped_in_goes_to_the_model(small, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a log of some lines\n")))
    with pytest.raises(AttributeError):
        run(asked("find the odd lines in this file"), small)
