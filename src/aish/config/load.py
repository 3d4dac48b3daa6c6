"""Loads the settings: defaults < user's file < project's file < environment < flags, merged key by key.

Each layer is checked on its own, so that every problem names its file and line. All problems are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from aish.config import paths
from aish.config.environment import Variables, aish_variables, proxy_variables, runtime_variables
from aish.config.schema.config import Config
from aish.config.schema.tree import KeyPath
from aish.config.schema.values import Secret
from aish.config.toml_file import TomlFile, Unreadable, read_toml
from aish.config.user_decisions import is_trusted
from aish.config.validation import Checker, Problem, decode_secret
from aish.errors import ConfigError
from aish.types.decisions import Verdict

LayerName = Literal["default", "user", "project", "environment", "flags"]
_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_EFFECTS = ("read", "write", "exec", "network")
_MAX_NAMED = 20
_MAX_UNTRUSTED_PROBLEMS = 3  # shown of a file that the user has not trusted

Rule = Callable[[Any, Any], Any]  # (the setting of the lower layers, the project's) -> the effective one


class Origin(msgspec.Struct, frozen=True):
    """Which layer set a key, and where: `file:line`, a variable or a flag."""

    layer: LayerName
    where: str = ""


DEFAULT = Origin("default")


class ConfigFile(msgspec.Struct, frozen=True):
    """A settings file that was searched for. `ignored` are the keys of an untrusted file that have no effect."""

    layer: LayerName
    path: Path
    state: Literal["read", "absent", "untrusted", "broken"]
    ignored: tuple[str, ...] = ()


class LoadedConfig(msgspec.Struct, frozen=True):
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


def load_config(*, cwd: Path, env: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> LoadedConfig:
    """Loads all layers. Raises one ConfigError that names every problem."""
    loading = _load(cwd, env, flags or {})
    if loading.problems:
        raise ConfigError("\n".join(map(str, loading.problems)), hint="fix it, then run `aish config check`")
    return loading.finish()


def check_config(*, cwd: Path, env: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> list[Problem]:
    """Returns every problem, also those of a file that is ignored."""
    loading = _load(cwd, env, flags or {})
    return [*loading.problems, *loading.untrusted_problems]


def _load(cwd: Path, env: Mapping[str, str], flags: Mapping[str, Any]) -> _Loading:
    loading = _Loading(cwd, env)
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

    def __init__(self, cwd: Path, env: Mapping[str, str]) -> None:
        self.cwd = cwd
        self.env = env
        self.home = paths.home_dir(env)
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

    def finish(self) -> LoadedConfig:
        return LoadedConfig(self.config(), self.origins, tuple(self.notices), tuple(self.files))

    def add_defaults(self) -> None:
        data, cache = paths.data_dir(self.env), paths.cache_dir(self.env)
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
        path = paths.user_file(self.env)
        file = self._read(path, "user")
        if file is not None:
            self._merge(self._checker(file), file.values, "user")

    def add_project_file(self) -> None:
        path = paths.find_project_file(self.cwd, self.home, paths.user_file(self.env))
        file = self._read(path, "project") if path else None
        if file is None:
            return
        if is_trusted(file.path, file.content, env=self.env):
            self._merge(self._checker(file), file.values, "project")
        else:
            self._merge_stricter(file)

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

    def _merge_stricter(self, file: TomlFile) -> None:
        checker = self._checker(file)
        checked = checker.check(file.values)
        self._ignore(checker.problems)
        effective, ignored = select_stricter(self.config(), checked)
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


def select_stricter(base: Config, project: Mapping[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """Returns the values of an untrusted file that override `base`, and the keys in it that are ignored."""
    effective: dict[str, Any] = {}
    ignored: list[KeyPath] = []
    for path, value in _flatten(project):
        rule = _find_rule(path)
        if rule is None:
            ignored.append(path)
            continue
        base_value = getattr(getattr(base, path[0]), path[1])
        result = rule(base_value, value)
        if result != base_value:
            effective.setdefault(path[0], {})[path[1]] = result
        elif rule is not _union and not _is_same(base_value, value):
            ignored.append(path)
    return effective, ignored


def _find_rule(path: KeyPath) -> Rule | None:
    if len(path) != 2:
        return None
    if path[0] == "limits" or path in (("cost", "cap_per_session"), ("cost", "cap_per_day")):
        return _lower_limit
    if path[0] == "gate" and path[1] in _EFFECTS:
        return _stricter_verdict
    return {("gate", "deny"): _union, ("tools", "offer"): _intersection}.get(path)


def _lower_limit(base_value: float | None, value: float) -> float:
    """None means no limit; a file cannot set it."""
    return value if base_value is None else min(base_value, value)


def _stricter_verdict(base_value: Verdict, value: str) -> Verdict:
    return max(base_value, Verdict(value), key=_STRICTNESS.__getitem__)


def _union(base_value: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*base_value, *value)))


def _intersection(base_value: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    """Returns the patterns that both lists cover."""
    ours = [glob for glob in value if any(covers(wide, glob) for wide in base_value)]
    theirs = [glob for glob in base_value if any(covers(wide, glob) for wide in value)]
    return tuple(dict.fromkeys((*ours, *theirs)))


def covers(wide: str, narrow: str) -> bool:
    """Whether `wide` certainly matches every name that `narrow` matches. Only `*` in `wide` is understood."""
    if wide == narrow:
        return True
    return not set(wide) & set("?[") and "[" not in narrow and fnmatchcase(narrow, wide)


def _is_same(base_value: Any, value: Any) -> bool:
    return tuple(value) == base_value if isinstance(value, list) else bool(value == base_value)


def _flatten(values: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    leaves: list[tuple[KeyPath, Any]] = []
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, Mapping) and (value or not path):
            leaves += _flatten(value, here)
        else:
            leaves.append((here, value))
    return leaves
