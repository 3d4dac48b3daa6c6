"""axe-core, installed once under `.cache` at a pinned version, run in a page."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

VERSION = "4.14.0"
CACHE = Path(__file__).parents[2] / ".cache" / "axe"
INSTALL_S = 300


def axe_source() -> str:
    file = CACHE / "node_modules" / "axe-core" / "axe.min.js"
    CACHE.mkdir(parents=True, exist_ok=True)
    done = CACHE / "installed.txt"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or done.read_text() != VERSION:
            _install()
            done.write_text(VERSION)
    return file.read_text()


def _install() -> None:
    npm = shutil.which("npm")
    if not npm:
        raise RuntimeError("npm is needed to install axe-core, which the tests run")
    words = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(CACHE)]
    subprocess.run([*words, f"axe-core@{VERSION}"], check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL)


def grave_issues(page: Page) -> list[str]:
    """What axe calls serious or critical, with the places. The page's policy does not bind evaluated scripts."""
    page.evaluate(f"{axe_source()}; undefined")
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{issue['id']} ({issue['impact']}): {[node['html'][:160] for node in issue['nodes'][:4]]}"
        for issue in found["violations"]
        if issue["impact"] in ("serious", "critical")
    ]
