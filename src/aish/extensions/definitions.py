"""The decorators by which a function becomes a tool, a command or a hook.

    @tool(effect="read")
    def ticket(id: int) -> Ticket:
        "One ticket by its number."

A decorated function stays an ordinary function. Its definition is kept beside it and found by `find_definition`. A
definition is checked when it is made, so a mistake shows where it stands.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

import msgspec

from aish.errors import UsageError
from aish.extensions.manifest import CommandEntry, HookEntry, Manifest, ToolEntry
from aish.extensions.signature import Signature, read_signature
from aish.types.decisions import HOOK_POINTS, HookPoint
from aish.types.tools import MAX_NAME_CHARS, Effect

EffectName = Literal["read", "write", "exec", "network"]
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
AnyClass = TypeVar("AnyClass", bound=type)

_ATTRIBUTE = "__aish_definition__"
_SETTINGS = "__aish_settings__"
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_COMMAND_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_MAX_OWN_NAME_CHARS = MAX_NAME_CHARS - 16  # leaves room for the name of the extension
DEFAULT_TIMEOUT_S = 60.0


class ToolFunction(msgspec.Struct, frozen=True):
    function: Callable[..., Any]
    signature: Signature
    entry: ToolEntry


class CommandFunction(msgspec.Struct, frozen=True):
    function: Callable[..., Any]
    signature: Signature
    entry: CommandEntry


class HookFunction(msgspec.Struct, frozen=True):
    function: Callable[..., Any]
    signature: Signature
    entry: HookEntry


Definition = ToolFunction | CommandFunction | HookFunction


@overload
def tool(function: AnyFunction, /) -> AnyFunction: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    effect: EffectName = "exec",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    concurrency: int = 0,
) -> Callable[[AnyFunction], AnyFunction]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    effect: EffectName = "exec",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    concurrency: int = 0,
) -> Any:
    """Makes a function a tool that models may call.

    The schema comes from the annotations and the descriptions from the docstring. `effect` is the most that the tool
    can do; without one it counts as "exec", so the user is asked about each call. `concurrency` limits the calls at
    once; 0 means no limit. Raises UsageError.
    """

    def decorate(function: AnyFunction) -> AnyFunction:
        signature = read_signature(function)
        entry = ToolEntry(
            name=check_tool_name(name or function.__name__),
            description=description or signature.description or _say_missing(function),
            schema=signature.schema,
            effect=_effect(effect),
            timeout_s=_positive(timeout_s, "timeout_s"),
            concurrency=_not_negative(concurrency),
            output_schema=signature.output_schema,
        )
        return _attach(function, ToolFunction(function, signature, entry))

    return decorate if function is None else decorate(function)


def command(name: str = "", *, help: str = "") -> Callable[[AnyFunction], AnyFunction]:
    """Makes a function a command: `:NAME` in the shell and `aish NAME`.

    A text that it returns is printed; a `Prompt` is put to the model. A single parameter of type str gets all words;
    otherwise each parameter gets one word. Raises UsageError.
    """

    def decorate(function: AnyFunction) -> AnyFunction:
        signature = read_signature(function)
        own_name = _check_name(name or function.__name__.replace("_", "-"), _COMMAND_NAME, "command")
        text = (help or signature.description or "a command of yours").splitlines()[0]
        return _attach(function, CommandFunction(function, signature, CommandEntry(own_name, text, signature.usage)))

    return decorate


def hook(point: HookPoint, *, tools: Sequence[str] = ("*",)) -> Callable[[AnyFunction], AnyFunction]:
    """Makes a function a hook, which is called with an event at this point of a turn.

    `tools` are globs of the tools that hooks about tools are for. Raises UsageError.
    """
    if point not in HOOK_POINTS:
        raise UsageError(f"there is no hook {point!r}", hint=f"there are {', '.join(HOOK_POINTS)}")

    def decorate(function: AnyFunction) -> AnyFunction:
        signature = read_signature(function, takes_event=True)
        entry = HookEntry(function.__name__, point, tuple(tools))
        return _attach(function, HookFunction(function, signature, entry))

    return decorate


def settings(cls: AnyClass) -> AnyClass:
    """Marks the dataclass or msgspec.Struct that the extension's settings are read into: `ctx.settings`."""
    try:
        msgspec.json.schema(cls)
    except TypeError as exc:
        raise UsageError(f"{cls.__name__} cannot hold settings: {exc}") from exc
    setattr(cls, _SETTINGS, True)
    return cls


def find_definition(value: object) -> Definition | None:
    found = getattr(value, _ATTRIBUTE, None)
    return found if isinstance(found, ToolFunction | CommandFunction | HookFunction) else None


def get_tool(function: Callable[..., Any]) -> ToolFunction:
    """The definition of a tool. Raises UsageError for a function that is none."""
    found = find_definition(function)
    if isinstance(found, ToolFunction):
        return found
    name = getattr(function, "__name__", type(function).__name__)
    raise UsageError(f"{name} is no tool", hint="decorate it with @tool")


def find_definitions(namespace: Mapping[str, object]) -> list[Definition]:
    """The definitions in a module, in order. Raises UsageError for two of one kind and name."""
    found: dict[tuple[type, str], Definition] = {}
    for value in namespace.values():
        definition = find_definition(value)
        if definition is None or definition in found.values():
            continue
        key = type(definition), definition.entry.name
        if key in found:
            raise UsageError(f"two functions are named {definition.entry.name}")
        found[key] = definition
    return list(found.values())


def find_settings(namespace: Mapping[str, object]) -> type | None:
    classes: Iterator[type] = (value for value in namespace.values() if isinstance(value, type))
    return next((cls for cls in classes if getattr(cls, _SETTINGS, False)), None)


def make_manifest(definitions: Sequence[Definition], settings_class: type | None = None) -> Manifest:
    return Manifest(
        tools=tuple(each.entry for each in definitions if isinstance(each, ToolFunction)),
        commands=tuple(each.entry for each in definitions if isinstance(each, CommandFunction)),
        hooks=tuple(each.entry for each in definitions if isinstance(each, HookFunction)),
        settings=msgspec.json.schema(settings_class) if settings_class is not None else None,
    )


def _attach(function: AnyFunction, definition: Definition) -> AnyFunction:
    if not inspect.isfunction(function):
        raise UsageError(f"only functions can be decorated, and {function!r} is none")
    setattr(function, _ATTRIBUTE, definition)
    return function


def check_tool_name(name: str) -> str:
    """Raises UsageError for a name that a tool cannot have."""
    return _check_name(name, _TOOL_NAME, "tool")


def _check_name(name: str, pattern: re.Pattern[str], kind: str) -> str:
    if pattern.fullmatch(name) is None or "__" in name or name.endswith("_") or len(name) > _MAX_OWN_NAME_CHARS:
        raise UsageError(
            f"{name!r} cannot name a {kind}",
            hint=f"use at most {_MAX_OWN_NAME_CHARS} letters, digits and single '_', beginning with a letter",
        )
    return name


def _effect(name: str) -> Effect:
    try:
        return Effect(name)
    except ValueError:
        raise UsageError(f"there is no effect {name!r}", hint=f"use one of {', '.join(Effect)}") from None


def _positive(value: float, name: str) -> float:
    if value <= 0:
        raise UsageError(f"{name} must be more than 0")
    return value


def _not_negative(concurrency: int) -> int:
    if concurrency < 0:
        raise UsageError("concurrency must not be less than 0, which means no limit")
    return concurrency


def _say_missing(function: Callable[..., Any]) -> str:
    raise UsageError(
        f"the tool {function.__name__} has no description", hint="give it a docstring: models choose tools by it"
    )
