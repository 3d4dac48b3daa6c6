"""Calls between marks that models' chat templates know: here only a call can stand.

The marks are data. What stands between them is one of a few contents, whatever the marks: JSON (one call, a list, or
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
from aish.tool_calls.detect.call_cursor import Attempt, NeedMore, NotACall
from aish.tool_calls.detect.envelope import MAX_CALLS, Written
from aish.tool_calls.detect.span import Span
from aish.tool_calls.repair.coerce import Fitter

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
_MAX_ARGUMENTS = 64  # of a call, each with its own marks
STARTS = (*OPENERS, _FUNCTION)
# Marks inside of others, and what may stand between two calls.
_INNER = (
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<|tool_call_begin|>", "<|tool_call_end|>", "<tool_call>",
    "</tool_call>", "[TOOL_CALLS]", "```json", "```", ",", ";", "}", "]",
)  # fmt: skip
_ARGUMENTS_FOLLOW = ("[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>")
_NAME = re.compile(r"[^\W\d][\w.-]*(?::\d*)?")
# None of these is longer than _MAX_TAG_CHARS: what has become longer is something else.
_FUNCTION_NAME = re.compile(r"<function=\s{0,20}[\"']?([^\s<>\"'{]{1,128})[\"']?\s{0,20}>")
_PARAMETER = re.compile(r"<parameter=\s{0,20}[\"']?([^\s<>\"']{1,128})[\"']?\s{0,20}>")
_PARAMETER_END = re.compile(r"</parameter>|(?=<parameter=)|(?=</function>)|(?=</tool_call>)")
_CALL_ID = re.compile(r"[\w-]*")
_ARGUMENT_KEY = re.compile(r"<arg_key>([^<]{1,128})</arg_key>\s{0,20}<arg_value>")
_MAX_TAG_CHARS = 200


def tagged(attempt: Attempt, opener: str) -> None:
    """What follows an opening mark, up to its closing one. The mark may be missing where the calls are complete."""
    closers = OPENERS[opener]
    attempt.pos += len(opener)
    for _ in range(_MAX_PARTS):
        char = attempt.peek()
        if attempt.take(*closers):
            return _or_none(attempt)
        if not char:
            return _or_none(attempt)
        before = attempt.pos
        if attempt.take(*(_INNER if attempt.calls else _BEFORE_FIRST)):
            continue
        if not _content(attempt, char, closers):
            attempt.pos = before
            return _or_none(attempt)
        if len(attempt.calls) >= MAX_CALLS:
            return None
    return _or_none(attempt)


_BEFORE_FIRST = tuple(mark for mark in _INNER if mark not in (",", ";", "}", "]"))


def read_tag(attempt: Attempt, opener: str) -> None:
    """What begins with one of `STARTS`, which stands here."""
    if opener == _FUNCTION:
        function_tag(attempt)
    else:
        tagged(attempt, opener)


def function_tag(attempt: Attempt, closers: tuple[str, ...] = ()) -> None:
    """`<function=name>` with JSON or parameters in it."""
    found = _FUNCTION_NAME.match(attempt.text, attempt.pos)
    if found is None:
        rest = attempt.text[attempt.pos :]
        if not attempt.final and ">" not in rest and len(rest) < _MAX_TAG_CHARS:
            raise NeedMore
        raise NotACall
    start, attempt.pos = attempt.pos, found.end()
    char = attempt.peek()
    if char == "{":
        text, sure = attempt.json(("</function>", *closers))
        attempt.calls.append(_with_arguments(attempt, found[1], text, sure=sure))
        attempt.peek()
        attempt.take("</function>")
    else:
        _parameters(attempt, found[1], start)


def _or_none(attempt: Attempt) -> None:
    if not attempt.calls:
        raise NotACall


def _content(attempt: Attempt, char: str, closers: tuple[str, ...]) -> bool:
    """Reads what stands here. False if it is none of ours, which ends the calls or means that there were none."""
    if char in ("{", "["):
        text, sure = attempt.json(closers)
        try:
            attempt.calls += attempt.read_calls(text, sure=sure, tagged=True)
        except NotACall:
            if char == "{":
                raise
            attempt.calls += python_calls(text[1:-1])
        return True
    if attempt.take(_FUNCTION):
        attempt.pos -= len(_FUNCTION)
        function_tag(attempt, closers)
        return True
    name = attempt.match(_NAME)
    return name is not None and _named(attempt, name, closers)


def _named(attempt: Attempt, name: re.Match[str], closers: tuple[str, ...]) -> bool:
    """A name, and then its arguments in one of several forms."""
    start, attempt.pos = attempt.pos, name.end()
    if attempt.text.startswith("(", attempt.pos):
        attempt.pos = start
        return _python(attempt)
    char = attempt.peek()
    if attempt.take("[CALL_ID]") and (given := attempt.match(_CALL_ID)):
        attempt.pos = given.end()
    if attempt.take(*_ARGUMENTS_FOLLOW):
        if name[0] == "function" and attempt.peek() not in ("{", ""):  # DeepSeek's type of call, before the name
            return (inner := attempt.match(_NAME)) is not None and _named(attempt, inner, closers)
        char = attempt.peek()
    elif char == "<":
        return _keys_and_values(attempt, name[0], start, closers)
    if attempt.take("```json", "```"):
        char = attempt.peek()
    if char != "{":
        return False
    text, sure = attempt.json((*closers, "<｜tool▁call▁end｜>", "<|tool_call_end|>", "[TOOL_CALLS]"))
    attempt.calls.append(_with_arguments(attempt, name[0].partition(":")[0], text, sure=sure))
    return True


def _with_arguments(attempt: Attempt, name: str, text: str, *, sure: bool) -> Written:
    """JSON that is the arguments alone. It is read where all arguments are; only a missing end is settled here."""
    if not sure:
        return Written(name, text)
    envelope = attempt.read_calls(f'{{"name": "{name}", "arguments": {text}', sure=True, tagged=True)
    return envelope[0] if len(envelope) == 1 and envelope[0].name == name else Written(name, text)


def _python(attempt: Attempt) -> bool:
    start = attempt.pos
    attempt.pos = attempt.text.index("(", start)
    span = Span()
    length = span.feed(attempt.text[attempt.pos :])
    if length < 0 and not attempt.final:
        raise NeedMore(span)
    if length < 0:
        return False
    attempt.pos += length
    attempt.calls += python_calls(attempt.text[start : attempt.pos])
    return True


def _keys_and_values(attempt: Attempt, name: str, start: int, closers: tuple[str, ...]) -> bool:
    """GLM: `<arg_key>…</arg_key><arg_value>…</arg_value>`, or nothing at all for a tool without arguments."""
    raw: dict[str, str] = {}
    while attempt.peek() == "<" and len(raw) < _MAX_ARGUMENTS:
        pos = attempt.pos
        if attempt.take(*closers):
            attempt.pos = pos
            break
        key = _ARGUMENT_KEY.match(attempt.text, attempt.pos)
        if key is None:
            if attempt.final or not _may_become_key(attempt.text[attempt.pos :]):
                begun = raw or attempt.text.startswith("<arg_key>", attempt.pos)
                return _broken(attempt, name, start, attempt.pos) if begun else False
            raise NeedMore
        end = attempt.text.find("</arg_value>", key.end())
        if end < 0:
            if not attempt.final:
                raise NeedMore(mark=re.compile("</arg_value>"))
            return _broken(attempt, name, start)
        raw[key[1].strip()] = attempt.text[key.end() : end]
        attempt.pos = end + len("</arg_value>")
    if attempt.pos == len(attempt.text) and not attempt.whole:
        return _broken(attempt, name, start)  # more arguments may have been to come
    if not raw and not attempt.tools.is_name(name):
        return False
    attempt.calls.append(Written(name, _typed(attempt, name, raw)))
    return True


def _may_become_key(rest: str) -> bool:
    return len(rest) < _MAX_TAG_CHARS and "<arg_key>"[: len(rest)] == rest[: len("<arg_key>")]


def _parameters(attempt: Attempt, name: str, start: int) -> None:
    raw: dict[str, str] = {}
    for _ in range(_MAX_ARGUMENTS):
        attempt.peek()
        before = attempt.pos
        if attempt.take("</function>") or (raw and attempt.take("</tool_call>")):
            attempt.calls.append(Written(name, _typed(attempt, name, raw)))
            return
        key = _PARAMETER.match(attempt.text, before)
        if key is None:
            rest = attempt.text[before:]
            if not attempt.final and "<parameter="[: len(rest)] == rest[:11] and len(rest) < _MAX_TAG_CHARS:
                raise NeedMore
            if not raw and not rest.startswith("<parameter="):
                raise NotACall
            _broken(attempt, name, start, before)
            return
        end = _PARAMETER_END.search(attempt.text, key.end())
        if end is None and not attempt.final:
            raise NeedMore(mark=_PARAMETER_END)
        if end is None:
            _broken(attempt, name, start)
            return
        raw[key[1]] = attempt.text[key.end() : end.start()].removeprefix("\n").removesuffix("\n")
        attempt.pos = end.end()
    _broken(attempt, name, start, attempt.pos)


def _typed(attempt: Attempt, name: str, raw: dict[str, str]) -> dict[str, object]:
    """Such values carry no types: the schema says what they are."""
    schema = attempt.tools.schemas.get(attempt.tools.meant(name) or "")
    typed: dict[str, object] = {**raw}
    if schema:
        typed = Fitter(schema).fit(typed)
    return typed


def _broken(attempt: Attempt, name: str, start: int, end: int | None = None) -> bool:
    """A call that stops in the middle, at the end of the text or where it goes wrong: its text is kept as what it is,
    and is no JSON."""
    end = len(attempt.text) if end is None else end
    attempt.calls.append(Written(name, attempt.text[start:end]))
    attempt.pos = end
    return True
