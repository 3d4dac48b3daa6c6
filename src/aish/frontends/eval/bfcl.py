"""Converts the files of the Berkeley Function-Calling Leaderboard to our suites.

The files are in the PyPI wheel `bfcl-eval`, and are read from it or from a folder; aish contains none of them. Dotted
names are replaced by valid ones, and type names by those of JSON Schema. In their answers, a list has the allowed
values of an argument; an empty string in it means that the argument may be omitted.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aish.errors import UsageError
from aish.frontends.eval.matching import sample
from aish.tool_calls.schema.validator import schema_errors

_ANSWERS = "possible_answer/"
CATEGORIES = {"simple_python": "simple", "multiple": "multiple", "parallel": "parallel", "irrelevance": "irrelevance"}
# The real files have less than 1 MiB each.
MAX_FILE_BYTES = 64 * 1024 * 1024
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "", "double": "number", "long": "integer"}
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def convert(source: Path, target: Path) -> Iterator[tuple[Path, int]]:
    """Writes `bfcl_….jsonl` files. Yields each file with its number of cases. Raises UsageError."""
    target.mkdir(parents=True, exist_ok=True)
    found = _read_folder(source) if source.is_dir() else _read_wheel(source)
    done = 0
    for category, word in CATEGORIES.items():
        lines = _convert_category(category, f"bfcl_{word}", found)
        if lines:
            file = target / f"bfcl_{word}.jsonl"
            file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            done += 1
            yield file, len(lines)
    if not done:
        raise UsageError(
            f"{source} holds none of the Berkeley files",
            hint="pip download --no-deps bfcl-eval, then name the wheel; or the folder with BFCL_v4_simple_python.json",
        )


def _read_folder(folder: Path) -> dict[str, bytes]:
    """The files of the leaderboard by name, each read once. Answers have the name of the questions in a folder of their
    own, which is part of the name here."""
    files = sorted(file for category in CATEGORIES for file in folder.rglob(f"BFCL_v4_{category}.json"))
    return _by_name((file.as_posix(), file.read_bytes()[:MAX_FILE_BYTES]) for file in files)


def _read_wheel(wheel: Path) -> dict[str, bytes]:
    wanted = tuple(f"BFCL_v4_{category}.json" for category in CATEGORIES)
    try:
        with zipfile.ZipFile(wheel) as archive:
            infos = [info for info in archive.infolist() if info.filename.endswith(wanted)]
            return _by_name((i.filename, archive.read(i)) for i in infos if i.file_size <= MAX_FILE_BYTES)
    except (OSError, zipfile.BadZipFile) as exc:
        raise UsageError(f"{wheel} is neither a folder nor a wheel: {exc}") from exc


def _by_name(files: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path, text in files:
        *folders, name = path.split("/")
        if "unused" not in path:
            found.setdefault(f"{_ANSWERS}{name}" if "possible_answer" in folders else name, text)
    return found


def _convert_category(category: str, suite: str, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    name = f"BFCL_v4_{category}.json"
    try:
        answers = {line["id"]: line["ground_truth"] for line in _lines(files.get(_ANSWERS + name, b""), category)}
        return [_case(line, suite, answers.get(line["id"])) for line in _lines(files.get(name, b""), category)]
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as exc:
        raise UsageError(f"{name} is not in the shape of version 4: {exc!r}") from exc


def _lines(text: bytes, category: str) -> list[Any]:
    try:
        return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
    except msgspec.DecodeError as exc:
        raise UsageError(f"the file of {category} is not JSON, one object a line: {exc}") from exc


def _case(question: dict[str, Any], suite: str, truth: list[dict[str, Any]] | None) -> dict[str, Any]:
    tools = {function["name"]: _tool(function) for function in question["function"]}
    calls = [_call(name, given, tools) for each in truth or () for name, given in each.items()]
    return {
        "id": f"bfcl-{question['id']}",
        "suite": suite,
        "messages": [
            {"role": turn["role"], "content": turn["content"]} for turn in question["question"][0] if turn["content"]
        ],
        "tools": list(tools.values()),
        "expect": {"calls": calls} if calls else {"no_call": True},
        "tags": ["bfcl"],
    }


def legal_name(name: str) -> str:
    """Replaces dots by underscores, as the leaderboard does for backends that allow no dots."""
    return "".join(char if char in _LEGAL else "_" for char in name)[:64]


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": legal_name(function["name"]),
        "description": function.get("description", ""),
        "parameters": _schema(function["parameters"]),
    }


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {key: given[key] for key in ("description", "enum", "required") if given.get(key)}
    word = str(given.get("type", "")).lower()
    if kind := _TYPES.get(word, word):
        schema["type"] = kind
    if "properties" in given:
        schema["properties"] = {key: _schema(value) for key, value in given["properties"].items()}
    if "items" in given:
        schema["items"] = _schema(given["items"])
    return schema


def _call(name: str, given: Mapping[str, list[Any]], tools: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    tool = tools[name]
    allowed, optional = _split_optional(given)
    for key in [*allowed]:
        allowed[key] = _select_valid(tool["parameters"]["properties"], key, allowed[key])
        if not allowed[key]:  # it may only be omitted
            del allowed[key]
    required = tool["parameters"].get("required", ())
    optional = [key for key in optional if key in allowed and key not in required]
    return {"name": tool["name"], "arguments": allowed, "optional": optional}


def _split_optional(given: Mapping[str, list[Any]]) -> tuple[dict[str, list[Any]], list[str]]:
    optional = [key for key, values in given.items() if "" in values]
    values = {key: [_value(value) for value in each if value != "" or len(each) == 1] for key, each in given.items()}
    return values, optional


def _value(value: Any) -> Any:
    """Converts an allowed value. In objects, every value is again a list of alternatives."""
    if isinstance(value, dict) and all(isinstance(each, list) for each in value.values()):
        members, optional = _split_optional(value)
        return {"$object": members, "optional": optional}
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return [_value(each) for each in value]
    return value


def _select_valid(properties: dict[str, Any], key: str, values: list[Any]) -> list[Any]:
    """The values that the schema allows. If it allows none, the schema is wrong and is loosened."""
    if key not in properties:
        properties[key] = {}
    valid = [value for value in values if not schema_errors(properties[key], sample(value))]
    if values and not valid:
        properties[key] = {name: properties[key][name] for name in ("description",) if name in properties[key]}
        return values
    return valid
