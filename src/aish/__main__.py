"""`python -m aish` and the `aish` command."""

from __future__ import annotations

import sys


def main() -> None:
    from aish.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
