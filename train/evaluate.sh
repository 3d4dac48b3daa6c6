#!/bin/bash
# Measures an adapter with `aish eval`: slices of the Berkeley sets, the held-out cases, and the suites that ship.
#   train/evaluate.sh MODEL.gguf ADAPTER.gguf|none BFCL_FOLDER OUT_FOLDER [LIMIT]
# BFCL_FOLDER is what `aish eval import bfcl` wrote. LIMIT is how many cases of each suite are asked (default: 100).
set -euo pipefail
if [ $# -lt 4 ]; then
    sed -n '2,4p' "$0" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
model=$1 adapter=$2 bfcl=$3 out=$4 limit=${5:-100}
mkdir -p "$out"
files=("$model")
[ "$adapter" = none ] || files+=("$adapter")

cd "$root"
coproc SERVER { exec "$python" -m train.serve "${files[@]}" 2>"$out/server.log"; }
keep=${SERVER[1]}  # the server lives as long as this stays open
if ! read -r -t 120 address <&"${SERVER[0]}"; then
    echo "the model did not load; see $out/server.log" >&2
    exit 1
fi
"$python" -m aish eval "$bfcl"/bfcl_simple.jsonl "$bfcl"/bfcl_multiple.jsonl "$bfcl"/bfcl_irrelevance.jsonl \
    train/held_out/held_out_calls.jsonl train/held_out/held_out_refusals.jsonl simple multiple irrelevance german chinese \
    --endpoint "measured=$address/v1" --model measured:smollm2 --mode constrained --limit "$limit" \
    --json "$out/eval.json" --html "$out/eval.html"
exec {keep}>&-
