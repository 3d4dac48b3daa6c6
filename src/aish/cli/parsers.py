"""The argument parsers of all commands. `commands` runs them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib import import_module

from aish import __version__

_EPILOG = """exit codes:
  0 answered   2 usage or config   3 a tool call was refused   4 the provider failed
  5 a limit was reached   6 autonomous work waits for your decision
  130 interrupted   1 anything else

commands (see `aish help COMMAND`):
  aish [ask] QUESTION      one question; what is piped in goes along with it
  aish                     a prompt, on a terminal
  aish serve               an OpenAI-compatible server that runs the tools itself
  aish norris GOAL         work by itself towards a goal; asks before anything destructive
  aish plan TEXT           plan first, then work; save, run and list plans
  aish runs                long work that is kept: list, show, resume, abandon
  aish explain COMMAND     what a command line does, and whether it would be allowed
  aish suggest TEXT        a command line for what you want
  aish init bash|zsh|fish  lines for your start-up file: Ctrl-X Ctrl-A suggests
  aish keys                make, list and revoke keys for the server
  aish models              list, pull and remove models
  aish sessions            list, show, resume, replay, search, export and delete conversations
  aish config              make, show, check and trust configuration
  aish mcp                 MCP servers: state, tools, calls
  aish tools               tools in Python: make, list and try them
  aish extensions          extensions: list, add, remove and check them
  aish cost                what model calls cost, by day, model and category
  aish memory              facts remembered across sessions: list, add, forget, import, export
  aish safety              whether a command or a call would be allowed, and why
  aish eval                how well models call tools, measured
  aish doctor              what works here, and how to fix what does not
"""


def _parser_of(target: str) -> Callable[[str], argparse.ArgumentParser]:
    """The parser that a `module:function` of the frontends makes, imported when it is needed."""
    module, _, function = target.partition(":")

    def make(prog: str) -> argparse.ArgumentParser:
        make_parser: Callable[[str], argparse.ArgumentParser] = getattr(
            import_module(f"aish.frontends.{module}"), function
        )
        return make_parser(prog)

    return make


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Finds the width without `shutil`, which argparse's own imports, and with it every archive format."""

    def __init__(self, prog: str) -> None:
        try:
            width = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
        except (OSError, ValueError):
            width = 80
        super().__init__(prog, width=width - 2)


def _ask_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="A shell and a model at one prompt. Without a question, on a terminal: a prompt.",
        epilog=_EPILOG,
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("question", nargs="*", help="what to ask; `-` or a pipe adds what stdin holds")
    parser.add_argument("--version", "-V", action="version", version=f"aish {__version__}")
    parser.add_argument("--model", "-m", default="", help="provider:model, a preset, or a bare model name")
    parser.add_argument("--system", default="", metavar="TEXT", help="more system text for this run")
    parser.add_argument(
        "--tools", action="append", metavar="GLOB", help="offer only these tools (repeatable; 'none' offers none)"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="say yes to everything that you would be asked about")
    parser.add_argument("--json", action="store_true", help="print every event as one line of JSON")
    parser.add_argument("--continue", "-c", dest="resume", action="store_true", help="go on with the latest session")
    parser.add_argument("--session", default="", metavar="ID", help="go on with this session")
    parser.add_argument(
        "--mode", choices=("ask", "edits", "auto", "plan"), help="how much runs without a question (gate.mode)"
    )
    parser.add_argument("--max-steps", type=int, metavar="N", help="model calls allowed in this turn")
    _add_endpoint(parser)
    parser.add_argument("--sample", action="store_true", help=argparse.SUPPRESS)
    return parser


def _models_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="List, pull and remove models.")
    parser.set_defaults(endpoint=[], json=False)
    actions = parser.add_subparsers(dest="action", metavar="list|pull|trust|rm")
    listing = actions.add_parser("list", help="what every provider offers (the default)")
    listing.add_argument("--json", action="store_true", help="as JSON, one model a line")
    _add_endpoint(listing)
    pull = actions.add_parser("pull", help="fetch a model of the catalogue, or a .gguf by its URL")
    pull.add_argument("name", nargs="?", default="smollm2")
    pull.add_argument("--sha256", default="", metavar="HEX", help="what the file at a URL must have")
    pull.add_argument("--trust", action="store_true", help="take a URL without a known hash, and record the one it has")
    trust = actions.add_parser("trust", help="record the hash of a file that you have put into the folder of models")
    trust.add_argument("name")
    actions.add_parser("rm", help="remove a fetched model").add_argument("name")
    return parser


def _cost_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="What model calls cost, over all sessions.")
    parser.add_argument("--by", default="day,model,category", metavar="FIELDS", help="of day, model, category")
    parser.add_argument("--since", default="", metavar="WHEN", help="7d, 12h, today, or a date")
    parser.add_argument("--session", default="", metavar="ID", help="of this session only")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    return parser


def _memory_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Facts that aish remembers across sessions.")
    parser.set_defaults(words_=[])
    actions = parser.add_subparsers(dest="action", metavar="list|add|forget|import|export")
    listing = actions.add_parser("list", help="everything, or what holds these words (the default)")
    listing.add_argument("words_", nargs="*", metavar="WORD")
    adding = actions.add_parser("add", help="remember something; words with # are tags")
    adding.add_argument("--kind", choices=("fact", "preference", "context"), default="fact")
    adding.add_argument("text", nargs="+")
    actions.add_parser("forget", help="forget one").add_argument("id", help="an id, or the end of one")
    actions.add_parser("import", help="from lines of JSON").add_argument("file", help="a file, or - for stdin")
    actions.add_parser("export", help="as lines of JSON, to stdout")
    return parser


def _sessions_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Conversations kept in the store.")
    parser.set_defaults(limit=20, query="", agents=False)
    actions = parser.add_subparsers(dest="action", metavar="list|show|resume|replay|search|export|delete")
    listing = actions.add_parser("list", help="newest first (the default)")
    listing.add_argument("--limit", type=int, default=20)
    listing.add_argument("--agents", action="store_true", help="the sessions of agents, with the turn that called them")
    search = actions.add_parser("search", help="sessions whose text holds these words")
    search.add_argument("query")
    search.add_argument("--limit", type=int, default=20)
    for name, help_text in (
        ("show", "a session as text"),
        ("replay", "a turn's events, byte for byte as they were recorded (a session's id: its latest turn)"),
        ("export", "a session's events as JSONL"),
        ("delete", "remove a session for good"),
    ):
        actions.add_parser(name, help=help_text).add_argument("id", help="an id, or `latest`")
    resume = actions.add_parser("resume", help="go on with a session, at a prompt")
    resume.add_argument("id", help="an id, or `latest`")
    resume.add_argument("--model", "-m", default="", help="provider:model, a preset, or a bare model name")
    return parser


def _config_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Configuration.")
    actions = parser.add_subparsers(dest="action", metavar="init|show|check|path|trust|distrust")
    actions.add_parser("init", help="write a commented starter file")
    actions.add_parser("show", help="every setting in force and where it comes from (the default)")
    actions.add_parser("check", help="say all that is wrong")
    actions.add_parser("path", help="where the files are looked for")
    actions.add_parser("trust", help="accept the project's .aish.toml as it is now")
    actions.add_parser("distrust", help="take that back; the shell asks again")
    return parser


def _mcp_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="MCP servers, without a model.")
    parser.set_defaults(json=False, timeout=30.0)
    actions = parser.add_subparsers(dest="action", metavar="list|tools|tool|call|ping|log|resources|…|import|serve")
    listing = actions.add_parser("list", help="every configured server, its state and what is wrong (the default)")
    listing.add_argument("--json", action="store_true")
    for name, help_text in (("tools", "the tools of one server, or of all"), ("ping", "how long listing takes")):
        actions.add_parser(name, help=help_text).add_argument("server", nargs="?", default="")
    for name, help_text in (
        ("log", "what a server warned of and wrote to stderr"),
        ("resources", "the resources a server offers"),
        ("prompts", "the prompts a server offers"),
    ):
        actions.add_parser(name, help=help_text).add_argument("server")
    actions.add_parser("tool", help="a tool's description and schema").add_argument("name")
    call = actions.add_parser("call", help="call a tool")
    call.add_argument("name", help="alias__tool or alias.tool")
    call.add_argument("arguments", nargs="?", default="{}", help="a JSON object")
    read = actions.add_parser("read", help="read a resource")
    read.add_argument("server")
    read.add_argument("uri")
    prompt = actions.add_parser("prompt", help="fill in a prompt")
    prompt.add_argument("server")
    prompt.add_argument("name")
    prompt.add_argument("arguments", nargs="*", metavar="KEY=VALUE")
    actions.add_parser("import", help="take over servers from an mcpServers JSON file").add_argument("file")
    for action in actions.choices.values():
        action.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds to wait for connecting")
    serve = actions.add_parser("serve", help="offer our tools to another program, over stdin and stdout")
    serve.add_argument("--tools", action="append", metavar="GLOB", help="only these tools (repeatable)")
    return parser


def _tools_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Tools in Python files, see docs/extend.md.")
    parser.set_defaults(json=False)
    actions = parser.add_subparsers(dest="action", metavar="new|list|test")
    new = actions.add_parser("new", help="write a file with a tool to change")
    new.add_argument("name")
    new.add_argument("--project", action="store_true", help="for this project, in .aish/tools")
    listing = actions.add_parser("list", help="the tools there are, and what is wrong (the default)")
    listing.add_argument("--json", action="store_true", help="as JSON, one tool a line")
    test = actions.add_parser("test", help="call a tool")
    test.add_argument("name")
    test.add_argument("arguments", nargs="?", default="{}", help="a JSON object")
    return parser


def _extensions_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Extensions: packages and folders with extension.toml.")
    actions = parser.add_subparsers(dest="action", metavar="list|add|remove|check")
    actions.add_parser("list", help="the enabled ones, and installed ones that could be (the default)")
    adding = actions.add_parser("add", help="show what an extension may do, and enable it")
    adding.add_argument("path", help="a folder, or the name of an installed extension")
    adding.add_argument("--yes", "-y", action="store_true", help="enable it without a question")
    actions.add_parser("remove", help="disable one").add_argument("name")
    actions.add_parser("check", help="import one and say what is wrong").add_argument("path")
    return parser


def _safety_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Would a command or call be allowed? Exit codes of check: 0 safe, 10 unknown, 20 destructive.",
    )
    actions = parser.add_subparsers(dest="action", metavar="check|explain", required=True)
    check = actions.add_parser("check", help="a command line: safe, unknown or destructive, and why")
    check.add_argument("line", nargs="*", metavar="COMMAND")
    check.add_argument("--json", action="store_true")
    check.add_argument("--stdin", action="store_true", help="one JSON object for each line that comes in")
    explain = actions.add_parser("explain", help="a tool call: the rule that decides it")
    explain.add_argument("tool")
    explain.add_argument("arguments", nargs="?", default="{}", help="a JSON object")
    return parser


def _doctor_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="What works here, and how to fix what does not.")
    parser.add_argument("--model", "-m", default="", help="the model to look for; by default the one that answers")
    _add_endpoint(parser)
    return parser


def _add_endpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="an OpenAI-compatible provider for this run; when it is the only one its models need no prefix",
    )


def _serve_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="An OpenAI-compatible server that runs the tools itself.")
    where = "where to listen (serve.listen); a port alone is one of this machine"
    parser.add_argument("--listen", "--port", default="", metavar="HOST:PORT", help=where)
    parser.add_argument("--workspace", default="", metavar="DIR", help="where tools work; by default here")
    parser.add_argument("--key", action="append", default=[], metavar="KEY", help="a key for this run (repeatable)")
    parser.add_argument(
        "--key-env",
        action="append",
        default=[],
        metavar="NAME",
        help="the environment variable that holds one: a command line can be read by everybody on this machine",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that share the work")
    _add_endpoint(parser)
    return parser


def _suggest_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="A command line for what you want, or what one does.")
    parser.add_argument("text", nargs="*", help="what you want, or the command line to explain")
    parser.add_argument("--model", "-m", default="", help="provider:model, a preset, or a bare model name")
    _add_endpoint(parser)
    return parser


def _init_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Lines for your shell's start-up file.")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def _keys_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description="Keys for `aish serve`.")
    actions = parser.add_subparsers(dest="action", metavar="create|list|revoke")
    create = actions.add_parser("create", help="make a key; it is shown once")
    create.add_argument("name", help="what to call it")
    create.add_argument("--models", action="append", metavar="GLOB", help="only these models (repeatable)")
    create.add_argument("--tools", action="append", metavar="GLOB", help="only these tools of the server (repeatable)")
    create.add_argument("--admin", action="store_true", help="may see and answer what belongs to others")
    create.add_argument(
        "--metrics",
        action="store_true",
        help="for Prometheus: may read /metrics, and uses no models or tools but those named",
    )
    create.add_argument("--per-minute", type=int, metavar="N", help="requests a minute")
    create.add_argument("--tokens-per-day", type=int, metavar="N")
    create.add_argument("--dollars-per-day", type=float, metavar="D")
    actions.add_parser("list", help="the keys there are (the default)").add_argument("--json", action="store_true")
    actions.add_parser("revoke", help="take a key back").add_argument("key", help="its id or name")
    return parser


PARSERS = {
    "ask": _ask_parser,
    "models": _models_parser,
    "sessions": _sessions_parser,
    "config": _config_parser,
    "doctor": _doctor_parser,
    "mcp": _mcp_parser,
    "tools": _tools_parser,
    "extensions": _extensions_parser,
    "safety": _safety_parser,
    "serve": _serve_parser,
    "keys": _keys_parser,
    "suggest": _suggest_parser,
    "explain": _suggest_parser,
    "init": _init_parser,
    "eval": _parser_of("eval.command:eval_parser"),
    "cost": _cost_parser,
    "memory": _memory_parser,
    "norris": _parser_of("shell.commands.norris:norris_parser"),
    "runs": _parser_of("shell.commands.norris:runs_parser"),
    "plan": _parser_of("shell.commands.plan:plan_parser"),
}

USUAL_ACTIONS = {
    "tools": "list",
    "extensions": "list",
    "models": "list",
    "sessions": "list",
    "config": "show",
    "mcp": "list",
    "keys": "list",
    "runs": "list",
}
