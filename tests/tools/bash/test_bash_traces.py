"""What the person sees of our own commands in the live bash: nothing."""

from contextlib import asynccontextmanager

from aish.tools.bash.shell import LiveBash, LiveBashSpec


@asynccontextmanager
async def bash(tmp_path, rc=""):
    (tmp_path / "rc").write_text(rc)
    idle = []
    async with LiveBash.open(LiveBashSpec(cwd=tmp_path, rc_file=str(tmp_path / "rc")), on_output=idle.append) as shell:

        async def run(line):
            result = await shell.run_user(line, None)
            assert b"aish" not in b"".join(idle)
            return result.output

        yield run


async def test_set_x_traces_the_line_and_nothing_of_ours(tmp_path):
    async with bash(tmp_path) as run:
        assert (await run("set -x; echo hi")).splitlines() == ["++ echo hi", "hi"]
        assert (await run("echo hi; false")).splitlines() == ["++ echo hi", "hi", "++ false"]
        assert (await run("echo $?")).splitlines() == ["++ echo 1", "1"]
        assert await run("echo $((1+") != ""
        assert (await run("cat <<E\nhere\nE")).splitlines() == ["++ cat", "here"]
        assert (await run("set +x")).splitlines() == ["++ set +x"]
        assert await run("echo hi") == "hi\n"


async def test_a_debug_trap_runs_for_the_line_and_nothing_of_ours(tmp_path):
    async with bash(tmp_path) as run:
        assert await run("trap 'echo D:$BASH_COMMAND' DEBUG") == ""
        assert await run("echo hi; false") == "D:echo hi\nhi\nD:false\n"
        assert await run("echo $?") == "D:echo $?\n1\n"
        assert await run("echo $((1+") != ""
        assert "D:trap -p DEBUG\ntrap -- 'echo D:$BASH_COMMAND' DEBUG" in await run("trap -p DEBUG")
        assert await run("trap - DEBUG") == "D:trap - DEBUG\n"
        assert await run("echo hi") == "hi\n"


async def test_a_debug_trap_that_functions_inherit_runs_for_none_of_ours(tmp_path):
    async with bash(tmp_path) as run:
        assert await run("set -T; trap 'echo D:$BASH_COMMAND' DEBUG") == ""
        assert await run("echo hi") == "D:echo hi\nhi\n"


async def test_a_trap_and_traces_of_the_rc_file_hold_from_the_first_line_on(tmp_path):
    async with bash(tmp_path, "trap 'echo D:$BASH_COMMAND' DEBUG\n") as run:
        assert await run("echo hi") == "D:echo hi\nhi\n"
