"""Arguments: what is mended, and what is not because it would be a guess."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.tool_calls.repair.fuzzy_match import find_similar
from aish.tool_calls.repair.repair import BadArguments, repair_arguments
from aish.types.tools import Effect, Repair, RepairKind, ToolSpec

TEXT: dict[str, Any] = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": TEXT,
        "days": {"type": "integer"},
        "share": {"type": "number"},
        "online": {"type": "boolean"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "guests": {"type": "array", "items": TEXT},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "level": {"$ref": "#/$defs/level"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"level": {"type": "integer", "enum": [1, 2, 3]}},
}


def tool(schema: Any = None, name: str = "look") -> ToolSpec:
    return ToolSpec(name, "", SCHEMA if schema is None else schema, Effect.READ, "test")


MENDED = {
    "trailing comma": ('{"city": "Rome",}', {"city": "Rome"}, RepairKind.COMMA),
    "single quotes": ("{'city': 'L\\'Aquila \"x\"'}", {"city": "L'Aquila \"x\""}, RepairKind.QUOTES),
    "python literals": ('{"city": "Rome", "online": True}', {"city": "Rome", "online": True}, RepairKind.LITERAL),
    "raw newline": ('{"city": "Ro\nme"}', {"city": "Ro\nme"}, RepairKind.NEWLINE),
    "comment": ('{"city": "Rome" // the city\n}', {"city": "Rome"}, RepairKind.COMMENT),
    "bare key": ('{city: "Rome"}', {"city": "Rome"}, RepairKind.BARE_WORD),
    "equals sign": ('{"city" = "Rome"}', {"city": "Rome"}, RepairKind.SEPARATOR),
    "lost bracket": ('{"city": "Rome"', {"city": "Rome"}, RepairKind.BRACKET),
    "prose": ('Here you are: {"city": "Rome"} Bye.', {"city": "Rome"}, RepairKind.SURROUNDINGS),
    "fence": ('```json\n{"city": "Rome"}\n```', {"city": "Rome"}, RepairKind.SURROUNDINGS),
    "doubled encoding": ('"{\\"city\\": \\"Rome\\"}"', {"city": "Rome"}, RepairKind.ENCODING),
    "wrapper": ('{"arguments": {"city": "Rome"}}', {"city": "Rome"}, RepairKind.WRAPPER),
    "wrapper with name": ('{"name": "look", "arguments": {"city": "Rome"}}', {"city": "Rome"}, RepairKind.WRAPPER),
    "wrapper by name": ('{"look": {"city": "Rome"}}', {"city": "Rome"}, RepairKind.WRAPPER),
    "number in quotes": ('{"city": "Rome", "days": "3"}', {"city": "Rome", "days": 3}, RepairKind.TYPE),
    "whole float": ('{"city": "Rome", "days": "3.0"}', {"city": "Rome", "days": 3}, RepairKind.TYPE),
    "share in quotes": ('{"city": "Rome", "share": "0.25"}', {"city": "Rome", "share": 0.25}, RepairKind.TYPE),
    "truth in quotes": ('{"city": "Rome", "online": "True"}', {"city": "Rome", "online": True}, RepairKind.TYPE),
    "number for text": ('{"city": 7}', {"city": "7"}, RepairKind.TYPE),
    "lone value": ('{"city": "Rome", "guests": "Ann"}', {"city": "Rome", "guests": ["Ann"]}, RepairKind.LIST),
    "list of one": ('{"city": ["Rome"]}', {"city": "Rome"}, RepairKind.LIST),
    "encoded list": ('{"city": "Rome", "guests": "[\\"A\\"]"}', {"city": "Rome", "guests": ["A"]}, RepairKind.ENCODING),
    "null for optional": ('{"city": "Rome", "days": null}', {"city": "Rome"}, RepairKind.NULL),
    "case of a choice": ('{"city": "Rome", "unit": "Celsius"}', {"city": "Rome", "unit": "celsius"}, RepairKind.ENUM),
    "by reference": ('{"city": "Rome", "level": "2"}', {"city": "Rome", "level": 2}, RepairKind.ENUM),
    "either": ('{"city": "Rome", "either": "5"}', {"city": "Rome", "either": 5}, RepairKind.TYPE),
    "misspelt": ('{"ctiy": "Rome"}', {"city": "Rome"}, RepairKind.ARGUMENT_NAME),
    "misspelt too": ('{"city": "Rome", "guest": ["A"]}', {"city": "Rome", "guests": ["A"]}, RepairKind.ARGUMENT_NAME),
    "nested": ('{"city": "Rome", "where": {"lat": "1.5"}}', {"city": "Rome", "where": {"lat": 1.5}}, RepairKind.TYPE),
}  # fmt: skip

UNESCAPED = {
    '{"city": "the "big" city", "days": 3}': {"city": 'the "big" city', "days": 3},
    "{'city': 'L'Aquila', 'days': 3}": {"city": "L'Aquila", "days": 3},
    '{"city": "{"a": [1, "b"]}"}': {"city": '{"a": [1, "b"]}'},
}

REFUSED = {
    "cut in a text": '{"city": "Ro',
    "cut in a number": '{"city": "Rome", "days": 1',
    "cut after a key": '{"city":',
    "two objects": '{"city": "Rome"}{"city": "Oslo"}',
    "closed too early": '{"city": "Rome"}, "days": 3}',
    "key twice": '{"city": "Rome", "city": "Oslo"}',
    "quotes inside": '{"city": "the "big" city", "days": "x" y}',
    "a quote missing between two": '{"city": "Rome, "unit": "celsius"}',
    "two quotes missing": '{"city": "Rome, "unit": "celsius, "days": "x"}',
    "nothing of ours": "Rome, please",
    "unknown word": '{"city": New York}',
    "backslashes that may be escapes": '{"city": "C:\\data\\new"}',
    "a word without quotes before a comment": '{"city": rm # all\n}',
    "a word without quotes before another comment": '{"city": rm /* all */}',
    "an argument after the object": '{"city": "Rome"} dry_run=true',
    "an argument after the object, with a colon": '{"city": "Rome"} dry_run: true',
    "an option after the object": '{"city": "Rome"} --dry-run',
    "bracket lost somewhere": '{"city": "Rome", "where": {"lat": 1, "city": "x"}',
}

UNFIT = {
    "text for a number": '{"city": "Rome", "days": "three"}',
    "part of a number": '{"city": "Rome", "days": 2.5}',
    "thousands or decimals": '{"city": "Rome", "days": "1.000"}',
    "thousands or decimals of a share": '{"city": "Rome", "share": "12.500"}',
    "another notation for text": '{"city": 0x10}',
    "a sign for text": '{"city": +4930123}',
    "several in words": '{"city": "Rome", "guests": "Ann, Bob"}',
    "null for required": '{"city": null}',
    "no such choice": '{"city": "Rome", "unit": "kelvin"}',
    "missing": "{}",
    "nothing like it": '{"city": "Rome", "zzz": 1}',
    "truth for text": '{"city": true}',
}


@pytest.mark.parametrize(("text", "arguments", "kind"), MENDED.values(), ids=MENDED)
def test_what_can_mean_only_one_thing_is_mended_and_recorded(text: str, arguments: Any, kind: RepairKind):
    mended = repair_arguments(text, tool())
    assert (mended.arguments, mended.errors) == (arguments, ())
    assert kind in [repair.kind for repair in mended.repairs]


@pytest.mark.parametrize(("text", "arguments"), UNESCAPED.items())
def test_quotes_that_were_not_escaped_are_read_where_only_one_reading_fits(text: str, arguments: Any):
    mended = repair_arguments(text, tool())
    assert (mended.arguments, mended.errors) == (arguments, ())
    assert [repair.kind for repair in mended.repairs] == [RepairKind.QUOTES]


def test_quotes_that_were_not_escaped_are_refused_where_two_readings_fit():
    schema = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
    with pytest.raises(BadArguments):
        repair_arguments('{"a": "x", "b": "y" z", "b": "w"}', tool(schema))


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_cut_or_ambiguous_is_refused_in_words(text: str):
    with pytest.raises(BadArguments, match=r"\w+ \w+"):
        repair_arguments(text, tool())


@pytest.mark.parametrize("text", UNFIT.values(), ids=UNFIT)
def test_a_value_that_does_not_fit_is_named_and_never_replaced(text: str):
    assert repair_arguments(text, tool()).errors


@pytest.mark.parametrize("text", [text for text, _, _ in MENDED.values()], ids=list(MENDED))
def test_without_repair_nothing_is_mended(text: str):
    try:
        mended = repair_arguments(text, tool(), repair=False)
    except BadArguments:
        return
    assert mended.errors
    assert mended.repairs == ()


def test_a_repair_says_where_and_from_what_to_what():
    mended = repair_arguments('{"city": "Rome", "where": {"lat": "1.5"}}', tool())
    assert mended.repairs == (Repair(RepairKind.TYPE, "where/lat", "1.5", "1.5"),)


def test_two_absent_arguments_that_are_equally_near_are_not_guessed_between():
    schema = {"type": "object", "properties": {"start_day": TEXT, "start_bay": TEXT}}
    assert "did you mean" in repair_arguments('{"start_gay": "x"}', tool(schema)).errors[0]


def test_more_arguments_than_are_declared_are_left_alone_where_they_are_welcome():
    schema = {"type": "object", "properties": {"city": TEXT}, "additionalProperties": True}
    assert repair_arguments('{"ctiy": "Rome"}', tool(schema)).arguments == {"ctiy": "Rome"}


@pytest.mark.parametrize(
    ("choices", "written", "meant"),
    [
        (["+1", "-1", "laugh"], "1", None),
        (["1", "2"], "-1", None),
        (["1", "2"], "+1", None),
        (["1-1", "2-1"], "11", None),
        (["+1", "-1", "laugh"], "LAUGH", "laugh"),
        (["top_left", "top-right"], "Top Left", "top_left"),
        (["us-east-1", "us-west-1"], "us_east_1", "us-east-1"),
    ],
)
def test_a_choice_may_be_spelt_by_another_habit_but_signs_and_digits_are_what_they_are(
    choices: list[str], written: str, meant: str | None
):
    mended = repair_arguments(f'{{"a": "{written}"}}', tool({"type": "object", "properties": {"a": {"enum": choices}}}))
    assert (mended.arguments["a"], bool(mended.errors)) == (meant or written, meant is None)


def test_a_number_in_another_notation_is_a_number_and_recorded_as_it_was_written():
    mended = repair_arguments('{"city": "Rome", "days": 0x10}', tool())
    assert (mended.arguments["days"], mended.errors) == (16, ())
    assert mended.repairs == (Repair(RepairKind.LITERAL, "", "0x10", "16"),)


def test_a_wrapper_that_the_schema_knows_is_an_argument():
    schema = {"type": "object", "properties": {"input": {"type": "object"}}}
    assert repair_arguments('{"input": {"x": 1}}', tool(schema)).arguments == {"input": {"x": 1}}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_good_arguments_are_what_they_were(arguments: dict[str, Any]):
    mended = repair_arguments(msgspec.json.encode(arguments).decode(), tool({"type": "object"}))
    assert (mended.arguments, mended.repairs) == (arguments, ())


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str):
    try:
        assert isinstance(repair_arguments(text, tool()).arguments, dict)
    except BadArguments as exc:
        assert str(exc)


NAMES = ["runtime__add", "runtime__echo", "files__read", "files__write", "set_user", "lock_door", "read_v1"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("runtime__add", "runtime__add"),
        ("runtime.add", "runtime__add"),
        ("Runtime-Add", "runtime__add"),
        ("add", "runtime__add"),
        ("functions.runtime__add", "runtime__add"),
        ("runtime__ad", "runtime__add"),
        ("files__raed", "files__read"),
        ("filesWrite", "files__write"),
        ("get_user", None),
        ("unlock_door", None),
        ("read_v2", None),
        ("files__rewrite_all", None),
        ("", None),
        ("x", None),
    ],
)
def test_a_name_means_the_one_that_is_near_unless_it_is_another_word(written: str, meant: str | None):
    assert find_similar(written, NAMES) == meant


OPPOSITES = [
    ("undelete_all_files", "delete_all_files"),
    ("unfreeze_account", "freeze_account"),
    ("deauthorize_card", "authorize_card"),
    ("deregister", "register"),
    ("unshare", "share"),
    ("unassign", "assign"),
    ("unsuspend", "suspend"),
    ("unarchive", "archive"),
    ("reopen", "open"),
    ("reopen_issue", "open_issue"),
    ("list_inactive_users", "list_active_users"),
    ("maximize_window", "minimize_window"),
    ("encode", "decode"),
    ("increment_counter", "decrement_counter"),
    ("uncheck", "check"),
    ("misplace_order", "place_order"),
    ("latitude", "altitude"),
    ("sender", "gender"),
    ("data", "date"),
    ("send_money", "spend_money"),
    ("star_server", "start_server"),
    ("send_form", "send_from"),
    ("create_contact", "create_contract"),
    ("not_delete_file", "delete_file"),
    ("move_v12", "move_v21"),
]


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_two_words_that_both_mean_something_are_never_taken_for_each_other(one: str, other: str):
    assert (find_similar(one, [other]), find_similar(other, [one])) == (None, None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("get_wether", "get_weather"),
        ("get_weahter", "get_weather"),
        ("get_weatther", "get_weather"),
        ("list_usres", "list_users"),
        ("list_user", "list_users"),
        ("serch_code", "search_code"),
        ("ctiy", "city"),
    ],
)
def test_a_slip_inside_a_word_is_forgiven(written: str, meant: str):
    assert find_similar(written, [meant, "something_else"]) == meant


def test_an_argument_that_is_near_but_no_slip_is_asked_about_instead_of_being_left_out():
    schema = {"type": "object", "properties": {"date": TEXT, "text": TEXT}, "required": ["text"]}
    mended = repair_arguments('{"text": "x", "data": "2026-01-01"}', tool(schema))
    assert mended.arguments == {"text": "x", "data": "2026-01-01"}
    assert "did you mean date" in mended.errors[0]


def test_what_is_nested_too_deeply_is_not_read_as_something_else_by_its_quotes():
    anything = ToolSpec("t__x", "", {"type": "object"}, Effect.READ, "t")
    with pytest.raises(BadArguments, match="nested too deeply"):
        repair_arguments('{"n": ' + "[" * 300 + "]" * 300 + ', "k": "3"}', anything)
