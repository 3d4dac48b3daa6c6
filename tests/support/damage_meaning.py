"""Damage to what a call says: values of the wrong type, misspelt names. The text itself is valid JSON.

What is still determined is decided here by counting, never by taste: a slip in a name is repairable when one name is
within two edits of it and every other is at least two edits further away.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from aish.types.tools import JsonSchema
from support.damage_corpus import CALLS, NEAR_PAIRS, STR, Call, shape
from support.damage_syntax import PLAIN, Hurt, carried
from support.damage_text import dump

Path = tuple[str | int, ...]


def _places(value: Any, schema: JsonSchema, path: Path = ()) -> Iterator[tuple[Path, Any, JsonSchema]]:
    """Every value that has a schema of its own."""
    if path:
        yield path, value, schema
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, schema.get("properties", {}).get(key, {}), (*path, key))
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _places(item, schema.get("items", {}), (*path, at))


def _with(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, list):
        return [_with(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)]
    return {key: _with(item, path[1:], new) if key == path[0] else item for key, item in value.items()}


def _mistyped(value: Any, schema: JsonSchema) -> Iterator[tuple[Any, bool]]:
    """Wrong ways to say this value, and whether the right one follows from them."""
    match schema.get("type"):
        case "integer":
            yield str(value), True
            if abs(value) < 2**53:
                yield float(value), True
                yield value + 0.5, False
            yield f"about {value}", False
            yield [value, value + 1], False
        case "number":
            yield repr(value), True
            yield f"{value}°", False
            if isinstance(value, float):
                yield str(value).replace(".", ","), False
        case "boolean":
            yield str(value).lower(), True
            yield str(value), True
            yield "perhaps", False
        case "array":
            yield from _mislisted(value, schema)
        case "object":
            yield json.dumps(value, ensure_ascii=False), True
        case "string" if "enum" in schema:
            yield value[:-1] + "x" + value[-1], False
            yield [value, "other"], False


def _mislisted(value: list[Any], schema: JsonSchema) -> Iterator[tuple[Any, bool]]:
    texts = schema["items"].get("type") == "string"
    if len(value) == 1:
        yield value[0], True
    if len(value) > 1 and texts:
        yield ", ".join(value), False
    if value and schema["items"].get("type") in ("integer", "number", "object"):
        yield json.dumps(value, ensure_ascii=False), True


def wrong_types(call: Call, rng: random.Random) -> Iterator[Hurt]:
    hurts = [
        (_with(call.arguments, path, wrong), repairable)
        for path, value, schema in _places(call.arguments, call.schema)
        for wrong, repairable in _mistyped(value, schema)
    ]
    for at, (arguments, repairable) in enumerate(rng.sample(hurts, min(6, len(hurts)))):
        if at % 3:
            yield Hurt(form="arguments", text=dump(arguments, PLAIN), repairable=repairable)
        else:
            text = carried(dump({"name": call.name, "arguments": arguments}, PLAIN), rng)
            yield Hurt(form="text", text=text, repairable=repairable)


def null_for_absent(call: Call, rng: random.Random) -> Iterator[Hurt]:
    absent = [key for key in call.schema["properties"] if key not in call.arguments]
    if absent:
        text = dump({**call.arguments, **dict.fromkeys(absent, None)}, PLAIN)
        yield Hurt(form="arguments", text=text)


def null_for_required(call: Call, rng: random.Random) -> Iterator[Hurt]:
    typed = [key for key in call.schema["required"] if "type" in call.schema["properties"][key]]
    if typed:
        key = rng.choice(typed)
        yield Hurt(form="arguments", text=dump({**call.arguments, key: None}, PLAIN), repairable=False)


def edits(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that make one of the other."""
    rows = [list(range(len(other) + 1))]
    for at, char in enumerate(one, 1):
        row = [at]
        for to, wanted in enumerate(other, 1):
            cost = min(rows[-1][to] + 1, row[-1] + 1, rows[-1][to - 1] + (char != wanted))
            if at > 1 and to > 1 and char == other[to - 2] and one[at - 2] == wanted:
                cost = min(cost, rows[-2][to - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def _slips(name: str, rng: random.Random) -> Iterator[str]:
    at = rng.randrange(1, len(name) - 1) if len(name) > 2 else 0
    yield name[:at] + name[at + 1 :]
    yield name[:at] + name[at] + name[at:]
    if name[at : at + 1] != name[at + 1 : at + 2]:
        yield name[:at] + name[at + 1 : at + 2] + name[at : at + 1] + name[at + 2 :]
    yield name + "s"


def _respelt(name: str) -> Iterator[str]:
    """The same name by other habits; nothing in it is in doubt."""
    words = [word for word in name.split("_") if word]
    yield words[0] + "".join(word.capitalize() for word in words[1:])
    yield name.upper()
    yield name.replace("_", "-")
    yield "_".join(word.capitalize() for word in words)


def _clear(slip: str, meant: str, others: list[str]) -> bool:
    """Whether only `meant` can be meant. Short names leave too little to tell by."""
    distance = edits(slip, meant)
    return len(meant) >= 4 and 0 < distance <= 2 and all(edits(slip, other) >= distance + 2 for other in others)


def misspelt_tools(call: Call, rng: random.Random) -> Iterator[Hurt]:
    offered = tuple(rng.sample([each for each in CALLS if each.name != call.name], 4))
    others = [each.name for each in offered]
    sure = [*_respelt(call.name), f"functions.{call.name}", f" {call.name} "]
    if "__" in call.name:
        sure.append(call.name.replace("__", "."))
    slips = [slip for slip in _slips(call.name, rng) if _clear(slip, call.name, others)]
    for called in sorted({rng.choice([name for name in sure if name != call.name]), *slips[:1]}):
        if rng.random() < 0.5:
            yield Hurt(form="arguments", text=dump(call.arguments, PLAIN), called=called, also_offered=offered)
        else:
            text = dump({"name": called, "arguments": call.arguments}, PLAIN)
            yield Hurt(form="text", text=f"<tool_call>\n{text}\n</tool_call>", also_offered=offered)


def invented_tools(call: Call, rng: random.Random) -> Iterator[Hurt]:
    offered = tuple(rng.sample([each for each in CALLS if each.name != call.name], 4))
    names = ("delete_everything", "ask_oracle", "finish", "web_browse_2", "multi_tool_use")
    far = [name for name in names if all(edits(name, each.name) > 5 for each in (call, *offered))]
    text = dump(call.arguments, PLAIN)
    yield Hurt(form="arguments", text=text, called=rng.choice(far), repairable=False, also_offered=offered)


def doubtful_tools(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """A slip as near to one tool as to another."""
    if rng.random() < 0.7:
        return
    meant, other, slip = rng.choice(NEAR_PAIRS)
    offered = (call, Call(name=other, arguments=meant.arguments, schema=meant.schema))
    text = dump(meant.arguments, PLAIN)
    yield Hurt(form="arguments", text=text, called=slip, repairable=False, truth=(meant,), also_offered=offered)


def misspelt_arguments(call: Call, rng: random.Random) -> Iterator[Hurt]:
    closed = call.schema.get("additionalProperties") is False
    keys = [key for key in call.arguments if closed or key in call.schema["required"]]
    for key in rng.sample(keys, min(2, len(keys))):
        free = [name for name in call.schema["properties"] if name not in call.arguments]
        slips = [each for each in _slips(key, rng) if _clear(each, key, free)]
        slips += [each for each in _respelt(key) if each != key]
        for slip in rng.sample(slips, min(1, len(slips))):
            arguments = {slip if name == key else name: value for name, value in call.arguments.items()}
            if slip not in call.schema["properties"]:
                yield Hurt(form="arguments", text=dump(arguments, PLAIN))
    for key in call.schema["required"][:1]:
        arguments = {"zzz_unknown" if name == key else name: value for name, value in call.arguments.items()}
        yield Hurt(form="arguments", text=dump(arguments, PLAIN), repairable=False)


def doubtful_arguments(call: Call, rng: random.Random) -> Iterator[Hurt]:
    """A misspelt argument that may be either of two."""
    if rng.random() < 0.7:
        return
    meant, other, slip = rng.choice((("date", "data", "dat"), ("row_a", "row_b", "row"), ("host", "post", "ost")))
    schema = shape("label", **{"label": STR, meant: STR, other: STR})
    truth = Call(name="doubtful", arguments={"label": call.name, meant: "x"}, schema=schema)
    text = dump({"label": call.name, slip: "x"}, PLAIN)
    yield Hurt(form="arguments", text=text, called=truth.name, truth=(truth,), repairable=False)
