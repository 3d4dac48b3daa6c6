"""Requests for tools of the open data in the words of people, not of the tool: what a sentence does with a description.

"Retrieve the fuel level of a vehicle" becomes "What is the fuel level …?"; an argument is said by its place in a
sentence ("in Lyon", "from May 3", "without taxes"), and named only where it would not be known otherwise. Words
around a value that do not belong to it are as frequent as values: a model has to learn where a value ends.
"""

from __future__ import annotations

import random
import re
from typing import Any

_LOOKUPS = re.compile(
    r"(?:retrieve|get|fetch|find|search for|search|check|provide|obtain|look up|identify|list|return|view)s? (.+)"
)
_SUMS = re.compile(r"(?:calculate|compute|estimate|determine|measure|predict|evaluate|assess|count)s? (.+)")
_GENERIC = re.compile(
    r",? (?:for|of|in|at|by|from|about|on|to|based on|given|using|with|between) (?:an? |the |your )?"
    r"(?:specific|given|particular|certain|specified|provided|selected|different|various)\b.*$"
)
_ABOUT = re.compile(r"(?:\w+ )?(?:information|details|data|facts) (?:about|on|of|for|regarding) (.+)")
_SINGULAR = re.compile(r"(?:the |an? )?[\w -]*?(?:information|data|status|analysis|\w*[^s\W])$")

_ASK_ABOUT = (
    "What can you tell me about {0}", "I want to learn about {0}", "Tell me about {0}", "I'd like some facts on {0}",
    "Give me details on {0}", "Who can tell me more about {0}", "I need information about {0}", "Look up {0}",
    "Find out more about {0}", "what do we know about {0}",
)  # fmt: skip
_ASK_FOR = (
    "What is {0}", "What's {0}", "Tell me {0}", "Show me {0}", "Give me {0}", "I need {0}", "I want to know {0}",
    "Find {0}", "Look up {0}", "Could you get {0}", "Can you find {0}", "Please fetch {0}", "I am looking for {0}",
    "I'd like to see {0}", "Find me {0}", "Can I have {0}", "Pull up {0}", "{0}", "Get {0}", "Retrieve {0}",
    "I would like to know {0}", "Please provide {0}", "Let me see {0}",
)  # fmt: skip
_ASK_SUM = (
    "What is {0}", "Calculate {0}", "Compute {0}", "Find {0}", "Work out {0}", "What would {0} be", "Determine {0}",
    "Can you calculate {0}", "I need to know {0}", "Help me calculate {0}", "Figure out {0}", "What will be {0}",
    "Could you estimate {0}", "{0}", "Please compute {0}", "How much is {0}",
)  # fmt: skip
_ASK_DO = (
    "{0}", "Please {0}", "I want to {0}", "Can you {0}", "I'd like to {0}", "We need to {0}", "Could you please {0}",
    "Help me {0}", "I need to {0}", "Would you {0}", "Go ahead and {0}", "I have to {0}",
)  # fmt: skip
_WORDS_FOR = {
    "information": ("details", "facts", "info"), "calculate": ("work out", "compute", "find"),
    "create": ("make", "set up", "add"), "delete": ("remove", "get rid of"), "update": ("change", "adjust"),
    "analyze": ("look into", "examine"), "generate": ("make", "produce"), "send": ("pass on", "deliver"),
    "purchase": ("buy",), "individual": ("person",), "medication": ("medicine",), "vehicle": ("car",),
    "regarding": ("about",), "recommendations": ("suggestions", "tips"), "schedule": ("plan", "set up"),
    "available": ("open", "free"), "current": ("present", "latest"), "details": ("information", "facts"),
}  # fmt: skip

_PLACES = {"location", "city", "country", "region", "area", "state", "place", "venue", "town", "market", "site", "room"}
_GOALS = {"destination", "recipient", "receiver"}
_SOURCES = {"origin", "source", "departure", "sender"}
_MAKERS = {"author", "artist", "manufacturer", "brand", "director", "composer", "company", "make", "publisher"}
_KINDS = {"type", "category", "genre", "style", "kind", "mode", "method", "level", "format", "material", "algorithm"}
_SPANS = {"duration", "period", "timeframe", "frame", "range", "interval"}
_UNIT = re.compile(r"\bin ((?:square |cubic )?[a-z]+s(?: per [a-z]+| squared)?)\b")
_NOT_UNITS = {"terms", "series", "hours format", "systems", "results"}


def sentence(about: str, said: dict[str, str], schemas: dict[str, Any], rng: random.Random) -> str:
    """A request for what the tool is about, with everything that is said."""
    head = _head(about, rng)
    names = list(said)
    rng.shuffle(names)
    bare = {"for": 0, "in": 0, "on": 0}  # what is said without its name is said once
    parts = [_part(name, said[name], schemas[name], bare, rng) for name in names]
    ending = "?" if re.match(r"(?i)(what|who|can|could|would|how|do) ", head) else "."
    chance = rng.random()
    if len(parts) > 1 and chance < 0.12:
        first = parts.pop()
        return f"{_upper(first)}, {_lower(head)} {_joined(parts, rng)}{ending}"
    if len(parts) > 1 and chance < 0.26:
        name = names[-1]
        later = _told(name, said[name], schemas[name], rng)
        return f"{head} {_joined(parts[:-1], rng)}{ending} {later}"
    if chance < 0.33:
        told = " ".join(_told(name, said[name], schemas[name], rng) for name in names)
        return f"{told} {_upper(head)}{ending}"
    text = f"{head} {_joined(parts, rng)}"
    if chance < 0.85:
        return text + ending
    return _lower(text) if chance < 0.95 else f"{text}{ending} {rng.choice(_CLOSINGS)}"


_CLOSINGS = ("Thank you.", "It's for a report.", "I need it today.", "My team is waiting for it.", "Thanks!")


_ASPECT = re.compile(
    r"((?:retrieve|get|calculate|check|find|compute|estimate|determine|analyze|predict) )(?:the )?([\w -]+?)"
    r"( (?:of|for) (?:an? |the )?[\w -]+)",
    re.I,
)
# What may hold anything else that is asked of the same thing.
_BROAD = re.compile(
    r"info|detail|data|profile|report|status|statistic|summar|history|record|analys|content|descri|list"
)


def aspect_of(about: str) -> tuple[str, str, str] | None:
    """What a tool does, with what, of what: "Retrieve", "fuel level", "of a vehicle". None where that is too broad."""
    found = _ASPECT.fullmatch(about.strip().rstrip("."))
    if found is None or _BROAD.search(found[2]) or len(found[2].split()) > 4:
        return None
    return found[1], found[2], found[3]


def reworded(about: str, rng: random.Random) -> str:
    """Some words for others that mean the same."""
    for word, others in _WORDS_FOR.items():
        if rng.random() < 0.3:
            about = re.sub(rf"\b{word}\b", rng.choice(others), about, count=1)
    return about


def _head(about: str, rng: random.Random) -> str:
    about = _lower(about.strip().rstrip(".").partition(". ")[0])
    if rng.random() < 0.8 and len(short := _GENERIC.sub("", about)) > 12:
        about = short
    if rng.random() < 0.4:
        about = reworded(about, rng)
    if found := _LOOKUPS.fullmatch(about):
        topic = found[1]
        if (inner := _ABOUT.fullmatch(topic)) and rng.random() < 0.6:
            return rng.choice(_ASK_ABOUT).format(inner[1])
        return _agreeing(rng.choice(_ASK_FOR), topic, rng)
    if found := _SUMS.fullmatch(about):
        return _agreeing(rng.choice(_ASK_SUM), found[1], rng)
    return _upper(rng.choice(_ASK_DO).format(about))


def _agreeing(form: str, topic: str, rng: random.Random) -> str:
    is_one = _SINGULAR.match(re.split(r" (?:of|for|in|about|from|on|to|by|and|between) ", topic)[0]) is not None
    if not topic.startswith(("the ", "a ", "an ")) and rng.random() < 0.5:
        topic = f"the {topic}"
    if not is_one:
        form = form.replace("What is", "What are").replace("What's", "What are").replace("How much is", "What are")
    return _upper(form.format(topic))


def _part(name: str, value: str, schema: dict[str, Any], bare: dict[str, int], rng: random.Random) -> str:
    """How an argument is said within a sentence."""
    words = spaced(name).split()
    last, whole = words[-1], " ".join(words)
    if schema["type"] == "boolean":
        return value
    if rng.random() < 0.12:
        return rng.choice((f"with {whole} {value}", f"with {value} as the {whole}", f"({whole}: {value})"))
    if schema["type"] in ("integer", "number"):
        return _number(whole, last, value, schema, rng)
    if last in _PLACES:
        ways: tuple[str, ...] = (f"in {value}", f"in {value}", f"for {value}", f"at {value}")
        if last not in ("location", "place"):  # the word after the value is none of it
            ways = (*ways, f"in the {value} {last}", f"for the {last} of {value}")
        return _once("in", bare, ways, whole, value, rng)
    if last in _GOALS or words[0] == "to":
        return f"to {value}"
    if last in _SOURCES or words[0] == "from":
        return f"from {value}"
    if last in _MAKERS:
        return rng.choice((f"by {value}", f"from {value}", f"of the {whole} {value}", f"by the {value} {last}"))
    if "date" in words or last == "day":
        start, end = {"start", "from", "begin"} & set(words), {"end", "to", "until"} & set(words)
        if start:
            return rng.choice((f"from {value}", f"starting {value}", f"beginning on {value}"))
        return (
            rng.choice((f"until {value}", f"to {value}"))
            if end
            else _once("on", bare, (f"on {value}", f"for {value}"), whole, value, rng)
        )
    if last == "time":
        return rng.choice((f"at {value}", f"{whole} {value}"))
    if last == "language":
        return rng.choice((f"in {value}", f"{whole} {value}"))
    if last in _SPANS:
        return rng.choice((f"for {value}", f"over {value}", f"{whole} {value}"))
    if last in ("id", "number", "code"):
        noun = " ".join(words[:-1])
        return rng.choice(
            (f"with {last.upper() if last == 'id' else last} {value}", f"{noun} {value}".strip(), f"({whole} {value})")
        )
    if last in ("name", "title"):
        noun = " ".join(words[:-1])
        return _once(
            "for", bare,
            (f"for {value}", f"called {value}", f'"{value}"', f"for {noun} {value}", f"of {value}",
             f"of the {value} {noun}", f"for the {value} {noun}"),
            whole, value, rng,
        )  # fmt: skip
    if last in _KINDS:
        return rng.choice((f"of {whole} {value}", f"using {value}", f"with {value} {whole}", f"{whole} {value}"))
    ways = (
        f"for {value}",
        f"for {value}",
        f"of {value}",
        f"on {value}",
        f"for the {whole} {value}",
        f"for the {value} {last}",
    )
    return _once("for", bare, ways, whole, value, rng)


def _once(key: str, bare: dict[str, int], ways: tuple[str, ...], whole: str, value: str, rng: random.Random) -> str:
    bare[key] += 1
    if bare[key] > 1:
        ways = (f"with {whole} {value}", f"and {whole} {value}", f"with the {whole} {value}", f"{value} as {whole}")
    return rng.choice(ways)


def _number(whole: str, last: str, value: str, schema: dict[str, Any], rng: random.Random) -> str:
    unit = _unit(schema) if rng.random() < 0.7 else ""
    amount = f"{value} {unit}".strip()
    if last == "year":
        return rng.choice((f"in {value}", f"for {value}", f"in the year {value}"))
    if last == "age":
        return rng.choice((f"aged {value}", f"at the age of {value}", f"who is {value} years old"))
    if last in ("limit", "results", "count"):
        return rng.choice((f"up to {value}", f"at most {value} of them", f"only {value}"))
    if last in ("budget", "price", "amount", "cost", "salary", "income"):
        amount = rng.choice((f"${value}", f"{value} dollars", amount))
    article = "an" if whole[:1] in "aeio" else "a"
    return rng.choice(
        (f"with {article} {whole} of {amount}", f"with {article} {whole} of {amount}", f"at {amount} {whole}",
         f"given {article} {whole} of {amount}", f"if the {whole} is {amount}", f"{whole} {amount}")
    )  # fmt: skip


def _told(name: str, value: str, schema: dict[str, Any], rng: random.Random) -> str:
    """An argument in a sentence of its own."""
    whole = spaced(name)
    if schema["type"] == "boolean":
        return f"{_upper(value)}."
    if schema["type"] in ("integer", "number") and rng.random() < 0.6 and (unit := _unit(schema)):
        value = f"{value} {unit}"
    return rng.choice(
        (f"The {whole} is {value}.", f"My {whole} is {value}.", f"{_upper(whole)}: {value}.",
         f"Use {value} as {whole}.", f"We have {whole} {value}.", f"It has a {whole} of {value}.")
    )  # fmt: skip


def _unit(schema: dict[str, Any]) -> str:
    found = _UNIT.search(schema.get("description", ""))
    return found[1] if found and found[1] not in _NOT_UNITS else ""


def _joined(parts: list[str], rng: random.Random) -> str:
    parts = sorted(parts, key=lambda part: part.startswith(("(", "include", "without", "with ")))
    if len(parts) < 2:
        return "".join(parts)
    glue = rng.choice((" ", " ", ", "))
    return f"{glue.join(parts[:-1])}{rng.choice((' and ', ', ', ' ', ', and '))}{parts[-1]}".replace("and and", "and")


def spaced(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").lower()


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
