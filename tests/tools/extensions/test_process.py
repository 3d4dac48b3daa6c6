"""The tool process runs the Python of extensions, and what goes wrong in it stays in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aish.errors import ToolError
from aish.extensions.manifest import PythonSource
from aish.tools.extensions.process import ToolProcess
from aish.types.decisions import Deny, HookEvent
from aish.types.messages import ImagePart, TextPart
from aish.types.tools import Arguments, Effect, ToolOutput
from support.eventually import eventually
from support.processes import is_running
from support.python_tools import CallRecord, write_source

DEADLINE_S = 60.0


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[ToolProcess]:
    made = ToolProcess(workspace=lambda: tmp_path, settings={"my": {"url": "http://x", "retries": "4"}})
    try:
        yield made
    finally:
        await made.aclose()


async def call(
    process: ToolProcess, source: PythonSource, name: str, arguments: Arguments | None = None, **options: str | None
) -> tuple[ToolOutput, CallRecord]:
    record = CallRecord(Path(source.path).parent, **options)
    async with asyncio.timeout(DEADLINE_S):
        return await process.call_tool(source, name, arguments or {}, record.place), record


def text(output: ToolOutput) -> str:
    return "".join(part.text for part in output.parts if isinstance(part, TextPart))


async def test_a_source_is_described_with_its_tools_commands_and_hooks(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        """
@tool(effect="read")
def ticket(id: int) -> str:
    "One ticket."
    return str(id)

@command("standup")
def standup() -> str:
    "What was done."
    return ""

@hook("before_tool", tools=["shell__run"])
def stop(event): ...
""",
    )
    (manifest,) = await process.describe([source])
    assert [(entry.name, entry.effect) for entry in manifest.tools] == [("ticket", Effect.READ)]
    assert [(entry.name, entry.help) for entry in manifest.commands] == [("standup", "What was done.")]
    assert [(entry.name, entry.point, entry.tools) for entry in manifest.hooks] == [
        ("stop", "before_tool", ("shell__run",)),
    ]


async def test_a_call_gives_text_objects_and_images(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        """
from dataclasses import dataclass

@dataclass
class Ticket:
    id: int

@tool
def ticket(id: int) -> Ticket:
    "One ticket."
    return Ticket(id)

@tool
async def picture() -> list:
    "A picture."
    return ["before", Image(b"png")]
""",
    )
    output, _ = await call(process, source, "ticket", {"id": "7"})
    assert (text(output), output.structured, output.is_error) == ('{"id":7}', {"id": 7}, False)
    output, _ = await call(process, source, "picture")
    assert output.parts == (TextPart("before"), ImagePart("image/png", "cG5n"))


async def test_a_tool_knows_its_call_and_reports_while_it_runs(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        """
import msgspec

@settings
class Options(msgspec.Struct):
    url: str
    retries: int = 1

@tool
async def report(ctx: Context) -> dict:
    "Says what it knows."
    ctx.status("looking \\x1b[31m up")
    ctx.output("line\\n")
    print("this is no protocol")
    answer = await ctx.ask("Which one?", ["a", "b"])
    return {"at": str(ctx.workspace), "call": ctx.call, "turn": ctx.turn, "session": ctx.session,
            "settings": msgspec.to_builtins(ctx.settings), "answer": answer, "stdin": sys.stdin.read()}
""",
    )
    output, record = await call(process, source, "report", answer="b")
    assert output.structured == {
        "at": str(tmp_path), "call": "call_1", "turn": "turn_1", "session": "sess_1", "answer": "b", "stdin": "",
        "settings": {"url": "http://x", "retries": 4},
    }  # fmt: skip
    assert (record.statuses, record.output) == (["looking up"], ["line\n"])
    assert record.questions == [("Which one?", ["a", "b"])]
    output, _ = await call(process, source, "report", answer=None)
    assert output.structured is not None and output.structured["answer"] is None


async def test_an_exception_is_a_result_that_names_the_line(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        '@tool\ndef bad(x: int) -> int:\n    "Fails."\n    if x: sys.exit("out")\n    raise ValueError("too small")\n',
    )
    output, _ = await call(process, source, "bad", {"x": 0})
    assert output.is_error and text(output) == "ValueError: too small (a.py:7)"
    output, _ = await call(process, source, "bad", {"x": 1})
    assert output.is_error and text(output) == "SystemExit: out (a.py:6)"
    output, _ = await call(process, source, "bad", {"x": "one"})
    assert output.is_error and "do not fit" in text(output)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def broken(:\n", "a.py:3: SyntaxError"),
        ("x = 1 / 0\n", "a.py:3: ZeroDivisionError"),
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("sys.exit(3)\n", "SystemExit: 3"),
        ("@tool\ndef bare(x): ...\n", "has no description"),
    ],
)
async def test_a_file_that_cannot_be_imported_says_where_and_why(
    process: ToolProcess, tmp_path: Path, code: str, problem: str
):
    source = write_source(tmp_path / "a.py", code)
    good = write_source(tmp_path / "b.py", '@tool\ndef fine() -> None:\n    "Works."\n')
    manifest, other = await process.describe([source, good])
    assert problem in manifest.problem and not manifest.tools
    assert [entry.name for entry in other.tools] == ["fine"]


async def test_an_import_that_ends_the_process_leaves_the_others_alone(process: ToolProcess, tmp_path: Path):
    source = write_source(tmp_path / "a.py", "os._exit(7)\n")
    good = write_source(tmp_path / "b.py", '@tool\ndef fine() -> None:\n    "Works."\n')
    manifest, other = await process.describe([source, good])
    assert "exited with code 7" in manifest.problem
    assert [entry.name for entry in other.tools] == ["fine"]


async def test_an_import_that_hangs_is_given_up(process: ToolProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = write_source(tmp_path / "a.py", "time.sleep(1000)\n")
    good = write_source(tmp_path / "b.py", '@tool\ndef fine() -> None:\n    "Works."\n')
    async with asyncio.timeout(DEADLINE_S):
        manifest, other = await process.describe([source, good])
    assert "its import takes more than 10 s" in manifest.problem
    assert [entry.name for entry in other.tools] == ["fine"]


@pytest.mark.parametrize("how", ["os._exit(3)", "os.kill(os.getpid(), 11)", "os.abort()"])
async def test_a_tool_that_ends_the_process_fails_and_the_next_call_starts_another(
    process: ToolProcess, tmp_path: Path, how: str
):
    source = write_source(
        tmp_path / "a.py",
        f'@tool\ndef crash() -> None:\n    "Ends."\n    {how}\n@tool\ndef fine() -> int:\n    "Works."\n    return 1\n',
    )
    with pytest.raises(ToolError) as caught:
        await call(process, source, "crash")
    assert "the Python process ended while crash ran" in caught.value.message
    output, _ = await call(process, source, "fine")
    assert text(output) == "1"


@pytest.mark.parametrize("body", ["    while True: time.sleep(0.01)", "    while True: pass"])
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_function_that_does_not_end_is_left_and_its_process_replaced(
    process: ToolProcess, tmp_path: Path, kind: str, body: str
):
    source = write_source(
        tmp_path / "a.py",
        f'@tool\n{kind} endless(ctx) -> None:\n    "Hangs."\n    open("begun", "w").close()\n{body}\n'
        '@tool\ndef pid() -> int:\n    "The process."\n    return os.getpid()\n',
    )
    output, _ = await call(process, source, "pid")
    first = int(text(output))
    record = CallRecord(tmp_path)
    hanging = asyncio.ensure_future(process.call_tool(source, "endless", {}, record.place))
    await eventually((tmp_path / "begun").exists)
    hanging.cancel()
    await asyncio.wait({hanging}, timeout=DEADLINE_S)
    assert hanging.cancelled()
    await eventually(lambda: process._child is None, DEADLINE_S)
    output, _ = await call(process, source, "pid")
    assert int(text(output)) != first


async def test_a_cancelled_coroutine_ends_and_its_process_stays(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        '@tool\nasync def wait(ctx) -> None:\n    "Waits."\n    ctx.status("begun")\n    await asyncio.sleep(1000)\n'
        '@tool\ndef pid() -> int:\n    "The process."\n    return os.getpid()\n',
    )
    output, _ = await call(process, source, "pid")
    record = CallRecord(tmp_path)
    waiting = asyncio.ensure_future(process.call_tool(source, "wait", {}, record.place))
    await eventually(lambda: record.statuses)
    waiting.cancel()
    await asyncio.wait({waiting, *process._background}, timeout=DEADLINE_S)
    again, _ = await call(process, source, "pid")
    assert text(again) == text(output)


async def test_a_result_that_is_too_large_is_an_error(process: ToolProcess, tmp_path: Path):
    source = write_source(tmp_path / "a.py", '@tool\ndef big() -> str:\n    "Big."\n    return "x" * (1 << 30)\n')
    output, _ = await call(process, source, "big")
    assert output.is_error and "it returned 1074 MB" in text(output)


async def test_memory_has_a_limit(tmp_path: Path):
    process = ToolProcess(workspace=lambda: tmp_path, max_memory_mb=256)
    source = write_source(
        tmp_path / "a.py", '@tool\ndef hog() -> int:\n    "Big."\n    return len(bytearray(1 << 30))\n'
    )
    try:
        output, _ = await call(process, source, "hog")
        assert output.is_error and "MemoryError" in text(output)
    finally:
        await process.aclose()


async def test_a_file_that_has_changed_is_not_run(process: ToolProcess, tmp_path: Path):
    source = write_source(tmp_path / "a.py", '@tool\ndef one() -> int:\n    "One."\n    return 1\n')
    write_source(tmp_path / "a.py", '@tool\ndef one() -> int:\n    "One."\n    return 2\n')
    with pytest.raises(ToolError, match="has changed"):
        await call(process, source, "one")


async def test_code_that_was_loaded_stays_as_it_was(process: ToolProcess, tmp_path: Path):
    """So that a call fits the schema that the model was shown in this turn."""
    source = write_source(tmp_path / "a.py", '@tool\ndef one() -> int:\n    "One."\n    return 1\n')
    await call(process, source, "one")
    write_source(tmp_path / "a.py", '@tool\ndef one() -> int:\n    "One."\n    return 2\n')
    output, _ = await call(process, source, "one")
    assert text(output) == "1"


async def test_files_beside_a_tool_are_not_imported_by_accident(process: ToolProcess, tmp_path: Path):
    write_source(tmp_path / "json.py", "raise ValueError\n")
    write_source(tmp_path / "neighbour.py", "")
    source = write_source(tmp_path / "a.py", "import json\nimport neighbour\n")
    (manifest,) = await process.describe([source])
    assert "No module named 'neighbour'" in manifest.problem


async def test_secrets_of_the_environment_are_passed_on_only_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_TOKEN", "t0p")
    monkeypatch.setenv("OTHER_TOKEN", "hidden")
    code = '@tool\ndef env() -> str:\n    "Variables."\n    return ",".join(sorted(os.environ))\n'
    source = write_source(tmp_path / "a.py", code)
    process = ToolProcess(workspace=lambda: tmp_path, env_patterns=["MY_*"])
    try:
        output, _ = await call(process, source, "env")
        assert "MY_TOKEN" in text(output) and "OTHER_TOKEN" not in text(output)
    finally:
        await process.aclose()


async def test_commands_return_text_or_a_prompt(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        """
@command("twice")
def twice(text: str) -> str:
    return text * 2

@command("ask")
def ask(what: str, loud: bool = False) -> Prompt:
    return Prompt(what + ("!" if loud else ""))

@command("silent")
async def silent(ctx) -> None: ...
""",
    )
    place = CallRecord(tmp_path).place
    assert (await process.run_command(source, "twice", "a b", place)).text == "a ba b"
    assert (await process.run_command(source, "ask", "'is it' true", place)).prompt == "is it!"
    assert (await process.run_command(source, "silent", "", place)).text == ""
    with pytest.raises(ToolError, match="too many arguments"):
        await process.run_command(source, "ask", "a b c", place)


async def test_hooks_answer_and_nonsense_is_an_error(process: ToolProcess, tmp_path: Path):
    source = write_source(
        tmp_path / "a.py",
        """
@hook("before_tool")
def deny(event: HookEvent):
    return Deny(f"not {event.tool} with {event.arguments['x']}")

@hook("before_tool")
async def silent(event): ...

@hook("before_tool")
def nonsense(event):
    return 42
""",
    )
    place = CallRecord(tmp_path).place
    event = HookEvent("before_tool", tool="a__b", arguments={"x": 1})
    assert await process.run_hook(source, "deny", event, place, timeout_s=30) == Deny("not a__b with 1")
    assert await process.run_hook(source, "silent", event, place, timeout_s=30) is None
    with pytest.raises(ToolError, match="no answer of a hook"):
        await process.run_hook(source, "nonsense", event, place, timeout_s=30)


async def test_closing_ends_the_process(tmp_path: Path):
    process = ToolProcess(workspace=lambda: tmp_path)
    source = write_source(tmp_path / "a.py", '@tool\ndef pid() -> int:\n    "It."\n    return os.getpid()\n')
    output, _ = await call(process, source, "pid")
    pid = int(text(output))
    assert pid != os.getpid() and is_running(pid)
    await process.aclose()
    assert not is_running(pid)
