"""What is measured of the page, by the page's own clocks. `measure.py` prints it, `test_speed.py` holds it to bars."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from browser.acting import begin, choose, finished
from browser.console_server import ConsoleServer

WATCH = """() => {
    window.seen = {shifts: [], tasks: []};
    new PerformanceObserver((list) => list.getEntries().forEach((e) => seen.shifts.push(e.value)))
        .observe({type: "layout-shift", buffered: false});
    new PerformanceObserver((list) => list.getEntries().forEach((e) => seen.tasks.push(Math.round(e.duration))))
        .observe({type: "longtask", buffered: false});
}"""


def first_paint(page: Page, server: ConsoleServer) -> dict[str, Any]:
    """Everything that came over the wire until the page was there and still, with its headers."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(server.url)
    page.locator(".welcome").wait_for()
    page.locator("select.model option").first.wait_for(state="attached")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    session.detach()
    return {"kilobytes": round(sum(sizes) / 1000, 1), "files": len(sizes), "first_paint_ms": round(paint or 0)}


def streaming(page: Page, server: ConsoleServer, model: str = "stream") -> dict[str, Any]:
    """A reply of ten thousand tokens."""
    begin(page, server, "short")
    choose(page, model)
    page.evaluate(WATCH)
    before = page.locator("article.turn").count()
    page.get_by_label("Message").fill("Write a lot")
    page.keyboard.press("Enter")
    turn = page.locator("article.turn").nth(before)
    turn.wait_for()
    page.get_by_text("This is the end.").wait_for(timeout=90_000)
    finished(turn)
    seen = page.evaluate("new Promise((done) => setTimeout(() => done(window.seen), 200))")
    words = turn.locator(".prose").evaluate("node => node.textContent.split(/\\s+/).length")
    return {
        "words": words,
        "layout_shift": round(sum(seen["shifts"]), 4),
        "long_tasks_ms": sorted(seen["tasks"], reverse=True)[:10],
    }


def opening_trace(page: Page, server: ConsoleServer) -> dict[str, Any]:
    """A turn of five thousand events, from the click to its waterfall."""
    server.chat("events", "many", "measured-events")
    [turn, *_] = server.ask("GET", "/v1/sessions/measured-events")["turns"]
    count = len(server.ask("GET", f"/v1/traces/{turn['id']}")["events"])
    page.goto(f"{server.url}#/sessions")
    page.locator(".row-item").first.wait_for()
    took_ms = page.evaluate(
        """async (turn) => {
            const begun = performance.now();
            location.hash = `#/trace/${turn}`;
            while (!document.querySelector(".span-row")) await new Promise(requestAnimationFrame);
            return performance.now() - begun;
        }""",
        turn["id"],
    )
    return {"events": count, "took_ms": round(took_ms)}
