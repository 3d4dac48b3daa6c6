"""Tools and requests made from open data: Seal-Tools (Apache-2.0) and tldr-pages (CC BY 4.0).

Read from a folder outside of the repository; nothing of it is kept here. Seal-Tools has requests of its own; for
most of its tools there is none, so one is put together from the tool's description and the examples
that its arguments name.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aish.types.tools import ToolSpec
from train.invented import coined, message, person, single, thing, title
from train.render import tool
from train.slots import SLOTS

Pair = tuple[ToolSpec, str, dict[str, Any]]

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
EXAMPLES = re.compile(r"\((?:e\.g\.?|for example|such as)[,:]?\s*([^)]*)\)", re.I)
NAME_SLOTS = {
    "city": "city",
    "location": "city",
    "destination": "city",
    "country": "country",
    "date": "date",
    "time": "time",
    "email": "email",
    "name": "name",
    "language": "lang",
    "url": "url",
    "id": "code",
    "code": "code",
    "topic": "topic",
    "year": "year",
    "text": "text",
    "message": "text",
    "file": "path",
    "path": "path",
    "phone": "phone",
    "animal": "animal",
    "color": "color",
    "sport": "sport",
}
_PLACE = re.compile(r"\{\{([^{}]+)\}\}")
_MAX_PLACES = 3


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / name
    if not path.exists():
        raise SystemExit(f"{path} is not there; say where the data is with --source")
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def seal_tools(folder: Path) -> dict[str, ToolSpec]:
    rows = read(folder, "tool_schemas.jsonl.gz")
    return {row["api_name"]: spec for row in rows if (spec := _spec(row)) is not None}


def seal_fields(folder: Path) -> dict[str, str]:
    """Of each tool's name, the field that it is of."""
    return {_name(row): row["field"].partition("/")[0] for row in read(folder, "tool_schemas.jsonl.gz")}


def seal_requests(folder: Path, tools: dict[str, ToolSpec]) -> Iterator[Pair]:
    """The first call of each, where its every value is said in the request."""
    for row in read(folder, "requests.jsonl.gz"):
        if row["calling"][0]["api"] not in tools:
            continue
        spec, given = tools[row["calling"][0]["api"]], row["calling"][0]["parameters"]
        properties, required = spec.schema["properties"], spec.schema["required"]
        if set(required) - given.keys() or given.keys() - properties.keys():
            continue
        if all(_fits(properties[k], v) and str(v).lower() in row["query"].lower() for k, v in given.items()):
            yield spec, row["query"], given


def made_request(spec: ToolSpec, rng: random.Random) -> tuple[str, dict[str, Any]] | None:
    """A request for any tool, from its own words."""
    required = spec.schema["required"]
    chosen = [n for n in spec.schema["properties"] if n in required or rng.random() < 0.45]
    if not chosen or len(chosen) > 5:
        return None
    said: dict[str, str] = {}
    given: dict[str, Any] = {}
    for name in chosen:
        drawn = _value(name, spec.schema["properties"][name], rng)
        if drawn is None:
            return None
        said[name], given[name] = drawn
    return _sentence(spec, said, rng), given


def tldr_requests(folder: Path, rng: random.Random) -> Iterator[Pair]:
    """A tool of each command line: its placeholders are the arguments, its task the request."""
    for row in read(folder, "command_examples.jsonl.gz"):
        places = list(dict.fromkeys(_PLACE.findall(row["command"])))
        names = {
            place: re.sub(r"\W+", "_", place.split("|")[0]).strip("_").lower().removeprefix("path_to_")
            for place in places
        }
        if (
            not 1 <= len(places) <= _MAX_PLACES
            or len(set(names.values())) < len(places)
            or not all(re.fullmatch(r"[a-z]\w{1,20}", name) for name in names.values())
        ):
            continue
        task = row["task"].split("(")[0].strip().rstrip(".:")
        verb = re.sub(r"\W+", "_", " ".join(task.lower().split()[:2])).strip("_")
        program = re.sub(r"\W+", "_", row["program"])
        said = {name: _shell_value(name, rng) for name in names.values()}
        schema = {"type": "object", "properties": {n: {"type": "string"} for n in said}, "required": list(said)}
        spec = tool(f"{program}_{verb}"[:60], f"{task}. {row['about']}"[:200], schema)
        yield spec, _sentence(spec, said, rng, about=task), dict(said)


def _shell_value(name: str, rng: random.Random) -> str:
    for key, slot in (
        ("path", "path"),
        ("file", "path"),
        ("dir", "folder"),
        ("url", "url"),
        ("host", "host"),
        ("user", "name"),
        ("branch", "branch"),
        ("repo", "repo"),
        ("email", "email"),
    ):
        if key in name:
            return str(SLOTS[slot](rng)[1])
    slot = rng.choice(("tag", "code", "word", "repo", "symbol"))
    return str(SLOTS[slot](rng)[1])


def _sentence(spec: ToolSpec, said: dict[str, str], rng: random.Random, about: str = "") -> str:
    about = (about or spec.description).strip().rstrip(".")
    about = about[:1].lower() + about[1:]
    upper = about[:1].upper() + about[1:]
    parts = [_part(_words(name), value, rng) for name, value in said.items()]
    rng.shuffle(parts)
    joined = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    values = ", ".join(said.values())
    ways = (
        f"{about} with {joined}",
        f"I'd like to {about}, {joined}.",
        f"{upper}: {joined}",
        f"can you {about}? {joined}",
        f"Please {about} for {joined}.",
        f"{about}, {joined}",
        f"help me {about} ({joined})",
        f"{about} for {values}" if len(said) == 1 else f"{about} using {joined}",
        f"For {joined}, {about}.",
        f"{joined}. {upper}, please.",
        f"I need to {about}: {joined}.",
        f"Could you {about}, with {joined}?",
        f"What do you get if you {about} with {joined}?",
        f"{values}: {about}" if len(said) == 1 else f"{upper} given {joined}.",
        f"My {joined}. Please {about}.",
        f"{upper} where {joined}.",
        f"we want to {about}; {joined}",
    )
    return rng.choice(ways)


def _part(words: str, value: str, rng: random.Random) -> str:
    ways = (
        f"{words} {value}",
        f"{words} {value}",
        f"{words} {value}",
        f"the {words} {value}",
        f"{words} of {value}",
        f"{value} as the {words}",
        f"{words} is {value}",
        f"{value} for {words}",
        f"{words} = {value}",
        f"{words} '{value}'",
        f'{words} "{value}"',
        f"{words}: {value}",
    )
    return rng.choice(ways)


def restyled(spec: ToolSpec, given: dict[str, Any], rng: random.Random) -> tuple[ToolSpec, dict[str, Any]]:
    """The same tool in the hand of another author: names in another style, some descriptions left out."""
    name, names = spec.name, {key: key for key in spec.schema["properties"]}
    if rng.random() < 0.5:
        name = re.sub(r"\W+", "_", _words(name))
        if rng.random() < 0.4:
            name = name.removeprefix("get_")
    if rng.random() < 0.25:
        names = {key: key.split("_")[0] + "".join(map(str.capitalize, key.split("_")[1:])) for key in names}
    keeps = rng.random()
    properties = {
        names[key]: {k: v for k, v in inner.items() if k != "description" or rng.random() > keeps / 2}
        for key, inner in spec.schema["properties"].items()
    }
    if len(properties) < len(names):
        return spec, given
    required = [names[key] for key in spec.schema["required"]]
    schema = {"type": "object", "properties": properties, "required": required}
    return tool(name, spec.description, schema), {names[key]: value for key, value in given.items()}


def _words(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").lower()


def _spec(row: dict[str, Any]) -> ToolSpec | None:
    properties: dict[str, Any] = {}
    for name, said in row["parameters"].items():
        kind = _TYPES.get(str(said.get("type")))
        if kind is None:
            return None
        properties[name] = {"type": kind, "description": str(said.get("description", ""))}
    required = [name for name in row.get("required") or [] if name in properties]
    return tool(
        _name(row),
        row["api_description"],
        {"type": "object", "properties": properties, "required": required},
    )


def _name(row: dict[str, Any]) -> str:
    return re.sub(r"\W", "_", row["api_name"])[:60]


def _fits(schema: dict[str, Any], value: Any) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
    }
    return isinstance(value, kinds[schema["type"]]) and (schema["type"] == "boolean") == isinstance(value, bool)


def _value(name: str, schema: dict[str, Any], rng: random.Random) -> tuple[str, Any] | None:
    said = schema["description"]
    if schema["type"] == "boolean":
        wanted = rng.random() < 0.5
        return ("yes" if wanted else "no"), wanted
    if schema["type"] == "integer":
        return SLOTS[rng.choice(("n", "int", "small"))](rng)
    if schema["type"] == "number":
        return SLOTS["num"](rng)
    if "YYYY" in said:
        drawn = SLOTS["date"](rng)
        return drawn if re.search(r"YYYY-MM-DD\b(?!.?T)", said) else None
    if found := EXAMPLES.search(said):
        examples = [part.strip(" '\"") for part in re.split(r",|\bor\b", found[1]) if part.strip(" '\".")]
        examples = [
            example for example in examples if 1 < len(example) < 40 and "etc" not in example and "HH" not in example
        ]
        if examples and rng.random() < 0.7:
            return (chosen := rng.choice(examples)), chosen
    for key, slot in NAME_SLOTS.items():
        if key in _words(name).split():
            return SLOTS[slot](rng)
    if re.search(r"format|url|json|code|HH|list of|array", said, re.I):
        return None
    return (value := rng.choice((thing, thing, title, person, message, single, coined))(rng)), value
