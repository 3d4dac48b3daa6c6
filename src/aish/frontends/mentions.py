"""Expands mentions in a question: `@path`, `@path:10-40`, `@ref..ref` and `@alias:uri` add what they name to it.

A name with blanks is written `@"…"`. A mention that names nothing is an error, and nothing is sent. `\\@` is a plain @;
so is an @ in code, and in a text of several lines an @ before a word that begins a line and names no file (a
decorator). `/name` at the beginning of a question adds the text of the skill of that name.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from aish.config.frontmatter import usable_names
from aish.errors import AishError, ProcessError, UsageError, WireError
from aish.frontends.runtime import McpServerView, Runtime
from aish.types.messages import ImagePart, Part, TextPart, UserMessage

# About a hundred thousand tokens. What fits the context window is decided later.
MAX_CHARS = 400_000
MAX_IMAGE_BYTES = 8 * 1024 * 1024
_MAX_MENTIONS = 20
_TREE_ENTRIES = 400
_GIT_S = 10.0
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_MENTION = re.compile(r"(?<![\w@\\`])@(?:\"([^\"\n]+)\"|([^\s@`]+))")
_DECORATOR = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*(?:\(.*)?")
_LINES = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?$")
_RANGE = re.compile(r"[\w./~^@{}-]*[\w~^}]\.{2,3}[\w./~^@{}-]*")
_PUNCTUATION = ".,;:!?)]}'\""
_DEPTH = 4
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "target", "dist", "build", ".cache"})


class MentionScope(msgspec.Struct, frozen=True):
    """Where mentions are looked up. `read_skill` gives the text of a skill, by its name."""

    cwd: Path
    servers: Mapping[str, McpServerView]
    skills: frozenset[str]
    read_skill: Callable[[str], Awaitable[str]]

    @classmethod
    def of(cls, runtime: Runtime, cwd: Path, text: str) -> MentionScope:
        """What mentions in this text may mean. Skills are looked up only if it begins like one."""
        skills = usable_names(runtime.skills()) if text.startswith("/") else frozenset[str]()
        return cls(cwd, runtime.mcp_servers, skills, runtime.read_skill)


async def expand_mentions(text: str, scope: MentionScope) -> UserMessage:
    """The question and what it mentions. Raises UsageError for a mention that names nothing."""
    found = _find_mentions(text, scope)
    if len(found) > _MAX_MENTIONS:
        raise UsageError(
            f"{len(found)} mentions in one question", hint=f"at most {_MAX_MENTIONS}; write \\@ for a plain @"
        )
    parts: list[Part] = []
    skill = text.split(maxsplit=1)[0][1:] if text.startswith("/") else ""
    if skill in scope.skills:
        parts.append(
            TextPart(f"\n\n[the skill {skill}, which the user asks you to follow]\n{await scope.read_skill(skill)}")
        )
    for mention in found:
        parts += await _load(mention, scope)
    return UserMessage((TextPart(text.replace("\\@", "@")), *parts))


def _find_mentions(text: str, scope: MentionScope) -> list[str]:
    """The names of the mentions, each once and without the punctuation after it."""
    found: dict[str, None] = {}
    code = [match.span() for match in _CODE.finditer(text)]
    for match in _MENTION.finditer(text):
        if any(start <= match.start() < end for start, end in code):
            continue
        name = match[1] or match[2]
        if not match[1] and not _exists(_resolve(name, scope.cwd)):
            name = name.rstrip(_PUNCTUATION) or name
        if not _is_decorator(text, match.start(), name, scope):
            found[name] = None
    return list(found)


def _is_decorator(text: str, at: int, name: str, scope: MentionScope) -> bool:
    starts_line = not text[text.rfind("\n", 0, at) + 1 : at].strip()
    return bool(starts_line and "\n" in text and _DECORATOR.fullmatch(name)) and not _exists(_resolve(name, scope.cwd))


async def _load(mention: str, scope: MentionScope) -> Sequence[Part]:
    alias, colon, uri = mention.partition(":")
    if colon and alias in scope.servers:
        return await _load_resource(mention, scope.servers[alias], uri)
    lines = _LINES.match(mention)
    path = _resolve(mention, scope.cwd)
    if await asyncio.to_thread(_exists, path):
        return await asyncio.to_thread(_load_path, mention, path)
    if lines is not None and await asyncio.to_thread(_resolve(lines[1], scope.cwd).is_file):
        first, last = int(lines[2]), int(lines[3] or lines[2])
        return await asyncio.to_thread(_load_lines, mention, _resolve(lines[1], scope.cwd), first, last)
    if _RANGE.fullmatch(mention):
        return await _load_diff(mention, scope.cwd)
    raise _missing(mention)


def _resolve(name: str, cwd: Path) -> Path:
    try:
        return cwd / Path(name).expanduser()
    except RuntimeError:  # there is no such home directory
        return cwd / name


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long, or the folder may not be read
        return False


def _missing(mention: str) -> UsageError:
    return UsageError(
        f"@{mention} names no file, range or resource here; nothing was sent",
        hint="fix it, or write \\@ for a plain @",
    )


def _load_path(mention: str, path: Path) -> Sequence[Part]:
    if path.is_dir():
        return [_block(mention, "\n".join(tree_lines(path, _TREE_ENTRIES)))]
    if not path.is_file():  # reading a pipe might never end
        raise UsageError(f"@{mention} is not a plain file; nothing was sent")
    if media_type := _IMAGES.get(path.suffix.lower()):
        return [TextPart(f"\n\n[@{mention}]"), ImagePart(media_type, _read_image(mention, path))]
    text = _read_text(mention, path)
    note = f" (the first {MAX_CHARS} characters)" if len(text) > MAX_CHARS else ""
    return [_block(mention + note, text[:MAX_CHARS])]


def _load_lines(mention: str, path: Path, first: int, last: int) -> Sequence[Part]:
    lines = _read_text(mention, path).splitlines()
    if not 1 <= first <= last or first > len(lines):
        raise UsageError(f"@{mention}: there are lines 1 to {len(lines)}; nothing was sent")
    chosen = "\n".join(f"{number}: {line}" for number, line in enumerate(lines[first - 1 : last], first))
    return [_block(mention, chosen[:MAX_CHARS])]


def _read_text(mention: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(4 * MAX_CHARS + 1)
    except OSError as exc:
        raise UsageError(f"@{mention} cannot be read: {exc.strerror or exc}; nothing was sent") from exc
    if b"\0" in data[:8192]:
        raise UsageError(f"@{mention} is not text; nothing was sent", hint="mention a text file or an image")
    return data.decode("utf-8", "replace")


def _read_image(mention: str, path: Path) -> str:
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_IMAGE_BYTES else None
    except OSError as exc:
        raise UsageError(f"@{mention} cannot be read: {exc.strerror or exc}; nothing was sent") from exc
    if data is None:
        raise UsageError(f"@{mention} is larger than {MAX_IMAGE_BYTES >> 20} MiB; nothing was sent")
    return base64.b64encode(data).decode()


async def _load_diff(mention: str, cwd: Path) -> Sequence[Part]:
    """The diff of a range, without running the programs that the repository's settings name."""
    from aish.process.child import ProcessSpec, run

    words = ("git", "--no-pager", "diff", "--no-ext-diff", "--no-textconv", "--no-color", mention, "--")
    try:
        done = await run(ProcessSpec(words, cwd=cwd), timeout_s=_GIT_S, max_output_bytes=4 * MAX_CHARS)
    except (ProcessError, WireError) as exc:
        raise UsageError(f"@{mention}: git could not be asked ({exc}); nothing was sent") from exc
    if done.returncode:
        raise _missing(mention)
    text = done.stdout.decode("utf-8", "replace")
    return [_block(mention, text[:MAX_CHARS] or "(no difference)")]


async def _load_resource(mention: str, server: McpServerView, uri: str) -> Sequence[Part]:
    try:
        output = await server.session.read_resource(uri)
    except AishError as exc:
        raise UsageError(f"@{mention}: {exc.message}; nothing was sent", hint=exc.hint) from exc
    return [TextPart(f"\n\n[@{mention}]\n"), *map(_shorten, output.parts)]


def _shorten(part: Part) -> Part:
    if not isinstance(part, TextPart) or len(part.text) <= MAX_CHARS:
        return part
    return TextPart(f"{part.text[:MAX_CHARS]}\n[aish] … {len(part.text) - MAX_CHARS} characters left out …")


def _block(name: str, text: str) -> TextPart:
    return TextPart(f"\n\n[@{name}]\n{text}")


def tree_lines(root: Path, max_lines: int, depth: int = _DEPTH) -> list[str]:
    """The files of a folder as an indented tree, without build output and version control. At most `max_lines` lines,
    then "…" if there are more."""
    lines = list(islice(_lines(root, depth, max_lines), max_lines + 1))
    return lines if len(lines) <= max_lines else [*lines[:max_lines], "…"]


def _lines(folder: Path, depth: int, max_lines: int, indent: str = "") -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    except OSError:
        return
    for entry in entries[: max_lines + 1]:
        if entry.name in _SKIPPED or entry.is_symlink():
            continue
        is_folder = entry.is_dir()
        yield f"{indent}{entry.name}{'/' if is_folder else ''}"
        if is_folder and depth > 1:
            yield from _lines(entry, depth - 1, max_lines, indent + "  ")
