"""Options that a request names in passing: "…, in French", "… (limit 5)". Without them a model learns that what is
optional is never asked for."""

from __future__ import annotations

import random
from typing import Any

from train.frames import Argument, Asked, Written
from train.slots import SLOTS

_SHARE = 0.3  # of the requests for tools that have options
_SECOND = 0.25
_FITS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "array": (list,)}
# How options that any tool may have are asked for: words before the value, the value's slot or choices, words after it.
_PHRASES: dict[str, tuple[tuple[str, str], ...]] = {
    "language": ((", in ", ""), (", answer in ", "")),
    "format": ((", as ", ""), (", output ", "")),
    "precision": ((", with ", " decimal places"), (", rounded to ", " digits"), (", precision ", "")),
    "page": ((", page ", ""), (", show page ", "")),
    "units": ((", in ", " units"), (", ", "")),
    "sort_by": ((", sorted by ", ""), (", order by ", "")),
    "max_results": ((", only ", " results"), (", at most ", ""), (", the first ", "")),
    "region": ((", in ", ""), (", only for ", "")),
    "user_id": ((", user ", ""), (", for user ", "")),
    "timeout": ((", wait at most ", " seconds"), (", timeout ", "")),
    "currency": ((", in ", ""), (", currency ", "")),
    "state": ((", in the state of ", ""),),
    "year": ((", for ", ""), (", in the year ", ""), (", year ", "")),
    "method": ((", use the ", " method"),),
    "category": ((", category ", ""), (", only ", "")),
}
_SLOTS = {
    "language": "lang", "precision": "small", "page": "small", "max_results": "n", "region": "city", "user_id": "code",
    "timeout": "n", "currency": "cur", "state": "country", "year": "year", "category": "topic",
}  # fmt: skip


def with_options(version: Written, asked: Asked, rng: random.Random) -> dict[str, Any]:
    """Adds to what is asked; gives what that is in the call. `asked` has the names of `version` for what it has."""
    added: dict[str, Any] = {}
    open_ones = [a for a in version.arguments if not a.required and a.name not in asked.arguments]
    if asked.language != "en" or not open_ones or rng.random() > _SHARE:
        return added
    for option in rng.sample(open_ones, 2 if len(open_ones) > 1 and rng.random() < _SECOND else 1):
        drawn = _drawn(option, rng)
        if drawn is None or drawn[1] in asked.arguments.values():
            continue
        before, after = _around(option, rng)
        asked.texts[-1] = asked.texts[-1].rstrip("?.! ") + before
        asked.said.append(drawn[0])
        asked.texts.append(after)
        added[option.name] = drawn[1]
    return added


def _drawn(option: Argument, rng: random.Random) -> tuple[str, Any] | None:
    if choices := option.schema.get("enum"):
        chosen = rng.choice(choices)
        return chosen.replace("_", " "), chosen
    slot = option.slot or _SLOTS.get(option.name, "")
    if not slot or slot not in SLOTS:
        return None
    said, value = SLOTS[slot](rng)
    fits = _FITS.get(option.schema.get("type", ""), ())
    return (said, value) if isinstance(value, fits) and not isinstance(value, bool) else None


def _around(option: Argument, rng: random.Random) -> tuple[str, str]:
    if (not option.slot and option.name in _PHRASES and "enum" not in option.schema) or option.name in (
        "format",
        "sort_by",
    ):
        return rng.choice(_PHRASES[option.name])
    words = option.name.replace("_", " ")
    ways = (
        (f", {words} ", ""),
        (f" ({words} ", ")"),
        (f", with {words} ", ""),
        (f". The {words} is ", "."),
        (f", {words}: ", ""),
    )
    return rng.choice(ways)
