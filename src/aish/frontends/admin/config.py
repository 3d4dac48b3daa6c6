"""`aish config init|show|check|path|trust|distrust`."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import msgspec

from aish.config import paths
from aish.config.agents import find_agents
from aish.config.instructions import INSTRUCTION_NAMES, find_instructions
from aish.config.load import check_config, load_config
from aish.config.prompt_files import find_prompt_files
from aish.config.reference import init_config, show_rows
from aish.config.schema.config import Config
from aish.config.schema.tools import PROMPT_FIELDS
from aish.config.skills import find_skills
from aish.config.tool_files import ToolFileFinder
from aish.config.user_decisions import content_hash, distrust, project_content, trust_project_file
from aish.engine.model.router import AUTO
from aish.errors import ConfigError
from aish.frontends.runtime import LaunchContext
from aish.frontends.terminal import visible
from aish.safety.policy.rules import Rule, example_errors

_ALIAS = re.compile(r"_?[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")  # tools are named alias__tool


def run(action: str, environment: LaunchContext) -> int:
    actions = {"init": _init, "show": _show, "check": _check, "path": _path, "trust": _trust, "distrust": _distrust}
    return actions[action](environment)


def _init(environment: LaunchContext) -> int:
    path = paths.user_file(environment.env)
    init_config(path)
    print(f"wrote {path}")
    return 0


def _show(environment: LaunchContext) -> int:
    loaded = load_config(cwd=environment.cwd, env=environment.env)
    rows = show_rows(loaded)
    key_width = max(len(row.key) for row in rows)
    for row in rows:
        print(visible(f"{row.key:<{key_width}}  {row.value}  # {row.origin}"))
    for notice in loaded.notices:
        print(f"· {visible(notice)}", file=sys.stderr)
    return 0


def _check(environment: LaunchContext) -> int:
    problems = [str(problem) for problem in check_config(cwd=environment.cwd, env=environment.env)]
    doubts: list[str] = []
    if not problems:
        loaded = load_config(cwd=environment.cwd, env=environment.env)
        misspelt, unsure = _check_model_names(loaded.config)
        problems, doubts = [*_find_mistakes(loaded.config), *misspelt], [*loaded.notices, *unsure]
    for problem in problems:
        print(visible(problem))
    if not problems:
        print("the configuration is fine")
    for doubt in doubts:
        print(f"· {visible(doubt)}", file=sys.stderr)
    return 2 if problems else 0


def _find_mistakes(config: Config) -> list[str]:
    """Mistakes in settings whose form is valid."""
    rules = [Rule(**msgspec.structs.asdict(rule)) for rule in config.gate.rules]
    unclear = [name for name, server in config.mcp.servers.items() if bool(server.command) == bool(server.url)]
    misnamed = [name for name in config.mcp.servers if not _ALIAS.fullmatch(name)]
    return [
        *example_errors(rules),
        *_find_unknown_fields(config.shell.prompt),
        *_find_unknown_provider(config),
        *(f"mcp.servers.{name} needs either a command or a url" for name in unclear),
        *(
            f"mcp.servers.{name}: a name has letters, digits, '-' and single '_' that do not end it"
            for name in misnamed
        ),
    ]


def _find_unknown_fields(prompt: str) -> list[str]:
    """Unknown fields of the prompt, which would be shown literally."""
    unknown = [name for name in re.findall(r"{(\w+)}", prompt) if name not in PROMPT_FIELDS]
    open_ended = re.findall(r"{(\w+)(?![\w}])", prompt)
    return [
        *(f"shell.prompt: there is no field {{{name}}}; {_suggest_field(name)}" for name in dict.fromkeys(unknown)),
        *(f"shell.prompt: {{{name} has no }}" for name in dict.fromkeys(open_ended)),
    ]


def _suggest_field(name: str) -> str:
    similar = difflib.get_close_matches(name, PROMPT_FIELDS, n=1)
    return f"did you mean {{{similar[0]}}}?" if similar else f"there are {', '.join(PROMPT_FIELDS)}"


def _find_unknown_provider(config: Config) -> list[str]:
    """An unknown preferred provider, which would be ignored silently."""
    name, known = config.provider, _list_providers(config)
    if not name or name in known:
        return []
    similar = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(known)}"
    return [f"provider: there is no {name}; {suggestion}"]


def _list_providers(config: Config) -> list[str]:
    names = (*config.providers, *(server.name for server in config.discovery.servers), "embedded", "scripted")
    return list(dict.fromkeys(names))


def _check_model_names(config: Config) -> tuple[list[str], list[str]]:
    """Model names that are surely misspelt, and names that are unknown here. Providers are not asked for their
    models."""
    routing, presets = config.routing, config.presets
    names = {"model": "" if config.model == AUTO else config.model}
    names |= {f"routing.{kind}": name for kind, name in (*routing.classes().items(), ("fallback", routing.fallback))}
    names |= {
        "context.summary_model": config.context.summary_model,
        "norris.preplanner": config.norris.preplanner,
        "norris.executor": config.norris.executor,
        "planner.model": config.planner.model,
        "safety.second_opinion": config.safety.second_opinion,
    }
    providers = _list_providers(config)
    misspelt, doubts = [], []
    for key, name in names.items():
        if not name or name in presets or name.partition(":")[0] in providers:
            continue
        if similar := difflib.get_close_matches(name, presets, n=1, cutoff=0.75):
            misspelt.append(f"{key}: there is no preset {name}: did you mean {similar[0]}?")
        else:
            doubts.append(f"{key}: {name} is no preset: some provider must have a model of that name")
    return misspelt, doubts


def _path(environment: LaunchContext) -> int:
    home = paths.home_dir(environment.env)
    user = paths.user_file(environment.env)
    project = paths.find_project_file(environment.cwd, home, user)
    print(f"user     {user}")
    print(f"project  {project or 'none'}")
    print(f"data     {paths.data_dir(environment.env)}")
    print(f"cache    {paths.cache_dir(environment.env)}")
    return 0


def _trust(environment: LaunchContext) -> int:
    """Shows the project's files and trusts exactly their content. Any change makes a file untrusted again."""
    for path in _project_files(environment):
        content = project_content(path)
        for line in content.decode("utf-8", "replace").splitlines():
            print(visible(line))
        digest = trust_project_file(path, env=environment.env, expected=content_hash(content))
        print(f"trusted {path} as it is now (sha256 {digest[:16]}…)", file=sys.stderr)
    return 0


def _distrust(environment: LaunchContext) -> int:
    """Forgets the user's answers, also a no: the shell asks again."""
    for path in _project_files(environment):
        known = distrust(path, env=environment.env)
        print(f"no longer trusted: {path}" if known else f"there is no answer about {path}", file=sys.stderr)
    return 0


def _project_files(environment: LaunchContext) -> list[Path]:
    """The settings of the project; its instructions, skills, agents and prompt files; and its tools in Python."""
    cwd, env = environment.cwd, environment.env
    settings = paths.find_project_file(cwd, paths.home_dir(env), paths.user_file(env))
    own = paths.config_dir(env)
    instructions = [file.path for file in find_instructions(cwd, env) if file.path.parent != own and not file.problem]
    entries = [
        entry.file.path
        for entry in (*find_skills(cwd, env), *find_agents(cwd, env), *find_prompt_files(cwd, env))
        if not entry.file.problem and not entry.file.path.is_relative_to(own)
    ]
    tools = [
        tool.file.path
        for tool in ToolFileFinder(env).find(cwd)
        if not tool.file.problem and not tool.file.path.is_relative_to(own)
    ]
    found = [*([settings] if settings else []), *instructions, *entries, *tools]
    if not found:
        raise ConfigError(
            f"there is no {paths.PROJECT_FILE} here or above, no {INSTRUCTION_NAMES[0]}, skill, agent, command or tool",
            hint="run this inside the project",
        )
    return found
