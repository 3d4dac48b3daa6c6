"""A plan: the calls a request will take, written down before any of them is made."""

from __future__ import annotations

import msgspec

from aish.types.tools import Arguments


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call. In `args`, `$id` and `$id.path` stand for what an earlier step gave; `needs` are steps to wait for."""

    id: str
    tool: str
    args: Arguments = {}
    needs: tuple[str, ...] = ()
    why: str = ""


class Plan(msgspec.Struct, frozen=True):
    steps: tuple[PlanStep, ...]


class Planning(msgspec.Struct, frozen=True):
    """How a request is to be planned. `plan` is one that is there already: it is checked and followed all the same."""

    model: str = ""  # "": the one that answers
    max_steps: int = 8
    max_rewrites: int = 2
    max_replans: int = 1
    plan: Plan | None = None
