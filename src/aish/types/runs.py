"""Long work that outlives its process: a run, and the journal of its effects.

A run has one owner at a time. Whoever takes it over raises its `fence`; writes that carry an older one fail. A step is
written as an INTENT before its effect and with its outcome after it, so that one which still is an intent when the run
is taken over may or may not have happened.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


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
