"""A plan: the calls of a request, written down before any of them is made."""

from __future__ import annotations

import msgspec

from aish.types.tools import Arguments


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call. In `args`, `$id` and `$id.path` stand for results of earlier steps. `needs` are steps to wait for."""

    id: str
    tool: str
    args: Arguments = {}
    needs: tuple[str, ...] = ()
    why: str = ""


class Plan(msgspec.Struct, frozen=True):
    steps: tuple[PlanStep, ...]


class Planning(msgspec.Struct, frozen=True):
    """How a request is planned. `plan` is an existing plan: it is checked and followed like a new one."""

    model: str = ""  # "": the model that answers
    max_steps: int = 8
    max_rewrites: int = 2
    max_replans: int = 1
    plan: Plan | None = None
