"""How near to the speed of a copy does a softmax come: eager, generated, written by hand?

A softmax must read every element once and write one for each. A copy does just that and nothing else, so the fastest
copy of the same bytes, measured in the same run, is the limit that all are held against.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .._torch.dynamo import reset_dynamo
from .._torch.inductor import launched_kernels
from ..capture import KernelsWritten, compilation
from ..measure.judge import largest_error
from ..measure.timing import REPEATS, spread_us, sustained_ms
from .registry import Progress

SHAPE = {"cuda": (65_536, 4_096), "cpu": (64, 4_096)}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
ERROR_EVERY = 16  # rows that are compared with float64: a GPU with 16 GB has no room for all of them
# Inductor by default keeps a running maximum and sum ("online softmax"); without, it passes over the row once more.
GENERATED = {"Inductor": {}, "Inductor, not online": {"online_softmax": False}}

Row = dict[str, Any]


def record(
    device: str,
    progress: Progress = iter,
    *,
    dtypes: Mapping[str, torch.dtype] = DTYPES,
    generated: Mapping[str, dict[str, Any]] = GENERATED,
) -> dict[str, Any]:
    """Time and bandwidth of copies and softmaxes of a random normal [65536, 4096], in bf16 and fp32.

    Returns ``{"shape", "repeats", "left_out", "rows"}``. A row has ``dtype``; ``kind``: copy, eager, generated or
    hand-written; ``name``; ``median_us``, ``low_us`` and ``high_us``: median and quartiles of the repeats;
    ``gb_per_s``: bytes read and written, by the median; ``of_copy``: that bandwidth by the fastest copy's;
    ``max_error``: largest absolute difference to the softmax in float64, and ``rounding_error``: what rounding the
    float64 result to the dtype costs by itself (both None for a copy); ``kernel``: configuration, registers, spills
    and shared memory of a Triton kernel as it was loaded, else None.
    ``left_out`` says what could not be measured here, and why. Half a minute on a large GPU; for a try-out, fewer
    ``dtypes``, and fewer of Inductor's options by name in ``generated``.
    Raises RuntimeError if the compiled code did not run.
    """
    steps = [(name, one) for name in dtypes for one in _tried(device, generated)]
    samples: dict[str, torch.Tensor] = {}
    rows: list[Row] = []
    for dtype, (kind, name, measure) in progress(steps):
        if dtype not in samples:
            samples = {dtype: _sample(device, dtypes[dtype])}  # one at a time: each is up to 1 GiB
        rows.append({"dtype": dtype, "kind": kind, "name": name, **measure(samples[dtype])})
    reset_dynamo()
    left_out = [] if device == "cuda" else ["hand-written: Triton kernels run on a GPU, and there is none here"]
    return {"shape": list(SHAPE[device]), "repeats": REPEATS, "left_out": left_out, "rows": _with_limit(rows)}


def _sample(device: str, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(0)
    return torch.randn(SHAPE[device], device=device, dtype=dtype, generator=generator)


def _tried(
    device: str, generated: Mapping[str, dict[str, Any]]
) -> list[tuple[str, str, Callable[[torch.Tensor], Row]]]:
    """Kind, name and measurement of everything that is tried with one dtype."""
    copies = {"copy_": lambda out, x: out.copy_(x), "x + 0": lambda out, x: torch.add(x, 0, out=out)}
    tried = [("copy", name, _copy_with(copy)) for name, copy in copies.items()]
    tried.append(("eager", "eager", lambda x: _measured(_eager, x)))
    tried += [("generated", name, _generated_with(options)) for name, options in generated.items()]
    if device == "cuda":
        from .softmax_kernel import CONFIGURATIONS

        tried += [("hand-written", str(one), _hand_written_with(one)) for one in CONFIGURATIONS]
    return tried


def _eager(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _copy_with(copy: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[torch.Tensor], Row]:
    def measure(x: torch.Tensor) -> Row:
        out = torch.empty_like(x)
        return _timed(lambda: copy(out, x), x) | {"max_error": None, "rounding_error": None, "kernel": None}

    return measure


def _generated_with(options: dict[str, Any]) -> Callable[[torch.Tensor], Row]:
    def measure(x: torch.Tensor) -> Row:
        reset_dynamo()
        compiled = torch.compile(_eager, options=options)
        with compilation() as log:
            compiled(x)
        log.require_compiled()
        written = "".join(event.code for event in log.of(KernelsWritten))
        ours = [one for one in launched_kernels() if one["name"] in written and one.pop("signature") in written]
        return _measured(compiled, x) | {"kernel": ours[-1] if ours else None}

    return measure


def _hand_written_with(configuration: Any) -> Callable[[torch.Tensor], Row]:
    def measure(x: torch.Tensor) -> Row:
        from .softmax_kernel import launch, softmax

        loaded = launch(torch.empty_like(x), x, configuration)
        kernel = {
            "configuration": {"num_warps": configuration.warps, "num_stages": configuration.stages},
            "registers": loaded.n_regs,
            "spills": loaded.n_spills,
            "shared_nbytes": loaded.metadata.shared,
        }
        return _measured(lambda x: softmax(x, configuration), x) | {"kernel": kernel}

    return measure


def _measured(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Row:
    exact = x[::ERROR_EVERY].double().softmax(-1)
    errors = {
        "max_error": largest_error(call(x)[::ERROR_EVERY], exact),
        "rounding_error": largest_error(exact.to(x.dtype), exact),
    }
    del exact
    return _timed(lambda: call(x), x) | errors | {"kernel": None}


def _timed(call: Callable[[], Any], x: torch.Tensor) -> Row:
    taken_us = [one * 1e3 for one in sustained_ms(call, x.device)]
    moved, spread = 2 * x.numel() * x.element_size(), spread_us(taken_us)
    return spread | {"gb_per_s": round(moved / spread["median_us"] / 1e3, 1)}


def _with_limit(rows: list[Row]) -> list[Row]:
    def limit_us(dtype: str) -> float:
        return min(row["median_us"] for row in rows if (row["dtype"], row["kind"]) == (dtype, "copy"))

    return [{**row, "of_copy": round(limit_us(row["dtype"]) / row["median_us"], 4)} for row in rows]
