"""Records a session with the real shell on a real terminal as `docs/session.svg`: `python docs/record.py`."""

from __future__ import annotations

import asyncio
import html
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.terminal import Terminal, terminal  # noqa: E402

ROWS, COLUMNS = 24, 84
WIDTH, HEIGHT = 8.4, 18
COLOURS = {
    "default": "#d8dee9", "black": "#4c566a", "red": "#e06c75", "green": "#8fbf7f", "brown": "#d8b26e",
    "blue": "#7aa2d6", "magenta": "#c08fd0", "cyan": "#7fbfbf", "white": "#eceff4",
}  # fmt: skip
LINES = (
    ("cd project && git log --oneline", "first"),
    ("wc -l *.py", "total"),
    ("!!true", "true"),
    (":reset", "a new conversation"),
    ("please add 1204 and 38 for me", "1242"),
    (":safety check rm -rf build", "everything in it"),
    ("python3 broken.py", "ZeroDivisionError"),
    ("? what went wrong", "The result of"),
)


async def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make = (
            f"cd {home} && mkdir project && cd project && git init -q -b main && echo 'print(1)' > run.py && "
            "echo 'print(1 / 0)' > broken.py && git add . && git -c user.name=a -c user.email=a@b commit -qm first"
        )
        await (await asyncio.create_subprocess_shell(make)).wait()
        env = {
            "HOME": folder,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        words = [sys.executable, "-m", "aish", "--model", "scripted:fake-tool"]
        async with terminal(words, env=env, cwd=home, rows=ROWS, columns=COLUMNS) as term:
            await term.prompts()
            for line, seen in LINES:
                await term.enter(line)
                await term.sees(seen)
                await term.prompts()
            (ROOT / "docs" / "session.svg").write_text(as_svg(term))


def as_svg(term: Terminal) -> str:
    rows = [*list(term.screen.history.top), *(term.screen.buffer[y] for y in range(ROWS))]
    used = [row for row in rows if any(row[x].data.strip() for x in range(COLUMNS))]
    texts = [text for y, row in enumerate(used) for text in _runs(row, y)]
    height = HEIGHT * (len(used) + 1.5)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDTH + 24:.0f}" height="{height:.0f}" '
        'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">'
        '<rect width="100%" height="100%" rx="8" fill="#23272f"/>' + "".join(texts) + "</svg>\n"
    )


def _runs(row: Any, y: int) -> list[str]:
    """The cells of a line, neighbours of one look together."""
    found: list[str] = []
    x = 0
    while x < COLUMNS:
        first = row[x]
        end = x
        while end < COLUMNS and (row[end].fg, row[end].bold) == (first.fg, first.bold):
            end += 1
        text = "".join(row[place].data for place in range(x, end))
        if text.strip():
            colour = COLOURS.get(first.fg, f"#{first.fg}" if len(first.fg) == 6 else COLOURS["default"])
            weight = ' font-weight="bold"' if first.bold else ""
            found.append(
                f'<text xml:space="preserve" x="{12 + x * WIDTH:.1f}" y="{HEIGHT * (y + 1.3):.1f}" fill="{colour}"'
                f"{weight}>{html.escape(text.rstrip())}</text>"
            )
        x = end
    return found


if __name__ == "__main__":
    asyncio.run(record())
