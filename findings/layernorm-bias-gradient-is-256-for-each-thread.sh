#!/usr/bin/env bash
# Expected: The gradient of a LayerNorm's bias adds up all rows; with float32 weights it is a float32 sum if the input
#   is bfloat16 too, as that of GroupNorm, BatchNorm or Linear is. The number of threads changes the last digit.
# Happens: On a CPU it is added up in bfloat16, one sum for each thread. 1,000 rows of ones give 256 with one thread and
#   512 with two, in a float32 tensor as well. float16 stops at 2048 a thread. GroupNorm gives 1,000.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: A one-sided gradient over more than some hundred tokens loses most of its sum, in every LayerNorm, by an amount
#   that depends on OMP_NUM_THREADS; a reference computed on a CPU is wrong by as much.
# Source: none found.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def bias_gradient(norm, dtype, weights, threads, rows=1000):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    norm = norm.to(weights)
    norm(torch.randn(rows, 4).to(dtype)).sum().backward()
    return norm.bias.grad[0].item()


bfloat16, float16, float32 = torch.bfloat16, torch.float16, torch.float32
one = bias_gradient(torch.nn.LayerNorm(4), bfloat16, bfloat16, 1)
mixed = [bias_gradient(torch.nn.LayerNorm(4), bfloat16, float32, threads) for threads in (1, 2)]
half = bias_gradient(torch.nn.LayerNorm(4), float16, float16, 1, rows=5000)
group = bias_gradient(torch.nn.GroupNorm(1, 4), bfloat16, float32, 1)
wide = bias_gradient(torch.nn.LayerNorm(4), float32, float32, 1)
print("torch", torch.__version__, "| bias gradient of 1,000 rows, each of which adds 1")
print("LayerNorm in float32:", wide, "| GroupNorm, bfloat16 data, float32 weights:", group)
print("LayerNorm in bfloat16:", one, "| bfloat16 data, float32 weights:", mixed[0], "and with two threads", mixed[1])
print("LayerNorm in float16, 5,000 rows:", half)
check(wide == group == 1000, "LayerNorm in float32 or GroupNorm no longer adds up 1,000")
check(one == mixed[0] == 256, "one thread no longer stops at 256")
check(mixed[1] in (256, 512), "two threads no longer stop at 256 each")
check(half == 2048, "float16 no longer stops at 2048")
PYTHON
