"""Which answers in plan mode are plans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.shell.approvals.plan_approval import is_plan

STEPS = "1. Add the key to `config.py`.\n2. Read it in `load.py`.\n3. Test it.\n"


@pytest.mark.parametrize("answer", [
    f"PLAN:\n{STEPS}",
    "Plan: I write notes.txt.",
    "I have read the code.\n\n**Plan:**\n- add a key\n- read it",
    "**Plan**\nAdd a key.",
    "## Plan\n\nAdd a key.",
    "### Implementation plan for the key\nAdd it.",
    "The plan: I write notes.txt.",
    "Here's my plan for the release:\n- tag it",
    "Mein Plan:\n- den Schlüssel anlegen",
    "Le plan :\n- ajouter la clé",
    "计划：\n- 添加",
    STEPS,
    "First I looked around.\n\n### 1. The key\nAdd it.\n### 2. The reader\nRead it.",
    "**Step 1:** add it\n**Step 2:** read it",
])  # fmt: skip
def test_a_mark_or_steps_make_a_plan(answer):
    assert is_plan(answer, "add a key for the colour")


@pytest.mark.parametrize(("question", "answer"), [
    ("hello", "Hello! What shall we do?"),
    ("hello", "In plan mode: nothing is changed. Tell me what you need."),
    ("what is in this folder?", "Two files:\n1. a.py\n2. b.py\n"),
    ("what does main do?", "It parses its arguments and calls run()."),
    ("was ist das？", STEPS),
    ("how is this planned?", "It was planned by the team; the planner lives in `planner/`."),
    ("go on", "```\nPLAN:\n1. a\n2. b\n```\nThat is how such a file looks."),
    ("go on", "> PLAN: so it was said"),
    ("add a key", "Which colour do you mean: 1. red or 2. blue?"),
    ("add a key", "It was added in 2019. 1. is the default."),
    ("add a key", ""),
])  # fmt: skip
def test_other_answers_are_none(question, answer):
    assert not is_plan(answer, question)


def test_a_question_may_be_answered_with_a_marked_plan():
    assert is_plan(f"PLAN:\n{STEPS}", "can you add a key?")


@given(st.text(), st.text())
def test_any_text_is_judged(answer, question):
    assert is_plan(answer, question) in (True, False)


def test_a_long_answer_is_judged_in_linear_time():
    assert not is_plan("a " * 500_000 + "\n" + "plan " * 100_000, "go on")
