"""Tells harmless changes of a git configuration from those that could make git run a program, or send commits
elsewhere.

What this module does not know is not harmless. It reads fewer forms than git does: in a file with other forms, every
change counts.
"""

from __future__ import annotations

import re

import msgspec

_HEADER = re.compile(rb'\[([A-Za-z0-9-]+)(?: "([^"\\\n]*)")?\]')
_ENTRY = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[ \t]*(.*))?")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_QUOTING = re.compile(rb'["\\#;]')
# The keys of sections without a name that run nothing and lead nowhere.
_HARMLESS = {
    b"core": frozenset(
        b"repositoryformatversion filemode logallrefupdates ignorecase symlinks precomposeunicode sparsecheckout "
        b"sparsecheckoutcone".split()
    ),
    b"extensions": frozenset(b"objectformat worktreeconfig refstorage".split()),
    b"user": frozenset(b"name email".split()),
}
# Those of new sections with a name. Keys of a section that exists could lead pushes elsewhere.
_HARMLESS_NAMED = {
    b"branch": frozenset(b"remote merge rebase description".split()),
    b"remote": frozenset(b"url fetch".split()),
    b"submodule": frozenset(b"url active".split()),
}


class _Entry(msgspec.Struct, frozen=True):
    section: bytes
    name: bytes | None
    key: bytes
    value: bytes

    @property
    def title(self) -> tuple[bytes, bytes | None]:
        return self.section, self.name


def is_harmless_change(old: bytes, new: bytes, *, is_module: bool = False) -> bool:
    """`is_module`: it is the configuration of a submodule, which says where its files are."""
    before, after = _read_entries(old), _read_entries(new)
    if old == new or before is None or after is None:
        return old == new
    known = {entry.title for entry in before}
    left = {entry.title for entry in after}
    # In a new repository all remotes are new.
    remotes = {b"."} | {entry.name or b"" for entry in before or after if entry.section == b"remote"}
    kept = [entry for entry in before if entry.title in left or entry.section not in _HARMLESS_NAMED]
    return _others(kept, known, remotes, is_module=is_module) == _others(after, known, remotes, is_module=is_module)


def _others(
    entries: list[_Entry], known: set[tuple[bytes, bytes | None]], remotes: set[bytes], *, is_module: bool
) -> list[_Entry]:
    return [
        entry
        for entry in entries
        if not (_is_plain(entry) and (_is_harmless_entry(entry, known, remotes) or (is_module and _is_place(entry))))
    ]


def _is_plain(entry: _Entry) -> bool:
    return not _QUOTING.search(entry.value) and b"::" not in entry.value and not entry.value.startswith(b"-")


def _is_harmless_entry(entry: _Entry, known: set[tuple[bytes, bytes | None]], remotes: set[bytes]) -> bool:
    if entry.name is None:
        is_bare = (entry.section, entry.key, entry.value) == (b"core", b"bare", b"false")
        return is_bare or entry.key in _HARMLESS.get(entry.section, ())
    if entry.title in known or entry.key not in _HARMLESS_NAMED.get(entry.section, ()):
        return False
    return (entry.section, entry.key) != (b"branch", b"remote") or entry.value in remotes


def _is_place(entry: _Entry) -> bool:
    return (entry.section, entry.name, entry.key) == (b"core", None, b"worktree")


def _read_entries(text: bytes) -> list[_Entry] | None:
    """Returns None for a text with forms that this module does not read."""
    text = text.replace(b"\r\n", b"\n")
    if _CONTROL.search(text):
        return None
    entries: list[_Entry] = []
    section: tuple[bytes, bytes | None] | None = None
    for line in text.split(b"\n"):
        line = line.strip(b" \t")
        if not line or line[:1] in b"#;":
            continue
        if header := _HEADER.fullmatch(line):
            section = header[1].lower(), header[2]
        elif section is not None and not line.endswith(b"\\") and (entry := _ENTRY.fullmatch(line)):
            entries.append(_Entry(*section, entry[1].lower(), entry[2] or b""))
        else:
            return None
    return entries
