"""axe-core, installed once by its lock, run in a page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from support.installed import node_modules


def axe_source() -> str:
    return (node_modules("axe") / "axe-core" / "axe.min.js").read_text()


def grave_issues(page: Page) -> list[str]:
    """What axe calls serious or critical, with the places. The page's policy does not bind evaluated scripts."""
    page.evaluate(f"{axe_source()}; undefined")
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{issue['id']} ({issue['impact']}): {[node['html'][:160] for node in issue['nodes'][:4]]}"
        for issue in found["violations"]
        if issue["impact"] in ("serious", "critical")
    ]
