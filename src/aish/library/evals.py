"""`aish eval` for programs."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence

from aish import __version__
from aish.engine.engine import Engine
from aish.frontends.eval.cases import load_suites
from aish.frontends.eval.report import Report, Result, Setting
from aish.frontends.eval.runner import EvalPlan, run_plan, select
from aish.frontends.runtime import Runtime


async def evaluate(runtime: Runtime, engine: Engine, suites: Sequence[str], *, model: str, limit: int) -> Report:
    """Asks the model each case once, in the mode of `auto`."""
    name = (await engine.router.resolve(model)).name
    cases = select(load_suites(list(suites)), part=(1, 1), limit=limit)
    plan = EvalPlan(cases=cases, settings=(Setting(model=name, mode="auto"),))
    results: list[Result] = []
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    folder = runtime.launch_context.cwd
    await run_plan(plan, runtime.engine_in(folder, engine, {}), runtime.engine_in, results.append)
    return Report(
        aish=__version__, python=platform.python_version(), platform=f"{platform.system()} {platform.machine()}",
        started=started, options={}, complete=True, results=tuple(results),
    )  # fmt: skip
