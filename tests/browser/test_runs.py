from __future__ import annotations

from playwright.sync_api import expect

from browser.acting import ask, begin, finished, live


def test_a_plan_is_drawn_in_the_chat_and_kept_as_a_run(page, server, picture):
    begin(page, server, "planned")
    live(page)
    page.get_by_label("Plan first").check()
    turn = finished(ask(page, "Echo twice and add"))
    expect(turn.locator(".dag .node.good")).to_have_count(3)
    expect(turn.locator(".dag .edge")).to_have_count(2)
    expect(turn).to_contain_text("All echoed.")
    picture(page, "plan-light")
    turn.get_by_role("link", name="Trace").click()
    expect(page.locator(".span-row.plan_step")).to_have_count(3)
    page.get_by_role("link", name="Runs").click()
    page.locator("#main").get_by_role("link", name="Echo twice and add").first.click()
    expect(page.locator(".dag .node.good")).to_have_count(3)
    expect(page.get_by_role("table", name="What was done").locator("tbody tr")).to_have_count(3)


def test_a_goal_halts_before_harm_and_goes_on_when_a_person_says_so(page, server, picture):
    rubbish = server.workspace / "rubbish"
    rubbish.mkdir(exist_ok=True)
    (rubbish / "old").touch()
    begin(page, server, "goal")
    page.get_by_role("link", name="Runs").click()
    page.get_by_label("Goal").fill("Clear the rubbish away")
    page.get_by_role("button", name="Begin").click()
    halted = page.get_by_role("region", name="Halted")
    expect(halted).to_contain_text("$ rm -rf rubbish")
    picture(page, "halt-light")
    assert rubbish.exists()
    halted.get_by_role("button", name="Proceed").click()
    expect(page.locator("#main .badge").first).to_have_text("finished")
    assert not rubbish.exists()


def test_a_run_is_given_up(page, server):
    (server.workspace / "rubbish").mkdir(exist_ok=True)
    begin(page, server, "goal")
    page.get_by_role("link", name="Runs").click()
    page.get_by_label("Goal").fill("Clear it away again")
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Abandon").click()
    expect(page.locator("#main .badge").first).to_have_text("abandoned")
    assert (server.workspace / "rubbish").exists()
