"""A real browser over a real server. Every page fails its test on an error of a script or of the policy.

The browser holds the thread's event loop while it is open, which tests elsewhere need: it lives as long as a module.
Chromium is the system's (`apt-get install chromium`); where there is none these tests are passed over, and say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

from browser.console_server import ConsoleServer, console

PICTURES = Path(__file__).parents[2] / ".cache" / "screenshots"
WAIT_MS = 20_000

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def playing() -> Iterator[Playwright]:
    with sync_playwright() as playing:
        yield playing


@pytest.fixture(scope="module")
def browser(playing: Playwright) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        pytest.skip("there is no chromium on this machine")
    browser = playing.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[ConsoleServer]:
    with console(tmp_path_factory.mktemp("console")) as server:
        yield server


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Pages without a word of complaint. `complaints` are the words of a message that a test expects."""
    wrong: list[str] = []
    contexts = []

    def opened(*, width: int = 1280, height: int = 860, scheme: str = "light", complaints: str = "") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: _note(wrong, message, complaints))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def _note(wrong: list[str], message: ConsoleMessage, complaints: str) -> None:
    """A reply of 404 or 409 is the server's word and the page's to show; chromium mentions each in its console."""
    is_reply = message.text.startswith("Failed to load resource")
    if message.type == "error" and not is_reply and not (complaints and complaints in message.text):
        wrong.append(message.text)


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


@pytest.fixture
def picture() -> Callable[[Page, str], None]:
    """Kept under .cache/screenshots, to be looked at."""
    PICTURES.mkdir(parents=True, exist_ok=True)

    def taken(page: Page, name: str) -> None:
        page.screenshot(path=PICTURES / f"{name}.png")

    return taken
