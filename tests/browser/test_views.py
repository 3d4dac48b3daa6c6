"""Every view, in light and dark and on a phone: what it shows, that everybody can use it, that nothing sticks out."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser.acting import ask, begin, finished, live
from browser.axe import grave_issues

PLAN = [
    {"id": "a", "tool": "ide__search", "args": {}, "needs": [], "why": "find it", "status": "ok"},
    {"id": "b", "tool": "ide__read_file", "args": {}, "needs": ["a"], "why": "read it", "status": "ok"},
    {"id": "c", "tool": "ide__outline", "args": {}, "needs": ["a"], "why": "see it", "status": "running"},
    {"id": "d", "tool": "ide__edit", "args": {}, "needs": ["b", "c"], "why": "change it", "status": "planned"},
]
RUN = {
    "id": "run_1",
    "kind": "plan",
    "session": "s",
    "goal": "Change the greeting <b>everywhere</b>",
    "state": "running",
    "created_ms": 1_790_000_000_000,
    "updated_ms": 1_790_000_060_000,
    "plan": {"steps": PLAN},
    "steps": [
        {
            "n": 1,
            "tool": "ide__search",
            "effect": "read",
            "state": "done",
            "arguments": {"pattern": "hello"},
            "outcome": "2 lines",
        }
    ],
}
VIEWS = (
    "chat",
    "tools",
    "keys",
    "session",
    "approval",
    "trace",
    "sessions",
    "approvals",
    "mcp",
    "run",
    "runs",
    "metrics",
)


def with_runs(page):
    page.route("**/v1/runs?*", lambda route: route.fulfill(json={"data": [RUN]}))
    page.route("**/v1/runs/run_1", lambda route: route.fulfill(json=RUN))


def visit(page, server, view):
    """Leads to a view with something in it."""
    with_runs(page)
    match view:
        case "chat":
            page.goto(server.url)
            page.locator(".welcome").wait_for()
        case "tools":
            begin(page, server, "short")
            page.get_by_role("button", name="Tools").click()
            page.locator("label.tool").first.wait_for()
        case "keys":
            page.goto(f"{server.url}#/sessions")
            page.get_by_role("button", name="Keys").click()
            page.get_by_role("dialog", name="Keys").wait_for()
        case "session" | "trace":
            begin(page, server, "markdown")
            turn = finished(ask(page, "Show me everything"))
            if view == "trace":
                turn.get_by_role("link", name="Trace").click()
                page.locator(".span-row.step").first.click()
        case "approval":
            (server.workspace / "greeting.py").write_text("greeting = 'hello'\nprint(greeting)\n")
            begin(page, server, "edit")
            ask(page, "Change it").locator("section.approval").wait_for()
        case "run":
            page.goto(f"{server.url}#/runs/run_1")
            page.locator(".dag").wait_for()
        case _:
            page.goto(f"{server.url}#/{view}")
            page.locator("#main h1").wait_for()
    live(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(open_page, server, picture, view, scheme):
    page = open_page(scheme=scheme)
    visit(page, server, view)
    picture(page, f"{view}-{scheme}")
    assert grave_issues(page) == []


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "keys"])
def test_nothing_sticks_out_on_a_phone(open_page, server, picture, view):
    page = open_page(width=360, height=740)
    with_runs(page)
    visit_narrow(page, server, view)
    picture(page, f"{view}-phone")
    wide = "() => document.documentElement.scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0
    assert page.locator("#main").evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    assert grave_issues(page) == []


def visit_narrow(page, server, view):
    """The state of the feed is in the drawer, which is closed."""
    page.add_init_script("localStorage.setItem('aish.model', '\"markdown:markdown\"')")
    match view:
        case "session" | "trace":
            page.goto(server.url)
            page.locator("select.model option").first.wait_for(state="attached")
            turn = finished(ask(page, "Show me everything"))
            if view == "trace":
                turn.get_by_role("link", name="Trace").click()
                page.locator(".span-row.step").first.click()
        case "approval":
            page.add_init_script("localStorage.setItem('aish.model', '\"shell:shell\"')")
            page.goto(server.url)
            page.locator("select.model option").first.wait_for(state="attached")
            ask(page, "Do it").locator("section.approval").wait_for()
        case "chat" | "tools":
            page.goto(server.url)
            page.locator(".welcome").wait_for()
            if view == "tools":
                page.get_by_role("button", name="Tools").click()
                page.locator("label.tool").first.wait_for()
        case "run":
            page.goto(f"{server.url}#/runs/run_1")
            page.locator(".dag").wait_for()
        case _:
            page.goto(f"{server.url}#/{view}")
            page.locator("#main h1").wait_for()


def test_the_drawer_of_a_phone_opens_leads_and_closes(open_page, server):
    page = open_page(width=360, height=740)
    page.goto(server.url)
    page.locator(".welcome").wait_for()
    rail = page.get_by_role("navigation", name="Console")
    expect(rail).not_to_be_visible()
    page.get_by_role("button", name="Menu").click()
    rail.get_by_role("link", name="Sessions").click()
    expect(page.locator("#main h1")).to_have_text("Sessions")
    expect(rail).not_to_be_visible()


def test_the_theme_is_chosen_and_remembered(page, server):
    page.goto(server.url)
    paper = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    toggle = page.locator("#theme")
    expect(toggle).to_have_text("Theme: system")
    toggle.click()
    toggle.click()
    expect(toggle).to_have_text("Theme: dark")
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    expect(page.locator("#theme")).to_have_text("Theme: dark")
    assert page.evaluate(paper) == dark


def test_mcp_servers_show_their_state_and_can_be_helped(page, server):
    page.goto(f"{server.url}#/mcp")
    desk = page.locator("article.card", has_text="desk")
    expect(desk.locator(".badge")).to_have_text("ready")
    desk.locator("summary", has_text="3 tools").click()
    expect(desk).to_contain_text("desk__note")
    desk.get_by_role("button", name="disconnect desk").click()
    expect(desk.locator(".badge")).to_have_text("closed")
    desk.get_by_role("button", name="connect desk").click()
    expect(desk.locator(".badge")).to_have_text("ready")
    gone = page.locator("article.card", has_text="gone")
    expect(gone.locator(".badge")).to_have_text("failed")
    expect(gone).to_contain_text("/nowhere/at-all was not found")


def test_a_server_that_a_request_brought_is_shown_and_left_alone(page, server):
    tool = {"name": "echo", "description": "Says it again.", "effect": "read", "server": "far", "schema": {}}
    brought = {"by": "key_1", "origin": "https://mcp.example.com"}
    far = {"alias": "far", "state": "ready", "error": "", "tools": [tool], "transport": "http", "brought": brought}
    page.route("**/v1/mcp", lambda route: route.fulfill(json={"object": "list", "data": [far]}))
    page.goto(f"{server.url}#/mcp")
    card = page.locator("article.card", has_text="far")
    expect(card).to_contain_text("Brought by a request of key_1, at https://mcp.example.com")
    expect(card.locator("summary")).to_have_text(["1 tool"])
    expect(card.get_by_role("button")).to_have_count(0)


def test_a_plan_is_drawn_with_its_needs_and_said_in_a_table(page, server):
    with_runs(page)
    page.goto(f"{server.url}#/runs")
    page.locator("#main").get_by_role("link", name="Change the greeting <b>everywhere</b>").click()
    expect(page.locator(".dag .node")).to_have_count(4)
    expect(page.locator(".dag .edge")).to_have_count(4)
    columns = page.locator(".dag rect").evaluate_all("nodes => nodes.map(n => +n.getAttribute('x'))")
    assert columns[0] < columns[1] == columns[2] < columns[3]
    expect(page.get_by_role("table", name="Plan").locator("tbody tr")).to_have_count(4)


@pytest.mark.parametrize(("view", "path"), [("runs", "runs"), ("mcp", "mcp"), ("metrics", "spending")])
def test_what_a_server_does_not_have_is_said_plainly(page, server, view, path):
    page.route(f"**/v1/{path}*", lambda route: route.fulfill(status=404, json={"error": {"message": "no"}}))
    page.goto(f"{server.url}#/{view}")
    expect(page.locator("#main")).to_contain_text("not available on this server")


def test_metrics_count_what_was_asked(page, server):
    begin(page, server, "short")
    finished(ask(page, "count me"))
    page.goto(f"{server.url}#/metrics")
    expect(page.locator("figure.chart", has_text="Turns").locator(".big")).not_to_have_text("0")
    expect(page.get_by_role("table", name="By model")).to_contain_text("short:short")
    expect(page.get_by_role("table", name="By day").locator("tbody tr")).not_to_have_count(0)


def test_an_unknown_cost_is_not_shown_as_nothing(page, server):
    known = {"calls": 3, "tokens": 9, "tokens_in": 6, "tokens_out": 3, "cost": 0.5, "unknown": 1}
    unknown = {**known, "cost": 0.0, "unknown": 3}
    found = {"rows": [{"day": "2026-01-01", **known}], "today": unknown, "total": known, "cap_day": None}
    page.route("**/v1/spending*", lambda route: route.fulfill(json=found))
    page.goto(f"{server.url}#/metrics")
    expect(page.locator(".caps")).to_contain_text("cost unknown today; no cap for a day is set")
    expect(page.get_by_role("table", name="By day")).to_contain_text("$0.50 + unknown")


@pytest.mark.parametrize(("cost", "shown"), [(0.0, "cost unknown"), (0.25, "$0.50 + unknown")])
def test_the_chart_of_an_unknown_cost_shows_no_zero(page, server, cost, shown):
    counts = dict.fromkeys(("turns", "tokens_in", "tokens_out", "tool_calls", "requests", "errors"), 1)
    points = [{"at_ms": 10_000 * n, **counts, "cost": cost, "unknown": n, "first_token_ms_p50": None} for n in range(2)]
    page.route("**/v1/metrics.json", lambda route: route.fulfill(json={"points": points}))
    page.goto(f"{server.url}#/metrics")
    expect(page.locator("figure.chart", has_text="Cost")).to_contain_text(shown)
