"""What a person does on the page, in their words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from browser.console_server import ConsoleServer


def begin(page: Page, server: ConsoleServer, model: str, session: str = "") -> None:
    """A chat with this model, ready to be written in."""
    page.goto(f"{server.url}#/chat{f'/{session}' if session else ''}")
    choose(page, model)


def choose(page: Page, model: str) -> None:
    page.locator(f"select.model option[value='{model}:{model}']").wait_for(state="attached")
    page.get_by_label("Model").select_option(f"{model}:{model}")


def ask(page: Page, text: str) -> Locator:
    """Asks, and returns the turn."""
    before = page.locator("article.turn").count()
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")
    turn = page.locator("article.turn").nth(before)
    turn.wait_for()
    return turn


def finished(turn: Locator) -> Locator:
    expect(turn.get_by_role("button", name="Retry")).to_be_visible()
    return turn


def session_of(page: Page) -> str:
    return page.url.rpartition("/")[2]


def turns_of(page: Page, server: ConsoleServer) -> list[dict[str, Any]]:
    """Of the session that is open, as the store has them."""
    turns: list[dict[str, Any]] = server.ask("GET", f"/v1/sessions/{session_of(page)}")["turns"]
    return turns


def until(predicate: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """For what happens in the server a moment after the page has shown it."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.02)


def live(page: Page) -> None:
    expect(page.locator(".feed-state")).to_have_attribute("data-state", "live")
