"""`aish config init|show|check|path|trust|distrust`."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import msgspec

from aish.config import paths
from aish.config.load import check_config, load_config
from aish.config.schema.config import Config
from aish.config.schema.shell import PROMPT_FIELDS
from aish.config.show import show_rows
from aish.config.starter import init_config
from aish.config.trust import content_hash, distrust, project_content, trust
from aish.engine.model.router import AUTO
from aish.errors import ConfigError
from aish.frontends.runtime import ProcessEnvironment
from aish.frontends.terminal import visible
from aish.safety.policy.rules import Rule, example_errors

_ALIAS = re.compile(r"_?[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")  # tools are named alias__tool


def run(action: str, here: ProcessEnvironment) -> int:
    actions = {"init": _init, "show": _show, "check": _check, "path": _path, "trust": _trust, "distrust": _distrust}
    return actions[action](here)


def _init(here: ProcessEnvironment) -> int:
    path = paths.user_file(here.env)
    init_config(path)
    print(f"wrote {path}")
    return 0


def _show(here: ProcessEnvironment) -> int:
    loaded = load_config(cwd=here.cwd, env=here.env)
    rows = show_rows(loaded)
    key_width = max(len(row.key) for row in rows)
    for row in rows:
        print(visible(f"{row.key:<{key_width}}  {row.value}  # {row.origin}"))
    for notice in loaded.notices:
        print(f"· {visible(notice)}", file=sys.stderr)
    return 0


def _check(here: ProcessEnvironment) -> int:
    problems = [str(problem) for problem in check_config(cwd=here.cwd, env=here.env)]
    doubts: list[str] = []
    if not problems:
        loaded = load_config(cwd=here.cwd, env=here.env)
        misspelt, unsure = _names(loaded.config)
        problems, doubts = [*_mistakes(loaded.config), *misspelt], [*loaded.notices, *unsure]
    for problem in problems:
        print(visible(problem))
    if not problems:
        print("the configuration is fine")
    for doubt in doubts:
        print(f"· {visible(doubt)}", file=sys.stderr)
    return 2 if problems else 0


def _mistakes(config: Config) -> list[str]:
    """What is well formed and still wrong."""
    rules = [Rule(**msgspec.structs.asdict(rule)) for rule in config.gate.rules]
    unclear = [name for name, server in config.mcp.servers.items() if bool(server.command) == bool(server.url)]
    misnamed = [name for name in config.mcp.servers if not _ALIAS.fullmatch(name)]
    return [
        *example_errors(rules),
        *_unknown_fields(config.shell.prompt),
        *_unknown_provider(config),
        *(f"mcp.servers.{name} needs either a command or a url" for name in unclear),
        *(
            f"mcp.servers.{name}: a name has letters, digits, '-' and single '_' that do not end it"
            for name in misnamed
        ),
    ]


def _unknown_fields(prompt: str) -> list[str]:
    """Of a prompt: they would stand in it as they are written."""
    unknown = [name for name in re.findall(r"{(\w+)}", prompt) if name not in PROMPT_FIELDS]
    open_ended = re.findall(r"{(\w+)(?![\w}])", prompt)
    return [
        *(f"shell.prompt: there is no field {{{name}}}; {_known_fields(name)}" for name in dict.fromkeys(unknown)),
        *(f"shell.prompt: {{{name} has no }}" for name in dict.fromkeys(open_ended)),
    ]


def _known_fields(name: str) -> str:
    near = difflib.get_close_matches(name, PROMPT_FIELDS, n=1)
    return f"did you mean {{{near[0]}}}?" if near else f"there are {', '.join(PROMPT_FIELDS)}"


def _unknown_provider(config: Config) -> list[str]:
    """The one to prefer: it would be passed over without a word."""
    name, known = config.provider, _providers(config)
    if not name or name in known:
        return []
    near = difflib.get_close_matches(name, known, n=1)
    return [
        f"provider: there is no {name}; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
    ]


def _providers(config: Config) -> list[str]:
    names = (*config.providers, *(server.name for server in config.discovery.servers), "embedded", "scripted")
    return list(dict.fromkeys(names))


def _names(config: Config) -> tuple[list[str], list[str]]:
    """Of models: those that are surely misspelt, and those that nothing here knows. Only a provider could say whether
    it has such a model, and it is not asked."""
    routing, presets = config.routing, config.presets
    meant = {"model": "" if config.model == AUTO else config.model}
    meant |= {f"routing.{kind}": name for kind, name in (*routing.classes().items(), ("fallback", routing.fallback))}
    meant |= {
        "context.summary_model": config.context.summary_model,
        "norris.preplanner": config.norris.preplanner,
        "norris.executor": config.norris.executor,
        "planner.model": config.planner.model,
        "safety.second_opinion": config.safety.second_opinion,
    }
    providers = _providers(config)
    misspelt, doubts = [], []
    for key, name in meant.items():
        if not name or name in presets or name.partition(":")[0] in providers:
            continue
        if near := difflib.get_close_matches(name, presets, n=1, cutoff=0.75):
            misspelt.append(f"{key}: there is no preset {name}: did you mean {near[0]}?")
        else:
            doubts.append(f"{key}: {name} is no preset: some provider must have a model of that name")
    return misspelt, doubts


def _path(here: ProcessEnvironment) -> int:
    home = paths.home_dir(here.env)
    user = paths.user_file(here.env)
    project = paths.find_project_file(here.cwd, home, user)
    print(f"user     {user}")
    print(f"project  {project or 'none'}")
    print(f"data     {paths.data_dir(here.env)}")
    print(f"cache    {paths.cache_dir(here.env)}")
    return 0


def _trust(here: ProcessEnvironment) -> int:
    """Shows the file that is accepted; a change after this look makes it untrusted again."""
    project = _project_file(here)
    content = project_content(project)
    print(visible(content.decode("utf-8", "replace")), end="" if content.endswith(b"\n") else "\n")
    digest = trust(project, env=here.env, expected=content_hash(content))
    print(f"trusted {project} as it is now (sha256 {digest[:16]}…)", file=sys.stderr)
    return 0


def _distrust(here: ProcessEnvironment) -> int:
    """Also takes back a no: the shell asks again."""
    project = _project_file(here)
    known = distrust(project, env=here.env)
    print(f"no longer trusted: {project}" if known else f"nothing was said of {project}", file=sys.stderr)
    return 0


def _project_file(here: ProcessEnvironment) -> Path:
    project = paths.find_project_file(here.cwd, paths.home_dir(here.env), paths.user_file(here.env))
    if project is None:
        raise ConfigError(f"there is no {paths.PROJECT_FILE} here or above", hint="run this inside the project")
    return project
