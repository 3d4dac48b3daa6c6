"""Prompts of MCP servers: what is given, and what becomes of it."""

import pytest

from aish.errors import UsageError
from aish.frontends.templates import parse_values, prompt_text
from aish.types.messages import AssistantMessage, ImagePart, TextPart, UserMessage, user


def test_arguments_are_words_with_a_value():
    assert parse_values(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for bad in ("a", "=1", ""):
        with pytest.raises(UsageError, match="no argument a value"):
            parse_values([bad])


def test_all_of_a_prompt_is_told_and_an_image_by_its_mark():
    shown = UserMessage((TextPart("look: "), ImagePart("image/gif", data="QUJD")))
    assert prompt_text([user("hi"), AssistantMessage("yes?"), shown]) == "hi\n\nyes?\n\nlook: [image: image/gif]"
