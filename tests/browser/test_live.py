"""What happens elsewhere shows here: turns of other processes, a feed that was lost and found again."""

from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import expect

from browser.acting import ask, begin, finished, live, session_of
from browser.console_server import console, environment


def test_a_turn_begun_in_the_shell_shows_as_it_happens(page, server):
    begin(page, server, "short")
    finished(ask(page, "from the page"))
    live(page)
    command = [sys.executable, "-m", "aish", "--session", session_of(page), "--model", "paced:paced", "from the shell"]
    done = subprocess.run(
        command, env=environment(server.home), cwd=server.workspace, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    theirs = page.locator("article.turn").nth(1)
    expect(theirs).to_contain_text("from the shell")
    expect(finished(theirs)).to_contain_text("ten. One two three")
    expect(page.locator("article.turn")).to_have_count(2)


def test_another_tab_follows_an_answer_while_it_is_written(open_page, server):
    page, other = open_page(), open_page()
    begin(page, server, "short")
    finished(ask(page, "first"))
    other.goto(page.url)
    live(other)
    expect(other.locator("article.turn")).to_have_count(1)
    page.get_by_label("Model").select_option("slow:slow")
    ask(page, "second")
    expect(other.locator("article.turn").nth(1)).to_contain_text("Begun.")
    expect(other.locator("article.turn.running")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(other.locator("article.turn").nth(1)).to_contain_text("Stopped.")


def test_a_lost_feed_is_said_and_goes_on_after_the_last_event(tmp_path, page):
    resumed: list[str] = []

    def note(request):
        if request.url.endswith("/v1/events"):
            resumed.append(request.headers.get("last-event-id", ""))

    page.on("request", note)
    home = tmp_path / "served"
    with console(home) as server:
        begin(page, server, "short")
        finished(ask(page, "before"))
        live(page)
        url = page.url
    expect(page.locator(".feed-state")).to_have_attribute("data-state", "stale")
    expect(page.locator(".feed-state")).to_contain_text("may be old")
    with console(home, port=server.port) as server:
        # Asked before the page is back: it must not miss it.
        server.chat("short", "meanwhile", session_of(page))
        live(page)
        expect(page.locator("article.turn")).to_have_count(2)
        expect(page.locator("article.turn").nth(1)).to_contain_text("meanwhile")
        expect(page.locator("article.turn").nth(1)).to_contain_text("Second answer.")
        assert page.url == url
    assert resumed[0] == "" and resumed[-1] != ""


def test_the_page_works_without_a_feed_and_says_so(page, server):
    page.route("**/v1/events", lambda route: route.fulfill(status=404, json={"error": {"message": "no"}}))
    begin(page, server, "short")
    expect(page.locator(".feed-state")).to_contain_text("not available on this server")
    expect(finished(ask(page, "still there?"))).to_contain_text("First answer.")


def test_looking_elsewhere_does_not_stop_an_answer(page, server):
    begin(page, server, "shell")
    live(page)
    ask(page, "do it").locator("section.approval").wait_for()
    asked_in = page.url
    page.get_by_role("link", name="Trace").click()
    expect(page.locator(".facts")).to_contain_text("running")
    page.get_by_role("link", name="Approvals").click()
    card = page.locator("section.approval")
    expect(card).to_have_count(1)
    page.goto(asked_in)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    turn = page.locator("article.turn")
    turn.get_by_role("button", name="No", exact=True).click()
    expect(finished(turn)).to_contain_text("Done.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator("article.turn")).to_have_count(1)


def test_a_tab_that_nobody_looks_at_lets_go_of_the_feed_and_misses_nothing(page, server):
    page.clock.install()
    begin(page, server, "short")
    live(page)
    finished(ask(page, "before"))
    look_away = "h => { Object.defineProperty(document, 'hidden', {value: h, configurable: true}); }"
    changed = "document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(look_away, True)
    page.evaluate(changed)
    page.clock.fast_forward(31_000)
    expect(page.locator(".feed-state")).to_have_attribute("data-state", "resting")
    server.chat("short", "meanwhile", session_of(page))
    page.evaluate(look_away, False)
    page.evaluate(changed)
    live(page)
    expect(page.locator("article.turn").nth(1)).to_contain_text("Second answer.")
