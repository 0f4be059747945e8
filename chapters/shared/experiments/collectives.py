"""How fast are collectives between the devices of this machine? Over sizes, kinds and numbers of ranks."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from compile_lab.devices import ranks
from compile_lab.devices.steps import step_times_us
from compile_lab.measure.timing import summary_us
from compile_lab.simulator.collectives import Collective

from ...registry import Progress

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "send")
SIZES = {"cuda": [2**power for power in range(10, 31, 2)], "cpu": [2**10, 2**16, 2**20]}
"""Bytes of the whole tensor: what an all-reduce adds up, an all-gather makes, a reduce-scatter is given."""
SAMPLES = {"cuda": 9, "cpu": 5}


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """Time and bandwidth of each kind and size on 2, 4 and 8 ranks, as plain JSON values. A minute on four GPUs.

    Returns ``{"groups": [{"ranks", "rows": [{"kind", "nbytes", "median_us", "low_us", "high_us", "algorithm_gb_s",
    "bus_gb_s"}]}]}``. Algorithm bandwidth is the tensor's bytes over the time; bus bandwidth is what each rank sends on
    a ring over the time, which a link's rate bounds whatever the number of ranks. ``send`` is from rank 0 to rank 1.
    """
    groups = []
    for n in progress(sizes_of_groups(device)):
        backend = "nccl" if device == "cuda" else "gloo"
        first, *_ = ranks.run(rows, n, device, KINDS, SIZES[device], timeout=150, backend=backend)
        groups.append({"ranks": n, "rows": first})
    return {"groups": groups}


def sizes_of_groups(device: str) -> list[int]:
    """2, 4 and 8, as far as there are GPUs; 2 on a CPU."""
    there = torch.cuda.device_count() if device == "cuda" else 2
    return [n for n in (2, 4, 8) if n <= there]


def rows(device: str, kinds: Sequence[str], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of `record` for these kinds and sizes, between the ranks that run; every rank calls it."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # torch 2.13 renames two of these, and 2.11 has only the old names
        return [_row(kind, nbytes, device) for kind in kinds for nbytes in sizes]


def _row(kind: str, nbytes: int, device: str) -> dict[str, Any]:
    n, call = dist.get_world_size(), _call(kind, nbytes, device)
    repeats = max(2, min(50, 2**28 // nbytes))  # the same on every rank

    def calls_in_a_row() -> None:
        for _ in range(repeats):
            call()

    times = step_times_us({kind: calls_in_a_row}, device, SAMPLES[device], warm_up=1)[kind]
    taken = summary_us([whole / repeats for whole, _ in times])
    per_s = 1e6 / taken["median_us"]
    sent = Collective(kind, "world", n, 1, nbytes).sent_nbytes
    bandwidths = {"algorithm_gb_s": nbytes * per_s / 1e9, "bus_gb_s": sent * per_s / 1e9}
    return {"kind": kind, "nbytes": nbytes, **taken, **bandwidths}


def _call(kind: str, nbytes: int, device: str) -> Callable[[], Any]:
    n, rank = dist.get_world_size(), dist.get_rank()
    whole, part = (torch.zeros(nbytes // 4 // share, device=device) for share in (1, n))
    if kind == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    if kind == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    if rank > 1:
        return lambda: None
    return (lambda: dist.send(whole, dst=1)) if rank == 0 else (lambda: dist.recv(whole, src=0))
