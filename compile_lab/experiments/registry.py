"""What can be measured: one row for each recording, and for each row a module of that name with a function `record`."""

import functools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tqdm.auto import tqdm  # in a notebook, a bar that leaves nothing behind

from ..doors import door
from ..page.explore import PUBLISH

Progress = Callable[[Iterable[Any]], Iterable[Any]]
"""Wraps a list of steps, as tqdm does; `iter` shows nothing."""


@dataclass(frozen=True)
class Experiment:
    """What a measurement answers, and about how many seconds it takes on a large GPU.

    ``on_cpu``: it is of the CPU, on any machine; the seconds are those of two idle cores.
    """

    answers: str
    takes_s: float
    on_cpu: bool = False


EXPERIMENTS: dict[str, Experiment] = {
    "architectures": Experiment(
        "fifty architectures: does each get its whole report, how soon, is its peak the allocator's", 1500, on_cpu=True
    ),
    "backward_fusion": Experiment(
        "LayerNorm(GELU(xW+b)) and its backward over shapes, kernel by kernel; accumulation", 150
    ),
    "break_atlas": Experiment("kinds of graph break: a trigger of each and its cure, run", 20, on_cpu=True),
    "capstone": Experiment("GPT-2 124M's training step, rung by rung, and a peer's model in the same run", 560),
    "capstone_foretold": Experiment(
        "the capstone on 2, 8 and 1,024 GPUs, foretold from other recordings", 5, on_cpu=True
    ),
    "capstone_losses": Experiment("is training in fp8 the same training? long runs on text, three seeds of each", 420),
    "capstone_seeds": Experiment("the same question with six more seeds of two rungs", 370),
    "checkpointing": Experiment(
        "checkpoint strategies and memory budgets on a GPT of 24 layers: bytes, work, time, fits", 240
    ),
    "checkpointing_compiled": Experiment(
        "the same for checkpoints under torch.compile, and further memory budgets", 210
    ),
    "collectives": Experiment("all-reduce, all-gather, reduce-scatter, send between 2 to 8 GPUs", 90),
    "compile_gains": Experiment("cases in which compiling helps much or little; CUDA graphs", 110),
    "dispatch": Experiment("cost of eager dispatches: single operations, MiniGPT at growing batches", 25),
    "dtensor": Experiment(
        "every operator of torch's own tests under every DTensor placement, on real ranks", 880, on_cpu=True
    ),
    "fidelity": Experiment("kernels of this GPU against those of its virtual twin, source for source", 60),
    "flex": Experiment("attention against length: masks as functions, in a tensor, every score; time and memory", 320),
    "generated_code": Experiment("the code Inductor writes here for softmax and MiniGPT", 15),
    "graph_breaks": Experiment("time of a pointwise chain with 0 to 7 graph breaks", 30),
    "grouped": Experiment("a mixture of experts by loop and by grouped products; errors against float64", 130),
    "hangs": Experiment("programs whose ranks part ways: what torch says, what is named, and cures", 240, on_cpu=True),
    "inference": Experiment("a service that generates: prefill, decode, first requests, by mode; its roofline", 280),
    "integer_powers": Experiment("integer powers with a symbolic exponent, as compiled", 15),
    "kept_results": Experiment("a CUDA graph's result, kept while the graph is replayed", 30),
    "machine": Experiment("copy bandwidth and matrix rates of this GPU", 15),
    "memory_fits": Experiment(
        "a batch that runs out of memory: which ways of training fit it, and what they cost", 160
    ),
    "modes": Experiment("every mode of torch.compile on MiniGPT and GPT-2: compile time, time, launches", 560),
    "numerics": Experiment("eager and compiled against float64: operators, chains, training runs", 240),
    "numerics_cpu": Experiment("the same operators and chains in C++ on a CPU", 120, on_cpu=True),
    "overhead": Experiment("what a call costs the host: guards, wrappers, CUDA graphs, packages", 90),
    "overlap": Experiment("communication hidden and exposed: DDP and FSDP2 on 2, 4 and 8 GPUs", 160),
    "overlap_compiled": Experiment(
        "compiled DDP, cut at its buckets and whole; SimpleFSDP in each order of its collectives", 600
    ),
    "overlap_scheduled": Experiment("SimpleFSDP ordered by Inductor's own estimates, with buckets and without", 200),
    "patterns": Experiment("step time and peak memory of each sharding pattern on 2 to 8 GPUs", 150),
    "patterns_compiled": Experiment("the same for 1.3 B with compiled blocks, on few sequences", 180),
    "payback": Experiment("break-even predicted from two short runs, and the real crossing of two long ones", 75),
    "peaks": Experiment("peak memory predicted and measured: MiniGPT and GPT-2, eager to compiled", 120),
    "pipeline": Experiment("pipeline schedules over several GPUs: bubbles, step times and memory", 140),
    "precision": Experiment("rates, errors, casts, training steps and losses in each precision", 120),
    "regional": Experiment("a model compiled whole, by the block, by region: 2 to 48 layers, 124 M to 1.5 B", 430),
    "restarts": Experiment("GPT-2 124M's training started again: what caches hold, what changed, after a kill", 380),
    "restarts_cpu": Experiment(
        "MiniGPT's training started again: what caches hold, what changed, after a kill", 300, on_cpu=True
    ),
    "softmax": Experiment("softmax against copy: eager, generated, written by hand", 25),
    "threads": Experiment("one compiled function called from 1 to 8 threads, each way of compiling it", 150),
    "timeline": Experiment("when the host launches and when the GPU computes, kernel by kernel, in three modes", 40),
}


@door
def measure(name: str, device: str, progress: Progress = iter, **options: Any) -> dict[str, Any]:
    """What `compile_lab.experiments.<name>` measures on `device`, "cuda" or "cpu", as plain JSON values.

    The options are those of its `record`.

    Raises KeyError, naming those there are, for a name that nothing measures; ValueError for another device.
    """
    require(name)
    if device not in ("cuda", "cpu"):
        raise ValueError(f'device is {device!r}: it is "cuda" or "cpu"')
    return import_module(f"compile_lab.experiments.{name}").record(device, progress, **options)


def require(*names: str) -> None:
    """Raises KeyError, naming those there are, for names that nothing measures."""
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        known = ", ".join(EXPERIMENTS)
        raise KeyError(f"nothing measures {', '.join(map(repr, unknown))}; there is {known}: give one of these names")


@door
def progress(description: str) -> Progress:
    """A tqdm that goes away when it is done, and that a published notebook does not show."""
    silent = os.environ.get(PUBLISH) == "1"
    return functools.partial(tqdm, desc=description, file=sys.stderr, leave=False, disable=silent)
