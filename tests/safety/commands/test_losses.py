"""Lines that lose something by a way less trodden than `rm -rf`."""

from __future__ import annotations

import pytest

from aish.safety.commands import Level, LineVerdict, ShellContext, classify

CONTEXT = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",))


def judge(line: str) -> LineVerdict:
    return classify(line, CONTEXT)


@pytest.mark.parametrize(
    "line",
    [
        "systemctl stop nginx",
        "sudo systemctl --user stop x",
        "service nginx stop",
        "nginx -s stop",
        "pm2 delete all",
        "brew services stop x",
        "unshare -f rm -rf x",
        "setsid -f rm -r x",
        "exec -c rm -rf x",
        "taskset -c 0 rm -rf x",
        "flatpak-spawn --host rm -rf x",
        "nix shell nixpkgs#x -c rm -rf y",
        "nix store gc",
        "nix-store --gc",
        "pacman -Scc",
        "fastboot erase userdata",
        "adb uninstall com.x",
        "lvresize -L -5G vg/lv",
        "rustic forget --prune",
        "wget --method=DELETE http://x",
        "mix ecto.drop",
        "dotnet ef database drop",
        "migrate -path x -database y drop",
        "pg_resetwal x",
        "op item delete x",
        "ollama rm llama3",
        "hf cache prune",
        "turso db destroy x",
        "neonctl projects delete x",
        "talosctl reset",
        "helmfile destroy",
        "cloudflared tunnel delete x",
        "at -r 1",
        "csrutil disable",
        "npm dist-tag rm x y",
        "zip -m x.zip f",
        "zip -rm x.zip src",
        "zip -d x.zip f",
        "7z d a.7z f",
        "7z a a.7z f -sdel",
        "tar --delete -f a.tar x",
        "tar --remove-files -cf a.tar x",
        "dd if=x of=backup.sql",
        "dd of=backup.sql",
        "psql -f drop.sql",
        "psql --file=sql/truncate_users.sql app",
        "sqlite3 app.db < drop.sql",
        "sqlite3 app.db '.read drop.sql'",
        "mysql app < db/reset.sql",
        "sqlite3 app.db '.restore old.db'",
        "influx bucket delete -n logs",
        "influx delete --bucket logs --start 1970-01-01T00:00:00Z",
        """kubectl patch ns x -p '{"metadata":{"finalizers":null}}'""",
        "gh api -X DELETE repos/a/b",
        "gh api repos/a/b --method DELETE",
        "curl -X DELETE https://x/y",
        "docker kill web",
        "docker compose kill",
        "crictl rmi --prune",
        "ctr images rm x",
        "git commit --amend",
        "git rebase -i HEAD~3",
        "git reset --keep HEAD~3",
        "git merge --abort",
        "git rebase --abort",
        "git submodule update --init --force",
        "git notes remove HEAD",
        "git symbolic-ref HEAD refs/heads/x",
        "ln -sf /dev/null app.conf",
        "tee f < /dev/null",
        "ls | tee f < /dev/null",
        "sponge f < /dev/null",
        "gunzip -f a.gz",
        "unzip -o a.zip",
        "sort -o a a",
        "sort -u a -o a",
        "sed -i d f",
        "sed -i '1,$d' f",
        "> src/main.py",
        "fallocate -p -o 0 -l 100 f",
        "fallocate -d f",
        "fallocate -z -l 100 f",
        "brotli -j f",
        "ddrescue a b",
        "qemu-img commit a.qcow2",
        "qemu-img snapshot -d s a.qcow2",
        "alembic downgrade -1",
        "flask db downgrade",
        "git checkout HEAD notes.txt",
        "git checkout main src lib",
        "uv venv --clear .venv",
        "swapoff -a",
        "find . -exec rm {} +",
    ],
)
def test_what_is_lost_is_named_so(line: str) -> None:
    assert judge(line).level is Level.DESTRUCTIVE


@pytest.mark.parametrize(
    "line",
    [
        "python3 -m zipfile -e a.zip .",
        "python3 -m tarfile -e a.tar",
        "cargo clean",
        "make clean",
        "make distclean",
        "./gradlew clean build",
        "gradle :app:clean",
        "mvn clean install",
        "dotnet clean",
        "npm ci",
        "black .",
        "python3 -m black .",
        "ruff check --fix .",
        "ruff format .",
        "cargo fmt",
        "prettier --write .",
        "npx prettier --write .",
        "mmv '*.a' '#1.b'",
        "recode latin1..utf8 f",
        "git fetch --prune",
    ],
)
def test_everyday_work_that_changes_files_is_a_write_and_no_alarm(line: str) -> None:
    found = judge(line)
    assert found.level is Level.UNKNOWN
    assert "write" in {reason.kind for reason in found.reasons}


@pytest.mark.parametrize(
    "line",
    [
        "rm notes.txt",
        "unlink notes.txt",
        "mv a b",
        "zip -r x.zip src",
        "7z a a.7z d",
        "tar cf a.tar src",
        "dd if=a of=b",
        "psql -f schema.sql",
        "sqlite3 app.db < schema.sql",
        "psql -f backdrop.sql",
        "docker stop web",
        "git rebase main",
        "git commit -i -m x f",
        "git symbolic-ref HEAD",
        "ln -sf a b",
        "ls | tee f",
        "tee -a f < /dev/null",
        "sort -o b a",
        "sed -i 's/a/d/' f",
        "sed -i /x/d f",
        "gunzip a.gz",
        "black --check .",
        "make",
        "rsync -a --delete src/ /tmp/copy/ -n",
        "docker run -v .:/h alpine ls /h",
        "gh api repos/a/b",
    ],
)
def test_what_is_near_to_a_loss_raises_no_alarm(line: str) -> None:
    assert judge(line).level is not Level.DESTRUCTIVE


@pytest.mark.parametrize("line", ["black --check .", "ruff format --check .", "cargo fmt --check", "make -n clean"])
def test_a_check_is_no_write(line: str) -> None:
    assert "write" not in {reason.kind for reason in judge(line).reasons}


@pytest.mark.parametrize(
    "line",
    [
        "find ~ -exec rm -rf {} +",
        "find / -exec rm {} \\;",
        "find / -type f -exec /bin/rm -f {} +",
        "shred /dev/sda",
        "shred -n 1 -v /dev/nvme0n1",
        "rsync -a --delete empty/ /",
        "rsync -a --delete empty/ ~/",
        "ls / | xargs -I{} rm -rf /{}",
        "tar -cf x / --remove-files",
        "tar --remove-files -cf x.tar ~",
        """python3 -c 'import shutil; shutil.rmtree("/")'""",
        """python3 -c 'import os, shutil; shutil.rmtree(os.path.expanduser("~"))'""",
        """node -e 'fs.rmSync("/home", {recursive: true})'""",
        "zpool destroy tank",
        "kill -9 -1",
        "echo c > /proc/sysrq-trigger",
        "echo b | sudo tee /proc/sysrq-trigger",
        "docker run -v /:/h alpine rm -rf /h",
        "docker run --rm -v /:/h alpine sh -c 'rm -rf /h/*'",
        "docker run --mount type=bind,source=/,target=/h alpine rm -rf /h/home",
        "git clean -fdx /",
        "git -C / clean -fdx",
        "userdel -r ann",
        "deluser --remove-home ann",
    ],
)
def test_a_catastrophe_is_one_in_every_form(line: str) -> None:
    assert judge(line).catastrophe


@pytest.mark.parametrize(
    "line",
    [
        "find build -exec rm -rf {} +",
        "rsync -a --delete src/ build/",
        "rsync -an --delete empty/ /",
        "tar --remove-files -cf x.tar build",
        """python3 -c 'import shutil; shutil.rmtree("build"); print("/")'""",
        "kill -1 123",
        "docker run -v ./data:/h alpine rm -rf /h/x",
        "git clean -fdx build",
        "userdel ann",
        "shred notes.txt",
    ],
)
def test_a_small_loss_is_no_catastrophe(line: str) -> None:
    assert not judge(line).catastrophe
