"""Plans, and long work that outlives its process: a run, and the journal of its effects.

A run has one owner at a time. A process that takes it over raises its `fence`; writes with an older one fail. A step is
written as an INTENT before its effect and with its outcome after it. So a step that is still an intent when the run is
taken over may or may not have happened.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from aish.types.decisions import Question
from aish.types.tools import Arguments


class PlanStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call. In `args`, `$id` and `$id.path` stand for results of earlier steps. `needs` are steps to wait for."""

    id: str
    tool: str
    args: Arguments = {}
    needs: tuple[str, ...] = ()
    why: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The calls of a request, written down before any of them is made."""

    steps: tuple[PlanStep, ...]


class Planning(msgspec.Struct, frozen=True):
    """How a request is planned. `plan` is an existing plan: it is checked and followed like a new one."""

    model: str = ""  # "": the model that answers
    max_steps: int = 8
    max_rewrites: int = 2
    max_replans: int = 1
    plan: Plan | None = None
    confirm: bool = False  # the user is asked before the plan is followed


class RunKind(StrEnum):
    PLAN = "plan"
    NORRIS = "norris"


class RunState(StrEnum):
    RUNNING = "running"
    HALTED = "halted"  # waits for a decision
    FINISHED = "finished"
    STOPPED = "stopped"  # a limit was reached
    FAILED = "failed"
    ABANDONED = "abandoned"


OPEN_STATES = (RunState.RUNNING, RunState.HALTED)


class RunRecord(msgspec.Struct, frozen=True):
    """`body` is JSON of this kind of run: what it needs to go on. `reason` says why it is in its state.

    `owner` is the process that works on it, "" if none does. After `lease_ms` another process may take it over.
    """

    id: str
    kind: RunKind
    session: str
    goal: str
    state: RunState
    body: bytes = b"{}"
    reason: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    owner: str = ""
    fence: int = 0
    lease_ms: int = 0


class StepState(StrEnum):
    INTENT = "intent"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"  # unknown whether it happened


class StepRecord(msgspec.Struct, frozen=True):
    """One effect of a run. `key` is the step's name in a plan, "" elsewhere. `digest` is equal for equal calls.

    `arguments` (JSON) and `outcome` are stored without secrets. `witness` is the state that shows later whether it
    happened.
    """

    run: str
    number: int  # from 1 within its run
    call: str
    tool: str
    effect: str
    state: StepState
    key: str = ""
    digest: str = ""
    arguments: bytes = b"{}"
    witness: str = ""
    status: str = ""
    outcome: str = ""
    started_ms: int = 0
    finished_ms: int = 0


class HaltKind(StrEnum):
    EFFECT = "effect"  # may this be done?
    PAUSE = "pause"  # the user stopped it
    SKIPS = "skips"  # too many steps in a row were skipped
    MODEL_FAILED = "trouble"  # the model could not be asked


class Halt(msgspec.Struct, frozen=True, omit_defaults=True):
    """Autonomous work stops here until the user decides. `question` is the effect in doubt."""

    kind: HaltKind
    reason: str
    question: Question | None = None


class HaltChoice(StrEnum):
    PROCEED = "proceed"
    SKIP = "skip"
    EDIT = "edit"
    ABORT = "abort"
    STAY_HALTED = "leave"  # also if there is no user: it stays halted until it is resumed


class HaltAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`arguments` replace the original ones, with EDIT. `note` is told to the model."""

    choice: HaltChoice
    note: str = ""
    arguments: Arguments | None = None
