"""Loads the settings: defaults < user's file < project's file < environment < flags, merged key by key.

Each layer is checked on its own, so that every problem names its file and line. All problems are reported together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from aish.config import paths
from aish.config.checking import Checker, Problem, decode_secret
from aish.config.environment import Variables, aish_variables, proxy_variables, runtime_variables
from aish.config.schema.config import Config
from aish.config.schema.secret import Secret
from aish.config.schema.tree import KeyPath
from aish.config.tighten import tighten
from aish.config.toml_file import TomlFile, Unreadable, read_toml
from aish.config.trust import is_trusted
from aish.errors import ConfigError

LayerName = Literal["default", "user", "project", "environment", "flags"]


class Origin(msgspec.Struct, frozen=True):
    """Which layer set a key, and where: `file:line`, a variable or a flag."""

    layer: LayerName
    where: str = ""


DEFAULT = Origin("default")
_MAX_NAMED = 20
_MAX_UNTRUSTED_PROBLEMS = 3  # shown of a file that the user has not trusted


class ConfigFile(msgspec.Struct, frozen=True):
    """A settings file that was searched for. `ignored` are the keys of an untrusted file that have no effect."""

    layer: LayerName
    path: Path
    state: Literal["read", "absent", "untrusted", "broken"]
    ignored: tuple[str, ...] = ()


class Loaded(msgspec.Struct, frozen=True):
    """The merged settings. `origins` has every key that a layer set; `notices` are lines for the user."""

    config: Config
    origins: dict[str, Origin]
    notices: tuple[str, ...]
    files: tuple[ConfigFile, ...]

    def origin(self, key: str) -> Origin:
        return self.origins.get(key, DEFAULT)

    def get_key(self, provider: str) -> Secret | None:
        """Returns the API key of a provider, None if it needs none. Raises ConfigError if its variable is not set."""
        try:
            return self.config.providers[provider].get_key()
        except ConfigError as exc:
            where = self.origin(f"providers.{provider}.key_env").where
            raise ConfigError(f"{where}: {exc.message}", hint=exc.hint) from exc


def join_names(names: Sequence[str]) -> str:
    """Joins names with commas, and counts those for which a line has no room."""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def load_config(
    *, cwd: Path, env: Mapping[str, str], flags: Mapping[str, Any] | None = None, home: Path | None = None
) -> Loaded:
    """Loads all layers. Raises one ConfigError that names every problem."""
    loading = _load(cwd, env, flags or {}, home)
    if loading.problems:
        raise ConfigError("\n".join(map(str, loading.problems)), hint="mend it, then run `aish config check`")
    return loading.loaded()


def check_config(
    *, cwd: Path, env: Mapping[str, str], flags: Mapping[str, Any] | None = None, home: Path | None = None
) -> list[Problem]:
    """Returns every problem, also those of a file that is ignored."""
    loading = _load(cwd, env, flags or {}, home)
    return [*loading.problems, *loading.untrusted_problems]


def _load(cwd: Path, env: Mapping[str, str], flags: Mapping[str, Any], home: Path | None) -> _Loading:
    home = paths.home_dir(env, home)
    loading = _Loading(cwd, env, home)
    loading.add_defaults()
    loading.add_variables(proxy_variables(env))
    loading.add_user_file()
    loading.add_project_file()
    loading.add_variables(runtime_variables(env))
    loading.add_variables(aish_variables(env, loading.values))
    loading.add_flags(flags)
    loading.check_whole()
    loading.resolve_keys()
    return loading


class _Loading:
    """The state of one load: the layers merged so far."""

    def __init__(self, cwd: Path, env: Mapping[str, str], home: Path) -> None:
        self.cwd = cwd
        self.env = env
        self.home = home
        self.values: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.problems: list[Problem] = []
        self.untrusted_problems: list[Problem] = []  # of a file that is not trusted: they do not stop aish
        self.notices: list[str] = []
        self.files: list[ConfigFile] = []

    def config(self) -> Config:
        """Converts only the tables that a layer set: msgspec takes longer to prepare the whole schema than all the rest
        of loading takes."""
        kinds = {field.name: field.type for field in msgspec.structs.fields(Config)}
        return Config(
            **{name: msgspec.convert(value, kinds[name], dec_hook=decode_secret) for name, value in self.values.items()}
        )

    def loaded(self) -> Loaded:
        return Loaded(self.config(), self.origins, tuple(self.notices), tuple(self.files))

    def add_defaults(self) -> None:
        data, cache = paths.data_dir(self.env, self.home), paths.cache_dir(self.env, self.home)
        self.values = {"store": {"path": str(data / "aish.db")}, "embedded": {"cache_dir": str(cache / "models")}}

    def add_variables(self, layer: Variables) -> None:
        self.problems += layer.problems
        self.notices += layer.notices
        checker = Checker(layer.locate, self.cwd, self.home, texts=True)
        self._merge(checker, layer.values, "environment")

    def add_flags(self, flags: Mapping[str, Any]) -> None:
        checker = Checker(lambda path: "flag " + ".".join(path), self.cwd, self.home, texts=True)
        self._merge(checker, _without_unset(flags), "flags")

    def add_user_file(self) -> None:
        path = paths.user_file(self.env, self.home)
        file = self._read(path, "user")
        if file is not None:
            self._merge(self._checker(file), file.values, "user")

    def add_project_file(self) -> None:
        path = paths.find_project_file(self.cwd, self.home, paths.user_file(self.env, self.home))
        file = self._read(path, "project") if path else None
        if file is None:
            return
        if is_trusted(file.path, file.content, env=self.env, home=self.home):
            self._merge(self._checker(file), file.values, "project")
        else:
            self._tighten(file)

    def check_whole(self) -> None:
        """Checks what needs several keys. Reports only if no single key is wrong."""
        if self.problems:
            return
        for name, provider in self.values.get("providers", {}).items():
            kind = provider.get("kind", "openai")
            if kind == "openai" and not provider.get("url") and not provider.get("urls"):
                where = self._where_set(("providers", name))
                self.problems.append(Problem(where, f"providers.{name}: it needs a url, or urls"))

    def resolve_keys(self) -> None:
        for name, provider in self.values.get("providers", {}).items():
            variable = provider.get("key_env", "")
            if variable and not provider.get("key") and self.env.get(variable):
                provider["key"] = Secret(self.env[variable])
                self.origins[f"providers.{name}.key"] = Origin("environment", variable)
        for name, server in self.values.get("mcp", {}).get("servers", {}).items():
            variable = server.get("auth_env", "")
            if variable and not server.get("auth_token") and self.env.get(variable):
                server["auth_token"] = Secret(self.env[variable])
                self.origins[f"mcp.servers.{name}.auth_token"] = Origin("environment", variable)

    def _read(self, path: Path, layer: LayerName) -> TomlFile | None:
        try:
            file = read_toml(path)
        except Unreadable as exc:
            where = f"{path}:{exc.line}" if exc.line else str(path)
            self.files.append(ConfigFile(layer, path, "broken"))
            problem = Problem(where, f"the file {exc.message}")
            if layer == "project":  # a file that cannot be parsed cannot be trusted
                self._ignore([problem])
            else:
                self.problems.append(problem)
            return None
        self.files.append(ConfigFile(layer, path, "read" if file else "absent"))
        return file

    def _ignore(self, problems: Sequence[Problem]) -> None:
        self.untrusted_problems += problems
        self.notices += [
            f"{problem}; ignored, since the file is not trusted" for problem in problems[:_MAX_UNTRUSTED_PROBLEMS]
        ]

    def _checker(self, file: TomlFile) -> Checker:
        return Checker(file.locate, file.path.parent, self.home)

    def _tighten(self, file: TomlFile) -> None:
        checker = self._checker(file)
        checked = checker.check(file.values)
        self._ignore(checker.problems)
        effective, ignored = tighten(self.config(), checked)
        self._merge_checked(checker, effective, "project")
        names = tuple(".".join(path) for path in ignored)
        self.files[-1] = msgspec.structs.replace(self.files[-1], state="untrusted", ignored=names)
        if names:
            self.notices.append(
                f"{file.path} is not trusted, so it can only make things stricter; ignored in it: {join_names(names)}. "
                "`aish config trust` accepts the file"
            )

    def _merge(self, checker: Checker, values: Mapping[str, Any], layer: LayerName) -> None:
        checked = checker.check(values)
        self.problems += checker.problems
        self._merge_checked(checker, checked, layer)

    def _merge_checked(self, checker: Checker, checked: Mapping[str, Any], layer: LayerName) -> None:
        for path, value in _leaves(checked):
            table = self.values
            for name in path[:-1]:
                table = table.setdefault(name, {})
            if isinstance(value, Mapping):
                table.setdefault(path[-1], {})
            else:
                table[path[-1]] = value
            self.origins[".".join(path)] = Origin(layer, checker.locate(path))

    def _where_set(self, path: KeyPath) -> str:
        prefix = ".".join(path)
        found = [origin.where for key, origin in self.origins.items() if key == prefix or key.startswith(f"{prefix}.")]
        return found[0] if found else prefix


def _leaves(values: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yields every value that is not a table, and every empty table."""
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, here)
        else:
            yield here, value


def _without_unset(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Removes flags that were not given: they are None."""
    return {
        name: _without_unset(value) if isinstance(value, Mapping) else value
        for name, value in flags.items()
        if value is not None
    }
