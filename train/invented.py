"""Values that are in no list: people, places, titles, things, names in code. Seeded by the caller's generator.

A model that sees the same forty cities learns the cities; one that sees a new one each time learns to copy. What is
made here is put together from `vocabulary.json` and from syllables: it has nothing but its place in the request.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

Invent = Callable[[random.Random], str]

_WORDS: dict[str, list[str]] = json.loads((Path(__file__).parent / "vocabulary.json").read_text())
_ENDINGS = [
    "txt",
    "py",
    "md",
    "csv",
    "json",
    "log",
    "ts",
    "pdf",
    "png",
    "yaml",
    "rs",
    "go",
    "html",
    "sql",
    "toml",
    "xml",
    "sh",
    "jpg",
    "docx",
    "tar.gz",
]

_REGIONS = (
    "CA",
    "NY",
    "TX",
    "FL",
    "WA",
    "IL",
    "MA",
    "CO",
    "California",
    "Texas",
    "Ontario",
    "Bavaria",
    "Victoria",
    "Ohio",
    "France",
    "Italy",
    "Spain",
    "Germany",
    "UK",
    "USA",
    "Japan",
    "India",
    "Canada",
    "Australia",
    "Mexico",
)


def coined(rng: random.Random) -> str:
    """A word that does not exist."""
    middle = rng.choice(_WORDS["middle"]) if rng.random() < 0.5 else ""
    return (rng.choice(_WORDS["start"]) + middle + rng.choice(_WORDS["end"])).capitalize()


def person(rng: random.Random) -> str:
    first = rng.choice(_WORDS["first"]) if rng.random() < 0.85 else coined(rng)
    last = rng.choice(_WORDS["last"]) if rng.random() < 0.8 else coined(rng)
    chance = rng.random()
    if chance < 0.3:
        return first
    if chance < 0.36:
        return f"{first[0]}. {last}"
    if chance < 0.42:
        return f"{rng.choice(('Dr.', 'Mrs.', 'Mr.', 'Professor', 'Aunt', 'Uncle', 'Captain'))} {last}"
    return f"{first} {last}"


def place(rng: random.Random) -> str:
    chance = rng.random()
    if chance < 0.15:
        return f"{rng.choice(_WORDS['place'])}, {rng.choice(_REGIONS)}"
    if chance < 0.7:
        return rng.choice(_WORDS["place"])
    if chance < 0.9:
        return coined(rng)
    first = rng.choice(("Port", "San", "New", "Saint", "Fort", "Lake", "Mount", "North", "Upper", "El", "La"))
    return f"{first} {coined(rng)}"


def title(rng: random.Random) -> str:
    adjective, noun, other = _adjective(rng), _noun(rng), _noun(rng)
    ways = (
        f"The {adjective} {noun}",
        f"{noun} of the {other}",
        f"{adjective} {noun}",
        f"{coined(rng)}",
        noun,
        f"The {noun} and the {other}",
        f"A {noun} in {rng.choice(_WORDS['place'])}",
        f"{coined(rng)}'s {noun}",
        f"{noun} {rng.randint(2, 9)}",
        f"{rng.choice(_WORDS['first'])} and the {adjective} {noun}",
    )
    return " ".join(
        word if word in ("of", "the", "and", "in") else word[:1].upper() + word[1:] for word in rng.choice(ways).split()
    )


def company(rng: random.Random) -> str:
    base = rng.choice((coined(rng), rng.choice(_WORDS["last"]), _noun(rng).capitalize()))
    return f"{base} {rng.choice(_WORDS['suffix'])}" if rng.random() < 0.5 else base


def thing(rng: random.Random) -> str:
    chance = rng.random()
    if chance < 0.3:
        return _noun(rng)
    if chance < 0.75:
        return f"{_adjective(rng)} {_noun(rng)}"
    return f"{_noun(rng)} {_noun(rng)}" if chance < 0.9 else f"{_adjective(rng)} {_noun(rng)} {_noun(rng)}"


def chore(rng: random.Random) -> str:
    return f"{rng.choice(_WORDS['verb'])} {rng.choice(('the', 'my', 'a', 'our', 'his'))} {thing(rng)}"


def message(rng: random.Random) -> str:
    ways = (
        f"the {_noun(rng)} is {_adjective(rng)}",
        f"don't forget to {chore(rng)}",
        f"I left the {thing(rng)} in {place(rng)}",
        f"{person(rng)} wants to {chore(rng)}",
        f"we need {rng.randint(2, 40)} {_noun(rng)}s by {rng.randint(1, 12)} o'clock",
        f"thanks for the {thing(rng)}!",
        f"Can you {chore(rng)} before you go?",
        f"meet me at the {_noun(rng)} {_noun(rng)}",
    )
    return rng.choice(ways)


def single(rng: random.Random) -> str:
    return rng.choice((_noun(rng), _adjective(rng), rng.choice(_WORDS["verb"]), coined(rng).lower()))


def identifier(rng: random.Random) -> str:
    words = [rng.choice((_noun(rng), rng.choice(_WORDS["verb"]), _adjective(rng))).replace("-", "") for _ in range(2)]
    ways = ("_".join(words), "-".join(words), words[0] + words[1].capitalize(), "".join(map(str.capitalize, words)))
    return rng.choice(ways) + (str(rng.randint(2, 99)) if rng.random() < 0.15 else "")


def branch(rng: random.Random) -> str:
    words = f"{rng.choice(_WORDS['verb'])}-{_noun(rng)}"
    return rng.choice(
        (words, f"feature/{words}", f"fix-{rng.randint(10, 999)}", f"release-{rng.randint(1, 9)}.{rng.randint(0, 20)}")
    )


def host(rng: random.Random) -> str:
    numbers = ".".join(str(rng.randint(1, 254)) for _ in range(4))
    return rng.choice(
        (
            f"{_noun(rng)}.example.{rng.choice(('com', 'org', 'net'))}",
            numbers,
            f"{_noun(rng)}{rng.randint(1, 30)}.internal",
        )
    )


def path(rng: random.Random) -> str:
    folders = "/".join(rng.choice((_noun(rng), _adjective(rng), identifier(rng))) for _ in range(rng.randint(0, 2)))
    root = rng.choice(("", "", "./", "/", "~/", "/home/" + rng.choice(_WORDS["first"]).lower() + "/", "../", "/srv/"))
    name = rng.choice((_noun(rng), identifier(rng), f"{_noun(rng)}-{rng.randint(1, 2030)}"))
    return f"{root}{folders}{'/' if folders else ''}{name}.{rng.choice(_ENDINGS)}"


def folder(rng: random.Random) -> str:
    return path(rng).rpartition("/")[0] or _noun(rng)


def code(rng: random.Random) -> str:
    """Numbers of orders, plates, seats: letters and digits with and without spaces between them."""
    letters = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=rng.randint(1, 4)))
    ways = (
        f"{letters}-{rng.randint(1, 99999)}",
        f"{letters} {rng.randint(1, 9999)}",
        f"{letters}{rng.randint(1, 9999)}",
        "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=rng.randint(5, 8))),
        f"{rng.randint(1, 60)}{rng.choice('ABCDEFGK')}",
        str(rng.randint(1000, 99999999)),
        f"{letters}-{rng.choice('ABCXYZ')}{rng.choice('KLMNOP')} {rng.randint(1, 999)}",
        f"{rng.randint(1, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 12)}",
        f"{letters.lower()}_{rng.randint(1, 9999)}",
        f"{rng.randint(10, 99)}-{letters}-{rng.randint(100, 999)}",
    )
    return rng.choice(ways)


def german_person(rng: random.Random) -> str:
    first, last = rng.choice(_WORDS["de first"]), rng.choice(_WORDS["de last"])
    return rng.choice(
        (first, first, f"{first} {last}", f"{rng.choice(('Frau', 'Herrn', 'Tante', 'Onkel', 'Oma'))} {last}")
    )


def german_place(rng: random.Random) -> str:
    return rng.choice(_WORDS["de place"]) if rng.random() < 0.85 else place(rng)


def german_thing(rng: random.Random) -> str:
    noun = rng.choice(_WORDS["de noun"])
    return noun if rng.random() < 0.7 else f"{rng.choice(_WORDS['de adjective'])} {noun}"


def chinese_person(rng: random.Random) -> str:
    surname = rng.choice(_WORDS["zh surname"])
    return surname + (
        rng.choice(("老师", "医生", "先生", "阿姨")) if rng.random() < 0.2 else rng.choice(_WORDS["zh given"])
    )


def chinese_place(rng: random.Random) -> str:
    return rng.choice(_WORDS["zh place"])


def chinese_thing(rng: random.Random) -> str:
    return rng.choice(_WORDS["zh noun"])


def _noun(rng: random.Random) -> str:
    return rng.choice(_WORDS["noun"])


def _adjective(rng: random.Random) -> str:
    return rng.choice(_WORDS["adjective"])


# What may stand for a slot's own words, and how often it does.
INVENTED: dict[str, tuple[Invent, float]] = {
    "city": (place, 0.7), "name": (person, 0.7), "player": (person, 0.6), "author": (person, 0.6),
    "artist": (person, 0.5), "team": (company, 0.4), "company": (company, 0.6), "brand": (company, 0.4),
    "film": (title, 0.7), "book": (title, 0.7), "song": (title, 0.7), "landmark": (title, 0.4), "event": (title, 0.3),
    "country": (place, 0.2), "dish": (thing, 0.4), "food": (thing, 0.3), "items1": (thing, 0.6),
    "plant": (thing, 0.3), "animal": (single, 0.3), "topic": (thing, 0.6), "task": (chore, 0.6),
    "text": (message, 0.6), "tag": (single, 0.5), "word": (single, 0.6), "hobby": (single, 0.3),
    "drug": (coined, 0.4), "model": (code, 0.4), "symbol": (identifier, 0.7), "newname": (identifier, 0.7),
    "repo": (identifier, 0.6), "branch": (branch, 0.6), "host": (host, 0.6), "path": (path, 0.7),
    "folder": (folder, 0.6), "code": (code, 0.6), "room": (thing, 0.2), "names": (person, 0.6),
    "foods": (single, 0.4), "items": (thing, 0.5), "de city": (german_place, 0.8), "de name": (german_person, 0.8),
    "de items1": (german_thing, 0.7), "de topic": (german_thing, 0.4), "de dish": (german_thing, 0.3),
    "de items": (german_thing, 0.8), "zh city": (chinese_place, 0.8), "zh name": (chinese_person, 0.8),
    "zh items1": (chinese_thing, 0.7), "zh topic": (chinese_thing, 0.4), "zh items": (chinese_thing, 0.8),
}  # fmt: skip
