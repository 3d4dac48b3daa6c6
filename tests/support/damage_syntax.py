"""Damage to how a call is written: the words are there, the JSON is not.

Each kind takes a correct call and yields hurt texts of it, with whether the truth can still be told from the text.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jsonschema_rs
import msgspec

from support.damage_corpus import Call
from support.damage_text import IDENTIFIER, Style, dump, readings

Form = Literal["arguments", "text"]
PLAIN = Style()
_SENTINEL = "@@value@@"
_LITERALS = {"true", "false", "null", "none", "nan", "infinity", "undefined"}


class Hurt(msgspec.Struct, frozen=True, kw_only=True):
    """One damaged text. `truth` and `called` where they differ from the call it was made of."""

    form: Form
    text: str
    repairable: bool = True
    called: str = ""
    truth: tuple[Call, ...] = ()
    also_offered: tuple[Call, ...] = ()
    finish: Literal["stop", "length"] = "stop"


Kind = Callable[[Call, random.Random], Iterator[Hurt]]


def envelope(call: Call) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments}


def carried(text: str, rng: random.Random) -> str:
    """A whole call as chat templates have it, or bare."""
    fenced = () if "```" in text else (f"```json\n{text}\n```", f"```\n{text}\n```")
    return rng.choice((text, f"<tool_call>\n{text}\n</tool_call>", f"[TOOL_CALLS] [{text}]", *fenced))


def styled(*styles: Style, repairable: bool = True) -> Kind:
    def kind(call: Call, rng: random.Random) -> Iterator[Hurt]:
        style = rng.choice(styles)
        for form, value in (("arguments", call.arguments), ("text", envelope(call))):
            text = dump(value, style)
            if text != dump(value, PLAIN):
                whole = carried(text, rng) if form == "text" else text
                yield Hurt(form=form, text=whole, repairable=repairable)  # type: ignore[arg-type]

    return kind


_COMMENTS = (
    ("// the value they asked for", "/* as given */", "// required"),
    ("# from the question", "# default", "# see above"),
)

trailing_commas = styled(Style(trailing=","), Style(trailing=", "), Style(trailing=",\n"))
single_quotes = styled(Style(opening="'", closing="'"))
raw_newlines = styled(Style(raw="\n\r\t"), Style(raw="\n"))
python_literals = styled(
    Style(opening="'", closing="'", literals=("True", "False", "None")),
    Style(literals=("True", "False", "None"), brackets="()"),
    Style(literals=("True", "False", "None")),
)
comments = styled(*(Style(comments=each) for each in _COMMENTS))
unquoted_keys = styled(Style(key_quotes=False), Style(key_quotes=False, opening="'", closing="'"))
equals_signs = styled(
    Style(colon="="), Style(colon=" = "), Style(colon=" => "), Style(colon="=", key_quotes=False), Style(colon=" := ")
)
missing_commas = styled(Style(comma=" "), Style(comma="\n"), Style(comma="\n  "))
wrong_commas = styled(Style(comma="; "), Style(comma="，"))
_doubled = styled(Style(comma=",, "), Style(comma=", ,"))
combined = styled(
    Style(trailing=",", opening="'", closing="'", literals=("True", "False", "None")),
    Style(trailing=",", key_quotes=False, raw="\n"),
    Style(comments=_COMMENTS[0], opening="'", closing="'"),
    Style(comments=_COMMENTS[1], literals=("True", "False", "None")),
    Style(colon="=", key_quotes=False, literals=("True", "False", "None")),
    Style(colon=": ", key_quotes=False, comma="\n", trailing=","),
    Style(trailing=",", raw="\n\r\t", literals=("True", "False", "None")),
)


def doubled_commas(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """In a list it could stand for something left out, so only where there is none."""
    if "[" not in json.dumps(call.arguments):
        yield from _doubled(call, rng)


def smart_quotes(call: Call, rng: random.Random) -> Iterator[Hurt]:
    inside = json.dumps(call.arguments, ensure_ascii=False)
    pair = rng.choice(("“”", "„“", "””", "«»"))
    if any(char in inside for char in pair) or '\\"' in inside:
        return
    yield from styled(Style(opening=pair[0], closing=pair[1]))(call, rng)


def block_quotes(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Code in triple quotes or backticks, with its lines as they are."""
    for key, value in call.arguments.items():
        if not isinstance(value, str) or "\n" not in value or "\\" in value or "\r" in value:
            continue
        for mark in ('"""', "`", "'''"):
            if mark not in value and not value.endswith(mark[0]):
                yield Hurt(form="arguments", text=with_raw(call.arguments, key, f"{mark}{value}{mark}"))


def unescaped_quotes(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Only where there is one way to read it that the schema allows."""
    for quote in "\"'":
        text = dump(call.arguments, Style(opening=quote, closing=quote, loose=True))
        strict = dump(call.arguments, Style(opening=quote, closing=quote))
        if text == strict or "\\" + quote in text:
            continue
        if sum(jsonschema_rs.is_valid(call.schema, reading) for reading in readings(text, quote)) == 1:
            yield Hurt(form="arguments", text=text)
            yield Hurt(form="text", text=f'<tool_call>\n{{"name": "{call.name}", "arguments": {text}}}\n</tool_call>')


def raw_backslashes(call: Call, rng: random.Random) -> Iterator[Hurt]:
    r"""A pattern or path as it is: `\d` can mean one thing only, `\b` beside it cannot be told from a backspace."""
    text = dump(call.arguments, Style(raw="\\"))
    followers = re.findall(r"\\(.)", text, re.DOTALL)
    if text == dump(call.arguments, PLAIN) or all(char in '"\\/bfnrtu' for char in followers):
        return
    yield Hurt(form="arguments", text=text, repairable=not any(char in '"\\/bfnrtu' for char in followers))


def escaped_apostrophes(call: Call, rng: random.Random) -> Iterator[Hurt]:
    text = dump(call.arguments, PLAIN)
    if "'" in text and "\\'" not in text:
        yield Hurt(form="arguments", text=text.replace("'", "\\'"))


def prose_around(call: Call, rng: random.Random) -> Iterator[Hurt]:
    before, after = rng.choice(
        (
            ("Sure! I'll do that for you:\n\n", ""),
            ("I need to call the tool first.\n", "\n\nLet me know if you need anything else!"),
            ("Okay, here is the call: ", ""),
            ("Ich rufe jetzt das Werkzeug auf:\n", "\nEinen Moment bitte."),
            ("好的，我来调用工具：\n", ""),
            ("<think>\nThe user wants {this}. I should call it.\n</think>\n\n", ""),
            ("Action: ", "\nObservation:"),
            ("", "\n\nThis will do what you asked (hopefully :-})."),
        )
    )
    yield Hurt(form="text", text=before + carried(dump(envelope(call), PLAIN), rng) + after)
    if call.arguments and "{" not in before and "}" not in after:
        yield Hurt(form="arguments", text=before + dump(call.arguments, PLAIN) + after)


def wrong_fences(call: Call, rng: random.Random) -> Iterator[Hurt]:
    for form, value in (("arguments", call.arguments), ("text", envelope(call))):
        text = json.dumps(value, ensure_ascii=False, indent=rng.choice((None, 2)))
        if "```" in text:
            continue
        hurt = rng.choice(
            (
                f"```json\n{text}",
                f"{text}\n```",
                f"```tool_code\n{text}\n```",
                f"``json\n{text}\n``",
                f"~~~json\n{text}\n~~~",
                f"```json {text}```",
                f"'''json\n{text}\n'''",
                f"json\n{text}",
                f"```JSON\n{text}\n``",
            )
        )
        yield Hurt(form=form, text=hurt)  # type: ignore[arg-type]


def wrong_tags(call: Call, rng: random.Random) -> Iterator[Hurt]:
    text = dump(envelope(call), PLAIN)
    arguments = dump(call.arguments, PLAIN)
    hurts = (
        f"<tool_call>\n{text}",
        f"<tool_call>\n{text}\n<tool_call>",
        f"<tool_call>\n{text}\n</tool_calls>",
        f"<tool_call>{text}</tool_call></tool_call>",
        f"{text}\n</tool_call>",
        f"<tool_call>\n```json\n{text}\n```\n</tool_call>" if "```" not in text else f"<tool_call>{text}",
        f"[TOOL_CALLS] {text}",
        f"[TOOL_CALLS][{text}",
        f"[TOOL_CALLS] [{text}]</s>",
        f"<function={call.name}>{arguments}",
        f"<function={call.name}>\n{arguments}\n</function>\n</tool_call>",
        f"<|tool_call|>{text}<|im_end|>",
        f"{text}<|im_end|>",
        f"{text}</s>",
    )
    for text in rng.sample(hurts, 2):
        yield Hurt(form="text", text=text)


def invisible_characters(call: Call, rng: random.Random) -> Iterator[Hurt]:
    mark = rng.choice(("\u200b", "\u2060", "\ufeff", "\u200e"))
    for form, value in (("arguments", call.arguments), ("text", envelope(call))):
        text = dump(value, PLAIN)
        hurts = ["\ufeff" + text, text + "\u200b", dump(value, Style(colon=f":{mark} ")), f"\u00a0{text}\u00a0"]
        hurts.append(dump(value, Style(comma=",\u00a0", colon=":\u00a0")))
        yield Hurt(form=form, text=rng.choice([each for each in hurts if each != text]))  # type: ignore[arg-type]


def bare_words(call: Call, rng: random.Random) -> Iterator[Hurt]:
    for key, value in call.arguments.items():
        if isinstance(value, str) and IDENTIFIER.match(value):
            literal = value.lower() in _LITERALS
            yield Hurt(form="arguments", text=with_raw(call.arguments, key, value), repairable=not literal)
            return


def odd_numbers(call: Call, rng: random.Random) -> Iterator[Hurt]:
    for key, value in call.arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        good = [f"+{value}" if value > 0 else ""]
        if isinstance(value, int):
            good += [hex(value) if value > 9 else "", f"{value:_}" if value > 999 else ""]
            if value > 999:
                yield Hurt(form="arguments", text=with_raw(call.arguments, key, f"{value:,}"), repairable=False)
            yield Hurt(form="arguments", text=with_raw(call.arguments, key, f"{value}-{value + 1}"), repairable=False)
        elif str(value).startswith("0."):
            good.append(str(value)[1:])
        yield from (Hurt(form="arguments", text=with_raw(call.arguments, key, each)) for each in good if each)
        yield Hurt(form="arguments", text=with_raw(call.arguments, key, "NaN"), repairable=False)


def with_raw(arguments: dict[str, Any], key: str, raw: str) -> str:
    """The arguments as JSON, with this very text as one value."""
    return dump({**arguments, key: _SENTINEL}, PLAIN).replace(f'"{_SENTINEL}"', raw)
