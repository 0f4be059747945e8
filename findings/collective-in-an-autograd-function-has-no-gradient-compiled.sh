#!/usr/bin/env bash
# Expected: A torch.autograd.Function whose forward fills a tensor by a collective, and whose backward does the same the
#   other way round, has the gradient that its backward writes, compiled or not. Dynamo takes it whole (fullgraph=True).
# Happens: Compiled by torch 2.11, even by the backend "eager", the result is right and the gradient of everything before
#   the collective is exactly zero: the backward never runs, and nothing is said. Eager mode and torch 2.13 have it.
# Versions: torch==2.11.0, numpy==2.4.6
# Matters: This is how exchanges of expert parallel and Ulysses, and gathers of context parallel, are written in many
#   programs. Layers before the exchange stop learning under torch.compile, with a loss that looks healthy. Colab has
#   torch 2.11. The way out there is the functional collective with a gradient (all_to_all_single_autograd).
# Source: deepspeedai/DeepSpeed#8491 met it in Ulysses attention; here it is for four collectives, and in torch alone.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.11.0 numpy==2.4.6
cd "$work"

cat > exchange.py <<'PYTHON'
import sys

import torch
import torch.distributed as dist


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def by(collective):
    class Exchanged(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            collective(out, x)
            return out

        @staticmethod
        def backward(ctx, gradient):
            out = torch.empty_like(gradient)
            collective(out, gradient.contiguous())
            return out

    return Exchanged.apply


COLLECTIVES = {
    "all_to_all_single": lambda out, x: dist.all_to_all_single(out, x),
    "all_gather_into_tensor": lambda out, x: dist.all_gather_into_tensor(out, x),
    "reduce_scatter_tensor": lambda out, x: dist.reduce_scatter_tensor(out, x),
    "all_reduce": lambda out, x: (out.copy_(x), dist.all_reduce(out)),
}

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
print("torch", torch.__version__, "| one process, so that each collective is a copy")
for name, collective in COLLECTIVES.items():
    exchanged, found = by(collective), {}

    def loss(x):
        return exchanged(2 * x).square().sum()  # of ones: 4 each, and a gradient of 8 each

    for backend in (None, "eager", "aot_eager"):
        torch._dynamo.reset()
        x = torch.ones(4, requires_grad=True)
        value = (torch.compile(loss, backend=backend, fullgraph=True) if backend else loss)(x)
        value.backward()
        found[backend or "not compiled"] = value.item(), x.grad.tolist()
    print(f"{name}: loss and gradient of x", found)
    check(found["not compiled"] == (16.0, [8.0] * 4), f"{name} is another thing in eager mode")
    for backend in ("eager", "aot_eager"):
        check(found[backend] == (16.0, [0.0] * 4), f"{name}, backend {backend}, no longer loses the gradient")
dist.destroy_process_group()
PYTHON
OMP_NUM_THREADS=1 "$work/venv/bin/python" exchange.py "$work/store"
