"""The process that runs the Python of extensions: an MCP server on stdin and stdout, started by `tools/extensions`.

Beyond MCP it understands `aish/describe`, `aish/command`, `aish/hook` and `aish/busy`. A request names its source,
which is imported when it is first needed; nothing is imported at the start. Imports and functions that are not `async`
run in threads. Whatever is printed goes to stderr, so it cannot garble the protocol.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aish import __version__
from aish.errors import AishError
from aish.extensions.context import Context
from aish.extensions.definitions import CommandFunction, Definition, HookFunction, ToolFunction
from aish.extensions.loading import (
    LoadedSource,
    LoadError,
    check_pinned_module,
    find_place,
    is_pinned_module,
    load_source,
)
from aish.extensions.manifest import Manifest, PythonSource
from aish.extensions.results import Prompt, ResultError, to_content
from aish.net.framing import DEFAULT_MAX_BYTES, NewlineFraming, Oversize
from aish.net.jsonrpc_message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Message,
    RpcError,
    decode_messages,
    encode_error,
    encode_notification,
    encode_result,
)
from aish.types.decisions import HookAnswer, HookEvent
from aish.types.tools import Effect, JsonObject

# Of threads for imports and for functions that are not async. A call beyond that waits.
MAX_THREADS = 32
MAX_HOOK_THREADS = 16  # also for imports, which hooks may have to wait for
# A file that takes longer to import is left out, and the others are not held up.
IMPORT_TIMEOUT_S = 10.0
PROTOCOL_VERSION = "2025-11-25"
STATUS_METHOD = "notifications/aish/status"
OUTPUT_METHOD = "notifications/aish/output"
# A question to the user and its answer are notifications: an answer may take minutes.
QUESTION_METHOD = "notifications/aish/question"
ANSWER_METHOD = "notifications/aish/answer"
WITHDRAW_METHOD = "notifications/aish/withdraw"
MAX_REPORT_CHARS = 64 * 1024
_MAX_REPORTS = 1000
# Larger messages are dropped by the other side.
MAX_MESSAGE_BYTES = DEFAULT_MAX_BYTES - 1024
_MAX_ERROR_CHARS = 100_000

Kind = TypeVar("Kind", ToolFunction, CommandFunction, HookFunction)


class CallMeta(msgspec.Struct, frozen=True):
    """What aish tells the process about a call, in `_meta`. `token` is that of the progress of the call."""

    source: PythonSource
    workspace: str = ""
    session: str = ""
    turn: str = ""
    call: str = ""
    settings: dict[str, Any] = {}
    token: str = ""


class _Call(msgspec.Struct):
    name: str = ""
    arguments: JsonObject | None = None
    _meta: dict[str, msgspec.Raw] = {}


class _Work(msgspec.Struct):
    """The params of `aish/command` and `aish/hook`."""

    name: str
    meta: CallMeta
    text: str = ""
    event: HookEvent | None = None


class _Describe(msgspec.Struct):
    sources: list[PythonSource]


class _Cancelled(msgspec.Struct):
    requestId: int | str = 0


class _Answered(msgspec.Struct):
    question: int = 0
    answer: str | None = None


class CommandOutput(msgspec.Struct, omit_defaults=True):
    """What a command returned: a text for the user, or a prompt for the model."""

    text: str = ""
    prompt: str = ""


class _Ended(Exception):
    """A function that has ended in a way that would end more than its call."""


class _ThreadWork:
    """Work in a thread, which cannot be stopped."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.is_running = False
        self._work = work

    def run(self) -> Any:
        self.is_running = True
        try:
            return self._work()
        finally:
            self.is_running = False


class Host:
    def __init__(self, write: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        self._write = write
        self._framing = NewlineFraming()
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="tool")
        # Tools that are slow must not keep hooks waiting, which guard them.
        self._hook_threads = ThreadPoolExecutor(MAX_HOOK_THREADS, thread_name_prefix="hook")
        self._loading: dict[PythonSource, asyncio.Future[LoadedSource]] = {}
        self._running: dict[int | str, tuple[asyncio.Task[None], list[Context]]] = {}
        self._questions: dict[int, asyncio.Future[str | None]] = {}
        self._last_question = 0
        self._abandoned: list[_ThreadWork] = []  # of cancelled calls
        self._reports = 0  # that are not written yet
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()

    def feed(self, data: bytes) -> None:
        for body in self._framing.feed(data):
            if isinstance(body, Oversize):
                continue  # its request times out, or fails with the process
            try:
                messages = decode_messages(body)
            except AishError:
                continue
            for message in messages:
                self._take(message)

    def _take(self, message: Message) -> None:
        if message.id is None:
            self._take_notification(message)
        elif not message.is_response and message.id not in self._running:
            contexts: list[Context] = []
            task = asyncio.ensure_future(self._answer(message, contexts))
            self._running[message.id] = task, contexts
            task.add_done_callback(lambda _: self._running.pop(message.id, None))

    def _take_notification(self, message: Message) -> None:
        if message.method == "notifications/cancelled":
            self._cancel(msgspec.json.decode(message.params, type=_Cancelled).requestId)
        elif message.method == ANSWER_METHOD:
            given = msgspec.json.decode(message.params, type=_Answered)
            waiting = self._questions.get(given.question)
            if waiting is not None and not waiting.done():
                waiting.set_result(given.answer)

    def _cancel(self, id: int | str) -> None:
        task, contexts = self._running.get(id, (None, []))
        for context in contexts:
            context.cancel()
        if task is not None:
            task.cancel()

    async def _answer(self, message: Message, contexts: list[Context]) -> None:
        try:
            data = encode_result(message.id, await self._handle(message, contexts))
        except RpcError as exc:
            data = encode_error(message.id, exc)
        except (msgspec.MsgspecError, AishError) as exc:
            data = encode_error(message.id, RpcError(INVALID_PARAMS, _shorten(str(exc))))
        except Exception as exc:
            data = encode_error(message.id, RpcError(INTERNAL_ERROR, _shorten(_describe_failure(exc))))
        if len(data) > MAX_MESSAGE_BYTES:
            data = _refuse_size(message, len(data))
        await self._write(self._framing.frame(data))

    async def _handle(self, message: Message, contexts: list[Context]) -> Any:
        match message.method:
            case "initialize":
                info = {"name": "aish-extensions", "version": __version__}
                return {"protocolVersion": PROTOCOL_VERSION, "capabilities": {"tools": {}}, "serverInfo": info}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [_describe_tool(entry) for entry in self._loaded_tools()]}
            case "tools/call":
                return await self._call_tool(msgspec.json.decode(message.params, type=_Call), contexts)
            case "aish/describe":
                wanted = msgspec.json.decode(message.params, type=_Describe).sources
                return await asyncio.gather(*map(self._describe, wanted))
            case "aish/command":
                return await self._run_command(msgspec.json.decode(message.params, type=_Work), contexts)
            case "aish/hook":
                return await self._run_hook(msgspec.json.decode(message.params, type=_Work), contexts)
            case "aish/abandoned":
                self._abandoned = [thread for thread in self._abandoned if thread.is_running]
                return len(self._abandoned)
            case _:
                raise RpcError(METHOD_NOT_FOUND, "Method not found")

    # Sources.

    async def _describe(self, source: PythonSource) -> Manifest:
        try:
            return (await self._load(source)).manifest
        except LoadError as exc:
            return Manifest(problem=exc.message)

    async def _load(self, source: PythonSource) -> LoadedSource:
        """Raises LoadError. A source that could not be imported is tried again."""
        loading = self._loading.get(source)
        if loading is None or (loading.done() and loading.exception() is not None):
            loading = self._loading[source] = asyncio.ensure_future(self._in_thread(partial(load_source, source)))
        done, _ = await asyncio.wait({loading}, timeout=IMPORT_TIMEOUT_S)
        if not done:
            raise LoadError(f"{source.title}: its import takes more than {IMPORT_TIMEOUT_S:g} s")
        return loading.result()

    def _loaded_tools(self) -> list[ToolFunction]:
        done = [each for each in self._loading.values() if each.done() and each.exception() is None]
        return [tool for each in done for tool in each.result().definitions if isinstance(tool, ToolFunction)]

    async def _prepare(
        self, meta: CallMeta, kind: type[Kind], name: str, contexts: list[Context]
    ) -> tuple[Kind, Context]:
        if is_pinned_module(meta.source):
            await self._in_thread(partial(check_pinned_module, meta.source))
        loaded = await self._load(meta.source)
        found = loaded.find(kind, name)
        if not isinstance(found, kind):
            raise LoadError(f"{meta.source.title} has no {name}")
        context = Context(
            workspace=Path(meta.workspace or "."), session=meta.session, turn=meta.turn, call=meta.call,
            settings=loaded.read_settings(meta.settings),
            on_status=partial(self._report, STATUS_METHOD, meta.token),
            on_output=partial(self._report, OUTPUT_METHOD, meta.token),
            ask=partial(self._ask, meta.token),
        )  # fmt: skip
        contexts.append(context)
        return found, context

    # Work.

    async def _call_tool(self, call: _Call, contexts: list[Context]) -> JsonObject:
        """Every failure of the tool is a result, which the model reads."""
        meta = msgspec.json.decode(call._meta.get("aish", msgspec.Raw(b"null")), type=CallMeta)
        tool, context = await self._prepare(meta, ToolFunction, call.name, contexts)
        try:
            arguments = tool.signature.convert(call.arguments or {})
        except msgspec.ValidationError as exc:
            return _tool_error(f"the arguments do not fit: {exc}")
        try:
            blocks, structured = to_content(await self._run(tool, arguments, context))
        except ResultError as exc:
            return _tool_error(f"{call.name}: {exc}")
        except Exception as exc:
            return _tool_error(_describe_failure(exc) + find_place(exc, meta.source))
        result: JsonObject = {"content": blocks, "isError": False}
        return {**result, "structuredContent": structured} if structured is not None else result

    async def _run_command(self, work: _Work, contexts: list[Context]) -> CommandOutput:
        command, context = await self._prepare(work.meta, CommandFunction, work.name, contexts)
        value = await self._run(command, command.signature.convert_words(work.text), context)
        if isinstance(value, Prompt):
            return CommandOutput(prompt=value.text)
        if value is None:
            return CommandOutput()
        blocks, _ = to_content(value)
        return CommandOutput("\n".join(block.get("text", "[image]") for block in blocks))

    async def _run_hook(self, work: _Work, contexts: list[Context]) -> HookAnswer | None:
        hook, context = await self._prepare(work.meta, HookFunction, work.name, contexts)
        answer = await self._run(hook, {}, context, work.event)
        if answer is None or isinstance(answer, HookAnswer):
            return answer
        raise RpcError(INTERNAL_ERROR, f"{work.name} answered {type(answer).__name__}, which is no answer of a hook")

    async def _run(self, definition: Definition, arguments: JsonObject, context: Context, *event: Any) -> Any:
        if definition.signature.takes_context:
            arguments = {**arguments, "ctx": context}
        work = partial(definition.function, *event, **arguments)
        try:
            if inspect.iscoroutinefunction(definition.function):
                return await work()
            threads = self._hook_threads if isinstance(definition, HookFunction) else self._threads
            return await self._in_thread(work, threads)
        except SystemExit as exc:  # ends the call, and not the process
            raise _Ended(f"SystemExit: {exc}") from exc
        except asyncio.CancelledError as exc:
            if context.is_cancelled:
                raise
            raise _Ended("it ended with CancelledError") from exc

    async def _in_thread(self, work: Callable[[], Any], threads: ThreadPoolExecutor | None = None) -> Any:
        thread = _ThreadWork(work)
        try:
            return await self._loop.run_in_executor(threads or self._hook_threads, thread.run)
        except asyncio.CancelledError:
            self._abandoned.append(thread)
            raise

    # Messages to aish.

    def _report(self, method: str, token: str, text: str) -> None:
        """May be called from any thread, which then waits until it is written. A coroutine cannot wait here, so what it
        reports too fast is left out."""
        data = self._framing.frame(encode_notification(method, {"token": token, "text": str(text)[:MAX_REPORT_CHARS]}))
        if threading.get_ident() != self._thread:
            asyncio.run_coroutine_threadsafe(self._write(data), self._loop).result()
        elif self._reports < _MAX_REPORTS:
            self._reports += 1
            self._loop.create_task(self._write(data)).add_done_callback(self._note_written)

    def _note_written(self, task: asyncio.Task[None]) -> None:
        self._reports -= 1

    async def _ask(self, token: str, text: str, choices: Sequence[str]) -> str | None:
        self._last_question += 1
        question = self._last_question
        params = {"token": token, "text": text, "question": question, "choices": list(choices)}
        waiting: asyncio.Future[str | None] = self._loop.create_future()
        self._questions[question] = waiting
        try:
            await self._write(self._framing.frame(encode_notification(QUESTION_METHOD, params)))
            return await waiting
        except asyncio.CancelledError:
            await self._write(self._framing.frame(encode_notification(WITHDRAW_METHOD, {"question": question})))
            raise
        finally:
            del self._questions[question]


def _describe_tool(tool: ToolFunction) -> JsonObject:
    entry = tool.entry
    hints = {"readOnlyHint": entry.effect is Effect.READ, "destructiveHint": entry.effect is Effect.EXEC}
    return {
        "name": entry.name,
        "description": entry.description,
        "inputSchema": entry.schema,
        "annotations": hints,
        **({"outputSchema": entry.output_schema} if entry.output_schema is not None else {}),
    }


def _tool_error(text: str) -> JsonObject:
    shown = _shorten(text).encode("utf-8", "replace").decode()
    return {"content": [{"type": "text", "text": shown}], "isError": True}


def _describe_failure(exc: Exception) -> str:
    return str(exc) if isinstance(exc, _Ended) else f"{type(exc).__name__}: {exc}"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]} …"


def _refuse_size(message: Message, size: int) -> bytes:
    text = f"it returned {size / 1e6:.0f} MB, and a result may have {MAX_MESSAGE_BYTES // 1024 // 1024} MB at most"
    if message.method == "tools/call":
        return encode_result(message.id, _tool_error(text))
    return encode_error(message.id, RpcError(INTERNAL_ERROR, text))
