#!/usr/bin/env bash
# Expected: A maximum over ranks is NaN where one rank has NaN, as torch.maximum, amax and the norms have it on one
#   device.
# Happens: gloo's all_reduce with MAX or MIN compares and keeps: whether NaN survives depends on the rank that has it
#   and on the element's place in the buffer. So a DTensor's amax, and clip_grad_norm_ with norm_type=inf over sharded
#   gradients, return a finite number for a gradient with NaN, and error_if_nonfinite=True does not raise. The same
#   NaN on another rank is found.
# Versions: torch==2.13.0, numpy==2.4.6
# Matters: Checks for exploded gradients and dynamic loss scales use exactly this maximum (amax, infinity norm); on
#   most ranks the NaN passes and goes into the optimizer. SUM, so the 2-norm, finds it on every rank.
# Source: none found for gloo; ml-explore/mlx#4072 (open) is the same in another library.
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cd "$work"

cat > ranks.py <<'PYTHON'
import math
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = 3


def check(holds, what):
    if not holds:
        raise SystemExit(f"changed: {what}")


def finds(gradient, norm_type):
    """Whether clipping notices that the gradient is not finite."""
    weight = torch.nn.Parameter(torch.ones_like(gradient))
    weight.grad = gradient
    try:
        torch.nn.utils.clip_grad_norm_([weight], 1.0, norm_type=norm_type, error_if_nonfinite=True)
    except RuntimeError:
        return True
    return False


def run(rank, store):
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    reduced, largest, by_inf, by_two = [], [], [], []
    for owner in range(RANKS):
        values = torch.full((RANKS,), math.nan if rank == owner else float(rank))
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        reduced.append(values.tolist())
        gradient = torch.ones(2 * RANKS, 4)
        gradient[2 * owner] = math.nan
        sharded = distribute_tensor(gradient, mesh, [Shard(0)])
        largest.append(sharded.abs().amax().full_tensor().item())
        by_inf.append(finds(sharded.clone(), math.inf))
        by_two.append(finds(sharded.clone(), 2.0))
        check(math.isnan(gradient.abs().amax()) and finds(gradient, math.inf), "one device no longer finds NaN")
    dist.destroy_process_group()
    if rank:
        return
    print("torch", torch.__version__, "| one entry for each rank that has the NaN")
    print("all_reduce(MAX) of three equal elements:", reduced)
    print("amax of the sharded gradient:", largest)
    print("noticed by clip_grad_norm_, infinity norm:", by_inf, "| 2-norm:", by_two)
    flat = [math.isnan(value) for values in reduced for value in values]
    check(0 < sum(flat) < len(flat), "NaN is now always kept, or always lost, by MAX")
    check(0 < sum(map(math.isnan, largest)) < RANKS, "amax now finds NaN on every rank, or on none")
    check(0 < sum(by_inf) < RANKS, "the infinity norm now finds NaN on every rank, or on none")
    check(all(by_two), "the 2-norm no longer finds NaN")


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=RANKS)
PYTHON
OMP_NUM_THREADS=1 "$work/venv/bin/python" ranks.py "$work/store"
