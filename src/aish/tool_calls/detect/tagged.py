"""Calls between marks that models' chat templates use: here only a call can be.

The marks are data. Between them there is one of a few contents, whatever the marks: JSON (one call, a list, or
several), a name followed by JSON, Python calls, or XML-like parameters.

| family | looks like |
|---|---|
| Hermes, Qwen | `<tool_call>{"name": …, "arguments": …}</tool_call>` |
| GLM | `<tool_call>name<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>` |
| Qwen3-Coder | `<tool_call><function=name><parameter=k>v</parameter></function></tool_call>` |
| Llama 3 | `<function=name>{…}</function>`, `<|python_tag|>{…}`, `<|python_tag|>name.call(k="v")` |
| Mistral | `[TOOL_CALLS] [{…}]`, `[TOOL_CALLS]name[ARGS]{…}` |
| DeepSeek | `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name` and fenced JSON, or without fence |
| Kimi | `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>` |
| Phi, Granite, Hunyuan, InternLM, Command R, LM Studio | their own marks around JSON |
"""

from __future__ import annotations

import re

from aish.tool_calls.detect.bare import python_calls
from aish.tool_calls.detect.call_cursor import CallCursor, NeedMore, NotACall
from aish.tool_calls.detect.envelope import MAX_CALLS, WrittenCall
from aish.tool_calls.detect.spans import BracketSpan
from aish.tool_calls.repair.coerce import SchemaFitter

OPENERS: dict[str, tuple[str, ...]] = {
    "<tool_call>": ("</tool_call>", "</tool_calls>", "<|im_end|>"),
    "<tool_calls>": ("</tool_calls>",),
    "<function_call>": ("</function_call>",),
    "<function_calls>": ("</function_calls>",),
    "<functioncall>": ("</functioncall>", "<|endoftext|>"),
    "<|tool_call|>": ("<|/tool_call|>", "<|end|>"),
    "<|tool_calls|>": ("<|/tool_calls|>",),
    "<|python_tag|>": ("<|eom_id|>", "<|eot_id|>"),
    "<|action_start|><|plugin|>": ("<|action_end|>",),
    "<|START_ACTION|>": ("<|END_ACTION|>",),
    "<|tool_calls_section_begin|>": ("<|tool_calls_section_end|>",),
    "<|tool_call_begin|>": ("<|tool_call_end|>",),
    "<｜tool▁calls▁begin｜>": ("<｜tool▁calls▁end｜>",),
    "<｜tool▁call▁begin｜>": ("<｜tool▁call▁end｜>",),
    "[TOOL_CALLS]": ("</s>",),
    "[TOOL_REQUEST]": ("[END_TOOL_REQUEST]",),
}
_FUNCTION = "<function="
_MAX_PARTS = 4 * MAX_CALLS  # calls, marks, separators
_MAX_ARGUMENTS = 64  # of one call, where each has its own marks
STARTS = (*OPENERS, _FUNCTION)
# Marks inside of others, and what may be between two calls.
_INNER = (
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<|tool_call_begin|>", "<|tool_call_end|>", "<tool_call>",
    "</tool_call>", "[TOOL_CALLS]", "```json", "```", ",", ";", "}", "]",
)  # fmt: skip
_ARGUMENTS_FOLLOW = ("[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>")
_NAME = re.compile(r"[^\W\d][\w.-]*(?::\d*)?")
# None of these is longer than _MAX_TAG_CHARS: a longer text is something else.
_FUNCTION_NAME = re.compile(r"<function=\s{0,20}[\"']?([^\s<>\"'{]{1,128})[\"']?\s{0,20}>")
_PARAMETER = re.compile(r"<parameter=\s{0,20}[\"']?([^\s<>\"']{1,128})[\"']?\s{0,20}>")
_PARAMETER_END = re.compile(r"</parameter>|(?=<parameter=)|(?=</function>)|(?=</tool_call>)")
_CALL_ID = re.compile(r"[\w-]*")
_ARGUMENT_KEY = re.compile(r"<arg_key>([^<]{1,128})</arg_key>\s{0,20}<arg_value>")
_MAX_TAG_CHARS = 200


def read_tagged(cursor: CallCursor, opener: str) -> None:
    """Reads what follows an opening mark, up to its closing one. That may be missing if the calls are complete."""
    closers = OPENERS[opener]
    cursor.pos += len(opener)
    for _ in range(_MAX_PARTS):
        char = cursor.peek()
        if cursor.take(*closers):
            return _require_calls(cursor)
        if not char:
            return _require_calls(cursor)
        before = cursor.pos
        if cursor.take(*(_INNER if cursor.calls else _BEFORE_FIRST)):
            continue
        if not _content(cursor, char, closers):
            cursor.pos = before
            return _require_calls(cursor)
        if len(cursor.calls) >= MAX_CALLS:
            return None
    return _require_calls(cursor)


_BEFORE_FIRST = tuple(mark for mark in _INNER if mark not in (",", ";", "}", "]"))


def read_tag(cursor: CallCursor, opener: str) -> None:
    """Reads what begins with one of `STARTS`, at this position."""
    if opener == _FUNCTION:
        function_tag(cursor)
    else:
        read_tagged(cursor, opener)


def function_tag(cursor: CallCursor, closers: tuple[str, ...] = ()) -> None:
    """Reads `<function=name>` with JSON or parameters in it."""
    found = _FUNCTION_NAME.match(cursor.text, cursor.pos)
    if found is None:
        rest = cursor.text[cursor.pos :]
        if not cursor.final and ">" not in rest and len(rest) < _MAX_TAG_CHARS:
            raise NeedMore
        raise NotACall
    start, cursor.pos = cursor.pos, found.end()
    char = cursor.peek()
    if char == "{":
        text, is_complete = cursor.json(("</function>", *closers))
        cursor.calls.append(_with_arguments(cursor, found[1], text, is_complete=is_complete))
        cursor.peek()
        cursor.take("</function>")
    else:
        _parameters(cursor, found[1], start)


def _require_calls(cursor: CallCursor) -> None:
    if not cursor.calls:
        raise NotACall


def _content(cursor: CallCursor, char: str, closers: tuple[str, ...]) -> bool:
    """Reads one content. Returns False if it is none of ours, which ends the calls or means that there are none."""
    if char in ("{", "["):
        text, is_complete = cursor.json(closers)
        try:
            cursor.calls += cursor.read_calls(text, is_complete=is_complete, tagged=True)
        except NotACall:
            if char == "{":
                raise
            cursor.calls += python_calls(text[1:-1])
        return True
    if cursor.take(_FUNCTION):
        cursor.pos -= len(_FUNCTION)
        function_tag(cursor, closers)
        return True
    name = cursor.match(_NAME)
    return name is not None and _read_named(cursor, name, closers)


def _read_named(cursor: CallCursor, name: re.Match[str], closers: tuple[str, ...]) -> bool:
    """Reads a name and its arguments, in one of several forms."""
    start, cursor.pos = cursor.pos, name.end()
    if cursor.text.startswith("(", cursor.pos):
        cursor.pos = start
        return _python(cursor)
    char = cursor.peek()
    if cursor.take("[CALL_ID]") and (given := cursor.match(_CALL_ID)):
        cursor.pos = given.end()
    if cursor.take(*_ARGUMENTS_FOLLOW):
        if name[0] == "function" and cursor.peek() not in ("{", ""):  # DeepSeek's type of call, before the name
            return (inner := cursor.match(_NAME)) is not None and _read_named(cursor, inner, closers)
        char = cursor.peek()
    elif char == "<":
        return _keys_and_values(cursor, name[0], start, closers)
    if cursor.take("```json", "```"):
        char = cursor.peek()
    if char != "{":
        return False
    text, is_complete = cursor.json((*closers, "<｜tool▁call▁end｜>", "<|tool_call_end|>", "[TOOL_CALLS]"))
    cursor.calls.append(_with_arguments(cursor, name[0].partition(":")[0], text, is_complete=is_complete))
    return True


def _with_arguments(cursor: CallCursor, name: str, text: str, *, is_complete: bool) -> WrittenCall:
    """JSON that has the arguments only. It is parsed later, with all other arguments; only a missing end is
    completed here."""
    if not is_complete:
        return WrittenCall(name, text)
    envelope = cursor.read_calls(f'{{"name": "{name}", "arguments": {text}', is_complete=True, tagged=True)
    return envelope[0] if len(envelope) == 1 and envelope[0].name == name else WrittenCall(name, text)


def _python(cursor: CallCursor) -> bool:
    start = cursor.pos
    cursor.pos = cursor.text.index("(", start)
    span = BracketSpan()
    length = span.feed(cursor.text[cursor.pos :])
    if length < 0 and not cursor.final:
        raise NeedMore(span)
    if length < 0:
        return False
    cursor.pos += length
    cursor.calls += python_calls(cursor.text[start : cursor.pos])
    return True


def _keys_and_values(cursor: CallCursor, name: str, start: int, closers: tuple[str, ...]) -> bool:
    """GLM: `<arg_key>…</arg_key><arg_value>…</arg_value>`, or nothing at all for a tool without arguments."""
    raw: dict[str, str] = {}
    while cursor.peek() == "<" and len(raw) < _MAX_ARGUMENTS:
        pos = cursor.pos
        if cursor.take(*closers):
            cursor.pos = pos
            break
        key = _ARGUMENT_KEY.match(cursor.text, cursor.pos)
        if key is None:
            if cursor.final or not _may_become_key(cursor.text[cursor.pos :]):
                begun = raw or cursor.text.startswith("<arg_key>", cursor.pos)
                return _broken(cursor, name, start, cursor.pos) if begun else False
            raise NeedMore
        end = cursor.text.find("</arg_value>", key.end())
        if end < 0:
            if not cursor.final:
                raise NeedMore(mark=re.compile("</arg_value>"))
            return _broken(cursor, name, start)
        raw[key[1].strip()] = cursor.text[key.end() : end]
        cursor.pos = end + len("</arg_value>")
    if cursor.pos == len(cursor.text) and not cursor.is_complete:
        return _broken(cursor, name, start)  # more arguments may be missing
    if not raw and not cursor.tools.is_tool_name(name):
        return False
    cursor.calls.append(WrittenCall(name, _convert_types(cursor, name, raw)))
    return True


def _may_become_key(rest: str) -> bool:
    return len(rest) < _MAX_TAG_CHARS and "<arg_key>"[: len(rest)] == rest[: len("<arg_key>")]


def _parameters(cursor: CallCursor, name: str, start: int) -> None:
    raw: dict[str, str] = {}
    for _ in range(_MAX_ARGUMENTS):
        cursor.peek()
        before = cursor.pos
        if cursor.take("</function>") or (raw and cursor.take("</tool_call>")):
            cursor.calls.append(WrittenCall(name, _convert_types(cursor, name, raw)))
            return
        key = _PARAMETER.match(cursor.text, before)
        if key is None:
            rest = cursor.text[before:]
            if not cursor.final and "<parameter="[: len(rest)] == rest[:11] and len(rest) < _MAX_TAG_CHARS:
                raise NeedMore
            if not raw and not rest.startswith("<parameter="):
                raise NotACall
            _broken(cursor, name, start, before)
            return
        end = _PARAMETER_END.search(cursor.text, key.end())
        if end is None and not cursor.final:
            raise NeedMore(mark=_PARAMETER_END)
        if end is None:
            _broken(cursor, name, start)
            return
        raw[key[1]] = cursor.text[key.end() : end.start()].removeprefix("\n").removesuffix("\n")
        cursor.pos = end.end()
    _broken(cursor, name, start, cursor.pos)


def _convert_types(cursor: CallCursor, name: str, raw: dict[str, str]) -> dict[str, object]:
    """Such values have no types, so they are taken from the schema."""
    schema = cursor.tools.schemas.get(cursor.tools.match_tool_name(name) or "")
    typed: dict[str, object] = {**raw}
    if schema:
        typed = SchemaFitter(schema).fit(typed)
    return typed


def _broken(cursor: CallCursor, name: str, start: int, end: int | None = None) -> bool:
    """A call that stops in the middle, at the end of the text or at an error: its text becomes its arguments, which
    are no JSON."""
    end = len(cursor.text) if end is None else end
    cursor.calls.append(WrittenCall(name, cursor.text[start:end]))
    cursor.pos = end
    return True
