"""All interfaces between the engine and its adapters.

Adapters implement these protocols, `app` chooses them, and the suites in tests/contracts hold each adapter to them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

import msgspec

from aish.types.checkpoints import Checkpoint, FileChanges, RestoredFiles
from aish.types.chunks import Batch
from aish.types.decisions import (
    NO_VERDICT,
    Answer,
    Decision,
    EffectRequest,
    HookEvent,
    HookPoint,
    HookVerdict,
    Mode,
    Question,
)
from aish.types.events import TurnEnd
from aish.types.messages import Message
from aish.types.models import ModelProfile
from aish.types.records import Document, Fact, FeedRow, SessionRecord, TurnRecord
from aish.types.requests import EmbeddingResult, Inputs, StepRequest, TurnLimits, TurnRequest
from aish.types.runs import RunRecord, RunState, StepRecord
from aish.types.tools import Arguments, ToolOutput, ToolSpec
from aish.types.usage import Reservation, SpendingTotal, SpentRow, Usage, UsageRecord

Ask = Callable[[Question], Awaitable[Answer]]


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def now_ns(self) -> int:
        """The same in nanoseconds."""

    def monotonic_s(self) -> float: ...


class ProcessLiveness(Protocol):
    """The name of this process, and whether the process of any name is alive. Turns and runs carry such names."""

    @property
    def me(self) -> str: ...

    def is_alive(self, owner: str) -> bool: ...


class Tokenizer(Protocol):
    async def count_tokens(self, model: str, text: str) -> int | None:
        """The backend's own count, or None if it has none. Never raises."""

    async def count_prompt(self, request: StepRequest) -> int | None:
        """The count of the whole prompt, with chat template and tools, by the backend; None if it has none. Never
        raises."""


class TextSink(Protocol):
    """Where a frontend takes single words, as they are read from the backend, past the batches of events."""

    def is_open(self) -> bool:
        """Whether `write` can take a word now."""

    def write(self, text: str) -> None:
        """Takes a word, and never waits. A failure ends the turn."""


class TextRelay(Protocol):
    """Takes text of an answer while the next batch is awaited. See `engine/turn/text_relay.py`."""

    def scan_with(self, passes: Callable[[str], bool]) -> None:
        """From now on the relay takes text only if `passes` does, which then has read it."""

    def accept(self, text: str) -> bool:
        """Returns whether the text was taken, and never waits. Text that was not taken belongs into a batch. What it
        raises is raised where the next batch is awaited."""


class Provider(Tokenizer, Protocol):
    """A backend that answers. All its failures are ProviderErrors."""

    @property
    def name(self) -> str: ...

    async def list_models(self) -> Sequence[ModelProfile]: ...

    async def describe(self, model: str) -> ModelProfile:
        """What is known of one model. Raises ModelNotFound if the backend says that it does not exist."""

    def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        """One model call, in batches of chunks.

        Leaving the context ends the upstream request at once, whether or not it had finished. Entering does no I/O;
        the first `anext` does. The last chunk is StepFinished. Nothing takes longer than `request.deadline_s`:
        a ProviderTimeout that `is_deadline` ends it then.

        `relay` may be offered text while the next batch is awaited, but never before the first batch; text that it
        accepts is in no batch. A provider around another passes it on only if it does to that text what it does to
        batches, and not while it holds text back. One that changes text passes none on.
        """

    def prepare(self, request: StepRequest) -> StepRequest:
        """The request as it will be sent, as far as is known now: tools are written into the messages if the backend
        takes none. Pure, and for counting only."""

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        """Embeds texts or token ids. Raises a plain ProviderError if the backend takes no ids."""

    async def aclose(self) -> None:
        """Ends every connection and process. Idempotent."""


class SharedBudget(Protocol):
    """What a turn may still spend, for turns that it starts: these take from it what they spend."""

    @property
    def remaining_s(self) -> float: ...

    def get_remaining(self) -> TurnLimits: ...

    def spend_for_child(self, usage: Usage) -> None: ...

    def take_tool_call(self) -> bool:
        """Counts one more call, if the limit leaves room for it."""

    def find_spent(self) -> TurnEnd | None:
        """The limit of tokens or money that is reached, if any."""


class CallerRights(msgspec.Struct, frozen=True):
    """What a turn that starts another may do: the other may do no more.

    `tools` are the names of its tools, `model` the name of the model that answers. `session` is the one whose approvals
    and whose checkpoints count. `ask` puts questions to its user; None if there is none. `depth` is that of the turn to
    be started: 1 for one that a user's turn starts.
    """

    request: TurnRequest
    session: str
    turn: str
    model: str
    tools: tuple[str, ...]
    budget: SharedBudget
    ask: Ask | None = None
    depth: int = 1


class CallContext(Protocol):
    """What a running tool may know and report of its call. `owner` as in an EffectRequest. `is_proved` says that a
    command line runs because it is proved harmless: what the proof assumes must hold. `is_unasked` says that no person
    and no rule of a person has allowed a call that is not proved. `rights` are for tools that run turns; None for all
    others, and where no turn makes the call."""

    session: str
    turn: str
    call: str
    owner: str
    is_proved: bool
    is_unasked: bool
    rights: CallerRights | None

    async def ask_user(self, text: str, choices: Sequence[str]) -> str | None:
        """Asks the user for something, and does not count the time. None if there is no user, or no answer."""

    def status(self, text: str) -> None:
        """Shows the user a line while the tool runs."""

    def output(self, text: str) -> None:
        """Shows the user what the tool prints, as it comes. The result still has to hold it."""


class Toolset(Protocol):
    """A set of named tools. The registry is one, and consists of others."""

    def specs(self) -> Sequence[ToolSpec]:
        """Returns the same object until the list changes."""

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        """Runs a tool. Raises ToolError. Must end soon after being cancelled."""

    async def aclose(self) -> None: ...


@runtime_checkable
class DynamicToolset(Protocol):
    """A toolset to which a request can add the tools of dynamic MCP servers."""

    def with_dynamic(self, dynamic_mcp: str) -> Toolset:
        """With the tools of these servers; without them once they are closed."""


@runtime_checkable
class Previewing(Protocol):
    """A toolset that can tell what a call would change."""

    async def preview(self, name: str, arguments: Arguments, call: str) -> str:
        """What the call would change, for the user who is asked; "" if there is nothing to show. Changes nothing.
        Raises ToolError.

        If that call is then made, it does what was shown, or nothing.
        """


@runtime_checkable
class Witnessing(Protocol):
    """A toolset that can tell afterwards whether a call had its effect."""

    async def compute_witness(self, name: str, arguments: Arguments) -> str:
        """The state before the call and the state it would leave; "" if that is unknown.

        Changes nothing. Holds no content, only digests.
        """

    async def has_happened(self, name: str, witness: str) -> bool | None:
        """Whether the call with this witness has had its effect; None if that is unknown."""


class Gate(Protocol):
    """The one place where effects are allowed. Any exception here counts as a refusal."""

    def is_visible(self, tool: ToolSpec, *, interactive: bool, owner: str = "", mode: Mode | None = None) -> bool:
        """Whether the model may see the tool at all. `owner` and `mode` as in an EffectRequest."""

    async def authorise(self, effect: EffectRequest, ask: Ask | None) -> Decision:
        """Decides ALLOW or DENY, never ASK. `ask` None: there is no user to ask."""

    async def find_like(self, effect: EffectRequest) -> str:
        """What a yes for the turn would cover, if the user is asked about this call; "" if not, or only this one."""


class ExtensionPoints(Protocol):
    """Code of the user: tools that come and go with files, and hooks that run at points of a turn. A hook can deny,
    ask, narrow and add, and never allow."""

    async def refresh(self) -> Sequence[str]:
        """Takes up tools and hooks that were added, changed or removed. Awaited before tools are selected. Fast if
        nothing has changed. Returns problems that the user was not told of before."""

    def has_hooks(self, point: HookPoint) -> bool:
        """Whether there is any hook for this point. Fast."""

    async def run_hooks(self, event: HookEvent) -> HookVerdict:
        """Runs the hooks for an event, each in bounded time. Never raises: a hook that fails refuses or is skipped, as
        the user has set."""


class NoExtensions:
    """For engines without extensions."""

    async def refresh(self) -> Sequence[str]:
        return ()

    def has_hooks(self, point: HookPoint) -> bool:
        return False

    async def run_hooks(self, event: HookEvent) -> HookVerdict:
        return NO_VERDICT


class Checkpoints(Protocol):
    """Checkpoints of the workspaces on this machine. All failures are CheckpointErrors."""

    async def take(self, before: Checkpoint | None = None) -> Checkpoint:
        """Stores the files of the workspace that the user is in, as they are now; the checkpoint before is returned if
        nothing has changed. `before`: of its workspace, since it is about to be restored; it does not make room."""

    async def compare(self, root: str, numbers: Iterable[int]) -> Mapping[int, FileChanges]:
        """What bringing each of these checkpoints back would change. Those that are not stored are left out."""

    async def restore(self, checkpoint: Checkpoint) -> RestoredFiles:
        """Brings the files back. First takes a checkpoint of the present state, and changes nothing if that fails."""


class Spending(Protocol):
    """The cost of model calls."""

    def record_usage(self, record: UsageRecord) -> None:
        """Replaces the reservation of that id, if there is one. Written soon; never blocks."""

    async def reserve(
        self, wanted: Reservation, *, day_start_ms: int, day_cap: float | None, session_cap: float | None
    ) -> tuple[float, float] | None:
        """Reserves what a call may cost, if both caps leave room. Check and write are atomic, also between processes.

        Returns None if it is reserved; else what the day and the session have cost already.
        """

    def release(self, id: str) -> None:
        """Removes the reservation of a call that was not made. Written soon; never blocks."""

    async def sum_spending(self, *, since_ms: int = 0, session: str | None = None) -> SpendingTotal: ...

    async def list_spent(self, *, since_ms: int = 0, session: str | None = None) -> Sequence[SpentRow]:
        """By day, model and category."""

    async def sum_up_usage(self, *, before_ms: int) -> bool:
        """Replaces the records of the oldest quarter of an hour that is over and not summed up by few records.

        Returns False if there is none. A sum counts from the last of its calls on. Days begin with a quarter in every
        time zone.
        """


class Facts(Protocol):
    """Facts that outlive a session."""

    async def put_facts(self, given: Sequence[Fact]) -> None:
        """Replaces facts of the same id. All or none."""

    async def find_fact(self, id: str) -> Fact | None: ...

    async def delete_fact(self, id: str) -> bool: ...

    async def clear_facts(self) -> int:
        """Deletes all facts. Returns how many."""

    async def list_facts(self, *, limit: int) -> Sequence[Fact]:
        """Newest first."""

    async def search_facts(self, query: str, *, limit: int) -> Sequence[Fact]:
        """Facts with any word of the query, the best match first."""


class Runs(Protocol):
    """Long work and its journal. All writes are durable when they return.

    A process that works on a run holds a lease of some seconds, by the store's clock, and renews it. A write with an
    older `fence` than the run's changes nothing and returns False: another process has taken the run over.
    """

    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        """Returns the run as it is stored, with its times and its first fence."""

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        """Takes a run over, with a new fence. None while the lease of another process holds, unless that process is
        `dead`."""

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        """Writes session, state, body, reason and owner. `owner` "" gives the run back."""

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool: ...

    async def find_run(self, id: str) -> RunRecord | None: ...

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        """Newest first; no states means all."""

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        """Replaces the step of that number."""

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        """In order."""


class Feed(Protocol):
    """The events of all turns, of every process that uses the store, in the order they were written."""

    async def read_feed(self, after: int, limit: int) -> Sequence[FeedRow]:
        """Rows after the cursor, oldest first, without those of deleted turns. Reading on from the last cursor misses
        none: no row ever appears below one that was read."""

    async def feed_end(self) -> int:
        """The newest cursor there ever was, 0 if there was none."""

    async def wait_feed(self, after: int, timeout_s: float) -> bool:
        """Waits until something is written after the cursor. Returns False if the time is up. What another process
        wrote may be noticed a moment later."""


class Store(Spending, Facts, Runs, Feed, Protocol):
    """What survives the process. Writes are applied in the order they are made.

    `append_events` returns at once and is written soon; `flush` returns when everything appended before is written.
    Durable means that it survives a loss of power; not durable, that it survives `kill -9` of this process. The other
    writes are durable when they return, unless they are told not to `wait`: then they are written soon.

    A turn whose session is "" belongs to none. It is found by its id and listed nowhere. Its record needs no input and
    no messages, since its events hold them.
    """

    async def create_session(self, session: SessionRecord) -> None: ...

    async def find_session(self, session: str) -> SessionRecord | None: ...

    async def list_sessions(
        self,
        *,
        limit: int,
        search: str = "",
        under: str = "",
        before: tuple[int, str] | None = None,
        parent: str | None = "",
    ) -> Sequence[SessionRecord]:
        """Newest first. `search` matches titles and the text of messages. `under` is a prefix of their ids. `before` is
        the time and the id of the last one of the page before. `parent`: sessions of agents that this turn or session
        has started; "" means those of no agent, None all."""

    async def delete_session(self, session: str) -> bool:
        """Deletes also the sessions of agents that it has started."""

    async def start_turn(self, turn: TurnRecord) -> int:
        """Records a running turn. Returns its number within the session; the record's own number is ignored."""

    def begin_turn(self, turn: TurnRecord) -> None:
        """Records a running turn of no session. Written soon, before its events; never blocks."""

    async def record_turn(self, turn: TurnRecord, last_seq: int, lines: bytes) -> None:
        """Records a finished turn of no session with its events `1..last_seq`. Written soon; never blocks."""

    async def stored_bytes(self, owner: str) -> int:
        """How many bytes the key `owner` has stored: its documents, and the turns and events of sessions whose ids
        begin with `owner/`. Indexes are not counted."""

    def append_events(self, turn: str, first_seq: int, last_seq: int, lines: bytes) -> None:
        """Appends events `first_seq..last_seq`, as newline-terminated JSON. Never blocks."""

    async def flush(self, *, durable: bool = True) -> None: ...

    async def finish_turn(
        self,
        turn: str,
        *,
        end: TurnEnd,
        finished_ms: int,
        messages: Sequence[Message],
        usage: Usage,
        wait: bool = True,
    ) -> None: ...

    async def find_turn(self, turn: str) -> TurnRecord | None: ...

    async def list_turns(
        self, session: str, *, before: int | None = None, limit: int | None = None
    ) -> Sequence[TurnRecord]:
        """In order: the last `limit` turns with a number below `before`."""

    async def read_events(self, turn: str, *, after_seq: int = 0) -> bytes:
        """The recorded lines, byte for byte."""

    async def delete_turns(self, session: str, *, before_ms: int) -> int:
        """Deletes turns that started before. Returns how many."""

    async def trim_traces(self, max_bytes: int) -> int:
        """Deletes the oldest turns of no session until the events of the others take at most so many bytes. Returns how
        many."""

    async def put(self, document: Document, *, wait: bool = True) -> None:
        """Replaces the document of that kind and id, if there is one."""

    async def put_new(self, document: Document) -> bool:
        """Writes nothing and returns False if there is a document of that kind and id."""

    async def swap(self, document: Document, *, old: bytes) -> bool:
        """Replaces the body if it still is `old`."""

    async def find(self, kind: str, id: str) -> Document | None: ...

    async def find_many(self, kind: str, ids: Collection[str]) -> Sequence[Document]: ...

    async def list_documents(self, kind: str, *, owner: str | None = None, limit: int = 1000) -> Sequence[Document]:
        """Newest first. `owner` None means documents of all owners."""

    async def delete(self, kind: str, id: str) -> bool: ...

    async def release_memory(self) -> None:
        """Gives up copies of large values that were written."""

    async def aclose(self) -> None: ...
