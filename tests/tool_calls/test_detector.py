"""Calls in text: every family is found, nothing else is touched, and how the text is cut makes no difference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish.tool_calls.detect.detector import MAX_HELD_CHARS, CallDetector
from aish.tool_calls.detect.envelope import WrittenCall

SCHEMAS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "places": {"type": "array"}},
        "required": ["city"],
    },
    "runtime__add": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    "now": {"type": "object", "properties": {}},
}
ROME = {"city": "Rome", "days": 3}
WEATHER = ("get_weather", ROME)

BARE = '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}'

FAMILIES = {
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>',
    "hermes, parameters": '<tool_call>{"name": "get_weather", "parameters": {"city": "Rome", "days": 3}}</tool_call>',
    "hermes, no end": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}',
    "hermes, bracket lost": '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}</tool_call>',
    "a list in tags": '<tool_calls>[{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}]</tool_calls>',
    "phi": '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}]<|/tool_call|>',
    "mistral list": '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}]',
    "mistral args": '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome", "days": 3}',
    "mistral with id": '[TOOL_CALLS]get_weather[CALL_ID]abc123XYZ[ARGS]{"city": "Rome", "days": 3}</s>',
    "llama function": '<function=get_weather>{"city": "Rome", "days": 3}</function>',
    "llama python tag": '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome", "days": 3}}<|eom_id|>',
    "llama builtin": '<|python_tag|>get_weather.call(city="Rome", days=3)',
    "llama bare": '{"name": "get_weather", "parameters": {"city": "Rome", "days": 3}}',
    "qwen coder": (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
    ),
    "qwen coder, bare": (
        "<function=get_weather><parameter=city>Rome</parameter><parameter=days>3</parameter></function>"
    ),
    "deepseek v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Rome", "days": 3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "deepseek v3.1": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Rome", "days": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Rome", "days": 3}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "glm": (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
    ),
    "gemma": '```tool_code\nget_weather(city="Rome", days=3)\n```',
    "gemma, printed": '```tool_code\nprint(default_api.get_weather(city="Rome", days=3))\n```',
    "pythonic list": '[get_weather(city="Rome", days=3)]',
    "python alone": "get_weather(city='Rome', days=3)",
    "python printed": "print(get_weather(city='Rome', days=3))",
    "bare": '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}',
    "bare, tool and args": '{"tool": "get_weather", "args": {"city": "Rome", "days": 3}}',
    "bare, arguments first": '{"arguments": {"city": "Rome", "days": 3}, "name": "get_weather"}',
    "openai": (
        '{"id": "call_1", "type": "function", "function": '
        '{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\", \\"days\\": 3}"}}'
    ),
    "openai list": '{"tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}}]}',
    "list": '[{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}]',
    "fenced": '```json\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n```',
    "fenced, unnamed": '```\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n```',
    "fenced tags": (
        '```\n<tool_call>{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}</tool_call>\n```'
    ),
    "tildes": '~~~json\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n~~~',
    "long fence": '`````json\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}\n`````',
    "react json": '{"action": "get_weather", "action_input": {"city": "Rome", "days": 3}}',
    "in a prefix": '<tool_call>{"name": "functions.get_weather", "arguments": {"city": "Rome", "days": 3}}</tool_call>',
    "misspelt in a tag": '<tool_call>{"name": "get_wether", "arguments": {"city": "Rome", "days": 3}}</tool_call>',
}

PLAIN = {
    "prose": "The weather in Rome is fine. I could call get_weather for you, or runtime__add(…), or <none> at all.",
    "prose about tags": "Models write <tool_call> and then JSON, then </tool_call>; Mistral writes [TOOL_CALLS].",
    "markup": "<b>bold</b> <div class='x'>[a link](http://x.y/z) [1] [x] {y} {{z}} <br/> 1 < 2 > 0 </function>",
    "json that was asked for": '{"name": "Alice", "arguments": ["none"], "age": 3}',
    "json about people": '[{"name": "get_weather", "description": "Gives the weather.", "parameters": {}}]',
    "only a name": '{"name": "get_weather"}',
    "another name": '{"name": "set_weather_now_please", "arguments": {"city": "Rome"}}',
    "ids": '{"id": 5, "title": "a {b} [c]"}',
    "code": "```python\nx = {'name': 'get_weather', 'arguments': {}}\nprint(get_weather(city='Rome'))\n```\nDone.",
    "code with a call in it": '```json\n{"a": 1}\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n```',
    "inline code": 'Send `{"name": "get_weather", "arguments": {"city": "Rome"}}` to it.',
    "a list of numbers": "[1, 2, 3] and [get_weather] and [unknown(a=1)]",
    "html": "<function name='x'> <functional> <tool> <tools> <|x|> <｜y｜>",
    "unclosed": 'It begins with { "key": "value", [ and < and ` and ``',
    "template": "{% if x %}{{ name }}{% endif %} ${name} {name: 'x'}",
    "empty fence": "```json\n```\n```\n\n```",
    "a tag with prose": "<tool_call>I would call get_weather here</tool_call>",
    "a fence in another language": f"```python\n{BARE}\n```\n```yaml\n{BARE}\n```\n",
    "a tag in a fence in another language": f"```xml\n<tool_call>{BARE}</tool_call>\n```",
    "a tilde fence in another language": f"~~~python\n{BARE}\n~~~\n",
    "a fence with more than a call": f"```json\n{BARE}\nis how to call it\n```",
    "a fence in a fence": f"```markdown\nWrite:\n```json\n{BARE}\n```\n",
    "a longer fence around a fence": f"````markdown\n```json\n{BARE}\n```\n{BARE}\n````\n",
    "a fence in a text of a fence": f'```python\nx = """```"""\n{BARE}\n```\n',
    "a fence with a line in it that is far in": f"```python\nx = (\n        ```\n{BARE}\n",
    "a fence that never ends": f"```python\n{BARE}\n",
    "inline code in three backticks": f"Send ```{BARE}``` to it.",
    "nested in an object": f'{{"example": {BARE}}}',
    "nested in an object that begins like a call": f'{{"name": "Alice", "does": {BARE}}}',
    "nested in a list": f'[{{"a": 1}}, {BARE}] and ["a", {BARE}] and [[1], {BARE}]',
    "nested in single quotes": f"{{'example': [{BARE}]}} and {{example: {BARE}}} and {{{{ {BARE} }}}}",
    "nested with marks in a text": f'{{"example": "<tool_call>{{}}</tool_call> {BARE.replace(chr(34), chr(39))}"}}',
    "thinking": f"<think>I may write <tool_call>{BARE}</tool_call> or {BARE} here.</think> No.",
    "thinking that never ends": f"<thinking>\n{BARE}\n<tool_call>{BARE}</tool_call>",
    "descriptions": '[{"name": "get_weather", "parameters": {"city": "string", "days": {"type": "integer"}}}]',
    "a description": '{"name": "get_weather", "arguments": {"type": "object", "properties": {"a": {"type": "int"}}}}',
    "call in a sentence": "You write get_weather(city='Rome') in a sentence.",
}


def recognise(text: str, cuts: list[int] | None = None, *, is_complete: bool = True) -> tuple[str, list[WrittenCall]]:
    recogniser = CallDetector(SCHEMAS)
    places = sorted({min(cut, len(text)) for cut in cuts or ()})
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    found = [each for piece in pieces for each in recogniser.feed(piece)] + recogniser.finish(is_complete=is_complete)
    said = "".join(each for each in found if isinstance(each, str))
    return said, [each for each in found if isinstance(each, WrittenCall)]


def plainly(call: WrittenCall) -> tuple[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, dict) else json.loads(call.arguments)
    name = call.name.removeprefix("functions.").removeprefix("default_api.")
    return ("get_weather" if name == "get_wether" else name), arguments


@pytest.mark.parametrize("text", FAMILIES.values(), ids=FAMILIES)
def test_a_call_of_every_family_is_found_and_nothing_of_it_is_left_as_text(text: str):
    said, calls = recognise(text)
    assert ([plainly(call) for call in calls], said.strip()) == ([WEATHER], "")


@pytest.mark.parametrize("text", FAMILIES.values(), ids=FAMILIES)
def test_prose_around_a_call_is_kept(text: str):
    said, calls = recognise(f"Let me look.\n\n{text}\n\nThat was it.")
    assert [plainly(call) for call in calls] == [WEATHER]
    assert " ".join(said.split()) == "Let me look. That was it."


@pytest.mark.parametrize("text", FAMILIES.values(), ids=FAMILIES)
def test_a_call_is_the_same_letter_by_letter(text: str):
    assert recognise(text, list(range(len(text)))) == recognise(text)


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_what_is_no_call_passes_byte_for_byte(text: str):
    assert recognise(text) == (text, [])
    assert recognise(text, list(range(len(text)))) == (text, [])


@pytest.mark.parametrize("text", FAMILIES.values(), ids=FAMILIES)
def test_a_call_that_is_cut_off_anywhere_never_comes_out_whole(text: str):
    """Unless all that is missing is its closing mark."""
    for end in range(1, len(text)):
        _, calls = recognise(text[:end], is_complete=False)
        for call in calls:
            try:
                assert plainly(call) == WEATHER
            except json.JSONDecodeError:
                assert call.name


def test_several_calls_come_in_order_with_the_prose_between_them():
    text = (
        'First <tool_call>{"name": "now", "arguments": {}}</tool_call> then '
        '{"name": "runtime.add", "arguments": {"a": 1, "b": 2}}; {"name": "now", "arguments": {}} end.'
    )
    said, calls = recognise(text)
    assert [call.name for call in calls] == ["now", "runtime.add", "now"]
    assert said.split() == ["First", "then", "end."]


def test_a_tool_that_is_not_offered_counts_only_between_marks():
    said, calls = recognise('<tool_call>{"name": "delete_everything", "arguments": {}}</tool_call>')
    assert (said, [call.name for call in calls]) == ("", ["delete_everything"])


def test_a_call_between_marks_with_more_than_arguments_cannot_be_run():
    said, calls = recognise(f'<tool_call>{BARE[:-1]}, "dry_run": true}}</tool_call>')
    assert (said, [call.name for call in calls]) == ("", ["get_weather"])
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(str(calls[0].arguments))


def test_a_bracket_that_closes_too_early_breaks_the_call_instead_of_shortening_it():
    _, calls = recognise('{"name": "get_weather", "arguments": {"city": "Rome"}}, "days": 3}')
    assert [isinstance(call.arguments, str) for call in calls] == [True]
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(str(calls[0].arguments))


def test_text_is_let_go_as_soon_as_it_cannot_be_a_call():
    recogniser = CallDetector(SCHEMAS)
    assert recogniser.feed('{"na') == []
    assert recogniser.feed('me": "Al') == []
    assert "".join(map(str, recogniser.feed('ice", '))) == '{"name": "Alice", '
    assert recogniser.feed("and so on, as it is") == ["and so on, as it is"]
    assert "".join(map(str, recogniser.feed("}"))) == "}"
    assert recogniser.passes("and so on, as it is")


def test_plain_text_passes_without_being_looked_at_twice():
    recogniser = CallDetector(SCHEMAS)
    assert recogniser.passes("Words and numbers, 1 2 3.\nAnd more of them.")
    assert not recogniser.passes("a < b")


@pytest.mark.parametrize("size", [900, 1024, 5000, 50_000])
def test_a_long_call_and_what_follows_it_are_the_same_in_one_piece_and_in_many(size: int):
    city = "R" * size
    call = json.dumps({"name": "get_weather", "arguments": {"city": city}})
    text = f"Before {call} between <tool_call>{call}</tool_call> after {{x}} and [1]."
    said, calls = recognise(text)
    assert (said, [call.arguments for call in calls]) == (
        "Before  between  after {x} and [1].",
        [{"city": city}, {"city": city}],
    )
    assert recognise(text, list(range(0, len(text), 7))) == (said, calls)


def test_an_endless_call_is_not_held_for_ever():
    recogniser = CallDetector(SCHEMAS)
    out = recogniser.feed('{"name": "get_weather", "arguments": {"city": "')
    for _ in range(MAX_HELD_CHARS // 1000 + 1):
        out += recogniser.feed("x" * 1000)
    assert [type(piece) for piece in out] == [WrittenCall]
    assert isinstance(out[0].arguments, str)


def test_a_mark_that_ends_a_call_ends_it_whatever_brackets_come_later():
    text = '<tool_call>{"name": "now", "arguments": {</tool_call> and } some } more'
    said, calls = recognise(text)
    assert (said, [call.name for call in calls]) == (" and } some } more", ["now"])
    assert recognise(text, list(range(len(text)))) == (said, calls)


HOSTILE = [
    "[", "{", "<", "`", "``` ", " ", "/*x*/", "```json\n", "now(\n", "get_weather(city='x'\n", "<parameter=a>x",
    "<tool_call>", "</tool_call>", "<tool_call>{", "[TOOL_CALLS]", "<function=now>",
    '<tool_call>{"name": "now", "a": "',
    "<tool_call>now<arg_key>a</arg_key><arg_value>", '{"name":"now","arguments":{}},',
    '{"name": "get_weather", "arguments": {',
]  # fmt: skip


class Counted(CallDetector):
    """Counts the characters it searches, each as often as it is searched."""

    searched_chars = 0

    def _look(self, candidate: str, pieces: list[str | WrittenCall], *, final: bool, marked_only: bool) -> int:
        self.searched_chars += len(candidate)
        return super()._look(candidate, pieces, final=final, marked_only=marked_only)


MAX_LOOKS = 1200  # at each character: the first looks are 1 024 characters long
BEGINNINGS = [
    "",
    '{"name":"now",',
    "<tool_call>",
    '<tool_call>{"name":"now","arguments":{"a":"',
    "<function=now>",
    "{ /*",
]


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("part", HOSTILE)
def test_text_made_to_be_held_back_is_read_in_bounded_steps(part: str, beginning: str):
    text = beginning + part * (20_000 // len(part))
    recogniser = Counted(SCHEMAS)
    for start in range(0, len(text), 4):
        recogniser.feed(text[start : start + 4])
    recogniser.finish(is_complete=True)
    at_once = Counted(SCHEMAS)
    at_once.feed(text)
    at_once.finish(is_complete=True)
    assert max(recogniser.searched_chars, at_once.searched_chars) <= MAX_LOOKS * len(text)


@pytest.mark.parametrize("beginning", ["", "[TOOL_CALLS]", "<tool_call>", '{"a": '])
@pytest.mark.parametrize("part", ["[", "{", "<", "[[{", "<tool_call>{", '{"name": "now", "arguments": {'])
def test_a_long_text_that_comes_to_nothing_is_not_read_again_from_each_of_its_brackets(part: str, beginning: str):
    text = beginning + part * (400_000 // len(part))
    recogniser = Counted(SCHEMAS)
    recogniser.feed(text)
    recogniser.finish(is_complete=True)
    assert recogniser.searched_chars <= 50 * len(text)


def test_many_beginnings_that_come_to_nothing_do_not_hide_a_call_that_follows():
    text = "<function=x>oops " * 300
    said, calls = recognise(f"{text}<tool_call>{BARE}</tool_call>")
    assert (said, [plainly(call) for call in calls]) == (text, [WEATHER])


def test_a_text_that_used_up_what_may_be_read_in_vain_is_the_same_however_it_is_cut():
    text = '<tool_call>{"a": "x", ' * 9000 + f"</tool_call> and <tool_call>{BARE}</tool_call>" * 3
    assert recognise(text, list(range(0, len(text), 4000))) == recognise(text)


def test_a_fence_within_a_list_ends_where_its_code_stands():
    listed = "- Like this:\n      ```\n      x = [1]\n      ```\n"
    said, calls = recognise(f"{listed}{BARE}")
    assert (said, [plainly(call) for call in calls]) == (listed, [WEATHER])


@pytest.mark.parametrize("unclosed", ['It begins with {"key": and', "Say [[ and", "{ x"])
def test_a_bracket_that_is_never_closed_does_not_hide_a_call_between_marks(unclosed: str):
    said, calls = recognise(f"{unclosed} <tool_call>{BARE}</tool_call>\n```json\n{BARE}\n```")
    assert (said.strip(), [plainly(call) for call in calls]) == (unclosed, [WEATHER, WEATHER])


FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from([*FAMILIES.values(), *PLAIN.values()]),
        st.text("<>[]{}`\"':,\n tool_call=|", max_size=30),
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                '{"name": "now", ',
                "[TOOL_CALLS]",
                "```json\n",
                "```",
                "\n```\n",
                "~~~",
                "<think>",
                "</think>",
                '{"a": ',
                "\n",
                "now(",
                "<function=now>",
                "<parameter=city",
                "<arg_key>",
            ]
        ),
    ),
    max_size=5,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(text=FRAGMENTS, cuts=st.lists(st.integers(0, 400), max_size=30), is_complete=st.booleans())
def test_how_the_text_is_cut_makes_no_difference(text: str, cuts: list[int], *, is_complete: bool):
    assert recognise(text, cuts, is_complete=is_complete) == recognise(text, is_complete=is_complete)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_characters="{<[`"), max_size=200).filter(lambda t: "(" not in t))
def test_text_without_any_mark_is_never_touched(text: str):
    assert recognise(text) == (text, [])
