"""A decorated function says what it takes, what it is for and what it can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import msgspec
import pytest

from aish import Context, Deny, HookEvent, command, hook, settings, tool
from aish.errors import UsageError
from aish.extensions.definitions import find_definition, find_definitions, find_settings, get_tool, make_manifest
from aish.extensions.signature import read_signature
from aish.types.tools import Effect


@dataclass
class Ticket:
    id: int
    title: str = ""


class Filter(msgspec.Struct):
    label: str
    open: bool = True


@tool(effect="read", timeout_s=5)
async def ticket(
    id: Annotated[int, msgspec.Meta(ge=1)],
    kind: Literal["bug", "wish"] = "bug",
    where: Filter | None = None,
    tags: list[str] = ["new"],  # noqa: B006
    *,
    ctx: Context,
) -> Ticket:
    """One ticket by its number.

    It may be closed.

    Args:
        id: the number
        tags (list): which tags it
            must have
    Returns:
        the ticket
    """
    return Ticket(id)


def test_the_schema_comes_from_annotations_and_the_docstring():
    entry = get_tool(ticket).entry
    assert (entry.name, entry.effect, entry.timeout_s) == ("ticket", Effect.READ, 5)
    assert entry.description == "One ticket by its number.\n\nIt may be closed."
    assert entry.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1, "description": "the number"},
            "kind": {"enum": ["bug", "wish"], "default": "bug"},
            "where": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "which tags it must have"},
        },
        "required": ["id"],
        "additionalProperties": False,
        "$defs": {
            "Filter": {
                "title": "Filter",
                "type": "object",
                "properties": {"label": {"type": "string"}, "open": {"type": "boolean", "default": True}},
                "required": ["label"],
            }
        },
    }


def test_a_result_with_fields_has_a_schema_and_others_have_none():
    assert get_tool(ticket).entry.output_schema == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "title": {"type": "string", "default": ""}},
        "required": ["id"],
    }

    @tool
    def plain() -> str:
        "Says something."
        return ""

    assert get_tool(plain).entry.output_schema is None


def test_without_an_effect_a_tool_counts_as_one_that_runs_programs():
    @tool
    def plain() -> None:
        "Does something."

    assert get_tool(plain).entry.effect is Effect.EXEC


def test_a_decorated_function_stays_a_function():
    @tool(effect="read")
    def double(number: int) -> int:
        "Doubles."
        return 2 * number

    assert double(4) == 8


def test_arguments_are_converted_and_defaults_are_not_shared():
    signature = get_tool(ticket).signature
    first = signature.convert({"id": "3", "where": {"label": "ui"}})
    assert first == {"id": 3, "kind": "bug", "where": Filter("ui"), "tags": ["new"]}
    first["tags"].append("more")
    assert signature.convert({"id": 1})["tags"] == ["new"]
    for wrong in ({}, {"id": 0}, {"id": 1, "kind": "other"}, {"id": 1, "more": 2}):
        with pytest.raises(msgspec.ValidationError):
            signature.convert(wrong)


def undescribed(x: int) -> int:
    return x


def starred(*words: str) -> str:
    "Takes any words."
    return ""


def unknown_type(x: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
    "Takes something."
    return ""


@pytest.mark.parametrize(
    ("decorate", "problem"),
    [
        (lambda: tool(undescribed), "has no description"),
        (lambda: tool(starred), "for which a schema has no place"),
        (lambda: tool(unknown_type), "cannot be read"),
        (lambda: tool(name="a__b")(test_a_decorated_function_stays_a_function), "cannot name a tool"),
        (lambda: tool(effect="sudo", description="x")(undescribed), "there is no effect 'sudo'"),  # type: ignore[call-overload]
        (lambda: tool(timeout_s=0, description="x")(undescribed), "more than 0"),
        (lambda: command("Upper")(undescribed), "cannot name a command"),
        (lambda: hook("sometime"), "there is no hook 'sometime'"),  # type: ignore[arg-type]
        (lambda: hook("before_tool")(lambda: None), "must take an event"),
        (lambda: tool(Ticket), "only functions"),
    ],
)
def test_a_mistake_is_an_error_that_says_what_to_do(decorate: Any, problem: str):
    with pytest.raises(UsageError) as caught:
        decorate()
    assert problem in caught.value.message


def test_commands_take_words_and_hooks_an_event():
    @command("stand-up", help="what was done")
    def standup(days: int = 1, who: str = "me") -> str:
        return f"{days} {who}"

    @hook("before_tool", tools=["shell__*"])
    def no_shell(event: HookEvent) -> Deny:
        return Deny("no")

    found = find_definition(standup)
    assert found is not None and found.entry.name == "stand-up" and found.signature.usage == "[DAYS] [WHO]"
    assert found.signature.convert_words("3 'Ann B'") == {"days": 3, "who": "Ann B"}
    with pytest.raises(UsageError):
        found.signature.convert_words("1 2 3")
    with pytest.raises(UsageError):
        found.signature.convert_words("'open")
    manifest = make_manifest(find_definitions({"a": standup, "b": no_shell, "c": ticket, "d": 5}))
    assert [entry.name for entry in (*manifest.tools, *manifest.commands, *manifest.hooks)] == [
        "ticket", "stand-up", "no_shell",
    ]  # fmt: skip
    assert manifest.hooks[0].tools == ("shell__*",)


def test_paths_are_texts_for_the_model():
    def read(at: Path, more: list[PurePosixPath] | None = None) -> str:
        return ""

    signature = read_signature(read)
    assert signature.schema["properties"]["at"] == {"type": "string"}
    assert signature.convert({"at": "/tmp/x", "more": ["y"]}) == {"at": Path("/tmp/x"), "more": [PurePosixPath("y")]}
    with pytest.raises(msgspec.ValidationError):
        signature.convert({"at": 3})


def test_a_single_text_gets_all_words_as_they_are():
    def echo(text: str) -> str:
        return text

    assert read_signature(echo).convert_words("it's  all one") == {"text": "it's  all one"}


def test_two_tools_with_one_name_are_an_error():
    @tool(name="ticket")
    def other() -> None:
        "Another."

    with pytest.raises(UsageError, match="two functions are named ticket"):
        find_definitions({"a": ticket, "b": other})
    assert len(find_definitions({"a": ticket, "again": ticket})) == 1


def test_settings_are_a_class_of_the_extension():
    @settings
    class Options(msgspec.Struct):
        url: str
        retries: int = 3

    assert find_settings({"Options": Options, "Ticket": Ticket}) is Options
    assert make_manifest([], Options).settings is not None
    with pytest.raises(UsageError):

        @settings
        class Wrong:
            def __init__(self, thing: object) -> None: ...
