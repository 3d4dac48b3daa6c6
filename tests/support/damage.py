"""The corruption suite: correct calls, damaged the ways real models damage them, with the truth known.

`damaged_calls(seed)` gives the same list every time; `damaged()` is the same as a hypothesis strategy. `judge` says
what an answer to one is worth. Nothing here knows how aish repairs: the truth comes from how the damage was made.

A case is repairable when its text still determines the call completely. Where a value is cut or can be read in two ways
it is not, and then any call at all is a wrong one.

There are two forms. `arguments`: a backend's own tool call, whose name is `called` and whose arguments are the text.
`text`: the text is all that the model wrote. `finish` is the backend's reason for stopping.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from hypothesis import strategies as st

from aish.types.tools import Arguments, Effect, ToolSpec
from support import damage_meaning as meaning
from support import damage_shape as shaped
from support import damage_syntax as syntax
from support.damage_corpus import CALLS, Call
from support.damage_syntax import Form, Hurt, Kind

Verdict = Literal["repaired", "refused", "wrong"]

KINDS: dict[str, Kind] = dict(
    (
        *((name, getattr(syntax, name)) for name in (
            "trailing_commas", "single_quotes", "raw_newlines", "python_literals", "comments", "unquoted_keys",
            "equals_signs", "missing_commas", "wrong_commas", "doubled_commas", "combined", "smart_quotes",
            "block_quotes", "unescaped_quotes", "raw_backslashes", "escaped_apostrophes", "prose_around",
            "wrong_fences", "wrong_tags", "invisible_characters", "bare_words", "odd_numbers",
        )),
        *((name, getattr(shaped, name)) for name in (
            "truncated", "truncated_then_closed", "cut_at_seam", "missing_closers", "doubled_closers",
            "missing_closing_quote", "doubled_encoding", "extra_wrappers", "repeated_keys", "ellipsis", "run_together",
            "two_in_one", "python_calls", "empty_arguments",
        )),
        *((name, getattr(meaning, name)) for name in (
            "wrong_types", "null_for_absent", "null_for_required", "misspelt_tools", "invented_tools", "doubtful_tools",
            "misspelt_arguments", "doubtful_arguments",
        )),
    )
)  # fmt: skip


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """`truth` is what was meant: for `text` all calls of it in order, for `arguments` exactly one."""

    id: str
    kind: str
    form: Form
    called: str
    text: str
    truth: tuple[Call, ...]
    repairable: bool
    finish: Literal["stop", "length"]
    tools: tuple[ToolSpec, ...]


def damaged_calls(seed: int = 0) -> list[Damaged]:
    return [each for kind in KINDS for at in range(len(CALLS)) for each in damage(kind, at, seed)]


def damage(kind: str, at: int, seed: int = 0) -> Iterator[Damaged]:
    """This kind of damage to call number `at` of the corpus."""
    call = CALLS[at]
    rng = random.Random(f"{seed}/{kind}/{at}")
    for number, hurt in enumerate(KINDS[kind](call, rng)):
        yield _damaged(f"{kind}-{at}-{number}", kind, call, hurt)


def _damaged(id: str, kind: str, call: Call, hurt: Hurt) -> Damaged:
    truth = hurt.truth or (call,)
    offered = {each.name: each for each in (*truth, *hurt.also_offered)}
    return Damaged(
        id=id,
        kind=kind,
        form=hurt.form,
        called=hurt.called or truth[0].name,
        text=hurt.text,
        truth=truth,
        repairable=hurt.repairable,
        finish=hurt.finish,
        tools=tuple(_spec(each) for each in offered.values()),
    )


def _spec(call: Call) -> ToolSpec:
    return ToolSpec(call.name, f"The tool {call.name}.", call.schema, Effect.READ, "suite")


@st.composite
def damaged(draw: st.DrawFn) -> Damaged:
    """Any kind, any call, any seed."""
    for _ in range(10):
        kind, at = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(0, len(CALLS) - 1))
        cases = list(damage(kind, at, draw(st.integers(0, 2**32))))
        if cases:
            return draw(st.sampled_from(cases))
    return next(damage("trailing_commas", 0))


def judge(case: Damaged, calls: Sequence[tuple[str, Arguments]] | None) -> Verdict:
    """What came out of a case: the calls that would be executed, or none."""
    if not calls:
        return "refused"
    truth = [(call.name, call.arguments) for call in case.truth]
    return "repaired" if case.repairable and same(list(calls), truth) else "wrong"


def same(one: object, other: object) -> bool:
    """Equal as JSON: true is not 1, while 3.0 and 3 are one number."""
    return _canonical(one) == _canonical(other)


def _canonical(value: object) -> str:
    def plain(item: object) -> object:
        if isinstance(item, float) and item.is_integer():
            return int(item)
        if isinstance(item, dict):
            return {key: plain(inner) for key, inner in item.items()}
        return [plain(inner) for inner in item] if isinstance(item, list | tuple) else item

    return json.dumps(plain(value), sort_keys=True)
