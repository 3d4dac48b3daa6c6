"""What the model is to say when it calls nothing: that no tool fits, or what a tool has given."""

from __future__ import annotations

import random
from typing import Any

NO_TOOL = "None of the tools fits this request."
_SAID = {
    "en": (NO_TOOL, "I have no tool for that.", "None of my tools can do that.", "Sorry, no tool here can do that."),
    "de": ("Dafür habe ich kein Werkzeug.", "Keines der Werkzeuge passt dazu."),
    "zh": ("没有合适的工具。", "我没有可以做这件事的工具。"),
    "es": ("No tengo ninguna herramienta para eso.",),
    "fr": ("Je n'ai pas d'outil pour cela.",),
}
_FAILURES = ("not found", "permission denied", "the service is not available", "timed out", "invalid argument")
_DONE = ("ok", "done", "success", '{"status": "ok"}', "saved", "created")
_TEXTS = (
    "18 °C, light rain",
    "3 results: A, B, C",
    "open from 9 to 17",
    "line 1: hello\nline 2: world",
    "The next one leaves at 14:20.",
    "Anna, Ben and Carla",
    "version 2.4.1",
    "main.py\nREADME.md\ntests",
    '{"price": 42.5, "currency": "EUR"}',
    "in stock: 7",
)
_TOLD = (
    "It is 18 °C with light rain.",
    "There are three results: A, B and C.",
    "It is open from 9 to 17.",
    "It says hello and world.",
    "The next one leaves at 14:20.",
    "Anna, Ben and Carla.",
    "It is version 2.4.1.",
    "There are main.py, README.md and tests.",
    "It costs 42.5 EUR.",
    "There are 7 in stock.",
)


def no_tool(language: str, rng: random.Random) -> str:
    choices = _SAID.get(language, _SAID["en"])
    return choices[0] if rng.random() < 0.7 else rng.choice(choices)


def after_result(name: str, given: dict[str, Any], rng: random.Random) -> tuple[str, str]:
    """A result, and the sentence that tells of it."""
    if name == "runtime__add":
        total = f"{given['a'] + given['b']:g}"
        return total, f"{given['a']} plus {given['b']} is {total}."
    if name == "runtime__echo":
        return given["text"], str(given["text"])
    if name == "runtime__time":
        moment = f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
        return moment, f"It is {moment[11:]} on {moment[:10]}."
    chance = rng.random()
    if chance < 0.35:
        number = rng.choice((rng.randint(0, 9999), round(rng.uniform(0, 999), 2)))
        return str(number), rng.choice((f"The result is {number}.", f"It is {number}.", f"{number}."))
    if chance < 0.55:
        return rng.choice(_DONE), "Done."
    if chance < 0.68:
        why = rng.choice(_FAILURES)
        return f"error: {why}", f"That did not work: {why}."
    index = rng.randrange(len(_TEXTS))
    return _TEXTS[index], _TOLD[index]
