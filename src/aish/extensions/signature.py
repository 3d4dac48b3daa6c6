"""Reads what a function takes and returns: the schema of its arguments, and the descriptions in its docstring."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, get_type_hints

import msgspec

from aish.errors import UsageError
from aish.types.tools import Arguments, JsonSchema

CONTEXT_NAME = "ctx"
_ARGUMENTS_TITLE = re.compile(r"(?:Args|Arguments|Parameters):\s*$")
_NEXT_TITLE = re.compile(r"(?:Returns?|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")


class Signature(msgspec.Struct, frozen=True):
    """`arguments` is the struct that arguments are converted to; `names` are its fields in order. `takes_one_text`: a
    command's words go to its only parameter as they are."""

    arguments: type[msgspec.Struct]
    names: tuple[str, ...]
    required: frozenset[str]
    schema: JsonSchema
    description: str
    takes_context: bool
    takes_one_text: bool
    output_schema: JsonSchema | None

    @property
    def usage(self) -> str:
        return " ".join(name.upper() if name in self.required else f"[{name.upper()}]" for name in self.names)

    def convert(self, arguments: Arguments) -> Arguments:
        """The arguments as the function takes them. Raises msgspec.ValidationError."""
        converted = msgspec.convert(arguments, self.arguments, strict=False, dec_hook=_read_other)
        return {name: getattr(converted, name) for name in self.names}

    def convert_words(self, text: str) -> Arguments:
        """The arguments in the words of a command line. Raises UsageError and msgspec.ValidationError."""
        import shlex

        if self.takes_one_text:
            return self.convert({self.names[0]: text}) if text or self.required else self.convert({})
        try:
            words = shlex.split(text)
        except ValueError as exc:
            raise UsageError(f"the arguments cannot be read: {exc}") from exc
        if len(words) > len(self.names):
            raise UsageError(f"too many arguments: it takes {self.usage or 'none'}")
        return self.convert(dict(zip(self.names, words, strict=False)))


def read_signature(function: Callable[..., Any], *, takes_event: bool = False) -> Signature:
    """`takes_event`: the first parameter is given by aish, and is none of the arguments. Raises UsageError."""
    name = getattr(function, "__name__", "")
    if not inspect.isfunction(function):
        raise UsageError(f"only functions can be decorated, and {function!r} is none")
    hints = _read_hints(function)
    parameters = list(inspect.signature(function).parameters.values())
    if takes_event:
        if not parameters or parameters[0].name == CONTEXT_NAME:
            raise UsageError(f"{name} must take an event", hint=f"def {name}(event): …")
        del parameters[0]
    fields: list[Any] = []
    for parameter in parameters:
        if parameter.name == CONTEXT_NAME:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UsageError(f"{name} has the parameter {parameter}, for which a schema has no place")
        fields.append(_field(parameter, hints.get(parameter.name, Any)))
    arguments = _make_struct(name, fields)
    description, texts = _read_docstring(inspect.getdoc(function) or "")
    names = tuple(field[0] for field in fields)
    single = fields[0][1] if len(fields) == 1 else None
    return Signature(
        arguments=arguments,
        names=names,
        required=frozenset(field[0] for field in fields if len(field) == 2),
        schema=_make_schema(arguments, texts, name),
        description=description,
        takes_context=CONTEXT_NAME in inspect.signature(function).parameters,
        takes_one_text=single is str,
        output_schema=_read_output_schema(hints.get("return")),
    )


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as exc:  # any name in an annotation may be missing
        raise UsageError(f"the annotations of {function.__name__} cannot be read: {exc}") from exc


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, ...]:
    if parameter.default is parameter.empty:
        return parameter.name, hint
    default = parameter.default
    if isinstance(default, list | dict | set):  # msgspec takes empty ones only
        return parameter.name, hint, msgspec.field(default_factory=lambda: type(default)(default))
    return parameter.name, hint, default


def _make_struct(name: str, fields: list[Any]) -> type[msgspec.Struct]:
    try:
        return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"the parameters of {name} cannot be read: {exc}") from exc


def _make_schema(arguments: type[msgspec.Struct], texts: dict[str, str], name: str) -> JsonSchema:
    """The schema, with its own definition at the top and those of other types beside it."""
    try:
        (root,), others = msgspec.json.schema_components(
            [arguments], ref_template="#/$defs/{name}", schema_hook=_describe_other
        )
    except TypeError as exc:
        raise UsageError(f"the parameters of {name} have no schema: {exc}") from exc
    schema = others.pop(root["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    for parameter, text in texts.items():
        if parameter in schema.get("properties", {}):
            schema["properties"][parameter].setdefault("description", text)
    return {**schema, "$defs": others} if others else schema


def _describe_other(kind: type) -> JsonSchema:
    """The schema of types that msgspec does not know: paths."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    raise TypeError(f"{getattr(kind, '__name__', kind)} is no type that a schema can describe")


def _read_other(kind: type, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise TypeError(f"expected {getattr(kind, '__name__', kind)}")


def _read_output_schema(hint: Any) -> JsonSchema | None:
    """The schema of a result that is an object with fields; None for all others."""
    is_object = isinstance(hint, type) and (
        issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint) or hasattr(hint, "__required_keys__")
    )
    if not is_object:
        return None
    try:
        (root,), others = msgspec.json.schema_components([hint], ref_template="#/$defs/{name}")
    except TypeError:
        return None
    schema = others.pop(root["$ref"].rpartition("/")[2]) if "$ref" in root else root
    if schema.get("type") != "object":
        return None
    schema.pop("title", None)
    return {**schema, "$defs": others} if others else schema


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and the descriptions of parameters under `Args:`."""
    description: list[str] = []
    texts: dict[str, str] = {}
    part, last = "description", ""
    for line in text.splitlines():
        stripped = line.strip()
        if _ARGUMENTS_TITLE.match(stripped):
            part = "arguments"
        elif _NEXT_TITLE.match(stripped):
            part = "other"
        elif part == "description":
            description.append(line)
        elif part == "arguments" and stripped:
            found = _ARGUMENT.match(stripped)
            if found is not None:
                last = found[1]
                texts[last] = found[2]
            elif last:
                texts[last] = f"{texts[last]} {stripped}"
    return "\n".join(description).strip(), texts
