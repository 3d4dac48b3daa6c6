"""Prints the page's figures against its bars: `python tests/browser/measure.py`. Needs chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import sync_playwright

from browser.bars import first_paint, opening_trace, streaming
from browser.console_server import console


def main() -> None:
    found = shutil.which("chromium")
    if not found:
        raise SystemExit("there is no chromium on this machine: apt-get install chromium")
    with tempfile.TemporaryDirectory() as home, console(Path(home)) as server, sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for name, measure in (("first paint", first_paint), ("10 000 tokens", streaming), ("trace", opening_trace)):
            page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
            page.set_default_timeout(60_000)
            sys.stdout.write(f"{name}: {measure(page, server)}\n")
        browser.close()


if __name__ == "__main__":
    main()
