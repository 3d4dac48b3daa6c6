"""Tools and requests written by hand, read from `requests/*.jsonl`, and how one of them becomes many.

An argument is written `type@slot words`: `num@rate Yearly rate as a decimal`. A request names slots in braces; what it
means without naming follows ` ::`, as `argument=value;argument=value`. A language other than English stands in front.
A line that is `of` a tool adds requests to it.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aish.types.tools import ToolSpec
from train.invented import company, german_person, german_place, person, place, title
from train.render import tool
from train.slots import SLOTS

REQUESTS = Path(__file__).parent / "requests"
_ARGUMENT = re.compile(r"(enum\(([^)]*)\)|\w+)(?:@(\w+))?\s*(.*)")
_SLOT = re.compile(r"\{(\w+)\}")
_LANGUAGE = re.compile(r"(de|zh|es|fr): ")
_TYPES = {"num": "number", "int": "integer", "str": "string", "bool": "boolean", "obj": "object"}
_LISTS = {"nums": "number", "ints": "integer", "strs": "string", "list_of_obj": "object"}
_MAX_DRAWS = 40
_KEPT = 0.35  # of the names that a request holds, this share stays as written


@dataclass(frozen=True)
class Argument:
    name: str
    schema: dict[str, Any]
    slot: str
    required: bool


@dataclass(frozen=True)
class Written:
    """A tool with the requests for it, and those it cannot serve."""

    name: str
    about: str
    domain: str
    arguments: tuple[Argument, ...]
    asks: tuple[str, ...]
    refused: tuple[str, ...] = ()

    @property
    def spec(self) -> ToolSpec:
        properties = {argument.name: argument.schema for argument in self.arguments}
        required = [argument.name for argument in self.arguments if argument.required]
        return tool(self.name, self.about, {"type": "object", "properties": properties, "required": required})


@dataclass
class Asked:
    """A request with its slots filled: text around them, and what they say."""

    texts: list[str]
    said: list[str]
    arguments: dict[str, Any] = field(default_factory=dict)
    language: str = "en"

    @property
    def text(self) -> str:
        filled = [text + said for text, said in zip(self.texts, [*self.said, ""], strict=True)]
        return "".join(filled)


def read_tools(folder: Path = REQUESTS) -> list[Written]:
    tools: dict[str, Written] = {}
    added: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "name" in row:
                tools[row["name"]] = _tool(row, path.stem)
            elif "of" in row:
                added.append(row)
    for row in added:
        known = tools[row["of"]]
        asks, refused = (*known.asks, *row.get("asks", ())), (*known.refused, *row.get("refused", ()))
        tools[row["of"]] = replace(known, asks=asks, refused=refused)
    return list(tools.values())


def read_small_talk(folder: Path = REQUESTS) -> list[tuple[str, str, str]]:
    """Language, what is said, and what to answer."""
    rows = [json.loads(line) for line in (folder / "small_talk.jsonl").read_text().splitlines()]
    return [(*language_of(row["ask"]), row["answer"]) for row in rows]


def language_of(ask: str) -> tuple[str, str]:
    found = _LANGUAGE.match(ask)
    return (found[1], ask[found.end() :]) if found else ("en", ask)


def asked(written: Written, ask: str, rng: random.Random) -> Asked:
    language, text = language_of(ask)
    body, _, fixed = text.partition(" ::")
    pieces = _SLOT.split(body)
    result = Asked(texts=pieces[::2], said=[], language=language)
    for name in pieces[1::2]:
        said, value = _drawn(_argument(written, name), result, rng)
        result.said.append(said)
        result.arguments[name] = value
    for pair in filter(None, fixed.split(";")):
        name, _, value = pair.partition("=")
        result.arguments[name] = _fixed(_argument(written, name), value)
    _rename(written, result, rng)
    return result


def _rename(written: Written, asked: Asked, rng: random.Random) -> None:
    """A name that stands in the request as it is wanted may as well be another one."""
    for argument in written.arguments:
        value = asked.arguments.get(argument.name)
        if argument.slot or "enum" in argument.schema or not isinstance(value, str) or not value[:1].isupper():
            continue
        places = [index for index, text in enumerate(asked.texts) if re.search(rf"\b{re.escape(value)}\b", text)]
        if len(places) != 1 or len(value) < 3 or value.isupper() or rng.random() < _KEPT or asked.language == "zh":
            continue
        other = rng.choice((title, person, place, company) if asked.language == "en" else (german_person, german_place))
        asked.arguments[argument.name] = said = other(rng)
        before, _, after = asked.texts[places[0]].partition(value)
        asked.texts[places[0]] = before + said + after


def renamed(written: Written, names: dict[str, str]) -> Written:
    arguments = tuple(replace(argument, name=names.get(argument.name, argument.name)) for argument in written.arguments)
    return replace(written, arguments=arguments)


def _tool(row: dict[str, Any], domain: str) -> Written:
    arguments = tuple(_parsed(name, words) for name, words in row["args"].items())
    return Written(row["name"], row["about"], domain, arguments, tuple(row["asks"]), tuple(row.get("refused", ())))


def _parsed(name: str, words: str) -> Argument:
    found = _ARGUMENT.fullmatch(words)
    if found is None:
        raise ValueError(f"argument {name}: {words!r} is not `type@slot words`")
    kind, choices, slot, description = found.groups()
    schema = _schema(kind, choices, slot or "")
    if description:
        schema["description"] = description
    return Argument(name.rstrip("?"), schema, slot or "", not name.endswith("?"))


def _schema(kind: str, choices: str | None, slot: str) -> dict[str, Any]:
    if choices is not None:
        return {"type": "string", "enum": choices.split("/")}
    if slot == "point":
        return {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
            "required": ["lat", "lon"],
        }
    if kind in _LISTS:
        return {"type": "array", "items": {"type": _LISTS[kind]}}
    return (
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
        if kind == "any"
        else {"type": _TYPES[kind]}
    )


def _argument(written: Written, name: str) -> Argument:
    for argument in written.arguments:
        if argument.name == name:
            return argument
    raise ValueError(f"{written.name} has no argument {name}")


def _drawn(argument: Argument, so_far: Asked, rng: random.Random) -> tuple[str, Any]:
    """One that fits the type, and is not what another argument says."""
    if "enum" in argument.schema:
        value = rng.choice(argument.schema["enum"])
        return value.replace("_", " "), value
    draw = SLOTS.get(f"{so_far.language} {argument.slot}") or SLOTS[argument.slot]
    for _ in range(_MAX_DRAWS):
        said, value = draw(rng)
        if argument.schema["type"] == "integer" and not isinstance(value, int):
            continue
        if value in so_far.arguments.values() and not isinstance(value, int):
            continue
        is_own = so_far.language == "en" or f"{so_far.language} {argument.slot}" in SLOTS
        return (said if is_own else _plain(said, value, argument.slot)), value
    raise ValueError(f"slot {argument.slot} has nothing for {argument.name}")


def _plain(said: str, value: Any, slot: str) -> str:
    """Number words and written dates are English; elsewhere they are digits."""
    if slot in ("date", "time"):
        return str(value)
    if isinstance(value, int) and not any(char.isdigit() for char in said):
        return str(value)
    return said.replace(" percent", " %")


def _fixed(argument: Argument, value: str) -> Any:
    return value if argument.schema["type"] == "string" else json.loads(value)
