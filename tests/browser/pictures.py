"""Takes the pictures of docs/console: `python tests/browser/pictures.py`. Needs chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, Page, sync_playwright

from browser.acting import ask, begin, finished, live
from browser.console_server import ConsoleServer, console

FOLDER = Path(__file__).parents[2] / "docs" / "console"


def main() -> None:
    found = shutil.which("chromium")
    if not found:
        raise SystemExit("there is no chromium on this machine: apt-get install chromium")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, console(Path(home)) as server, sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for number, text in enumerate(
            ("What does retry_key do?", "Rename the store's tables", "Why is the build slow?")
        ):
            server.chat("short", text, f"earlier-{number}")
        page = _page(browser, "light")
        _approval(page, server)
        _trace(page)
        _plan(_page(browser, "dark"), server)
        _phone(browser, server)
        browser.close()


def _page(browser: Browser, scheme: str, width: int = 1200, height: int = 800) -> Page:
    size = {"width": width, "height": height}
    page = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()  # type: ignore[arg-type]
    page.set_default_timeout(30_000)
    return page


def _take(page: Page, name: str) -> None:
    page.wait_for_timeout(900)  # the rail has heard of it by then
    page.screenshot(path=FOLDER / f"{name}.png")


def _approval(page: Page, server: ConsoleServer) -> None:
    begin(page, server, "demo")
    live(page)
    turn = ask(page, "Make the greeting friendlier")
    turn.locator("section.approval").wait_for()
    _take(page, "approval")
    turn.get_by_role("button", name="Yes", exact=True).click()
    finished(turn)
    _take(page, "chat")


def _trace(page: Page) -> None:
    page.get_by_role("link", name="Trace").click()
    page.locator(".span-row.call", has_text="ide__edit").click()
    _take(page, "trace")


def _plan(page: Page, server: ConsoleServer) -> None:
    begin(page, server, "planned")
    live(page)
    page.get_by_label("Plan first").check()
    finished(ask(page, "Echo both words, then add the numbers"))
    _take(page, "plan-dark")


def _phone(browser: Browser, server: ConsoleServer) -> None:
    page = _page(browser, "light", 360, 720)
    page.goto(f"{server.url}#/chat")
    page.locator("select.model option").first.wait_for(state="attached")
    page.get_by_label("Model").select_option("markdown:markdown")
    finished(ask(page, "Show me everything"))
    _take(page, "phone")


if __name__ == "__main__":
    main()
