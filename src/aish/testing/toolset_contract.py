"""The contract of a toolset: what every source of tools has to keep, see `aish.ports.Toolset`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from aish.errors import ToolError
from aish.ports import CallerRights, Toolset
from aish.testing.contracts import END_S, run_checks
from aish.tool_calls.schema.validator import schema_errors
from aish.types.messages import ImagePart, TextPart
from aish.types.tools import Arguments, ToolOutput

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ROUNDS = 20  # of the event loop, in which a call begins


class _Subject(msgspec.Struct, frozen=True):
    make: Callable[[], Toolset]
    examples: Mapping[str, Arguments]


async def toolset_contract(make: Callable[[], Toolset], *, examples: Mapping[str, Arguments]) -> None:
    """Holds a toolset to its contract. `examples` are arguments by the name of a tool, which can be called with them
    without harm. Raises ContractBroken, which names every promise that is broken."""
    checks = (
        _the_list_stands_still, _tools_are_described, _examples_fit_their_schemas, _examples_have_results,
        _unknown_tools_are_errors, _calls_can_be_cancelled, _closing_twice_is_allowed,
    )  # fmt: skip
    await run_checks("toolset", checks, _Subject(make, examples))


async def _the_list_stands_still(subject: _Subject) -> None:
    """`specs` returns the same object until the list changes."""
    toolset = subject.make()
    assert toolset.specs() is toolset.specs(), "each call makes another list"


async def _tools_are_described(subject: _Subject) -> None:
    """Every tool has a legal name of its own, a description and a schema for an object."""
    names = [spec.name for spec in subject.make().specs()]
    assert len(names) == len(set(names)), "two tools have one name"
    for spec in subject.make().specs():
        assert _NAME.fullmatch(spec.name), f"{spec.name!r} is no name"
        assert spec.description.strip(), f"{spec.name} has no description"
        assert spec.schema.get("type", "object") == "object", f"{spec.name} takes no object"
        assert spec.timeout_s > 0, f"{spec.name} has no time"


async def _examples_fit_their_schemas(subject: _Subject) -> None:
    """The examples fit the schemas of their tools."""
    specs = {spec.name: spec for spec in subject.make().specs()}
    for name, arguments in subject.examples.items():
        assert name in specs, f"there is no tool {name}"
        errors = schema_errors(specs[name].schema, arguments)
        assert not errors, f"{name}: {'; '.join(errors)}"


async def _examples_have_results(subject: _Subject) -> None:
    """A call gives parts that a model can read, or a ToolError."""
    toolset = subject.make()
    for name, arguments in subject.examples.items():
        output = await _call(toolset, name, arguments)
        assert output is None or output.parts, f"{name} gave nothing"
        for part in output.parts if output is not None else ():
            assert isinstance(part, TextPart | ImagePart), f"{name} gave {part!r}"
    await toolset.aclose()


async def _unknown_tools_are_errors(subject: _Subject) -> None:
    """A tool that does not exist is a ToolError."""
    toolset = subject.make()
    output = await _call(toolset, "no_such_tool_of_the_contract", {})
    assert output is None, "it gave a result"
    await toolset.aclose()


async def _calls_can_be_cancelled(subject: _Subject) -> None:
    """A cancelled call ends soon, with CancelledError."""
    toolset = subject.make()
    for name, arguments in subject.examples.items():
        task = asyncio.ensure_future(_call(toolset, name, arguments))
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        was_over = not task.cancel()
        done, _ = await asyncio.wait({task}, timeout=END_S)
        assert done, f"{name} did not end within {END_S:g} s"
        assert was_over or task.cancelled(), f"{name} ended otherwise"
        if not task.cancelled():
            task.result()
    await toolset.aclose()


async def _closing_twice_is_allowed(subject: _Subject) -> None:
    """Closing can be repeated."""
    toolset = subject.make()
    await toolset.aclose()
    await toolset.aclose()


class _Context:
    """A call that reports to no one."""

    session = "sess_contract"
    turn = "turn_contract"
    call = "call_contract"
    owner = ""
    is_proved = False
    is_unasked = False
    rights: CallerRights | None = None

    async def ask_user(self, text: str, choices: Sequence[str]) -> str | None:
        return None

    def status(self, text: str) -> None:
        assert isinstance(text, str)

    def output(self, text: str) -> None:
        assert isinstance(text, str)


async def _call(toolset: Toolset, name: str, arguments: Arguments) -> ToolOutput | None:
    """None if the tool failed with a ToolError."""
    try:
        return await toolset.call(name, arguments, _Context())
    except ToolError:
        return None
