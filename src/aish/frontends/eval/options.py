"""The options of `aish eval`: their parser and their checks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec

from aish.errors import UsageError
from aish.frontends.eval.cases import SHIPPED
from aish.frontends.eval.results import RAW, Setting
from aish.types.requests import ToolMode

MAX_CONCURRENCY = 64
MAX_REPEAT = 1000

_EPILOG = f"""suites that ship: {", ".join(SHIPPED)}

exit codes: 0 done, 2 usage, 4 the provider failed on every case, 6 worse than the baseline, 130 interrupted

  aish eval simple multiple --model embedded:smollm2 --mode constrained --mode prompted
  aish eval --json now.json --baseline before.json --tolerance 2
  aish eval my-cases.jsonl --html report.html
  aish eval import bfcl bfcl_eval-*.whl -o bfcl/    the Berkeley files as suites
"""


def eval_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Measure how well models call tools: ask cases, grade the calls, compare models and modes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("suites", nargs="*", metavar="SUITE", help="a shipped suite or a .jsonl file; none means all that ship")
    add("--model", "-m", action="append", default=[], help="provider:model, a preset or a name (repeatable)")
    modes = [word + end for end in ("", RAW) for word in get_args(ToolMode)]
    add(
        "--mode", action="append", default=[], choices=modes, help="how tools are offered (repeatable); -raw: no repair"
    )
    add("--no-repair", action="store_true", help="take calls as the model wrote them, in every mode")
    add("--repeat", type=int, default=1, metavar="N", help="ask each case N times, each with another seed")
    add("--seed", type=int, default=1, metavar="N")
    add("--concurrency", type=int, default=1, metavar="N", help="cases asked at once")
    add("--limit", type=int, default=0, metavar="N", help="no more than N cases of each suite; 0: all")
    add("--slice", default="1/1", metavar="K/N", help="only part K of N")
    add("--timeout", type=float, default=120.0, metavar="S", help="seconds for one case")
    add("--json", type=Path, metavar="FILE", help="write every result")
    add("--html", type=Path, metavar="FILE", help="write a page with plots and failures")
    add("--baseline", type=Path, metavar="FILE", help="compare with what an earlier --json wrote")
    add("--tolerance", type=float, default=2.0, metavar="P", help="percentage points a suite may lose (2)")
    add("--output", "-o", type=Path, metavar="DIR", help="where `import` writes")
    add("--endpoint", action="append", default=[], metavar="NAME=URL", help="a provider for this run")
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for invalid values."""
    for name, low, high in (
        ("repeat", 1, MAX_REPEAT),
        ("concurrency", 1, MAX_CONCURRENCY),
        ("limit", 0, None),
        ("tolerance", 0, 100),
    ):
        value = getattr(arguments, name)
        if value < low or (high is not None and value > high):
            raise UsageError(f"--{name} must be at least {low}" + (f" and at most {high}" if high is not None else ""))
    if not 0 < arguments.timeout <= 86_400:
        raise UsageError("--timeout must be more than 0 seconds and no more than a day")
    for option in ("json", "html"):
        file: Path | None = getattr(arguments, option)
        if file is not None and (not file.absolute().parent.is_dir() or file.is_dir()):
            raise UsageError(f"--{option} {file}: there is no folder to write that file in")
    parse_slice(arguments.slice)


def parse_settings(models: Sequence[str], modes: Sequence[str], *, repair: bool) -> tuple[Setting, ...]:
    """Every model in every mode; the default mode is auto."""
    settings = [
        Setting(model, msgspec.convert(mode.removesuffix(RAW), ToolMode), repair and not mode.endswith(RAW))
        for model in models
        for mode in modes or ["auto"]
    ]
    return tuple(dict.fromkeys(settings))


def parse_slice(text: str) -> tuple[int, int]:
    part, _, whole = text.partition("/")
    if part.isdigit() and whole.isdigit() and 1 <= int(part) <= int(whole):
        return int(part), int(whole)
    raise UsageError(f"--slice {text} is no part of a whole", hint="write it as K/N, for instance 1/4")
