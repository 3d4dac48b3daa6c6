"""Long work that outlives its process: a run, and the journal of its effects.

A run has one owner at a time. Whoever takes it over raises its `fence`; writes that carry an older one fail. A step is
written as an INTENT before its effect and with its outcome after it, so that one which still is an intent when the run
is taken over may or may not have happened.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from aish.types.decisions import Question
from aish.types.tools import Arguments


class RunKind(StrEnum):
    PLAN = "plan"
    NORRIS = "norris"


class RunState(StrEnum):
    RUNNING = "running"
    HALTED = "halted"  # waits for a person
    FINISHED = "finished"
    STOPPED = "stopped"  # a limit was reached
    FAILED = "failed"
    ABANDONED = "abandoned"


OPEN_STATES = (RunState.RUNNING, RunState.HALTED)


class RunRecord(msgspec.Struct, frozen=True):
    """`body` is JSON and the kind's own: what it needs to go on. `reason` says why it stands as it does.

    `owner` is the process that works on it, "" if none does; past `lease_ms` it may be taken over by another.
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
    UNKNOWN = "unknown"  # nobody can tell whether it happened


class StepRecord(msgspec.Struct, frozen=True):
    """One effect of a run. `key` is the step's name in a plan, "" elsewhere; `digest` tells equal calls.

    `arguments` (JSON) and `outcome` are kept without secrets; `witness` is what tells afterwards whether it happened.
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
    PAUSE = "pause"  # the person stopped it
    SKIPS = "skips"  # too much was skipped for it to get anywhere
    TROUBLE = "trouble"  # the model could not be asked


class Halt(msgspec.Struct, frozen=True, omit_defaults=True):
    """Work that is not interactive stops here; a person says how it goes on. `question` is the effect in doubt."""

    kind: HaltKind
    reason: str
    question: Question | None = None


class HaltChoice(StrEnum):
    PROCEED = "proceed"
    SKIP = "skip"
    EDIT = "edit"
    ABORT = "abort"
    LEAVE = "leave"  # nobody is there: it stays halted until somebody resumes it


class HaltAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`arguments` are those to take instead, with EDIT; `note` is told to the model."""

    choice: HaltChoice
    note: str = ""
    arguments: Arguments | None = None
