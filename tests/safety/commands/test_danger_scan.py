"""What the danger scan finds: catastrophes, writes and where they go, wrappers, reasons that point at the cause."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aish.safety.commands import Level, LineVerdict, PathChange

Judge = Callable[..., LineVerdict]


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /",
        "rm -rf /*",
        "rm -rf ~",
        "rm -rf ~/",
        'rm -rf "$HOME"',
        "cd / && rm -rf *",
        "rm -rf $X/",
        'rm -rf "$X"/*',
        "sudo rm -rf /usr",
        "rm -r ../..",
        "find / -delete",
        "mkfs.ext4 /dev/sda",
        "dd if=x of=/dev/sda",
        "cat x > /dev/nvme0n1",
        ":(){ :|:& };:",
        "chmod -R 777 /",
        "chown -R ann ~",
        "bash -c 'rm -rf ~'",
        "wipefs -a /dev/sdb",
        "mv ~ /tmp/x",
        "rm${IFS}-rf$IFS/",
        "echo ok\nrm -rf ~ 2>/dev/null\necho done",
    ],
)
def test_a_catastrophe_is_marked_as_one(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.catastrophe, found.reasons
    assert found.level is Level.DESTRUCTIVE


@pytest.mark.parametrize(
    "line", ["rm -rf build", "git reset --hard", "chmod -R 755 src", "dd if=a of=b.img", "find . -delete"]
)
def test_ordinary_danger_is_no_catastrophe(line: str, judge: Judge) -> None:
    assert not judge(line).catastrophe


@pytest.mark.parametrize(
    ("line", "path", "change", "inside"),
    [
        ("echo x > out.txt", "/home/ann/project/out.txt", PathChange.OVERWRITE, True),
        ("echo x >> ../log", "/home/ann/log", PathChange.APPEND, False),
        ("cd /tmp && echo x > y", "/tmp/y", PathChange.OVERWRITE, False),
        ("(cd /tmp); echo x > y", "/home/ann/project/y", PathChange.OVERWRITE, True),
        ("cp a ~/b", "/home/ann/b", PathChange.OVERWRITE, False),
        ("ls | tee -a log", "/home/ann/project/log", PathChange.APPEND, True),
        ("sed -i s/a/b/ f", "/home/ann/project/f", PathChange.MODIFY, True),
        ("rm old", "/home/ann/project/old", PathChange.REMOVE, True),
        ("mkdir -p src/new", "/home/ann/project/src/new", PathChange.CREATE, True),
        ("curl -o page.html https://x", "/home/ann/project/page.html", PathChange.OVERWRITE, True),
        ("sh -c 'echo x > y'", "/home/ann/project/y", PathChange.OVERWRITE, True),
        ("echo x > $UNKNOWN", "$UNKNOWN", PathChange.OVERWRITE, False),
    ],
)
def test_writes_are_resolved_against_where_the_shell_stands(
    line: str,
    path: str,
    change: PathChange,
    inside: object,
    judge: Judge,
) -> None:
    writes = [(write.path, write.change, write.inside) for write in judge(line).writes]
    assert (path, change, inside) in writes


def test_nothing_is_written_by_redirects_to_nowhere(judge: Judge) -> None:
    assert judge("make > /dev/null 2>&1").writes == ()


@pytest.mark.parametrize(
    "quoted",
    ["r\\m", '"r"m', "$'\\x72\\x6d'", "${x:-rm}", "$(echo rm)", "`printf rm`", "r''m", "/bin/r?", "$(echo mr | rev)"],
)
def test_rm_is_rm_however_it_is_spelled(quoted: str, judge: Judge) -> None:
    assert judge(f"{quoted} -rf build").level is Level.DESTRUCTIVE


def test_an_array_is_a_command_too(judge: Judge) -> None:
    assert judge('cmd=(rm -rf build); "${cmd[@]}"').level is Level.DESTRUCTIVE


@pytest.mark.parametrize(
    "wrapper",
    [
        "sudo -u bob",
        "env A=1",
        "timeout -k 1 5",
        "nohup",
        "nice -n 5",
        "command",
        "xargs",
        "ssh -p 22 host",
        "docker exec -it web",
        "kubectl exec pod -- ",
        "doas",
        "stdbuf -oL",
        "flock /tmp/l",
        "strace -f",
        "watch -n1",
        "eval",
        "busybox",
        "chroot /x",
        "exec",
        "systemd-run --user",
        "sudo nice env timeout 5",
        "uv run",
        "npx",
        "parallel",
        "find . -exec",
        "time",
        "setsid",
        "builtin",
    ],
)
def test_wrappers_are_looked_through(wrapper: str, judge: Judge) -> None:
    assert judge(f"{wrapper} git reset --hard").level is Level.DESTRUCTIVE


def test_beyond_the_depth_a_line_is_unknown(judge: Judge) -> None:
    found = judge("nohup " * 40 + "ls")
    assert found.level is Level.UNKNOWN
    assert any(reason.rule == "too-deep" for reason in found.reasons)


def test_a_script_the_line_writes_and_runs_is_read(judge: Judge) -> None:
    assert judge("echo 'rm -rf x' > /tmp/a.sh; bash /tmp/a.sh").level is Level.DESTRUCTIVE
    assert judge("cat > a.py <<'E'\nimport shutil; shutil.rmtree('x')\nE\npython3 a.py").level is Level.DESTRUCTIVE
    assert judge("cat > a.py <<'E'\nimport shutil; shutil.rmtree('x')\nE").level is Level.UNKNOWN


def test_known_text_piped_to_a_shell_is_read_and_unknown_text_is_danger(judge: Judge) -> None:
    assert judge("echo ls | sh").level is Level.UNKNOWN
    assert judge("echo 'git clean -fdx' | sh").level is Level.DESTRUCTIVE
    assert judge("cat x | sh").level is Level.DESTRUCTIVE
    assert judge("cat x | python3 -m json.tool").level is Level.UNKNOWN
    assert judge("cat x | python3 count.py").level is Level.UNKNOWN


def test_a_reason_points_at_what_caused_it(judge: Judge) -> None:
    line = "ls; é=1; git push --force origin main; pwd"
    reason = judge(line).reasons[0]
    assert line[slice(*reason.span)] == "git push --force origin main"
    assert (reason.rule, reason.kind) == ("git.push.force", "git")
    assert "overwrites history on the remote" in reason.text


def test_a_reason_inside_a_string_points_at_the_string(judge: Judge) -> None:
    line = "ssh host 'cd /srv; rm -rf app'"
    reason = judge(line).reasons[0]
    assert line[slice(*reason.span)].endswith("'cd /srv; rm -rf app'")


@pytest.mark.parametrize(
    "line", ["echo x | at now", "docker run -it alpine sh", "git commit -m 'rm -rf /'", "echo 'DROP TABLE x' > note.md"]
)
def test_words_that_only_look_dangerous_raise_no_alarm(line: str, judge: Judge) -> None:
    assert judge(line).level is Level.UNKNOWN


def test_the_programs_of_a_line_are_named(judge: Judge) -> None:
    found = judge("sudo env A=1 git log | xargs -n1 echo $(date)")
    assert set(found.programs) == {"sudo", "env", "git", "xargs", "echo", "date"}


def test_a_backslash_at_the_start_of_a_line_hides_nothing(judge: Judge) -> None:
    assert judge("cd src\n\\rm -rf build").level is Level.DESTRUCTIVE
    assert judge("ls\n  \\ls src").level is Level.SAFE
    assert judge("echo 'a\n\\' ; git clean -fdx #'").level is Level.DESTRUCTIVE


def test_a_word_that_goes_on_in_the_next_line_is_read_whole(judge: Judge) -> None:
    assert judge("r\\\nm -rf build").level is Level.DESTRUCTIVE
    assert judge("sort -\\\no f in").level is not Level.SAFE
    assert judge('echo "$\\\n(git clean -fdx)"').level is Level.DESTRUCTIVE
    assert judge("ls \\\n  -l \\\n  src").level is Level.SAFE
