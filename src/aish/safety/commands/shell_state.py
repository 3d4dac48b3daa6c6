"""The known state of the shell at one point of a line: directory, variables, aliases, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from aish.safety.commands.bounds import MAX_BYTES, MAX_WRITTEN_FILES
from aish.safety.commands.verdict import ShellContext

if TYPE_CHECKING:
    from aish.safety.commands.syntax.expansion import Field
    from aish.safety.commands.syntax.model import Block

DEFAULT_IFS = " \t\n"


class Listing(msgspec.Struct, frozen=True):
    """The names that a command prints, for `xargs`. `separator` is "" if they are not names in the workspace. They lie
    below `starts`, and match one of `patterns` if there are any. `asked_for` are all patterns of names, whatever they
    do."""

    separator: str = ""
    starts: tuple[Field, ...] = ()
    patterns: tuple[str, ...] = ()
    asked_for: tuple[str, ...] = ()


NO_LISTING = Listing()


class Scope:
    """Updated while the line is walked; a subshell gets a copy."""

    def __init__(self, context: ShellContext) -> None:
        self.cwd: str | None = context.cwd
        self.home = context.home
        self.roots = context.roots or (context.cwd,)
        self.readable = context.readable
        self.private = context.private
        self.aliases: Mapping[str, str] = context.aliases
        self.functions: Mapping[str, str] = context.functions
        self._variables: dict[str, str | None] = dict(context.variables)
        self.stdin: str | None = None  # the text fed to the command, if it is known
        self.looping = False
        # For the proof: the names that are fed to the command, and a test whether a script lists names.
        self.fed = NO_LISTING
        self.loop_values: tuple[Field, ...] = ()  # what the variables of loops may be
        self.lists_names: Callable[[Block, Scope], bool] | None = None
        # Files that the line itself has written, to be scanned when they are run, and files that it has copied.
        self.files: dict[str, str] = {}
        self.copies: dict[str, str] = {}

    def copy(self) -> Scope:
        copy_of = object.__new__(Scope)
        copy_of.__dict__.update(self.__dict__)
        copy_of._variables = dict(self._variables)
        return copy_of

    def write(self, path: str | None, text: str) -> None:
        """Appends to earlier text, because either of two writes may be the one that is run."""
        if path is not None and len(self.files) < MAX_WRITTEN_FILES:
            self.files[path] = (self.files.get(path, "") + text)[:MAX_BYTES]

    def note_copy(self, source: str | None, target: str | None) -> None:
        """Records a file that is copied, moved or linked."""
        if source is None or target is None:
            return
        if source in self.files:
            self.write(target, self.files[source])
        elif len(self.copies) < MAX_WRITTEN_FILES and (origin := self.copies.get(source, source)) != target:
            self.copies[target] = origin

    def value(self, name: str) -> str | None:
        """Returns None if the value is unknown, which is not the same as empty."""
        if name in self._variables:
            return self._variables[name]
        if name == "HOME":
            return self.home
        if name == "PWD":
            return self.cwd
        return DEFAULT_IFS if name == "IFS" else None

    def assign(self, name: str, value: str | None) -> None:
        self._variables[name] = value

    def define_alias(self, name: str, text: str) -> None:
        self.aliases = {**self.aliases, name: text}

    def define_function(self, name: str) -> None:
        self.functions = {**self.functions, name: ""}

    def without(self, name: str) -> Scope:
        """Returns a scope for the text of an alias or a function, in which its own name means the program."""
        copy_of = self.copy()
        copy_of.aliases = {key: text for key, text in self.aliases.items() if key != name}
        copy_of.functions = {key: text for key, text in self.functions.items() if key != name}
        return copy_of
