#!/usr/bin/env bash
# Builds the wheel, installs it without extras into a new environment, and asks it something.
set -euo pipefail
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work/home"
mkdir -p "$HOME"
"$python" -m venv "$work/venv"
.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$work/dist" .
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$work"/dist/aish_runtime-*.whl
cd "$work"
"$work/venv/bin/aish" --version
answer=$("$work/venv/bin/aish" --model fake-tool "add 2 and 3" 2>/dev/null)
test "$answer" = "The result of runtime__add is 5."
set +e
message=$("$work/venv/bin/aish" --model embedded:smollm2 "hello" 2>&1)
code=$?
set -e
test "$code" = 4
grep -q "aish-runtime\[local\]\|aish models pull" <<<"$message"
echo "a fresh install without extras works"
