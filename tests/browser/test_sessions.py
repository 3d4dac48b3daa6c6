from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import expect

from aish.storage.sqlite.store import SqliteStore
from aish.types.records import SessionRecord
from browser.console_server import console


def test_sessions_are_found_by_words_and_gone_on_with(page, server):
    server.chat("short", "the zebra question", "zebra-1")
    server.chat("short", "the walrus question", "walrus-1")
    page.goto(f"{server.url}#/sessions")
    page.get_by_label("Search sessions").fill("zebra")
    expect(page.locator(".row-item")).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator(".row-item a.row-main").click()
    expect(page.locator("article.turn")).to_contain_text("the zebra question")


def test_a_session_is_deleted_after_being_asked_twice(page, server):
    server.chat("short", "the ostrich question", "ostrich-1")
    page.goto(f"{server.url}#/sessions")
    page.get_by_label("Search sessions").fill("ostrich")
    expect(page.locator(".row-item")).to_have_count(1)
    delete = page.get_by_role("button", name="Delete the ostrich question")
    delete.click()
    expect(page.locator(".row-item")).to_have_count(1)
    delete.click()
    expect(page.locator(".row-item")).to_have_count(0)
    found = server.ask("GET", "/v1/sessions?search=ostrich")
    assert found["data"] == []


def test_a_session_is_saved_as_lines_of_json(page, server):
    server.chat("short", "the lizard question", "lizard-1")
    page.goto(f"{server.url}#/sessions")
    page.get_by_label("Search sessions").fill("lizard")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export the lizard question").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert [json.loads(line)["body"]["type"] for line in (lines[0], lines[-1])] == ["turn_started", "turn_finished"]


@pytest.mark.timeout(180)
def test_ten_thousand_sessions_are_read_as_they_are_scrolled(tmp_path, page):
    home = tmp_path / "many"
    database = home / ".local" / "share" / "aish" / "aish.db"
    database.parent.mkdir(parents=True)
    with ThreadPoolExecutor(1) as thread:  # this one holds the browser's loop
        thread.submit(asyncio.run, _fill(database, 10_000)).result(120)
    with console(home) as server:
        page.goto(f"{server.url}#/sessions")
        expect(page.locator(".row-item").first).to_contain_text("session number 9999")
        assert page.locator(".row-item").count() < 100
        reached = page.evaluate(
            """async () => {
                const rows = document.querySelector(".rows");
                const until = performance.now() + 60000;
                for (;;) {
                    const last = [...document.querySelectorAll(".row-item")].at(-1);
                    if (last?.textContent.includes("session number 0")) return true;
                    if (performance.now() > until) return last?.textContent;
                    rows.scrollTop = rows.scrollHeight;
                    await new Promise(requestAnimationFrame);
                }
            }"""
        )
        assert reached is True
        assert page.locator(".row-item").count() < 100
        expect(page.locator("#main")).to_contain_text("10,000 sessions")


async def _fill(database: Path, count: int) -> None:
    store = SqliteStore(database)
    try:
        for first in range(0, count, 500):
            made = [
                SessionRecord(f"sess_{n:06d}", n + 1, n + 1, f"session number {n}")
                for n in range(first, min(first + 500, count))
            ]
            await asyncio.gather(*(store.create_session(session) for session in made))
    finally:
        await store.aclose()
