#!/usr/bin/env bash
# Expected: TORCHDYNAMO_REPRO_AFTER=dynamo with TORCHDYNAMO_REPRO_LEVEL=4, torch's accuracy minifier, runs each graph of
#   Dynamo's in eager mode and compiled by Inductor, and compares the results.
# Happens: Its call of Inductor's code passes the inputs as one list, and the code takes them one by one. The call fails
#   for every graph; the error is logged as "likely an unrelated issue", the graph is skipped and counts as right.
# Versions: torch==2.13.0, numpy==2.4.6 (the same in 2.11.0, 2.14.1 and 2.15.0)
# Matters: Whoever looks for a wrong result in this way finds nothing, whatever is wrong. TORCHDYNAMO_REPRO_AFTER=aot
#   does compare.
# Source: torch/_dynamo/debug_utils.py, run_fwd_maybe_bwd, which asks for _boxed_call.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

cat > program.py <<'PYTHON'
import torch


def step(x):
    return (x * 2 + 1).sin()


x = torch.ones(4)
print("torch", torch.__version__, "eager and compiled agree:", torch.allclose(torch.compile(step)(x), step(x)))
PYTHON

for after in dynamo aot; do
  OMP_NUM_THREADS=1 TORCHDYNAMO_REPRO_AFTER=$after TORCHDYNAMO_REPRO_LEVEL=4 \
    TORCHINDUCTOR_CACHE_DIR="$work/$after" "$work/venv/bin/python" program.py > "$after.txt" 2>&1
  printf '%s: graphs skipped: %s, of the error: %s\n' "$after" "$(grep -c 'Skipping this graph' "$after.txt" || true)" \
    "$(grep -o "AttributeError.*" "$after.txt" | head -n 1 || true)"
  grep '^torch' "$after.txt"
done

grep -q "Skipping this graph" dynamo.txt || { echo "changed: after Dynamo the graph is no longer skipped"; exit 1; }
grep -q "'list' object has no attribute" dynamo.txt || { echo "changed: it is skipped for another reason"; exit 1; }
! grep -q "Skipping this graph" aot.txt || { echo "changed: after AOTAutograd the graph is skipped, too"; exit 1; }
