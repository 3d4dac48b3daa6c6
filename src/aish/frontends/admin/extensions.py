"""`aish tools new|list|test` and `aish extensions list|add|remove|check`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

from aish.config.extensions import (
    PARTS,
    Extension,
    enable_extension,
    find_available,
    read_extension,
    remove_extension,
)
from aish.config.tool_files import PROJECT_FOLDER, own_tools_folder
from aish.errors import ConfigError, UsageError
from aish.extensions.definitions import check_tool_name
from aish.frontends.runtime import LaunchContext, Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import Output, is_interactive, visible
from aish.types.decisions import Answer, Choice, Mode, Question, QuestionKind
from aish.types.messages import marked_text
from aish.types.tools import ResultStatus, ToolSpec

_FAILED = 1
_REFUSED = 3
_TEMPLATE = '''\
from aish import tool


@tool(effect="read")  # without an effect you are asked about each call
def {name}(text: str, times: int = 1) -> str:
    """Says a text several times. The model reads this: say what the tool is for.

    Args:
        text: what to say
        times: how often
    """
    return " ".join([text] * times)
'''


def run_tools(arguments: argparse.Namespace, runtime: Runtime) -> int:
    if arguments.action == "new":
        return _new(arguments, runtime.launch_context)
    return run_until_done(_list(arguments, runtime) if arguments.action == "list" else _test(arguments, runtime))


def _new(arguments: argparse.Namespace, here: LaunchContext) -> int:
    name = arguments.name.removesuffix(".py")
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(f"{arguments.name!r} cannot name a function", hint="use letters, digits and '_'")
    check_tool_name(name)
    folder = here.cwd / PROJECT_FOLDER if arguments.project else own_tools_folder(here.env)
    path = folder / f"{name}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEMPLATE.format(name=name))
    except FileExistsError:
        raise UsageError(f"there is a {path} already", hint="choose another name") from None
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror}") from exc
    print(f"wrote {path}")
    trust = "; trust it with `aish config trust`" if arguments.project else ""
    print(f'try it{trust}: aish tools test {name} \'{{"text": "hello"}}\'', file=sys.stderr)
    return 0


async def _list(arguments: argparse.Namespace, runtime: Runtime) -> int:
    """Exit code 0 if nothing is wrong."""
    async with runtime.engine(mcp=()) as engine:
        extensions = runtime.extensions
        await extensions.refresh()
        specs = [spec for spec in engine.tools.specs() if extensions.has_tools_of(spec.source)]
        untrusted = [file.file for file in extensions.tool_files() if file.file.state in ("untrusted", "refused")]
        problems = list(extensions.problems)
    if arguments.json:
        for spec in specs:
            print(json.dumps({"name": spec.name, "effect": spec.effect, "description": spec.description}))
    else:
        for spec in specs:
            print(visible(f"✓ {spec.name}  [{spec.effect}]  {spec.description.splitlines()[0]}"))
        for unused in untrusted:
            print(visible(f"- {unused.path} is ignored until you trust it: `aish config trust`"))
        if not (specs or untrusted or problems):
            print("no tools in Python yet; `aish tools new NAME` writes the first")
    for problem in problems:
        print(visible(f"✗ {problem}"), file=sys.stderr)
    return _FAILED if problems else 0


async def _test(arguments: argparse.Namespace, runtime: Runtime) -> int:
    """Makes a call. Questions of the gate are answered yes, since the user typed the call."""
    async with runtime.engine(mcp=()) as engine:
        await runtime.extensions.refresh()
        spec = _find_tool(engine.tools.specs(), arguments.name, runtime)
        result = await engine.call_tool(spec.name, arguments.arguments, ask=_agree, mode=Mode.ASK, on_status=_note)
    Output().answer(marked_text(result.parts) + "\n")
    if result.status in (ResultStatus.REFUSED, ResultStatus.NOT_ALLOWED):
        return _REFUSED
    return 0 if result.status is ResultStatus.OK else _FAILED


async def _agree(question: Question) -> Answer:
    """What the tool itself asks for is put to the user."""
    if question.kind is not QuestionKind.INPUT:
        return Answer(Choice.YES)
    if not is_interactive():
        return Answer(Choice.NO)
    choices = [str(choice) for choice in question.arguments.get("choices", [])]
    hint = f" ({', '.join(choices)})" if choices else ""
    print(visible(f"{question.tool} asks: {question.reason}{hint} "), end="", file=sys.stderr, flush=True)
    typed = (await asyncio.to_thread(sys.stdin.readline)).strip()
    return Answer(Choice.YES, typed) if typed else Answer(Choice.NO)


def _note(text: str) -> None:
    print(visible(f"· {text}"), file=sys.stderr)


def _find_tool(specs: Sequence[ToolSpec], name: str, runtime: Runtime) -> ToolSpec:
    own = [spec for spec in specs if runtime.extensions.has_tools_of(spec.source)]
    wanted = {name, name.replace(".", "__", 1)}
    found = [spec for spec in own if spec.name in wanted or spec.name.partition("__")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several tools are named {name}", hint=", ".join(spec.name for spec in found))
    problem = "; ".join(runtime.extensions.problems)
    raise UsageError(f"there is no tool {name} in Python", hint=problem or "`aish tools list` lists them")


def run_extensions(arguments: argparse.Namespace, runtime: Runtime) -> int:
    env = runtime.launch_context.env
    match arguments.action:
        case "add":
            return run_until_done(_add(arguments, runtime))
        case "remove":
            if not remove_extension(arguments.name, env):
                raise UsageError(f"no extension {arguments.name} is enabled", hint="`aish extensions list`")
            print(f"{arguments.name} is no longer enabled")
            return 0
        case "check":
            return run_until_done(_check(arguments, runtime))
        case _:
            return _list_extensions(env)


def _list_extensions(env: Mapping[str, str]) -> int:
    found = find_available(env)
    for extension in found:
        mark = {"enabled": "✓", "available": "-"}.get(extension.state, "✗")
        what = extension.problem or extension.description
        print(visible(f"{mark} {extension.name}  {extension.version or '-'}  {extension.state}  {what}"))
    if not found:
        print("no extensions; `aish extensions add FOLDER` adds one")
    return _FAILED if any(extension.problem for extension in found) else 0


async def _add(arguments: argparse.Namespace, runtime: Runtime) -> int:
    """Runs its Python to show what the extension may do, and enables it: each after a yes, since neither is undone."""
    extension = read_extension(arguments.path)
    if not arguments.yes and not is_interactive():
        raise UsageError("enabling an extension needs a yes", hint="--yes, once you have read its files")
    where = extension.folder or extension.module
    if not (arguments.yes or _confirm(f"read what {where} offers? Its Python runs as you, outside of the sandbox.")):
        return _REFUSED
    problems = await _show(extension, runtime)
    if problems:
        raise UsageError(
            f"{extension.name} has problems and was not enabled", hint="`aish extensions check` shows them"
        )
    if not (arguments.yes or _confirm(f"enable {extension.name}?")):
        return _REFUSED
    enable_extension(extension, runtime.launch_context.env)
    print(f"{extension.name} is enabled")
    return 0


def _confirm(question: str) -> bool:
    print(f"{question} [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("not enabled")
    return False


async def _check(arguments: argparse.Namespace, runtime: Runtime) -> int:
    """Imports an extension and says all that is wrong with it, without enabling it."""
    problems = await _show(read_extension(arguments.path), runtime)
    if not problems:
        print("nothing is wrong with it")
    return _FAILED if problems else 0


async def _show(extension: Extension, runtime: Runtime) -> list[str]:
    """Prints what the extension consists of. Returns what is wrong with it."""
    where = extension.folder or extension.module
    print(visible(f"{extension.name} {extension.version}  {where}\n{extension.description}".rstrip()))
    async with runtime.engine(mcp=()):
        manifests = await runtime.extensions.describe(extension.sources)
    problems = [*(manifest.problem for manifest in manifests if manifest.problem), *extension.missing_parts()]
    for manifest in manifests:
        for tool in manifest.tools:
            print(visible(f"  tool     {extension.name}__{tool.name}  [{tool.effect}]  {_first(tool.description)}"))
        for command in manifest.commands:
            print(visible(f"  command  :{command.name} {command.usage}  {command.help}"))
        for hook in manifest.hooks:
            print(visible(f"  hook     {hook.point} for {', '.join(hook.tools)}"))
        if manifest.settings is not None:
            names = ", ".join(_setting_names(manifest.settings))
            print(visible(f"  settings [extensions.settings.{extension.name}]  {names}"))
    for part in PARTS:
        if (path := extension.part(part)) is not None:
            print(visible(f"  {part:<8} {path}"))
    for problem in problems:
        print(visible(f"  ✗ {problem}"), file=sys.stderr)
    return problems


def _first(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _setting_names(schema: Mapping[str, Any]) -> list[str]:
    tables = schema.get("$defs", {"": schema}).values()
    return [name for table in tables for name in table.get("properties", {})]
