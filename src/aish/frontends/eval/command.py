"""`aish eval`: runs the cases, prints a table, writes files and returns an exit code. After Ctrl-C the results so far
are reported in the same way."""

from __future__ import annotations

import argparse
import asyncio
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec

from aish import __version__
from aish.errors import UsageError
from aish.frontends.eval.cases import SHIPPED, load_suites
from aish.frontends.eval.report import (
    RAW,
    Report,
    Result,
    Setting,
    compare_results,
    describe_changes,
    load_report,
    make_rows,
    result_lines,
)
from aish.frontends.eval.runner import EvalPlan, EvalProgress, run_plan, select
from aish.frontends.runtime import Runtime
from aish.frontends.signals import INTERRUPTED, run_until_done
from aish.frontends.terminal import Output, visible
from aish.types.requests import ToolMode

PROVIDER_FAILED = 4
WORSE = 6
_MAX_ERRORS_SHOWN = 5
_UNREPORTED = ("command", "action", "words", "endpoint")  # an endpoint may contain a key


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    check(arguments)
    if arguments.suites[:1] == ["import"]:
        return _import(arguments)
    cases = select(load_suites(arguments.suites), part=parse_slice(arguments.slice), limit=arguments.limit)
    if not cases:
        raise UsageError("no case is left to ask", hint="take a larger --slice")
    before = load_report(arguments.baseline) if arguments.baseline else None
    plan = EvalPlan(
        cases=cases,
        settings=(),
        repeat=arguments.repeat,
        seed=arguments.seed,
        concurrency=arguments.concurrency,
        timeout_s=arguments.timeout,
    )
    return run_until_done(_run(arguments, runtime, plan, before))


def _import(arguments: argparse.Namespace) -> int:
    from aish.frontends.eval.bfcl import convert

    if len(arguments.suites) != 3 or arguments.suites[1] != "bfcl":
        raise UsageError("import what?", hint="aish eval import bfcl DIR|WHEEL -o OUT")
    if arguments.output is None:
        raise UsageError("where to?", hint="name a folder with -o")
    for file, count in convert(Path(arguments.suites[2]), arguments.output):
        print(visible(f"{file}: {count} cases"))
    return 0


async def _run(arguments: argparse.Namespace, runtime: Runtime, plan: EvalPlan, before: Report | None) -> int:
    output = Output()
    results: list[Result] = []
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    complete = False
    try:
        async with runtime.engine(mcp=(), serving=True) as engine:
            models = [(await engine.router.resolve(model)).name for model in arguments.model or [""]]
            settings = parse_settings(models, arguments.mode, repair=not arguments.no_repair)
            plan = msgspec.structs.replace(plan, settings=settings)
            with EvalProgress(output, plan) as progress:
                plain = runtime.engine_in(runtime.launch_context.cwd, engine, {})
                await run_plan(plan, plain, runtime.engine_in, progress.collector(results))
        complete = True
    except asyncio.CancelledError:
        if not results:
            raise
        output.note("· interrupted; this is what was done")
    report = _make_report(arguments, plan, results, started, complete=complete)
    return await asyncio.to_thread(_present, arguments, report, before, output)


def _make_report(
    arguments: argparse.Namespace, plan: EvalPlan, results: list[Result], started: str, *, complete: bool
) -> Report:
    order = {case.id: at for at, case in enumerate(plan.cases)}
    settings = {(setting.model, setting.mode_name): at for at, setting in enumerate(plan.settings)}
    results.sort(key=lambda one: (settings[one.model, one.mode], one.repeat, order[one.case]))
    options = {name: value for name, value in vars(arguments).items() if name not in _UNREPORTED}
    return Report(
        aish=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        started=started,
        options={name: str(value) if isinstance(value, Path) else value for name, value in options.items()},
        complete=complete,
        results=tuple(results),
    )


def _present(arguments: argparse.Namespace, report: Report, before: Report | None, output: Output) -> int:
    """Writes the files first, then prints the table, the errors and the comparison. Returns the exit code."""
    if arguments.json:
        _write(arguments.json, msgspec.json.format(msgspec.json.encode(report), indent=1))
    if arguments.html:
        from aish.frontends.eval.page import page

        _write(arguments.html, page(report, before).encode("utf-8", "replace"))
    for line in result_lines(make_rows(report.results)):
        print(visible(line))
    _print_errors(report, output)
    code = 0 if report.complete else INTERRUPTED
    if before is not None:
        changes = compare_results(before.results, report.results)
        print()
        for line in describe_changes(changes, arguments.tolerance):
            print(visible(line))
        code = code or (WORSE if any(change.is_worse(arguments.tolerance) for change in changes) else 0)
    return code or (PROVIDER_FAILED if all(r.outcome in ("error", "skipped") for r in report.results) else 0)


def _print_errors(report: Report, output: Output) -> None:
    errors = [result for result in report.results if result.outcome == "error"]
    skipped = sum(result.outcome == "skipped" for result in report.results)
    for result in errors[:_MAX_ERRORS_SHOWN]:
        output.note(f"! {result.case} ({result.model}, {result.mode}): {result.error[:300]}")
    if len(errors) > _MAX_ERRORS_SHOWN:
        output.note(f"! and {len(errors) - _MAX_ERRORS_SHOWN} more errors; --json has them all")
    if skipped:
        output.note(f"! {skipped} cases were not asked, because the backend kept failing")


def _write(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except OSError as exc:
        raise UsageError(f"cannot write {file}: {exc.strerror}") from exc


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
