from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import expect

from browser.acting import ask, choose, finished
from browser.axe import grave_issues
from browser.console_server import console, environment

KEY = "aish-key-of-the-test"


def test_a_key_once_then_a_cookie_that_scripts_cannot_read(tmp_path, page, picture):
    with console(tmp_path / "locked", key=KEY) as server:
        page.goto(server.url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.evaluate("fetch('/v1/sessions').then(r => r.status)") == 401
        picture(page, "sign-in")
        assert grave_issues(page) == []
        page.get_by_label("A key of this server").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("not known")
        page.get_by_label("A key of this server").fill(KEY)
        page.keyboard.press("Enter")
        choose(page, "short")
        finished(ask(page, "hello"))
        assert "aish_console" not in page.evaluate("document.cookie")
        page.reload()
        expect(page.locator("article.turn")).to_contain_text("First answer.")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.evaluate("fetch('/v1/sessions').then(r => r.status)") == 401


def test_a_session_that_ran_out_leads_back_to_the_key(tmp_path, page):
    with console(tmp_path / "locked", key=KEY) as server:
        page.goto(server.url)
        page.get_by_label("A key of this server").fill(KEY)
        page.keyboard.press("Enter")
        choose(page, "short")
        page.context.clear_cookies()
        page.goto(f"{server.url}#/sessions")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_session_of_another_key_is_gone_on_with_as_one_of_ones_own(tmp_path, page):
    with console(tmp_path / "locked", key=KEY) as server:
        command = [sys.executable, "-m", "aish", "--model", "short:short", "from the shell"]
        env = environment(server.home)
        done = subprocess.run(command, env=env, cwd=server.workspace, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        [session] = server.ask("GET", "/v1/sessions")["data"]
        page.goto(f"{server.url}#/chat/{session['id']}")
        page.get_by_label("A key of this server").fill(KEY)
        page.keyboard.press("Enter")
        expect(page.locator("article.turn")).to_contain_text("First answer.")
        expect(page.locator(".editing")).to_contain_text("not of your key")
        choose(page, "short")
        turn = finished(ask(page, "from the page"))
        # The script answers by what was said before: all of it was carried over.
        expect(turn).to_contain_text("Second answer.")
        assert not page.url.endswith(session["id"])
