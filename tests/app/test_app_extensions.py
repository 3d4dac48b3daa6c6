"""The Python extensions of an engine, as the frontends see them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aish.app.container import Container
from aish.config.load import load_config
from aish.errors import UsageError
from aish.frontends.runtime import LaunchContext


async def test_a_command_that_is_gone_is_said_to_be_gone(private_home: Path):
    file = private_home / ".config" / "aish" / "tools" / "own.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "from aish import command\n\n\n@command('hi')\ndef hi() -> str:\n    'Greets.'\n    return 'hello'\n"
    )
    env = {"HOME": str(private_home), "PATH": os.environ["PATH"]}
    runtime = Container(LaunchContext(private_home, env), load_config(cwd=private_home, env=env))
    async with runtime.engine(mcp=()):
        extensions = runtime.extensions
        with pytest.raises(UsageError, match="the command hi is gone"):
            await extensions.run_command("hi", "", str(private_home))
        await extensions.refresh()
        assert (await extensions.run_command("hi", "", str(private_home))).text == "hello"
        file.unlink()
        await extensions.refresh()
        with pytest.raises(UsageError, match="the command hi is gone"):
            await extensions.run_command("hi", "", str(private_home))
