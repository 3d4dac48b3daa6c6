"""What a tool gives for programs is handed on whole, without secrets and as promised, or not at all."""

import json
import weakref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.engine.tools.structured_results import MAX_BYTES, with_structured
from aish.safety.redaction.redactor import MARK, Redactor
from aish.types.events import ToolResult, encode_event
from aish.types.messages import TextPart
from aish.types.tools import Effect, ResultStatus, StructuredResult, ToolOutput, ToolSpec
from support.engines import Bench, Tools, call, said

NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SECRET = "tok-51c0ffee-9a7d"


def gives(structured, *, words="words", **fields):
    async def body(arguments, context):
        return ToolOutput(said(words).parts, structured=structured, **fields)

    return body


async def called(structured, *, promise=None, secrets=(), **fields):
    tools = Tools().add("a__b", gives(structured, **fields), output_schema=promise)
    return await Bench(tools=tools, redactor=Redactor(secrets)).engine.call_tool("a__b", "{}")


async def test_it_is_handed_on_beside_the_words():
    result = await called({"n": 5}, promise=NUMBERED)
    assert (result.structured, result.parts) == (StructuredResult({"n": 5}), (TextPart("words"),))


async def test_it_needs_no_promise():
    assert (await called({"anything": [1, None]})).structured == StructuredResult({"anything": [1, None]})


async def test_a_tool_that_has_nothing_to_do_with_it_is_told_of_as_ever():
    result = await called(None)
    assert result.structured is msgspec.UNSET
    assert b"structured" not in msgspec.json.encode(result)


async def test_a_turn_does_not_record_it_nor_hold_it():
    class Large(dict):
        """That it is let go of can be seen."""

    async def body(arguments, context):
        given = Large(n=5)
        held.append(weakref.ref(given))
        return ToolOutput(said("words").parts, structured=given)

    async def look(arguments, context):
        gone.append(held[0]() is None)
        return said("looked")

    held, gone = [], []
    tools = Tools().add("a__b", body, output_schema=NUMBERED).add("a__look", look)
    events = await Bench([call("a__b")], [call("a__look")], [], tools=tools).run()
    assert sum(isinstance(event.body, ToolResult) for event in events) == 2
    assert not any(b"structured" in encode_event(event) for event in events)
    assert gone == [True]


async def test_an_error_is_its_text_alone():
    result = await called({"n": 5}, promise=NUMBERED, is_error=True)
    assert (result.status, result.structured) == (ResultStatus.TOOL_ERROR, msgspec.UNSET)


@pytest.mark.parametrize(
    ("structured", "lacking"),
    [
        (None, "the tool gave none"),
        ({}, '"n" is a required property'),
        ({"n": "five"}, '"five" is not of type "integer"'),
        ({"n": 5, "text": "x" * MAX_BYTES}, f"it has {MAX_BYTES + 17} bytes, and {MAX_BYTES} are handed on"),
    ],
)
async def test_what_was_promised_and_is_lacking_is_said(structured, lacking):
    result = await called(structured, promise=NUMBERED)
    assert result.status is ResultStatus.OK
    assert result.structured.value is None and lacking in result.structured.lacking


async def test_what_is_nested_without_end_is_not_held_against_a_schema():
    endless = {}
    for _ in range(400):
        endless = {"n": endless}
    structured = (await called(endless, promise=NUMBERED)).structured
    assert structured.value is None and "nested too deeply, 200 levels at most" in structured.lacking


async def test_what_is_too_long_and_was_not_promised_is_left_out():
    assert (await called({"text": "x" * MAX_BYTES})).structured is msgspec.UNSET


async def test_it_is_whole_where_the_words_are_cut():
    long = {"text": "x" * 100_000}
    tools = Tools().add("a__b", gives(long, words="x" * 100_000))
    result = await Bench(tools=tools).engine.call_tool("a__b", "{}")
    assert result.truncated_chars > 0 and result.structured == StructuredResult(long)


async def test_a_schema_that_is_broken_is_no_promise():
    broken = {"type": "object", "properties": {"n": {"type": "nonsense"}}}
    assert (await called(None, promise=broken)).structured is msgspec.UNSET
    assert (await called({"n": "five"}, promise=broken)).structured == StructuredResult({"n": "five"})


async def test_secrets_are_taken_out_of_it():
    result = await called({"a": [f"it is {SECRET}."], SECRET: {"key": "ghp_" + "a" * 36}}, secrets=[SECRET])
    assert result.structured == StructuredResult({"a": [f"it is {MARK}."], MARK: {"key": MARK}})


async def test_names_that_are_the_same_without_their_secrets_would_be_one_so_it_is_lacking():
    given = {"all": [{SECRET: {"host": "a"}, f"{SECRET}-2": {"host": "b"}}]}
    result = await called(given, promise={"type": "object"}, secrets=[f"{SECRET}-2", SECRET])
    assert result.structured == StructuredResult(lacking="several of its names are secrets")


async def test_a_secret_in_a_promise_is_not_said_where_the_promise_is_broken():
    chosen = {"type": "object", "properties": {"key": {"enum": [SECRET]}}}
    result = await called({"key": "x"}, promise=chosen, secrets=[SECRET])
    assert SECRET not in result.structured.lacking and MARK in result.structured.lacking


async def test_what_no_longer_fits_without_its_secret_is_lacking():
    formed = {"type": "object", "properties": {"key": {"pattern": "^tok-"}}}
    result = await called({"key": SECRET}, promise=formed, secrets=[SECRET])
    assert result.structured == StructuredResult(
        lacking='it does not fit its schema: key: "[redacted]" does not match "^tok-"'
    )


async def test_a_secret_that_stands_there_as_a_number_takes_all_of_it_away():
    result = await called({"n": 51_234_567}, promise=NUMBERED, secrets=["51234567"])
    assert result.structured == StructuredResult(lacking="it has a secret in it that cannot be taken out")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=3), st.text(min_size=6, max_size=12), st.booleans())
def test_no_secret_is_ever_in_what_is_handed_on(value, secret, is_key):
    hidden = {**value, **({secret: 1} if is_key else {"x": [f"<{secret}>"]})}
    spec = ToolSpec("a__b", "", {}, Effect.READ, "a")
    result = ToolResult("a__b", ResultStatus.OK, ())
    told = with_structured(result, hidden, spec, Redactor([secret]).json).structured
    if told is not msgspec.UNSET:
        assert secret not in json.dumps(told.value, ensure_ascii=False).replace(MARK, "")
        assert not any(secret in text for text in _texts(told.value))


def _texts(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name.replace(MARK, "")
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value.replace(MARK, "")
