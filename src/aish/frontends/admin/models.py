"""`aish models list|pull|rm`."""

from __future__ import annotations

import argparse
import sys

import msgspec

from aish.frontends.progress import ProgressLine
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import Output, visible
from aish.types.models import ModelProfile


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    match arguments.action:
        case "pull":
            return run_until_done(_pull(arguments.name, runtime))
        case "rm":
            return _remove(arguments.name, runtime)
        case _:
            return run_until_done(_list(runtime, as_json=arguments.json))


async def _list(runtime: Runtime, *, as_json: bool) -> int:
    async with runtime.engine() as engine:
        infos = await engine.router.list_models()
    if not as_json:
        for name, preset in runtime.config.presets.items():
            print(visible(f"{name} → {preset.model}"))
    for info in infos:
        print(msgspec.json.encode(info).decode() if as_json else visible(_line(info)))
    if not infos:
        print("no models yet; `aish models pull smollm2` fetches a small one", file=sys.stderr)
    return 0


async def _pull(name: str, runtime: Runtime) -> int:
    async with runtime.engine():
        with ProgressLine(Output()) as progress:
            model = await runtime.pull(name, progress.show)
    print(visible(f"{model.name} is at {model.path}"))
    return 0


def _remove(name: str, runtime: Runtime) -> int:
    runtime.model_cache.remove(name)
    print(f"removed {name}")
    return 0


def _line(info: ModelProfile) -> str:
    return f"{info.name}  {info.context_size} tokens" if info.context_size else info.name
