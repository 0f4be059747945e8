#!/usr/bin/env bash
# Expected: FlopCounterMode counts scaled_dot_product_attention wherever it runs; a dropout or another width of the values
#   changes the kernel and not the count of the two products.
# Happens: On a CPU the usual kernel is not among the counted operators, and attention costs nothing: 0 at any length.
#   With dropout, with another width of values, with the math backend, or on the meta device, it is counted.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: A model's FLOPs measured on a laptop lack all attention, which is most of a long sequence; and dropout=0.1
#   against 0 seems to make a model several times as expensive.
# Source: pytorch#195460; the formulas of #195801 came after this version.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention
from torch.utils.flop_counter import FlopCounterMode


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def flops(length=128, device="cpu", values=16, **options):
    q, v = torch.randn(2, 4, length, 16, device=device), torch.randn(2, 4, length, values, device=device)
    with FlopCounterMode(display=False) as counter:
        attention(q, q, v, **options)
    return counter.get_total_flops()


by_hand = 2 * 2 * (2 * 4 * 128 * 128 * 16)
with sdpa_kernel(SDPBackend.MATH):
    math = flops()
print("torch", torch.__version__, "| two products of 128 x 128 x 16, 8 heads, by hand:", by_hand)
print("cpu:", flops(), "| cpu, length 1024:", flops(1024), "| causal:", flops(is_causal=True))
print("dropout:", flops(dropout_p=0.1), "| math backend:", math, "| meta device:", flops(device="meta"))
print("values half as wide:", flops(values=8))
check(flops() == flops(1024) == flops(is_causal=True) == 0, "attention on the CPU is now counted")
check(flops(dropout_p=0.1) == math == flops(device="meta") == by_hand, "the other ways no longer count the products")
check(flops(values=8) == by_hand * 3 // 4, "values of another width are no longer counted")
PYTHON
