"""Converts the files of the Berkeley Function-Calling Leaderboard to our suites.

The files are in the PyPI wheel `bfcl-eval`, and are read from it or from a folder; aish contains none of them. Dotted
names are replaced by valid ones, and type names by those of JSON Schema. In their answers, a list has the allowed
values of an argument; an empty string in it means that the argument may be omitted.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aish.errors import UsageError
from aish.frontends.eval.matching import sample
from aish.tool_calls.schema.validator import schema_errors

CATEGORIES = {"simple_python": "simple", "multiple": "multiple", "parallel": "parallel", "irrelevance": "irrelevance"}
# The real files have less than 1 MiB each.
MAX_FILE_BYTES = 64 * 1024 * 1024
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "", "double": "number", "long": "integer"}
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

Read = Callable[[str], bytes | None]


def convert(source: Path, target: Path) -> Iterator[tuple[Path, int]]:
    """Writes `bfcl_….jsonl` files. Yields each file with its number of cases. Raises UsageError."""
    target.mkdir(parents=True, exist_ok=True)
    done = 0
    for category, word in CATEGORIES.items():
        lines = _convert_category(category, f"bfcl_{word}", _reader(source))
        if lines is None:
            continue
        file = target / f"bfcl_{word}.jsonl"
        file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        done += 1
        yield file, len(lines)
    if not done:
        raise UsageError(
            f"{source} holds none of the Berkeley files",
            hint="pip download --no-deps bfcl-eval, then name the wheel; or the folder with BFCL_v4_simple_python.json",
        )


def _reader(source: Path) -> Read:
    """A function that reads a file by the end of its path, from a folder or a wheel."""
    if source.is_dir():
        return lambda end: _read_below(source, end)
    try:
        with zipfile.ZipFile(io.BytesIO(source.read_bytes())) as archive:
            names = [name for name in archive.namelist() if "unused" not in name]
            wanted = {name: archive.getinfo(name) for name in names if name.endswith(_endings())}
            texts = {name: archive.read(name) for name, info in wanted.items() if info.file_size <= MAX_FILE_BYTES}
    except (OSError, zipfile.BadZipFile) as exc:
        raise UsageError(f"{source} is neither a folder nor a wheel: {exc}") from exc
    return lambda end: next((text for name, text in texts.items() if f"/{name}".endswith(end)), None)


def _endings() -> tuple[str, ...]:
    return tuple(f"BFCL_v4_{category}.json" for category in CATEGORIES)


def _read_below(folder: Path, end: str) -> bytes | None:
    found = sorted(file for file in folder.rglob(end.rpartition("/")[2]) if f"/{file.as_posix()}".endswith(end))
    files = [file for file in found if "unused" not in file.parts]
    return files[0].read_bytes()[:MAX_FILE_BYTES] if files else None


def _convert_category(category: str, suite: str, read: Read) -> list[dict[str, Any]] | None:
    questions = _lines(_read_questions(read, f"BFCL_v4_{category}.json"), category)
    if not questions:
        return None
    answers = {
        line["id"]: line["ground_truth"]
        for line in _lines(read(f"/possible_answer/BFCL_v4_{category}.json"), category) or []
    }
    try:
        return [_case(question, suite, answers.get(question["id"])) for question in questions]
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as exc:
        raise UsageError(f"BFCL_v4_{category}.json is not in the shape of version 4: {exc!r}") from exc


def _read_questions(read: Read, name: str) -> bytes | None:
    """Reads the file of the questions; the file of the answers has the same name in another folder."""
    return read(f"/data/{name}") or read(f"/{name}")


def _lines(text: bytes | None, category: str) -> list[Any] | None:
    if text is None:
        return None
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
            {"role": said["role"], "content": said["content"]} for said in question["question"][0] if said["content"]
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


def _schema(theirs: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {key: theirs[key] for key in ("description", "enum", "required") if theirs.get(key)}
    word = str(theirs.get("type", "")).lower()
    if kind := _TYPES.get(word, word):
        schema["type"] = kind
    if "properties" in theirs:
        schema["properties"] = {key: _schema(value) for key, value in theirs["properties"].items()}
    if "items" in theirs:
        schema["items"] = _schema(theirs["items"])
    return schema


def _call(name: str, given: Mapping[str, list[Any]], tools: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    tool = tools[name]
    allowed, optional = _allowed(given)
    for key in [*allowed]:
        allowed[key] = _select_valid(tool["parameters"]["properties"], key, allowed[key])
        if not allowed[key]:  # it may only be omitted
            del allowed[key]
    required = tool["parameters"].get("required", ())
    optional = [key for key in optional if key in allowed and key not in required]
    return {"name": tool["name"], "arguments": allowed, "optional": optional}


def _allowed(given: Mapping[str, list[Any]]) -> tuple[dict[str, list[Any]], list[str]]:
    optional = [key for key, values in given.items() if "" in values]
    values = {key: [_value(value) for value in each if value != "" or len(each) == 1] for key, each in given.items()}
    return values, optional


def _value(value: Any) -> Any:
    """Converts an allowed value. In objects, every value is again a list of alternatives."""
    if isinstance(value, dict) and all(isinstance(each, list) for each in value.values()):
        members, optional = _allowed(value)
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
