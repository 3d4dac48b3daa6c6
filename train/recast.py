"""A whole request's tool as another author would have written it: so that its schema has to be read each time.

Names change their style, descriptions are shortened or left out where the request says the value as it is, options
that nobody names come and go. The call follows the names. What tells the form of a value stays.
"""

from __future__ import annotations

import random
import re
from typing import Any

from aish.types.tools import ToolSpec
from train.altered import retold
from train.render import tool
from train.revalued import Given, is_said

_NAMES = {
    "city": ("city_name", "town", "in_city"), "country": ("country_name", "nation"), "location": ("place", "loc"),
    "query": ("search_term", "q", "keywords"), "text": ("input_text", "content"), "limit": ("max_results", "top_n"),
    "start_date": ("from_date", "begin_date"), "end_date": ("to_date", "until"), "language": ("lang",),
    "temperature": ("temp",), "unit": ("units",), "number": ("num", "n"), "numbers": ("values", "nums"),
    "message": ("body", "msg"), "amount": ("value", "amt"), "distance": ("dist",), "email": ("email_address", "mail"),
    "date": ("on_date", "when"), "height": ("h",), "width": ("w",), "mass": ("m",), "velocity": ("v", "speed"),
    "origin": ("source", "from_place"), "destination": ("dest", "target"), "keyword": ("term", "search_word"),
    "max_price": ("price_limit", "budget"), "people": ("party_size", "num_people"), "topic": ("subject", "theme"),
    "radius": ("r",), "principal": ("initial_amount",), "file": ("file_name", "path"), "title": ("heading",),
}  # fmt: skip
# Options that any tool may have, and what a request must not speak of if the option is to be left out.
_EXTRAS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("verbose", {"type": "boolean", "description": "Say more. Default is false."}, r"verbos|detail|step|explain"),
    ("include_details", {"type": "boolean"}, r"detail|everything|full|complete"),
    ("format", {"type": "string", "enum": ["json", "text", "csv"]}, r"json|text|csv|format|table|list"),
    ("precision", {"type": "integer", "description": "Decimal places of the result (default 2)."}, r"deci|digit|round"),
    ("timeout", {"type": "number", "description": "Seconds to wait."}, r"second|wait|timeout"),
    ("page", {"type": "integer", "description": "Page of the results."}, r"page"),
    ("user_id", {"type": "string", "description": "Id of the user, if known"}, r"\buser|\bid\b|account|my "),
    ("lang", {"type": "string", "description": "Language of the answer. Default 'en'."}, r"(?-i:\bin [A-Z])|[^ -~]"),
    ("max_results", {"type": "integer", "description": "Optional. Defaults to 10."}, r"\d|top|first|result|few|list"),
    ("currency", {"type": "string", "description": "Currency code. Default 'USD'."}, r"[$€£¥]|dollar|euro|price|cost|"
     r"(?-i:\b[A-Z]{3}\b)|pound|yen|rupee|franc|peso|money|pay"),
    ("units", {"type": "string", "enum": ["metric", "imperial"], "description": "Default is metric."}, r"\d|unit|metric"
     r"|imperial|miles|feet|pounds|celsius|fahrenheit"),
    ("sort_by", {"type": "string", "enum": ["date", "relevance", "name"]}, r"sort|order|newest|latest|recent|first"),
    ("dry_run", {"type": "boolean", "description": "Only show what would happen."}, r"dry|pretend|test|only|preview"),
    ("cache", {"type": "boolean", "description": "Whether an older answer will do. Default true"}, r"cache|fresh|now"),
    ("note", {"type": "string", "description": "Free text kept with the request (optional)"}, r"note|comment|because"),
)  # fmt: skip
_VERBS = ("get", "find", "fetch", "lookup", "retrieve", "query")
_SUMS = ("calculate", "compute", "calc", "determine", "work_out")
_DEFAULTS = re.compile(
    r"[ ,;]*\(?\b(?:defaults? (?:is|to|value)?|default:|optional\b|by default)(?:[^.;)]|\.(?=\d))*[.;)]*", re.I
)
_EXAMPLES = re.compile(r"[ ,;]*\(?(?:e\.g\.|for example|such as)[^);]*\)?", re.I)


def recast(spec: ToolSpec, text: str, given: Given, rng: random.Random) -> tuple[ToolSpec, Given]:
    """The tool in another hand, and the call to it. Where nobody asks, `given` is empty."""
    schemas = _kept(spec, given, rng)
    if given:
        _add_options(schemas, text, rng)
    required = [name for name in spec.schema["required"] if name in schemas]
    required = _required(required, given, schemas, rng)
    shown = _described(schemas, text, given, rng)
    names = _renamed(list(shown), rng)
    order = list(shown)
    if rng.random() < 0.3:
        rng.shuffle(order)
    schema = {
        "type": "object",
        "properties": {names[name]: shown[name] for name in order},
        "required": [names[name] for name in order if name in required],
    }
    about = retold(spec.description, rng) if rng.random() < 0.5 else spec.description
    return tool(_tool_name(spec.name, rng), about, schema), {names[name]: value for name, value in given.items()}


def _kept(spec: ToolSpec, given: Given, rng: random.Random) -> dict[str, dict[str, Any]]:
    """Without some of the options that are not named."""
    drops = 0.4 if rng.random() < 0.35 else 0.0
    required = spec.schema["required"]
    return {
        name: dict(schema)
        for name, schema in spec.schema["properties"].items()
        if name in required or name in given or rng.random() >= drops
    }


def _add_options(schemas: dict[str, dict[str, Any]], text: str, rng: random.Random) -> None:
    if rng.random() > 0.25:
        return
    taken = " ".join(schemas).lower()
    for name, schema, spoken_of in rng.sample(_EXTRAS, rng.choice((1, 1, 2))):
        if name.rstrip("s") not in taken and not re.search(spoken_of, text, re.I):
            schemas[name] = dict(schema)


def _required(required: list[str], given: Given, schemas: dict[str, Any], rng: random.Random) -> list[str]:
    """What the request names may be wanted or not; the call is the same."""
    chosen = [name for name in required if name not in given or rng.random() > 0.08]
    return [*chosen, *(name for name in schemas if name in given and name not in required and rng.random() < 0.08)]


def _described(
    schemas: dict[str, dict[str, Any]], text: str, given: Given, rng: random.Random
) -> dict[str, dict[str, Any]]:
    """Descriptions shorter or gone, unless the value in the call is not as the request says it."""
    drops = rng.choice((0.0, 0.0, 0.0, 0.3, 0.3, 0.8))
    for name, schema in schemas.items():
        about = schema.get("description", "")
        if not about or (name in given and not (is_said(given[name], text) or "enum" in schema)):
            continue
        if rng.random() < drops and len(name) > 3:
            del schema["description"]
        elif shorter := _shorter(about, rng, is_given=name in given):
            schema["description"] = shorter
    return schemas


def _shorter(about: str, rng: random.Random, *, is_given: bool) -> str:
    if not is_given and rng.random() < 0.25:
        about = _DEFAULTS.sub("", about)
    if rng.random() < 0.15:
        about = _EXAMPLES.sub("", about)
    chance = rng.random()
    if chance < 0.12:
        about = about.rstrip(".") if about.endswith(".") else f"{about}."
    elif chance < 0.2 and re.match(r"(?!What|Which|How|Only|One|All)[A-Z][a-z]+ (?:of|in)\b", about):
        about = f"The {about[:1].lower()}{about[1:]}"
    return about.strip(" ,;")


def _renamed(names: list[str], rng: random.Random) -> dict[str, str]:
    result = {name: name for name in names}
    if rng.random() < 0.4:
        for name in names:
            if rng.random() < 0.5:
                result[name] = rng.choice(_NAMES.get(_snake(name), (name,)))
    style = rng.random()
    if style < 0.15:
        result = {name: _camel(_snake(new)) for name, new in result.items()}
    elif style < 0.35:
        result = {name: _snake(new) for name, new in result.items()}
    return result if len(set(result.values())) == len(names) else {name: name for name in names}


def _tool_name(name: str, rng: random.Random) -> str:
    """In another style; verbs that say no more than that something is asked come, go and change."""
    if rng.random() < 0.4:
        return name
    words = _snake(name).split("_")
    for verbs in (_VERBS, _SUMS):
        if words[0] in verbs and len(words) > 1 and rng.random() < 0.4:
            words[0] = rng.choice(verbs)
    style = rng.random()
    if style < 0.45:
        return "_".join(words)
    if style < 0.65:
        return _camel("_".join(words))
    if style < 0.72:
        return "".join(map(str.capitalize, words))
    if style < 0.94 and len(words) > 1:
        at = rng.randint(1, len(words) - 1)
        return f"{'_'.join(words[:at])}.{'_'.join(words[at:])}"
    return name


def _snake(name: str) -> str:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"[\W_]+", "_", spaced).strip("_").lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
