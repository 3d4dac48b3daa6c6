"""The same thing said and written in other ways: how people type, and how authors of tools name things."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

from train.frames import Argument, Asked, Written, renamed

_FIRST = (
    "hey, ",
    "hi! ",
    "please ",
    "Could you help me: ",
    "ok so ",
    "quick one: ",
    "Hello, ",
    "uh ",
    "Sorry to bother you, ",
    "yo ",
    "I was wondering, ",
    "next: ",
    "Alright, ",
    "Hi there. ",
)
_LAST = (
    " please",
    " thanks",
    " asap",
    ", thank you!",
    " pls",
    ", would you?",
    " - need it for work",
    " now",
    ". Thanks in advance.",
    " if you can",
)
_BEFORE = (
    "I'm in a hurry.",
    "My boss asked me for this.",
    "It's for a school project.",
    "I have a question.",
    "We were talking about this at dinner.",
    "I'm not good with computers.",
    "Let's get this done.",
    "I always forget these things.",
    "I'm helping my sister with her homework.",
    "Long day today...",
)
_SYNONYMS = {
    "city": ("location", "place", "town"),
    "location": ("city", "place", "area"),
    "date": ("day", "on_date"),
    "amount": ("value", "quantity"),
    "query": ("search_term", "keyword", "q"),
    "path": ("file_path", "filename", "file"),
    "text": ("content", "input_text", "message"),
    "start_date": ("from_date", "begin_date"),
    "end_date": ("to_date", "until"),
    "limit": ("max_results", "count", "num_results"),
    "country": ("country_name", "nation"),
    "start": ("begin", "start_point"),
    "end": ("finish", "end_point"),
    "title": ("name", "heading"),
    "years": ("time", "num_years", "duration_years"),
    "annual_rate": ("interest_rate", "rate"),
    "principal": ("initial_amount", "investment"),
    "number": ("n", "num"),
    "numbers": ("values", "list_of_numbers", "data"),
    "origin": ("from_city", "source", "departure"),
    "minutes": ("duration", "duration_minutes"),
    "destination": ("to_city", "target", "arrival"),
    "weight": ("mass", "body_weight"),
    "people": ("guests", "party_size"),
    "unit": ("units", "measure"),
    "name": ("full_name", "person"),
    "topic": ("subject", "theme"),
    "team": ("team_name",),
    "player": ("player_name", "athlete"),
    "species": ("animal",),
    "symbol": ("ticker", "stock"),
    "room": ("area", "zone"),
}
_EXTRA: tuple[tuple[str, dict[str, Any]], ...] = (
    ("language", {"type": "string", "description": "Language of the answer, default 'en'."}),
    ("format", {"type": "string", "enum": ["json", "text", "csv"]}),
    ("verbose", {"type": "boolean", "description": "Say more. Default is false."}),
    ("include_details", {"type": "boolean"}),
    ("precision", {"type": "integer", "description": "Decimal places of the result (default 2)."}),
    ("page", {"type": "integer", "description": "Page of the results."}),
    ("units", {"type": "string", "enum": ["metric", "imperial"], "description": "Default is metric."}),
    ("sort_by", {"type": "string", "enum": ["date", "relevance", "name"]}),
    ("max_results", {"type": "integer", "description": "Optional. Defaults to 10."}),
    ("region", {"type": "string", "description": "Restrict to this region."}),
    ("user_id", {"type": "string"}),
    ("timeout", {"type": "number", "description": "Seconds to wait."}),
    ("unit", {"type": "string", "description": "Unit of the result (default is 'units')."}),
    ("currency", {"type": "string", "description": "Currency code. Default 'USD'."}),
    ("state", {"type": "string", "description": "State or province, if any."}),
    ("year", {"type": "integer", "description": "Year, defaults to the current one."}),
    ("method", {"type": "string", "enum": ["fast", "exact"], "description": "How it is computed. Default is fast."}),
    ("detailed", {"type": "boolean", "description": "If true, more is returned. Default is false."}),
    ("category", {"type": "string", "description": "Category to look in (optional)."}),
    ("filters", {"type": "array", "items": {"type": "string"}, "description": "Filters to apply."}),
)
_VERBS = ("get_", "find_", "compute_", "fetch_", "do_", "run_")
_FIXED_NAMES = ("runtime__", "shell__", "ide__")


def spoken(asked: Asked, rng: random.Random) -> str:
    """Only the words around the slots change: what an argument is to be stays as it was said."""
    if asked.language != "en":
        return asked.text
    chance = rng.random()
    if chance < 0.12:
        asked.texts = [text.lower() for text in asked.texts]
    elif chance < 0.5:
        asked.texts = [asked.texts[0][:1].upper() + asked.texts[0][1:], *asked.texts[1:]]
    if rng.random() < 0.08:
        asked.texts = [_mistyped(text, rng) for text in asked.texts]
    if rng.random() < 0.15:
        asked.texts[-1] = asked.texts[-1].rstrip("?.!")
    if rng.random() < 0.1 and len(asked.texts[-1]) > 2:  # after a slot it might be taken for a part of the value
        asked.texts[-1] = asked.texts[-1].rstrip("?.!") + rng.choice(_LAST)
    if rng.random() < 0.14:
        return rng.choice(_FIRST) + asked.text
    if rng.random() < 0.08:
        return f"{rng.choice(_BEFORE)} {asked.text}"
    return asked.text


def authored(written: Written, rng: random.Random) -> tuple[Written, dict[str, str]]:
    """The tool as another author would have written it, and the new names of its arguments."""
    if written.name.startswith(_FIXED_NAMES):
        return written, {}
    taken = {argument.name for argument in written.arguments}
    names: dict[str, str] = {}
    for argument in written.arguments:
        if rng.random() < 0.35 and (others := [n for n in _SYNONYMS.get(argument.name, ()) if n not in taken]):
            names[argument.name] = rng.choice(others)
            taken.add(names[argument.name])
    is_camel = rng.random() < 0.12
    if is_camel:
        names |= {a.name: camel(names.get(a.name, a.name)) for a in written.arguments}
    result = renamed(written, names)
    arguments = tuple(_described(argument, rng) for argument in result.arguments)
    if rng.random() < 0.15:
        arguments = tuple(
            replace(
                a,
                schema={
                    k: v
                    for k, v in a.schema.items()
                    if k != "description" or "-" in v or "decimal" in v or "raction" in v or "HH" in v or "ISO" in v
                },
            )
            for a in arguments
        )
    if rng.random() < 0.4:
        arguments = (*arguments, *_extra(taken, rng))
    return replace(result, name=_named(written, rng, is_camel=is_camel), arguments=arguments), names


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _named(written: Written, rng: random.Random, *, is_camel: bool) -> str:
    chance = rng.random()
    name = written.name
    if chance < 0.25 and name.count("_") < 3:
        name = rng.choice(_VERBS) + name
    elif chance < 0.35:
        name = f"{written.domain}__{name}"
    elif chance < 0.42:
        name = f"{written.domain}_{name}"
    elif chance < 0.5:
        name = "_".join(reversed(name.split("_")))
    return camel(name) if is_camel and "__" not in name else name


def _described(argument: Argument, rng: random.Random) -> Argument:
    if "description" in argument.schema or rng.random() < 0.5:
        return argument
    words = argument.name.replace("_", " ")
    said = rng.choice(
        (f"The {words}.", f"{words.capitalize()} to use.", f"The {words} of the request.", words.capitalize())
    )
    return replace(argument, schema={**argument.schema, "description": said})


def _extra(taken: set[str], rng: random.Random) -> list[Argument]:
    chosen = rng.sample(_EXTRA, rng.randint(1, 2))
    return [Argument(name, schema, "", required=False) for name, schema in chosen if name not in taken]


def _mistyped(text: str, rng: random.Random) -> str:
    words = list(re.finditer(r"[a-z]{5,}", text))
    if not words:
        return text
    word = rng.choice(words)
    at = rng.randrange(word.start() + 1, word.end() - 1)
    swapped = text[at + 1] + text[at] if rng.random() < 0.6 else text[at + 1]
    return text[:at] + swapped + text[at + 2 :]
