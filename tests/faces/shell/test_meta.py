"""The table of commands for aish itself."""

import pytest

from aish.faces.shell.meta import COMMANDS, help_lines


@pytest.mark.parametrize("columns", [30, 40, 72, 80, 200])
def test_help_fits_the_terminal_and_breaks_no_word(columns):
    for name, command in COMMANDS.items():
        lines = help_lines(name, command, columns)
        unbroken = (f":{name}", *command.help.split())
        assert set(unbroken) <= {word for line in lines for word in line.split()}
        told = [line for line in lines if line.strip() != command.usage]  # a list of subcommands has no blanks
        assert max(map(len, told)) <= columns
