"""What the scripted models of the browser tests say. Each name is a model: `NAME:NAME`.

Text comes in pieces of a few characters, as tokens do, so that marks are split in every possible place.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

Item = dict[str, Any]

MARKDOWN = """# Heads and tails

A paragraph with **strong words**, *emphasis*, `inline code`, ~~not this~~ and [a link](https://example.org/a?b=c).
It goes on in a second line.

- one
- two, with `code`
  - nested
- three

1. first
2. second

| name | size |
|:-----|-----:|
| a.py | 12 |
| b.py | 3 |

> Quoted, with **strength**.

```python
def add(a, b):
    return a + b  # <b>not markup</b>
```

The end.
"""

HOSTILE = """<script>window.hacked = 1</script> and <img src=x onerror="window.hacked = 2"> and
<svg/onload=window.hacked=3>

[click](javascript:window.hacked=4) [data](data:text/html,<script>window.hacked=5</script>) [ok](https://example.org/)

![a picture](https://example.org/tracker.png) <a href="javascript:window.hacked=6">x</a>

[tab](java\tscript:window.hacked=7) [entity](&#106;avascript:window.hacked=8) [vb](vbscript:x) [up](HTTPS://example.org/up)

Reordered: \u202egnp.exe\u202c and isolated \u2066x\u2069.

Coloured \x1b[31mred\x1b[0m and a title \x1b]0;owned\x07 and a link \x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\.

```html
<script>window.hacked = 9</script>
```
"""

HTML_PAGE = (
    "<!doctype html><html><body onload='window.hacked=10'><h1>Title</h1><script>window.hacked=11</script></body></html>"
)

PLAN = [
    {"id": "a", "tool": "runtime__echo", "args": {"text": "one"}, "needs": [], "why": "to begin"},
    {"id": "b", "tool": "runtime__echo", "args": {"text": "two"}, "needs": [], "why": "beside it"},
    {"id": "c", "tool": "runtime__add", "args": {"a": 1, "b": 2}, "needs": ["a", "b"], "why": "to end"},
]

FILE = "greeting = 'hello'\nprint(greeting)\n"


def pieces(text: str, size: int = 5) -> list[Item]:
    return [{"text": found} for found in re.findall(rf"(?s).{{1,{size}}}", text)]


def call(name: str, arguments: dict[str, Any], id: str = "call_1") -> Item:
    return {"call": {"index": 0, "id": id, "name": name, "arguments": json.dumps(arguments)}}


def usage(prompt: int, completion: int, cached: int = 0) -> Item:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}}


def _edit() -> Item:
    revision = hashlib.sha256(FILE.encode()).hexdigest()[:12]
    change = {"path": "greeting.py", "revision": revision, "old": "'hello'", "new": "'good morning'"}
    return call("ide__edit", {"edits": [change]}, "call_edit")


def _long_reply(tokens: int) -> str:
    """Of every kind of block, with paragraphs, lists and code that grow long."""
    words = "the quick brown fox jumps over the lazy dog and **then** some `code` again".split(" ")  # noqa: SIM905
    parts: list[str] = []
    kinds = ("p", "list", "code", "table", "p")
    for number in range(tokens // 170):
        said = [f"{words[place % len(words)]}" for place in range(180)]
        match kinds[number % len(kinds)]:
            case "list":
                parts.append("\n".join(f"- {' '.join(said[at : at + 9])}" for at in range(0, 180, 9)))
            case "code":
                lines = "\n".join("    " + " ".join(said[at : at + 12]) for at in range(0, 180, 12))
                parts.append(f"```text\n{lines}\n```")
            case "table":
                rows = "\n".join(f"| {' '.join(said[at : at + 4])} | {at} |" for at in range(0, 180, 9))
                parts.append(f"| words | number |\n|---|---|\n{rows}")
            case _:
                parts.append(" ".join(said))
    return "\n\n".join(parts) + "\n\nThis is the end."


def tokens_of(text: str) -> list[Item]:
    return [{"text": found} for found in re.findall(r"\s*\S+\s*?", text)]


def _paced(items: list[Item], every: int, wait_s: float) -> list[Item]:
    """With a pause now and then: a model does not say everything at once."""
    paced: list[Item] = []
    for place, item in enumerate(items):
        paced.append(item)
        if place % every == every - 1:
            paced.append({"wait_s": wait_s})
    return paced


def _many_events(count: int) -> list[list[Item]]:
    calls = [call("runtime__echo", {"text": f"number {n}"}, f"call_{n}") for n in range(20)]
    for place, item in enumerate(calls):
        item["call"]["index"] = place
    return [[*calls], [{"text": f"word{n} "} for n in range(count - 120)]]


def _varied(seed: int, words: int) -> str:
    """Without repetition, at which the engine would stop the model."""
    return " ".join(f"{(seed * words + n) * 7919 % 1_000_003:06d}" for n in range(words)) + " "


SUMMARY = """The greeting is friendlier now. What changed in `greeting.py`:

| line | before | after |
|-----:|--------|-------|
| 1 | `'hello'` | `'good morning'` |

```python
greeting = 'good morning'
print(greeting)
```

Two things to decide next:

1. **Evenings.** Should it say *good evening* after six?
2. **Languages.** The text is English only; [gettext](https://docs.python.org/3/library/gettext.html) would help.
"""


def _demo() -> list[list[Item]]:
    """A turn as people have them: it looks, asks, changes and sums up, at the pace of a small model."""
    read = call("ide__read_file", {"path": "greeting.py"}, "call_read")
    look = _paced(pieces("I read the file before I touch it."), 2, 0.03)
    change = _paced(pieces("It greets in one way only. I propose this:"), 2, 0.03)
    thought = [{"reasoning": "The greeting is a literal. I need its revision to edit it."}]
    first = [{"wait_s": 0.35}, *thought, *look, read, usage(412, 38)]
    second = [{"wait_s": 0.25}, *change, _edit(), usage(596, 71)]
    return [first, second, [{"wait_s": 0.2}, *_paced(pieces(SUMMARY), 3, 0.012), usage(745, 128)]]


SCRIPTS: dict[str, list[list[Item]]] = {
    "markdown": [[{"reasoning": "Let me think about it."}, *pieces(MARKDOWN), usage(120, 90)]],
    "short": [[{"text": "First answer."}, usage(10, 3)], [{"text": "Second answer."}, usage(20, 3, cached=13)]],
    "hostile": [[*pieces(HOSTILE, 3), usage(10, 10)]],
    "longline": [[*({"text": _varied(n, 1400)} for n in range(110)), {"text": "\n\nafter"}, usage(10, 10)]],
    "htmltool": [[call("runtime__echo", {"text": HTML_PAGE})], [{"text": "That was a page."}, usage(10, 4)]],
    "catastrophe": [
        [call("shell__run", {"command": "rm -rf ~"}), usage(40, 12)],
        [{"text": "Done."}, usage(60, 2)],
    ],
    "shell": [
        [{"text": "I will look. "}, call("shell__run", {"command": "touch made-by-model"}), usage(40, 12)],
        [{"text": "Done."}, usage(60, 2)],
    ],
    "edit": [
        [{"text": "I change the greeting."}, _edit(), usage(80, 30)],
        [{"text": "The greeting is **changed**."}, usage(120, 8)],
    ],
    "planned": [[{"text": json.dumps({"steps": PLAN})}, usage(200, 60)], [{"text": "All echoed."}, usage(260, 5)]],
    "goal": [
        [{"text": "I clear it away."}, call("shell__run", {"command": "rm -rf rubbish"}), usage(40, 12)],
        [{"text": "It is clear.\n\nGOAL: complete"}, usage(60, 6)],
    ],
    "demo": _demo(),
    "slow": [[{"text": "Begun. "}, {"wait_s": 60.0}, {"text": "Never seen."}]],
    "stream": [[*_paced(tokens_of(_long_reply(10_000)), 40, 0.02), usage(100, 10_000)]],
    "events": _many_events(5000),
    "paced": [[*_paced(pieces("One two three four five six seven eight nine ten. " * 4), 4, 0.05), usage(5, 40)]],
    "broken": [[{"text": "Half an "}, {"error": {"status": 500, "message": "the backend fell over"}}]],
}
