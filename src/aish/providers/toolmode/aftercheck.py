"""What can be checked in a weak model's call without a model: what it says beside what was asked.

An optional argument that nobody spoke of is left out, and one that the request names word for word is put in; a
percentage and a date get the form that the tool's own description asks for; names, times, numbers and lists that went
wrong while they were copied get the request's spelling.
Nothing is guessed: where it is not sure, the call stays as it is. What does not fit the schema is another's business
(`calls.mend`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aish.providers.toolmode.asked import Asked
from aish.providers.toolmode.choices import chosen
from aish.providers.toolmode.copies import right_side, whole_quotation, without_others
from aish.providers.toolmode.dates import in_date_form
from aish.providers.toolmode.lacking import named_options
from aish.providers.toolmode.lists import completed
from aish.providers.toolmode.numerals import placed, signed
from aish.providers.toolmode.percents import has_digits_of, in_percent_form
from aish.providers.toolmode.spelling import clock_of, respelled
from aish.providers.toolmode.units import in_unit, is_in_unit, may_be_converted, names_unit, wants_unit
from aish.types.tools import Repair, RepairKind, ToolSpec

# Where a description speaks of these, the value is not meant to be what the request says.
_CODED = re.compile(
    r"\b(code|codes|iso|abbreviat\w*|identifier|slug|normali[sz]ed|translat\w*|symbols?|tickers?)\b", re.I
)
_NO_SIGN = re.compile(r"\bpositive\b|\babsolute\b|\bmagnitude\b", re.I)
# Of these lists the request may name one end, or a kind.
_OPEN_LIST = re.compile(
    r"\b(?:through|thru|until|till|to|except|all|every|each|others?|rest|weekdays?|weekends?|synonyms?|like|similar|such|related"
    r"|any|kinds?|ideas?|some|suggest\w*|including)\b|\d\s*-\s*\d"
)
_MAX_ITEMS = 30
_MAX_SHOWN = 80


def checked(spec: ToolSpec, arguments: str, asked: Asked) -> tuple[str, tuple[Repair, ...]]:
    """The arguments as they should be, and what was changed. What is no JSON object stays as it is."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return arguments, ()
    properties = spec.schema.get("properties")
    if not isinstance(properties, dict):
        return arguments, ()
    required = spec.schema.get("required") or ()
    kept: dict[str, Any] = {}
    repairs: list[Repair] = []
    for name, value in given.items():
        schema = properties.get(name)
        others = [other for key, other in given.items() if key != name]
        if not isinstance(schema, dict):
            kept[name] = value
        elif name not in required and value != schema.get("default", _NONE) and _is_unasked(name, value, schema, asked):
            repairs.append(Repair(RepairKind.UNASKED, f"/{name}", _shown(value), "left out"))
        else:
            kept[name], done = _in_form(f"/{name}", value, schema, asked, others)
            repairs += done
    for name in kept.keys() & properties.keys():
        kept[name], done = _beside_others(name, kept, properties[name], asked)
        repairs += done
    for name, value in named_options(spec, kept, asked.latest).items():
        kept[name], _ = _in_form(f"/{name}", value, properties[name], asked)
        repairs.append(Repair(RepairKind.NAMED, f"/{name}", "", _shown(kept[name])))
    return (msgspec.json.encode(kept).decode(), tuple(repairs)) if repairs else (arguments, ())


_NONE = object()


def find_made_up(spec: ToolSpec, arguments: str, asked: Asked) -> str:
    """The name of a required number that nobody spoke of; "" if there is none. Whoever makes up what a tool cannot do
    without has taken the wrong tool, or was told too little."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return ""
    properties, required = spec.schema.get("properties") or {}, spec.schema.get("required") or ()
    for name in map(str, required):
        schema = properties.get(name)
        if name not in given or not isinstance(schema, dict) or schema.keys() & {"enum", "const"}:
            continue
        is_span = wants_unit(name, _said(schema)) and asked.speaks_of_time  # a day may be 86400
        if given[name] != schema.get("default", _NONE) and not is_span and asked.makes_up(given[name]):
            return name
    return ""


def _is_unasked(name: str, value: Any, schema: Mapping[str, Any], asked: Asked) -> bool:
    said = _said(schema)
    if _is_number(value) and (not asked.original or is_in_unit(value, name, said, asked.original)):
        return False
    if _is_number(value) and wants_unit(name, said) and may_be_converted(asked.original):
        return False
    return not asked.speaks_of(value, name) and not asked.says_otherwise(name)


def _in_form(
    path: str, value: Any, schema: Mapping[str, Any], asked: Asked, others: Sequence[Any] = ()
) -> tuple[Any, list[Repair]]:
    said = _said(schema)
    steps: tuple[tuple[RepairKind, Any], ...] = ()
    if _is_number(value):
        steps = (
            (RepairKind.PERCENT, in_percent_form(value, path[1:], schema, asked.sure_percentages)),
            (RepairKind.DIGITS, _placed(path[1:], value, schema, asked)),
        )
    elif isinstance(value, str) and "enum" not in schema and "const" not in schema:
        # What the model itself has proposed, the user may have taken.
        request = "" if value.casefold() in asked.told else asked.original
        is_item = path.count("/") > 1  # of a list that has other parts of what is quoted
        steps = (
            (RepairKind.DATE, in_date_form(value, path, said)),
            (RepairKind.ENUM, chosen(value, said)),
            (RepairKind.COPY, right_side(whole_quotation(value, "" if is_item else path, asked.latest), path, said)),
            (RepairKind.CLOCK, clock_of(value, request)),
            (RepairKind.SPELLING, value if _CODED.search(said) else respelled(value, request)),
        )
    elif isinstance(value, list):
        return _items_in_form(path, value, schema, asked, others)
    for kind, changed in steps:
        if changed != value:
            return changed, [Repair(kind, path, _shown(value), _shown(changed))]
    return value, []


def _beside_others(name: str, given: dict[str, Any], schema: Any, asked: Asked) -> tuple[Any, list[Repair]]:
    """What one argument says need not be said by another; a number that two have was meant for one of them."""
    value, changed, kind = given[name], given[name], RepairKind.COPY
    if isinstance(value, str):
        changed = without_others(value, name, _said(schema) if isinstance(schema, dict) else "", given)
    elif _is_number(value) and isinstance(schema, dict) and list(given.values()).count(value) == 1:
        if any(map(names_unit, given.values())):
            return value, []
        changed, kind = _converted(name, value, schema, asked), RepairKind.UNIT
    return changed, [] if changed == value else [Repair(kind, f"/{name}", _shown(value), _shown(changed))]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _converted(name: str, value: float, schema: Mapping[str, Any], asked: Asked) -> float:
    found = value if "enum" in schema else in_unit(value, name, _said(schema), asked.latest)
    return found if schema.get("type") == "number" or isinstance(found, int) else value


def _placed(name: str, value: float, schema: Mapping[str, Any], asked: Asked) -> float:
    if "enum" in schema or has_digits_of(value, asked.percentages):
        return value
    is_converted = is_in_unit(value, name, _said(schema), asked.original)
    found = value if is_converted else placed(value, asked.original)
    found = found if _NO_SIGN.search(_said(schema)) else signed(found, asked.original)
    return found if schema.get("type") == "number" or isinstance(found, int) else value


def _items_in_form(
    path: str, values: list[Any], listed: Mapping[str, Any], asked: Asked, others: Sequence[Any]
) -> tuple[Any, list[Repair]]:
    """The list that the request spells out; names and times in a list of texts. Lists of lists are left alone."""
    schema = listed.get("items")
    if not isinstance(schema, dict) or len(values) > _MAX_ITEMS or _CODED.search(_said(listed)):
        return values, []
    whole = [signed(value, asked.original) if _is_number(value) else value for value in values]
    longer = completed(whole, asked.latest, is_chosen="enum" in schema)
    if not _are_taken(longer, values, others):
        whole = longer
    if "enum" in schema:
        whole = _among(schema["enum"], whole) or values
    if whole != values and all(isinstance(value, str | float | int) for value in values):
        return whole, [Repair(RepairKind.SPELLING, path, _shown(values), _shown(whole))]
    if "enum" in schema:
        return values, []
    if not all(isinstance(value, str) for value in values):
        return values, []
    said = [value for value in values if asked.speaks_of(value)]
    if said and len(said) < len(values) and not _OPEN_LIST.search(asked.text):
        return said, [Repair(RepairKind.UNASKED, path, _shown(values), _shown(said))]
    pairs = [_in_form(f"{path}/{index}", value, schema, asked) for index, value in enumerate(values)]
    return [value for value, _ in pairs], [repair for _, done in pairs for repair in done]


def _are_taken(longer: list[Any], values: list[Any], others: Sequence[Any]) -> bool:
    """Whether another argument has what the longer list would have more."""
    taken = f" {' '.join(map(_shown, others))} ".casefold()
    return any(
        re.search(rf"(?<![\w.]){re.escape(str(item).casefold())}(?![\w.])", taken)
        for item in longer
        if item not in values
    )


def _among(choices: Any, values: list[Any]) -> list[Any]:
    """The choices that the values are; none where one of them is no choice."""
    known = {_letters(choice): choice for choice in choices} if isinstance(choices, list) else {}
    return [known[_letters(value)] for value in values] if known.keys() >= set(map(_letters, values)) else []


def _letters(value: Any) -> str:
    return re.sub(r"[\W_]", "", str(value).casefold())


def _said(schema: Mapping[str, Any]) -> str:
    described = schema.get("description")
    return described if isinstance(described, str) else ""


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_MAX_SHOWN]
