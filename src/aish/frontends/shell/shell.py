"""The open shell: the state that its commands share, and what they can do with it.

Commands change the state through methods only. The terminal has one owner at a time: the line editor while it reads,
the live bash while a command runs, the printer while a model answers.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from aish.config.frontmatter import usable_names
from aish.engine.engine import Engine
from aish.engine.model.ledger import dollars
from aish.engine.model.router import AUTO
from aish.errors import AishError, ProcessError
from aish.frontends.runtime import LiveShell, Runtime
from aish.frontends.shell.command_context import CommandContext
from aish.frontends.shell.notifications import Notifier
from aish.frontends.shell.prompt.history import PromptHistory, entry_now
from aish.frontends.shell.prompt.terminal_echo import echo_off
from aish.frontends.signals import is_stopped_alone, on_interrupt
from aish.frontends.terminal import Output, visible
from aish.tool_calls.detect.proposals import AnswerBlock, find_blocks
from aish.types.context import ContextView
from aish.types.decisions import Answer, Mode, Question
from aish.types.events import ToolResult
from aish.types.live_shell import RunResult
from aish.types.models import ModelProfile
from aish.types.requests import TurnRequest
from aish.types.usage import Usage

if TYPE_CHECKING:
    from aish.autonomy.turn_summary import TurnSummary
    from aish.frontends.shell.render.event_printer import EventPrinter
    from aish.frontends.shell.render.styles import Reasoning
    from aish.ports import Ask
_PROMPT_COMMANDS = {
    "models": ":models", "models list": ":models", "runs list": ":runs", "plan": ":plan", "sessions list": ":sessions",
    "doctor": ":doctor", "config trust": ":trust",
}  # fmt: skip
# Commands without a `:` form, such as `aish models pull`, stay as they are: they can be typed at the prompt, too.
_AISH_COMMAND = re.compile(
    r"\baish (models list|models(?! (?:pull|rm)\b)|runs list|plan(?! delete\b)|sessions list|doctor|config trust)\b"
)


class Editor(Protocol):
    """The line editor, as the shell uses it."""

    async def read(self, typed: str = "") -> str | None: ...

    async def ask(self, question: str, typed: str = "") -> str | None: ...

    async def ask_key(self, question: str, keys: Collection[str]) -> str: ...

    @property
    def has_typed_ahead(self) -> bool: ...


PASTE = "\x1b[200~{}\x1b[201~"  # keys that a terminal sends for a text that is pasted


class LastAnswer(msgspec.Struct, frozen=True):
    """What the model said last. `blocks` are numbered as they were shown."""

    text: str = ""
    blocks: tuple[AnswerBlock, ...] = ()


class Notices:
    """Prints what the live shell reports. While a program has the terminal, notices wait: they would garble its
    screen."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._waiting: list[str] | None = None

    def show(self, text: str) -> None:
        if self._waiting is None:
            self._output.note(f"· {text}")
        else:
            self._waiting.append(text)

    @contextmanager
    def defer(self) -> Iterator[None]:
        self._waiting = []
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            for text in waiting:
                self.show(text)


def do_nothing() -> None:
    pass


class Shell:
    """`live` is None where no live bash can run. `make_editor` builds the line editor, which completes from this
    state."""

    def __init__(
        self,
        engine: Engine,
        runtime: Runtime,
        output: Output,
        request: TurnRequest,
        *,
        live: LiveShell | None,
        notices: Notices,
        approves_all: bool,
        make_editor: Callable[[Shell], Editor],
        history: PromptHistory | None = None,
    ) -> None:
        config = runtime.config.shell
        self.engine, self.runtime, self.output, self.live = engine, runtime, output, live
        self.request = request  # model, session, tools and limits of the next turn
        self.mode_before = self._mode_of_line = Mode.ASK  # before plan mode, and when the prompt was drawn
        self.command_context = CommandContext(config.attach_max_chars)
        self.model = ""  # its full name, once it is known
        self.window: int | None = None
        self.context_tokens = 0  # of the last request
        self.usage = Usage()
        self.cost_since_ms = 0  # where `:cost` starts to count
        self.highlight = config.highlight
        self.reasoning: Reasoning = config.reasoning
        self.answer = LastAnswer()
        self.results: list[ToolResult] = []  # of the last turn that had calls
        self.status = ""  # how the user's last command ended, for the prompt
        self.is_leaving = False
        self.history = PromptHistory(None) if history is None else history
        self._notices = notices
        self._notifier = Notifier(output, config.notify, runtime.launch_context.env, after_s=config.notify_after_s)
        self._approves_all = approves_all
        self._model_before_routing = ""
        self._typed_ahead = ""
        self._mentioned: set[str] = set()  # what the user is told once
        self._run_in = ""  # where the last line began to run
        self._answering: asyncio.Future[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._editor = make_editor(self)

    @property
    def cwd(self) -> str:
        return self.live.cwd if self.live else str(self.runtime.launch_context.cwd)

    @property
    def editor_env(self) -> Mapping[str, str]:
        """The environment for the user's editor, which an rc file may name."""
        env = self.runtime.launch_context.env
        named = self.live.editor if self.live else ""
        return {**env, "VISUAL": named, "EDITOR": named} if named else env

    # What the user types.

    async def read_line(self) -> str | None:
        """The next line of the prompt, which begins with what was typed ahead. None at the end of input."""
        typed, self._typed_ahead = self._typed_ahead, ""
        self._mode_of_line = self.mode
        return await self._editor.read(typed + self._notifier.take_kept())

    async def read(self, prompt: str, typed: str = "") -> str | None:
        """A short answer of the user."""
        if not typed:
            self.drop_typed_ahead()
        with self._notifier.question():
            return await self._editor.ask(prompt, typed)

    async def read_key(self, prompt: str, keys: Collection[str]) -> str | None:
        """One of `keys`, "" for Enter. Any other key begins the next line."""
        key = await self._editor.ask_key(prompt, keys)
        if key in keys:
            return key
        self.type_ahead(key.strip("\0"))
        return None

    @property
    def has_typed_ahead(self) -> bool:
        return bool(self._typed_ahead) or self._editor.has_typed_ahead

    def type_ahead(self, text: str) -> None:
        """Puts text before the keys that the next prompt replays."""
        self._typed_ahead = text + self._typed_ahead

    def keep_typed_ahead(self) -> None:
        """Takes what was typed before a question is shown. It is no answer, and stands at the next prompt, where Enter
        runs it."""
        text = self._notifier.read_keys().decode("utf-8", "replace").replace("\r", "\n").strip("\n")
        if text.replace("\n", "").isprintable():
            self.type_ahead(PASTE.format(text) if text else "")

    def drop_typed_ahead(self) -> None:
        """Discards the keys that wait: typed before a question was shown, they do not answer it."""
        self._notifier.read_keys()

    def leave(self) -> None:
        """Ends the shell after the current line."""
        self.is_leaving = True

    # The next turn.

    def change_request(self, **fields: object) -> None:
        self.request = msgspec.structs.replace(self.request, **fields)

    @property
    def mode(self) -> Mode:
        """How much the model's tools may do without a question."""
        return self.request.mode or Mode.ASK

    def switch_mode(self, mode: Mode) -> None:
        if mode is not self.mode:
            self.mode_before = self.mode
            self.change_request(mode=mode)

    def cycle_mode(self) -> None:
        """Goes on to the next mode. An approved plan goes back to the mode before, but to none that was only passed."""
        modes = list(Mode)
        before = self.mode_before if self._mode_of_line is Mode.PLAN else self._mode_of_line
        self.switch_mode(modes[(modes.index(self.mode) + 1) % len(modes)])
        self.mode_before = before

    async def switch_model(self, name: str) -> None:
        """Raises ModelNotFound."""
        route = await self.engine.router.resolve(name)
        self.change_request(model=name)
        self.model, self.window = route.name, route.info.context_size

    async def look_up_model(self) -> None:
        route = await self.engine.router.resolve(self.request.model)
        self.model, self.window = route.name, route.info.context_size

    async def find_model_info(self, request: TurnRequest) -> ModelProfile:
        """What is known of the model that will answer the request."""
        return (await self.engine.selector.select(request)).route.info

    @property
    def routes_automatically(self) -> bool:
        return self.engine.selector.is_automatic(self.request.model)

    async def switch_routing(self, *, on: bool) -> None:
        """Without routing the model is the one chosen before; if [routing] is automatic, the default has to be
        named."""
        if on == self.routes_automatically:
            return
        if on:
            self._model_before_routing = self.request.model
            self.change_request(model=AUTO)
        else:
            default = self.runtime.config.model or (await self.engine.router.resolve("")).name
            self.change_request(model=self._model_before_routing or default)

    async def view_context(self, request: TurnRequest) -> ContextView:
        view = await self.engine.view_context(request)
        self.window = view.window
        return view

    def restart_cost_count(self, now_ms: int) -> None:
        self.cost_since_ms = now_ms

    def forget_context_size(self) -> None:
        """After a rewind, the size of the next prompt is not known."""
        self.context_tokens = 0

    def start_conversation(self) -> None:
        """Forgets the conversation: the next question begins a new session."""
        self.change_request(session="")
        self.command_context.clear()
        self.context_tokens = 0

    async def leave_store(self) -> None:
        """Goes on with a new conversation that ends with this shell: the store cannot be written. What was spent today
        still counts."""
        spent = await self.engine.ledger.spent_today()
        self.engine = self.runtime.unstored_engine()
        self.engine.ledger.carry_over(spent)
        self.change_request(session="", memory=False)
        if (cap := self.engine.ledger.caps.day) is not None:
            self.output.note(f"· of the cap for a day, {dollars(cap)}, {dollars(spent)} is spent as far as is known")

    # Answers.

    def set_display(self, *, highlight: bool | None = None, reasoning: Reasoning | None = None) -> None:
        """How the next answers are shown. None leaves a setting as it is."""
        self.highlight = self.highlight if highlight is None else highlight
        self.reasoning = reasoning or self.reasoning

    def make_consent(self) -> Ask:
        """What puts the gate's questions to the user."""
        from aish.frontends.shell.approvals.consent import TerminalConsent, approve_all

        if self._approves_all:
            return approve_all
        consent = TerminalConsent(self.output, self, self.editor_env)

        async def ask(question: Question) -> Answer:
            self.drop_typed_ahead()
            with self._notifier.question():  # also while an editor has the terminal
                return await consent(question)

        return ask

    def make_printer(self) -> EventPrinter:
        from aish.frontends.shell.render.event_printer import printer_for
        from aish.frontends.shell.render.styles import display_for

        env, out = self.runtime.launch_context.env, self.output.out
        display = display_for(out, env, highlight=self.highlight, reasoning=self.reasoning, numbered=True)
        return printer_for(self.output, display)

    async def show_turn(self, request: TurnRequest, summary: TurnSummary) -> bool:
        """Runs a turn and prints it as it arrives. Whether the user stopped it with Ctrl-C."""
        self._answering = answering = asyncio.ensure_future(self._print_turn(request, summary))
        with self.watch(), on_interrupt(answering.cancel):
            try:
                await answering
            except asyncio.CancelledError:
                if not is_stopped_alone(answering):
                    raise
                self.output.note("stopped")
            finally:
                self._answering = None
        return answering.cancelled()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Around work of a model: keys wait for the next prompt, and a user who looks elsewhere is notified."""
        with echo_off(), self._notifier.watch(self.cwd):
            yield

    async def _print_turn(self, request: TurnRequest, summary: TurnSummary) -> None:
        printer = self.make_printer()
        request = msgspec.structs.replace(request, live_output=True)
        results: list[ToolResult] = []
        try:
            async with (
                printer.waiting(f"waiting for {self.model or 'a model'}"),
                self.engine.turn(request, ask=self.make_consent()) as batches,
            ):
                async for events in batches:
                    summary.add(events)
                    results += [event.body for event in events if isinstance(event.body, ToolResult)]
                    printer.show_all(events)
        finally:
            self.results = results or self.results
            if summary.text.strip():
                self.answer = LastAnswer(summary.text, tuple(printer.blocks or find_blocks(visible(summary.text))))

    def mention_blocks(self) -> None:
        """Says once what can be done with the blocks of an answer."""
        if any(block.command for block in self.answer.blocks):
            text = "F5 runs the last block; :run N, :copy N, :edit N, :revise N TEXT take the one you name"
            self.mention_once("blocks", text)

    def mention_once(self, subject: str, text: str) -> None:
        if subject not in self._mentioned:
            self._mentioned.add(subject)
            self.output.note(f"· {text}")

    def stop_answer(self) -> None:
        """Stops the turn that is being shown, if there is one."""
        if self._answering is not None:
            self._answering.cancel()

    def record_turn(self, summary: TurnSummary) -> None:
        """Keeps the session, model and usage of a turn of this conversation."""
        if summary.session:
            self.change_request(session=summary.session)
        self.model = summary.model or self.model
        self.context_tokens = summary.context_tokens or self.context_tokens
        self.record_usage(summary.usage)

    def record_usage(self, usage: Usage) -> None:
        self.usage = self.usage + usage

    # Commands in the live bash.

    def skill_names(self) -> frozenset[str]:
        return usable_names(self.runtime.skills())

    async def run_line(self, line: str, *, attach: bool, typed: bool = False, is_proposal: bool = False) -> RunResult:
        """Runs a line in the live bash; `attach` adds it to the context of the next question. After a line that the
        user has `typed`, or chosen from an answer as if it were typed, the prompt shows how it ended; any other line is
        aish's own, and in no history. A proposal enters the history, and cannot end the shell."""
        if self.live is None:
            raise ProcessError("there is no live shell here", hint="ask the model, or use another terminal")
        terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._run_in = self.cwd
        # The program gets Ctrl-C itself; the line is not left half way.
        with self._notices.defer(), on_interrupt(do_nothing):
            result = await self.live.run_user(line, terminal, may_exit=not is_proposal, is_own=not typed)
        if result.output and not result.output.endswith("\n") and not result.full_screen:
            self.output.note("")  # the prompt is drawn from the first column, over what stands there
        if typed:
            self.status = "" if result.status == 0 else f"[{result.status}]"
        self._typed_ahead += result.typed_ahead
        if self.live.exited.is_set():
            self.leave()
        if is_proposal:
            self.keep_command(result)
        if attach and result.is_kept:
            self.command_context.add_run(result, is_proposal=is_proposal)
        return result

    async def take_checkpoint(self) -> None:
        """Before a command that an answer has proposed. It belongs to the turn of that answer."""
        if notice := await self.engine.turn_checkpoints.take_for_last_turn(self.request.session):
            self.output.note(f"· {notice}")

    # The history.

    def keep_command(self, result: RunResult, line: str = "") -> None:
        """Adds a line that has run in the live bash, if bash keeps it. `line`: as typed, with a mark."""
        if result.is_kept:
            entry = entry_now(
                line or result.line, cwd=self._run_in, status=result.status, duration_s=round(result.duration_s, 3)
            )
            self.history.add(entry)

    def keep_line(self, line: str) -> None:
        """Adds a line for the model or for aish itself, by the rules that bash has for its lines."""
        control = self.live.history_settings.control if self.live else ""
        is_hidden = line.startswith(" ") and ("ignorespace" in control or "ignoreboth" in control)
        is_repeated = ("ignoredups" in control or "ignoreboth" in control) and line == self.history.last_line
        if not is_hidden and not is_repeated:
            self.history.add(entry_now(line, cwd=self.cwd))

    # The first prompt.

    def start_loading(self) -> None:
        """Loads what turns need and looks up the model, while the user types the first line."""
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        await asyncio.gather(asyncio.to_thread(self.runtime.load_for_turns), self._load_history())
        for problem in await self.runtime.extensions.refresh():
            self._notices.show(problem)
        with suppress(AishError):
            await self.look_up_model()

    async def _load_history(self) -> None:
        """Takes over what was typed in other terminals, as far as bash has written it."""
        if self.live is not None:
            with suppress(AishError):
                await self.live.ready()
                await self.history.import_bash_file(self.live.history_settings.file)

    def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()


def format_error(error: AishError) -> str:
    return f"aish: {error.message}" + (f"\n  {in_prompt_words(error.hint)}" if error.hint else "")


def in_prompt_words(hint: str) -> str:
    return _AISH_COMMAND.sub(lambda match: _PROMPT_COMMANDS[match[1]], hint)
