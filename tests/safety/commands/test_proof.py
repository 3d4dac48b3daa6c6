"""What must never be proved safe, and what must be, or the gate annoys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aish.safety.commands import Level, LineVerdict

Judge = Callable[..., LineVerdict]

NEVER_SAFE = r"""
ls$(rm x)
git log --output=x
git log --outp=x
git diff --ext-diff
git -c core.pager=sh log
git --exec-path=/tmp log
git grep -O x
git branch new
git tag v1
git config user.name x
git config --get a --unset b
git stash
git symbolic-ref HEAD refs/heads/x
git log $(cat f)
git log "$x"
git show *.py
git remote add x y
find . $X
find . -fprintf x y
find . -exec git {} +
find . -exec sh -c x \;
sort -ox in
sort --compress-program=sh in
sort --outp=x in
uniq a b
tree -o x
rg --pre sh x
rg --pre=sh x
sed -i s/a/b/ f
sed -n 'w x' f
sed 's/a/b/w x' f
sed 's/a/id/e' f
sed -f script f
sed 's/[/]/g;y/w f/w f/' x
sed '/[/p;y/]/w x/' f
sed "s/a/$x/" f
awk '{print > "x"}' f
awk '{print | "sh"}' f
awk 'BEGIN{system("x")}'
awk -f x f
awk "$p" f
awk -i inplace '{print}' f
date -s x
date 010100002026
hostname x
env x
env FOO=1 ls
xargs git log
xargs -I{} sh -c {}
xargs -a f rm
time -o f ls
PATH=. ls
LD_PRELOAD=x ls
IFS=x ls
PATH=/tmp; ls
BASH_ENV=x ls
GIT_PAGER=x git log
PAGER=x git log
http_proxy=x; ls
cat > f
cat >& f
cat &> f
cat < /dev/tcp/a/1
cat <> f
ls >/dev/null/../../tmp/x
ls > /dev/nul?
ls > $x
echo ${x:=rm}
echo ${x@P}
echo ${!x}
echo $((a[$(rm x)]))
echo $((x))
echo $[a]
[[ $x -eq 1 ]]
[ -v x ]
test -v 'a[$(x)]'
((i++))
f() { ls; }
ls() { rm x; }; ls
alias ls=rm
export X=1
unset PATH
set -- a
shopt -s extglob
printf -v PATH x
printf '%n' PATH
read PATH
read -a x
for PATH in x; do ls; done
while read PATH; do ls; done
nohup ls
sudo ls
exec ls
source f
. f
eval ls
bash -c ls
trap ls EXIT
jobs -x rm
type x; history -c
command rm x
hash -p /tmp/x ls
enable -f x y
arch -x86_64 sh
nm --plugin ./x.so f
file -C -m x
less +!rm f
less -o log f
man -P rm ls
docker -H tcp://x ps
kubectl get x --kubeconfig=f
journalctl --rotate
ip addr add x dev y
ip netns exec x sh
ss -K
tar tf x --to-command=sh
tar tf host:x
tar xtf x
python3 --version x.py
curl x
terraform plan -out=x
terraform providers lock
aws ec2 describe-instances --endpoint-url http://x
aws s3api get-object x
go env -w X=1
go env -u X
git reflog delete x
./ls
/tmp/ls
/usr/bin/../../tmp/ls
ＬＳ
lѕ
l?
{l,}s
$(echo ls)
`ls`
cat >(ls)
cat ~/.ssh/id_rsa
cd ~/.ssh && cat id_rsa
cat ~/.ssh/*
cat < ~/.ssh/id_rsa
cat /etc/shadow
echo !rm
echo "!rm"
coproc ls
watch ls
exit
timeout $X ls
ls &&& ls
echo "un
echo 'un
"""


@pytest.mark.parametrize("line", NEVER_SAFE.strip("\n").split("\n"))
def test_a_line_that_may_do_more_than_read_is_not_proved_safe(line: str, judge: Judge) -> None:
    assert judge(line).level is not Level.SAFE


@pytest.mark.parametrize(
    "line",
    [
        "cat <<E\n$(rm x)\nE",
        "cat <<E\n`rm x`\nE",
        "cat <<E\n${x:-`rm x`}\nE",
        "ls\nrm x",
        "cat <<E\nx\nE\nrm y",
        "cat <<\\E\nx\nE\nrm y",
        "ls # c\nrm x",
        "echo a\r\nrm x",
        "ls\x0brm",
        "ls\xa0x",
        "ls \u202ex",
        "ls\0x",
        "ls\u200b",
        "sed 'a\\\nw foo' f",
        "[ a >f ]",
        "[ a > f ]",
        "ls | sort f 2>&1 $x a[`touch x`] !",
        "ls | sort 2>&1 -o f",
        "\\ #$(touch x)",
        "find . if \t \n\\tee x",
        "ls \\ #$(touch x)",
        "read <<-E\n$x a[`touch x`] ",
        "cat <<E\n`touch x`",
        "cat <<E\n!rm\nE",
        "echo \ud800",
    ],
)
def test_nothing_hidden_in_lines_or_characters_is_proved_safe(line: str, judge: Judge) -> None:
    assert judge(line).level is not Level.SAFE


@pytest.mark.parametrize(
    "line",
    [
        "l\\s",
        "'ls'",
        "/bin/ls",
        "echo '$(rm x)'",
        'echo "\\$(rm x)"',
        "echo x >&2",
        "ls > /dev/null 2>&1",
        "git log -- --output=x",
        "command -v rm",
        "awk '!seen[$0]++' f",
        "find . ! -name x",
        "[ ! -f x ]",
        "cat ~/project/.ssh/config",
        'echo "hi!"',
        "IFS=, read -r a b < f",
        'x=$(date); echo "$x"',
        "ls $HOME/project/src",
        "# only a comment",
        "",
        "  ",
        "cat keys/id_ed25519.pub",
        "sed -n '/[[:space:]]x/p' f",
        "git log --grep='a|b'",
    ],
)
def test_odd_looking_but_read_only_lines_are_safe(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.level is Level.SAFE, found.reasons


def test_an_alias_is_judged_by_what_it_stands_for(judge: Judge) -> None:
    assert judge("ll src", aliases={"ll": "ls -alF"}).level is Level.SAFE
    assert judge("ls", aliases={"ls": "ls --color=auto"}).level is Level.SAFE
    assert judge("ls x", aliases={"ls": "touch"}).level is Level.UNKNOWN
    assert judge("\\ls x", aliases={"ls": "touch"}).level is Level.SAFE
    assert judge("time ls", aliases={"ls": "touch x"}).level is not Level.SAFE
    assert judge("if true; then ls; fi", aliases={"if": "touch x; if"}).level is not Level.SAFE


def test_a_function_with_a_safe_name_is_not_trusted(judge: Judge) -> None:
    assert judge("ls", functions={"ls": ""}).level is Level.UNKNOWN
    assert judge("nice ls", functions={"ls": ""}).level is Level.UNKNOWN
    assert judge("[ -f x ]", functions={"[": ""}).level is Level.UNKNOWN


def test_a_known_variable_counts_until_the_line_sets_it(judge: Judge) -> None:
    known = {"branch": "main"}
    assert judge("git log $branch", variables=known).level is Level.SAFE
    assert judge("git log $branch", variables={"branch": "--output=x"}).level is not Level.SAFE
    assert judge("git log $branch", variables={"branch": "a --output=x"}).level is not Level.SAFE
    assert judge("branch=--output=x; git log $branch", variables=known).level is not Level.SAFE
    assert judge("for branch in --output=x; do git log $branch; done", variables=known).level is not Level.SAFE
