#!/usr/bin/env bash
# Expected: grouped_mm(...).sum().backward() works, as it does for every other matrix product of torch.
# Happens: It raises "Invalid strides/sizes, got [0, 0] for strides", in eager mode and compiled by Inductor: the gradient
#   of sum() is one number, expanded, and grouped_mm's backward takes no expanded gradient. After mean(), square().sum(),
#   or a cast of bf16 it works; after float(), which changes nothing in float32, it does not.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: sum().backward() is how one tries a layer for the first time, and the error names strides that no line of the
#   program has. `(y * 1).sum()` or a real loss is the way out.
# Source: seen while chapter 16 was written; torch 2.11.0, 2.14.1 and 2.15.0 do the same.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

OMP_NUM_THREADS=1 "$work/venv/bin/python" - <<'PYTHON'
import torch
from torch.nn.functional import grouped_mm


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def backward(loss, product=grouped_mm, dtype=torch.float32):
    torch.manual_seed(0)
    x = torch.randn(64, 32, dtype=dtype, requires_grad=True)
    w = torch.randn(4, 32, 16, dtype=dtype, requires_grad=True)
    ends = torch.tensor([16, 32, 48, 64], dtype=torch.int32)
    try:
        loss(product(x, w, offs=ends)).backward()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "works"


def one_by_one(x, w, offs):
    return torch.cat([rows @ each for rows, each in zip(x.split(16), w)])


losses = {
    "sum": lambda y: y.sum(),
    "float, then sum": lambda y: y.float().sum(),
    "mean": lambda y: y.mean(),
    "square, then sum": lambda y: y.square().sum(),
    "times one, then sum": lambda y: (y * 1).sum(),
}
print("torch", torch.__version__)
seen = {}
for dtype in (torch.float32, torch.bfloat16):
    for name, loss in losses.items():
        seen[dtype, name] = backward(loss, dtype=dtype)
        print(dtype, "|", name, "|", seen[dtype, name])
refused = {(torch.float32, "sum"), (torch.float32, "float, then sum"), (torch.bfloat16, "sum")}
check({case for case, what in seen.items() if "Invalid strides" in what} == refused, "other losses are refused")
check(all(what == "works" for case, what in seen.items() if case not in refused), "another loss fails")
check(all(backward(loss, one_by_one) == "works" for loss in losses.values()), "the products one by one fail")
PYTHON
