from __future__ import annotations

from playwright.sync_api import expect

from browser.acting import ask, begin, finished, live


def test_a_trace_shows_steps_calls_approvals_tokens_and_times(page, server, picture):
    (server.workspace / "greeting.py").write_text("greeting = 'hello'\nprint(greeting)\n")
    begin(page, server, "edit")
    turn = ask(page, "change the greeting")
    turn.locator("section.approval").get_by_role("button", name="Yes", exact=True).click()
    finished(turn).get_by_role("link", name="Trace").click()
    expect(page.locator(".span-row.step")).to_have_count(2)
    facts = page.locator(".facts")
    for text in ("edit:edit", "answered", "200 → 38", "First token"):
        expect(facts).to_contain_text(text)
    expect(page.locator(".span-row.call rect.asking")).to_have_count(1)
    page.locator(".span-row.call").click()
    detail = page.locator(".detail")
    for text in ("Effect: write", '"path": "greeting.py"', "Approval asked", "Decision: allow", "Result: ok"):
        expect(detail).to_contain_text(text)
    picture(page, "trace-light")
    page.get_by_role("button", name="Events").click()
    expect(page.locator(".event-row").first).to_contain_text("turn_started")


def test_a_trace_shows_how_much_of_a_prompt_was_cached(page, server):
    begin(page, server, "short")
    finished(ask(page, "one"))
    finished(ask(page, "two")).get_by_role("link", name="Trace").click()
    page.locator(".span-row.step").click()
    expect(page.locator(".detail")).to_contain_text("13 of the prompt were cached")


def test_a_trace_grows_while_the_turn_runs(page, server):
    begin(page, server, "shell")
    live(page)
    turn = ask(page, "wait for me")
    turn.locator("section.approval").wait_for()
    [asked] = server.ask("GET", "/v1/approvals")["data"]
    [record] = server.ask("GET", f"/v1/sessions/{page.url.rpartition('/')[2]}")["turns"]
    other = page.context.new_page()
    other.goto(f"{server.url}#/trace/{record['id']}")
    expect(other.locator(".facts")).to_contain_text("running")
    expect(other.locator(".span-row.call")).to_contain_text("waits for you")
    server.ask("POST", f"/v1/approvals/{asked['id']}", {"choice": "yes"})
    expect(other.locator(".facts")).to_contain_text("answered")
    expect(other.locator(".span-row.step")).to_have_count(2)


def test_five_thousand_events_open_at_once_and_can_be_walked(page, server):
    server.chat("events", "many", "many-events")
    [turn] = server.ask("GET", "/v1/sessions/many-events")["turns"]
    assert len(server.ask("GET", f"/v1/traces/{turn['id']}")["events"]) >= 4900
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
    assert took_ms < 4000  # four times the bar, for machines that are busy
    expect(page.locator(".span-row.call").first).to_contain_text("runtime__echo")
    page.get_by_role("button", name="Events").click()
    page.locator(".rows:visible").evaluate("node => node.scrollTop = node.scrollHeight")
    expect(page.locator(".event-row", has_text="turn_finished")).to_be_visible()
    assert page.locator(".event-row").count() < 100


def test_a_turn_that_is_not_there_is_said_so(page, server):
    page.goto(f"{server.url}#/trace/turn_nowhere")
    expect(page.locator("#main")).to_contain_text("There is no such turn.")
