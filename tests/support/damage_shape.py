"""Damage to the shape of a call: cut short, closed too rarely or too often, wrapped, written twice, run together."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

from support.damage_corpus import CALLS, Call
from support.damage_syntax import PLAIN, Hurt, carried, envelope, with_raw
from support.damage_text import IDENTIFIER, Style, dump

_CLOSERS = re.compile(r"[}\]]+\Z")


def _open_ends(text: str) -> Iterator[tuple[int, bool]]:
    """Every place to cut the text, and whether it is a seam: whole values before it, nothing begun."""
    in_string = escaped = False
    for at, char in enumerate(text[:-1]):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
            ends_value = not in_string and not text[at + 1 :].lstrip().startswith(":")
        else:
            in_string = char == '"'
            ends_value = char in "}]" or text[: at + 1].endswith(("true", "false", "null"))
        if char != " " or in_string:
            yield at + 1, ends_value and not in_string


def truncated(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Cut within something: a value, a key, or before the next. Nobody can know what was to come."""
    for form, text in (("arguments", dump(call.arguments, PLAIN)), ("text", dump(envelope(call), PLAIN))):
        cuts = [at for at, seam in _open_ends(text) if not seam]
        for at in rng.sample(cuts, min(3, len(cuts))):
            if form == "text":
                lead, tail = rng.choice(
                    (("", ""), ("<tool_call>\n", ""), ("[TOOL_CALLS] [", ""), ("```json\n", "\n```"))
                )
                yield Hurt(form="text", text=lead + text[:at] + tail, repairable=False, finish="length")
            else:
                yield Hurt(form="arguments", text=text[:at], repairable=False, finish="length")


def truncated_then_closed(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Cut in a string, and the tag still closed, as some templates do."""
    text = dump(envelope(call), PLAIN)
    cuts = [at for at, seam in _open_ends(text) if not seam and text[:at].count('"') % 2 and '": {"' in text[:at]]
    for at in rng.sample(cuts, min(1, len(cuts))):
        yield Hurt(form="text", text=f"<tool_call>\n{text[:at]}\n</tool_call>", repairable=False, finish="length")


def cut_at_seam(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Out of tokens after a whole value: only the reason for stopping says that more was to come."""
    text = dump(call.arguments, PLAIN)
    cuts = [at for at, seam in _open_ends(text) if seam]
    for at in rng.sample(cuts, min(1, len(cuts))):
        yield Hurt(form="arguments", text=text[:at], repairable=False, finish="length")


def missing_closers(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """The model stopped of itself and forgot brackets. A number at the end may lack digits, so it proves nothing."""
    for form, text in (("arguments", dump(call.arguments, PLAIN)), ("text", dump(envelope(call), PLAIN))):
        closers = _CLOSERS.search(text)
        count = len(closers[0]) if closers else 0
        for gone in sorted({1, rng.randint(1, count)}):
            rest = text[:-gone]
            if rest.endswith(("{", "[")) or (form == "text" and not call.arguments):
                continue
            lead = rng.choice(("", "<tool_call>\n")) if form == "text" else ""
            number = rest[-1].isdigit()
            yield Hurt(form=form, text=lead + rest, repairable=not number)  # type: ignore[arg-type]


def doubled_closers(call: Call, rng: random.Random) -> Iterator[Hurt]:
    more = rng.choice(("}", "}}", "]", "}]", "\n}"))
    yield Hurt(form="arguments", text=dump(call.arguments, PLAIN) + more)
    yield Hurt(form="text", text=dump(envelope(call), PLAIN) + more)
    yield Hurt(form="text", text=f"<tool_call>\n{dump(envelope(call), PLAIN)}}}\n</tool_call>")


def missing_closing_quote(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Where the string was to end cannot be known."""
    keys = [key for key, value in call.arguments.items() if isinstance(value, str) and '"' not in value]
    for key in rng.sample(keys, min(1, len(keys))):
        raw = dump(call.arguments[key], PLAIN)[:-1]
        yield Hurt(form="arguments", text=with_raw(call.arguments, key, raw), repairable=False)


def doubled_encoding(call: Call, rng: random.Random) -> Iterator[Hurt]:
    arguments = json.dumps(call.arguments, ensure_ascii=rng.random() < 0.5)
    yield Hurt(form="arguments", text=json.dumps(arguments, ensure_ascii=False))
    yield Hurt(form="text", text=carried(dump({"name": call.name, "arguments": arguments}, PLAIN), rng))
    if call.arguments:
        yield Hurt(form="arguments", text=dump(call.arguments, PLAIN).replace("\\", "\\\\").replace('"', '\\"'))


def extra_wrappers(call: Call, rng: random.Random) -> Iterator[Hurt]:
    arguments = call.arguments
    inner = rng.choice(("arguments", "parameters", "args", "input"))
    wrapped = [{inner: arguments}, envelope(call), {call.name: arguments}, [arguments]]
    yield Hurt(form="arguments", text=dump(rng.choice(wrapped), PLAIN))
    whole = [
        {"tool_call": envelope(call)},
        {"tool_calls": [envelope(call)]},
        {"type": "function", "function": envelope(call)},
        {"function": call.name, "arguments": arguments},
        {"name": call.name, "parameters": arguments},
        {"tool": call.name, "args": arguments},
        {"tool_name": call.name, "tool_input": arguments},
        {"action": call.name, "action_input": arguments},
        {"function_call": envelope(call)},
    ]
    for value in rng.sample(whole, 2):
        yield Hurt(form="text", text=carried(dump(value, PLAIN), rng))


def repeated_keys(call: Call, rng: random.Random) -> Iterator[Hurt]:
    keys = [key for key, value in call.arguments.items() if isinstance(value, str)]
    for key in rng.sample(keys, min(1, len(keys))):
        text, value = dump(call.arguments, PLAIN), dump(call.arguments[key], PLAIN)
        yield Hurt(form="arguments", text=f'{text[:-1]}, "{key}": {value}}}')
        yield Hurt(form="arguments", text=f'{text[:-1]}, "{key}": "something else"}}', repairable=False)


def ellipsis(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """The model left something out, and says so."""
    for key, value in call.arguments.items():
        if isinstance(value, list) and value:
            raw = dump(value, PLAIN)[:-1] + ", ...]"
            yield Hurt(form="arguments", text=with_raw(call.arguments, key, raw), repairable=False)
    if call.arguments:
        text = dump(call.arguments, PLAIN)
        yield Hurt(form="arguments", text=text[:-1] + ", ...}", repairable=False)


def run_together(call: Call, rng: random.Random) -> Iterator[Hurt]:
    others = [each for each in CALLS if each.name != call.name]
    calls = (call, *rng.sample(others, rng.choice((1, 1, 2))))
    texts = [dump(envelope(each), PLAIN) for each in calls]
    offered = calls[1:]
    joined = rng.choice(("", "\n", " ", ", ", ";\n", "\n\n", "\nand then\n")).join(texts)
    yield Hurt(form="text", text=joined, truth=calls, also_offered=offered)
    lumps = ("<tool_call>\n" + "\n".join(texts) + "\n</tool_call>", "".join(f"<tool_call>\n{each}\n" for each in texts))
    lumps += (
        "[TOOL_CALLS] " + "".join(f"[{each}]" for each in texts),
        f"[TOOL_CALLS] {texts[0]}, {', '.join(texts[1:])}",
    )
    yield Hurt(form="text", text=rng.choice(lumps), truth=calls, also_offered=offered)


def two_in_one(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """Two sets of arguments where one was expected: which is meant cannot be known."""
    others = [each for each in CALLS if each.name == call.name and each.arguments != call.arguments]
    for other in others[:1]:
        between = rng.choice(("", "\n", ", "))
        text = dump(call.arguments, PLAIN) + between + dump(other.arguments, PLAIN)
        yield Hurt(form="arguments", text=text, repairable=False)


def python_calls(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """The call as code, with the slips of code."""
    if not all(IDENTIFIER.match(key) for key in call.arguments) or not call.arguments:
        return
    style = Style(literals=("True", "False", "None"), opening=rng.choice(("'", '"')))
    style = Style(literals=style.literals, opening=style.opening, closing=style.opening)
    pairs = [(key, dump(value, style)) for key, value in call.arguments.items()]
    keywords = ", ".join(f"{key}={value}" for key, value in pairs)
    hurts = (
        f"{call.name}({', '.join(f'{key}: {value}' for key, value in pairs)})",
        f"print({call.name}({keywords}))",
        f"[{call.name}({keywords})",
        f"{call.name}({keywords},)",
        f"{call.name}({keywords}))",
        f"```python\n{call.name}({keywords})\n```" if "```" not in keywords else f"{call.name}({keywords});",
        f"result = {call.name}({keywords})",
    )
    yield Hurt(form="text", text=rng.choice(hurts))
    if keywords[-1] in "'\"":
        yield Hurt(form="text", text=f"{call.name}({keywords[:-2]}", repairable=False, finish="length")


def empty_arguments(call: Call, rng: random.Random) -> Iterator[Hurt]:
    if call.arguments and not call.schema["required"]:
        return
    texts = ("", "null", " ", '""')
    for text in (rng.choice(texts),) if call.arguments else texts:
        yield Hurt(form="arguments", text=text, repairable=not call.arguments)
