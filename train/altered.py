"""An open tool as other authors might have made it, and a request for it: so that a model reads schemas, not names.

Arguments become choices, lists or options with a default; switches and limits are added; names and descriptions are put
in other words or left out. What the request names is in the call, what it does not name is left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any

from aish.types.tools import ToolSpec
from train.invented import coined, company, person, place, single, thing
from train.natural import reworded, sentence, spaced
from train.open_data import EXAMPLES, NAME_SLOTS, Pair
from train.render import tool
from train.slots import SLOTS

Schemas = dict[str, dict[str, Any]]

_NOUNS = (
    "history", "prices", "reviews", "images", "sources", "taxes", "ingredients", "side effects", "footnotes",
    "statistics", "ratings", "contact details", "charts", "forecasts", "comments", "weekends", "discounts", "fees",
    "archived entries", "related items", "opening hours", "breakfast", "shipping", "a summary", "duplicates",
    "holidays", "subtitles", "references", "drafts", "past seasons", "nutrition facts", "a map", "insurance",
)  # fmt: skip
_WITH = ("including {0}", "with {0} included", "and include {0}", "also show {0}", "with {0}", "and {0} too")
_WITHOUT = ("without {0}", "leaving out {0}", "excluding {0}", "and no {0}", "but not {0}")
_SWITCHED = ("Whether to include {0}.", "If true, {0} are included. Default is false.", "Include {0} or not.", "")
_COUNTS = (
    ("limit", "Most results to return. Default is 10.", ("up to {0} results", "at most {0}", "limited to {0} results")),
    ("num_results", "Number of results.", ("{0} results please", "the first {0}", "only {0} results")),
    ("days", "Number of days. Defaults to 7.", ("for {0} days", "over the next {0} days", "for the last {0} days")),
    ("radius_km", "Search radius in kilometers.", ("within {0} km", "within {0} kilometers", "in a radius of {0} km")),
    ("decimals", "Decimal places of the result.", ("rounded to {0} decimal places", "with {0} decimals")),
    ("min_rating", "Lowest rating.", ("rated at least {0}", "with a rating of {0} or more", "{0} stars and up")),
    ("quantity", "How many. Default is 1.", ("{0} of them", "{0} pieces", "quantity {0}")),
)
_CHOICES = (
    ("unit_system", ["metric", "imperial"], ("in {0} units", "{0} units please", "using the {0} system")),
    ("sort_order", ["ascending", "descending"], ("in {0} order", "sorted {0}")),
    ("sort_by", ["price", "date", "rating", "name", "distance"], ("sorted by {0}", "ordered by {0}", "by {0}")),
    ("output_format", ["json", "csv", "pdf", "text"], ("as {0}", "in {0} format", "output as {0}")),
    ("frequency", ["daily", "weekly", "monthly", "yearly"], ("on a {0} basis", "{0}", "with {0} figures")),
    ("priority", ["low", "normal", "high", "urgent"], ("with {0} priority", "priority {0}", "as {0} priority")),
    ("gender", ["male", "female"], ("for a {0} person", "{0}", "gender {0}")),
    ("season", ["spring", "summer", "autumn", "winter"], ("in {0}", "for {0}", "during the {0}")),
    ("size", ["small", "medium", "large"], ("in size {0}", "size {0}", "a {0} one")),
    ("difficulty", ["easy", "intermediate", "hard"], ("at {0} difficulty", "difficulty {0}", "something {0}")),
)
_NAMES = {
    "location": ("place", "city", "area"), "country": ("nation", "country_name"), "year": ("in_year", "calendar_year"),
    "time_period": ("period", "timeframe"), "language": ("lang", "output_language"), "age": ("age_years", "years_old"),
    "name": ("full_name", "label"), "start_date": ("from_date", "begin"), "end_date": ("to_date", "until"),
    "duration": ("length", "time_span"), "text": ("content", "input"), "title": ("heading", "name"),
    "date": ("day", "on_date"), "region": ("area", "zone"), "unit": ("units", "measure"), "topic": ("subject", "theme"),
    "user_id": ("user", "account_id"), "temperature": ("temp", "degrees"), "species": ("organism", "animal"),
    "budget": ("max_cost", "spending_limit"), "type": ("kind", "variant"), "weight": ("mass", "weight_kg"),
    "amount": ("sum", "value"), "genre": ("category", "style"), "author": ("writer", "by"), "message": ("body", "text"),
    "product_name": ("product", "item"), "distance": ("length", "range"), "destination": ("to", "target"),
}  # fmt: skip
_VERBS = ("get", "fetch", "find", "lookup", "retrieve", "query", "calculate", "compute", "search")
_ABOUT_VERBS = {
    "Retrieve": ("Get", "Find", "Fetch", "Returns", "Look up", "Provides", "Gives"),
    "Calculate": ("Compute", "Works out", "Determine", "Find"), "Get": ("Retrieve", "Fetch"),
    "Check": ("Verify", "Find out"), "Create": ("Make", "Set up", "Add"), "Analyze": ("Examine", "Evaluate"),
}  # fmt: skip
_MAX_SAID = 5


def altered_request(spec: ToolSpec, rng: random.Random, about: str = "") -> Pair | None:
    """The tool changed, a request for it, and the call that is right; None where no value is to be had. `about`: what
    is asked for instead of what the tool does."""
    schemas, required = _altered(spec, rng)
    said: dict[str, str] = {}
    given: dict[str, Any] = {}
    chosen = [name for name in schemas if name in required or rng.random() < 0.45]
    if not chosen or len(chosen) > _MAX_SAID:
        return None
    for name in chosen:
        drawn = _drawn(name, schemas[name], rng)
        if drawn is None or drawn[1] in given.values():
            return None
        said[name], given[name] = drawn
    text = sentence(about or spec.description, said, schemas, rng)
    if option := _extra(schemas, rng):
        tail, name, value = option
        text, given[name] = _with_tail(text, tail, rng), value
    return _published(spec, schemas, required, given, rng, text)


def displayed(spec: ToolSpec, rng: random.Random) -> ToolSpec:
    """The tool changed in the same ways, where nobody asks for it."""
    schemas, required = _altered(spec, rng)
    _extra(schemas, rng)
    return _published(spec, schemas, required, {}, rng, "")[0]


def _published(
    spec: ToolSpec, schemas: Schemas, required: list[str], given: dict[str, Any], rng: random.Random, text: str
) -> Pair:
    """With names and descriptions as they are to be shown."""
    names = _renamed(list(schemas), rng)
    keeps = rng.random()
    shown: dict[str, Any] = {}
    for name, schema in schemas.items():
        inner = {key: value for key, value in schema.items() if not key.startswith("_")}
        if inner.get("description") and rng.random() < keeps * 0.4:
            del inner["description"]
        elif "description" in inner and "_said" not in schema and rng.random() < 0.5:
            inner["description"] = EXAMPLES.sub("", inner["description"]).strip()
        shown[names[name]] = inner
    order = list(shown)
    if rng.random() < 0.3:
        rng.shuffle(order)
    schema = {
        "type": "object",
        "properties": {name: shown[name] for name in order},
        "required": [names[name] for name in required],
    }
    version = tool(_tool_name(spec.name, rng), retold(spec.description, rng), schema)
    return version, text, {names[name]: value for name, value in given.items()}


def _altered(spec: ToolSpec, rng: random.Random) -> tuple[Schemas, list[str]]:
    schemas: Schemas = {}
    required = [name for name in spec.schema["required"] if rng.random() > 0.12]
    for name, inner in spec.schema["properties"].items():
        schema = dict(inner)
        examples = _examples(schema.get("description", ""))
        new = name
        if schema["type"] == "string" and 2 <= len(examples) <= 6 and rng.random() < 0.3:
            schema["enum"] = examples
            schema["description"] = EXAMPLES.sub("", schema["description"]).strip()
        elif (
            schema["type"] == "string" and (examples or spaced(name).split()[-1] in NAME_SLOTS) and rng.random() < 0.14
        ):
            new, schema = _listed(name, schema, examples)
        elif schema["type"] in ("integer", "number") and rng.random() < 0.1:
            new, schema = _listed(name, schema, [])
        if new in schemas:
            return dict(spec.schema["properties"]), list(spec.schema["required"])
        if name in required and new != name:
            required[required.index(name)] = new
        if new not in required and schema.get("description") and rng.random() < 0.4:
            schema["description"] += rng.choice((" Optional.", f" Default is {_default(schema, examples, rng)}."))
        schemas[new] = schema
    return schemas, required


def _default(schema: dict[str, Any], examples: list[str], rng: random.Random) -> str:
    if schema["type"] == "string":
        return f"'{rng.choice(examples or ['all', 'any', 'none', 'default'])}'"
    return {"boolean": "false", "array": "empty"}.get(schema["type"], str(rng.choice((0, 1, 5, 10, 100))))


def _listed(name: str, schema: dict[str, Any], examples: list[str]) -> tuple[str, dict[str, Any]]:
    plural = name if name.endswith("s") else f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    said = schema.get("description", "")
    items = {"type": schema["type"]}
    return plural, {
        "type": "array", "items": items, "description": re.sub(r"^(The|A) ", "List of: ", said), "_of": name,
        "_examples": examples,
    }  # fmt: skip


def _extra(schemas: Schemas, rng: random.Random) -> tuple[str, str, Any] | None:
    """An option that the tool did not have: what is said of it, its name and value; None where nothing is."""
    if rng.random() > 0.45:
        return None
    is_named = rng.random() < 0.6
    kind = rng.random()
    if kind < 0.4:
        noun = rng.choice(_NOUNS)
        plain = re.sub(r"^an? ", "", noun).replace(" ", "_")
        name = rng.choice((f"include_{plain}", f"include_{plain}", f"with_{plain}", f"show_{plain}", plain))
        value: Any = rng.random() < 0.65
        said = rng.choice(_WITH if value else _WITHOUT).format(noun)
        schema: dict[str, Any] = {"type": "boolean", "description": rng.choice(_SWITCHED).format(noun)}
    elif kind < 0.65:
        name, about, ways = rng.choice(_COUNTS)
        number, value = SLOTS["small"](rng)
        said, schema = rng.choice(ways).format(number), {"type": "integer", "description": about}
    else:
        name, choices, ways = rng.choice(_CHOICES)
        value = rng.choice(choices)
        said, schema = rng.choice(ways).format(value), {"type": "string", "enum": choices}
        if rng.random() < 0.4:
            schema = {"type": "string", "description": f"One of {', '.join(choices)}. Default is '{choices[0]}'."}
    if name in schemas:
        return None
    schemas[name] = {**schema, "_said": True}
    return (said, name, value) if is_named else None


def _with_tail(text: str, tail: str, rng: random.Random) -> str:
    body, ending = (text[:-1], text[-1]) if text[-1:] in "?." else (text, "")
    chance = rng.random()
    if chance < 0.75 or tail.startswith(("and ", "but ")):
        return f"{body}{rng.choice((', ', ' '))}{tail}{ending}"
    if chance < 0.9:
        return f"{text} {tail[:1].upper() + tail[1:]}, please."
    return f"{body} ({tail}){ending}"


def _drawn(name: str, schema: dict[str, Any], rng: random.Random) -> tuple[str, Any] | None:
    kind = schema["type"]
    if kind == "array":
        return _several(schema, rng)
    if kind == "boolean":
        return _switch(name, rng)
    if "enum" in schema:
        return (value := rng.choice(schema["enum"])), value
    if kind in ("integer", "number"):
        return _amount(name, schema, rng)
    return _text(name, schema.get("description", ""), rng)


def _several(schema: dict[str, Any], rng: random.Random) -> tuple[str, Any] | None:
    count, kind = rng.choice((1, 1, 2, 2, 2, 3, 3, 4, 5)), schema["items"]["type"]
    if kind != "string":
        pairs = [
            SLOTS[rng.choice(("int", "n") if kind == "integer" else ("num", "dec", "int"))](rng) for _ in range(count)
        ]
        said = [str(value) for _, value in pairs]
        text = ", ".join(said)
        return (f"[{text}]" if rng.random() < 0.3 else _and(said, rng)), [value for _, value in pairs]
    examples = schema["_examples"]
    if len(examples) >= 3 and rng.random() < 0.5:
        values = rng.sample(examples, min(count, len(examples)))
    else:
        drawn = [_text(schema["_of"], "", rng) for _ in range(count)]
        values = list(
            dict.fromkeys(str(pair[1]) for pair in drawn if pair and pair[0] == pair[1] and "," not in pair[0])
        )
    return (_and(values, rng), values) if values else None


def _and(said: list[str], rng: random.Random) -> str:
    if len(said) == 1:
        return said[0]
    return f"{', '.join(said[:-1])}{rng.choice((' and ', ' and ', ', and ', ', '))}{said[-1]}"


def _switch(name: str, rng: random.Random) -> tuple[str, Any]:
    value = rng.random() < 0.6
    words = re.sub(r"^(?:include|enable|require|is|has|use|show|allow|with) ", "", spaced(name))
    yes = (f"with {words}", f"including {words}", f"{words} enabled", f"and {words}", f"{words} on")
    no = (f"without {words}", f"excluding {words}", f"{words} disabled", f"no {words}", f"{words} off")
    return rng.choice(yes if value else no), value


def _amount(name: str, schema: dict[str, Any], rng: random.Random) -> tuple[str, Any]:
    words = spaced(name).split()
    if "year" in words:
        return SLOTS["year"](rng)
    if "age" in words:
        return SLOTS["age"](rng)
    if schema["type"] == "integer":
        return SLOTS[rng.choice(("n", "int", "small", "big"))](rng)
    if re.search(r"rate|percent|ratio|share", name) and re.search(r"decimal|0\.\d", schema.get("description", "")):
        return SLOTS["rate"](rng)
    return SLOTS[rng.choice(("num", "dec", "int", "money"))](rng)


def _text(name: str, about: str, rng: random.Random) -> tuple[str, Any] | None:
    if "YYYY" in about:
        return SLOTS["date"](rng) if re.search(r"YYYY-MM-DD\b(?!.?T)", about) else None
    examples = _examples(about) if rng.random() < 0.55 else []
    if examples := examples or (_pool(name) if rng.random() < 0.6 else []):
        return (value := rng.choice(examples)), value
    for word in reversed(spaced(name).split()):
        if word in NAME_SLOTS:
            return SLOTS[NAME_SLOTS[word]](rng)
    if re.search(r"format|url|json|code|HH|list of|array", about, re.I):
        return None
    value = rng.choice((thing, single, single, person, place, company, coined))(rng)
    return value, value


_POOLS: dict[str, list[str]] = {}


def learn_examples(specs: Iterable[ToolSpec]) -> None:
    """What the tools name as examples serves all arguments whose names end alike."""
    for spec in specs:
        for name, schema in spec.schema["properties"].items():
            if schema["type"] == "string" and (examples := _examples(schema.get("description", ""))):
                _POOLS.setdefault(spaced(name).split()[-1], []).extend(examples)


def _pool(name: str) -> list[str]:
    return _POOLS.get(spaced(name).split()[-1], [])


def _examples(about: str) -> list[str]:
    found = EXAMPLES.search(about)
    if not found:
        return []
    parts = [part.strip(" '\".") for part in re.split(r",|\bor\b", found[1])]
    return list(dict.fromkeys(p for p in parts if 1 < len(p) < 30 and not re.search(r"etc|HH|YY|\d{4}-", p)))


def _renamed(names: list[str], rng: random.Random) -> dict[str, str]:
    result = {}
    for name in names:
        others = [*_NAMES.get(name, ()), name.split("_")[-1], f"{name}_value" if rng.random() < 0.1 else name]
        result[name] = rng.choice(others) if rng.random() < 0.35 else name
    if len(set(result.values())) < len(names):
        return {name: name for name in names}
    if rng.random() < 0.15:
        result = {key: re.sub(r"_(\w)", lambda found: found[1].upper(), name) for key, name in result.items()}
    return result


def _tool_name(name: str, rng: random.Random) -> str:
    words = re.sub(r"\W+", "_", spaced(name)).split("_")
    if words[0] in _VERBS[:6] and rng.random() < 0.5:
        words[0] = rng.choice(_VERBS[:6])
    if words[0] in _VERBS and len(words) > 2 and rng.random() < 0.25:
        words = words[1:]
    if rng.random() < 0.2:
        return words[0] + "".join(map(str.capitalize, words[1:]))
    joined = "_".join(words)
    return f"{words[-1]}_{joined}" if rng.random() < 0.08 else joined


def retold(about: str, rng: random.Random) -> str:
    """A tool's description in other words."""
    first, _, rest = about.partition(" ")
    if rng.random() < 0.45 and first in _ABOUT_VERBS:
        about = f"{rng.choice(_ABOUT_VERBS[first])} {rest}"
    if rng.random() < 0.25:
        about = reworded(about, rng)
    return about.rstrip(".") + rng.choice(("", "."))
