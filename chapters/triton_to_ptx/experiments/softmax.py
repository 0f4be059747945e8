"""How near to the speed of a copy does a softmax come: eager, generated, written by hand? Tuned against tuned.

A softmax must read every element once and write one for each. A copy does just that and nothing else, so the fastest
copy of the same bytes, measured in the same run, is the limit that all are held against.

Inductor's kernel is measured as it comes, autotuned, and in the other forms that it can write: with a loop more, and
with the row kept in registers. Each form is also launched at 1 to 16 warps a row, as the hand-written kernel is, so
that two kernels can be compared with the same number of warps.
"""

import random
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab._torch.inductor import launched_kernels
from compile_lab.capture import KernelsWritten, compilation
from compile_lab.measure.judge import largest_error
from compile_lab.measure.kernels import kernel_times
from compile_lab.measure.timing import durations_ms, summary_us, sustained_ms

from ...experiment import reason
from ...registry import Progress

SHAPE = {"cuda": (65_536, 4_096), "cpu": (64, 4_096)}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
ERROR_EVERY = 16  # rows that are compared with float64: a GPU with 16 GB has no room for all of them
ROUNDS = 6
REPEATS = 10
"""Calls in a round: in each round all take their turn, in an order that is drawn anew."""

TUNED = {"max_autotune": True, "coordinate_descent_tuning": True}
TWO_LOOPS: dict[str, Any] = {}
THREE_LOOPS = {"online_softmax": False}
ROW_KEPT = {"triton.multi_kernel": 1}
FAST_EXP = {**ROW_KEPT, "use_fast_math": True}
GENERATED = {
    "two loops": TWO_LOOPS,
    "two loops, autotuned": {**TWO_LOOPS, "max_autotune": True},
    "two loops, tuned": {**TWO_LOOPS, **TUNED},
    "three loops": THREE_LOOPS,
    "three loops, tuned": {**THREE_LOOPS, **TUNED},
    "row kept": ROW_KEPT,
    "row kept, tuned": {**ROW_KEPT, **TUNED},
    "row kept, fast exp, tuned": {**FAST_EXP, **TUNED},
}
"""Inductor's options by what they make it write. "two loops" is the default: the first keeps a running maximum and sum
("online softmax"). Without that it is "three loops". With ``triton.multi_kernel`` Inductor also writes the kernel that
keeps the row ("persistent", for rows up to 16 times as long), and runs what is faster; ``use_fast_math`` gives it the
exponential that the chip has. "autotuned" tries several configurations, "tuned" goes on from the best of them."""
SWEPT = {
    "two loops": "two loops",
    "three loops": "three loops",
    "row kept": "row kept",
    "row kept, fast exp": "row kept, fast exp, tuned",
}
"""Forms that are also launched at each of `WARPS`, whatever a tuner would choose: the last kernel that was written."""
WARPS = (1, 2, 4, 8, 16)

Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way to come from ``x`` to its result: ready to be called, all compiling done."""

    kind: str
    name: str
    call: Callable[[], torch.Tensor]
    kernel: dict[str, Any] | None = None


Build = Callable[[torch.Tensor], Way]


def record(
    device: str,
    progress: Progress = iter,
    *,
    dtypes: Mapping[str, torch.dtype] = DTYPES,
    generated: Mapping[str, dict[str, Any]] = GENERATED,
) -> dict[str, Any]:
    """Time and bandwidth of copies and softmaxes of a random normal [65536, 4096], in bf16 and fp32.

    Returns ``{"shape", "repeats", "left_out", "rows"}``. A row has ``dtype``; ``kind``: copy, eager, generated,
    "at set warps" (a generated kernel, launched by hand) or hand-written; ``name``; ``median_us``, ``low_us`` and
    ``high_us``: median and quartiles of the repeats, which were made in `ROUNDS` rounds of a random order;
    ``gb_per_s``: bytes read and written, by the median; ``of_copy``: that bandwidth by the fastest copy's;
    ``max_error``: largest absolute difference to the softmax in float64, and ``rounding_error``: what rounding the
    float64 result to the dtype costs by itself (both None for a copy); ``kernel``: name, configuration, registers,
    spills and shared memory of a Triton kernel as it was loaded, else None.
    ``left_out`` says what could not be measured here, and why. Two and a half minutes on a large GPU, nearly all of
    them compiling; for a try-out, fewer ``dtypes``, and fewer of Inductor's options by name in ``generated``.
    """
    steps = [(dtype, *step) for dtype in dtypes for step in _steps(device, generated)]
    samples: dict[str, torch.Tensor] = {}
    ways: dict[str, list[Way]] = {}
    left_out = [] if device == "cuda" else ["hand-written: Triton kernels run on a GPU, and there is none here"]
    for dtype, name, build in progress(steps):
        if dtype not in samples:
            samples[dtype] = _sample(device, dtypes[dtype])
        try:
            ways.setdefault(dtype, []).append(build(samples[dtype]))
        except Exception as error:  # one configuration that does not build is a result, and the others go on
            left_out.append(f"{dtype}, {name}: {reason(error)}")
    rows = [row for dtype, x in samples.items() for row in _measured(dtype, x, ways[dtype])]
    reset_dynamo()
    return {"shape": list(SHAPE[device]), "repeats": ROUNDS * REPEATS, "left_out": left_out, "rows": _with_limit(rows)}


def _sample(device: str, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(0)
    return torch.randn(SHAPE[device], device=device, dtype=dtype, generator=generator)


def _steps(device: str, generated: Mapping[str, dict[str, Any]]) -> list[tuple[str, Build]]:
    """Name and builder of every way that is tried with one dtype."""
    copies = {"copy_": lambda out, x: out.copy_(x), "x + 0": lambda out, x: torch.add(x, 0, out=out)}
    steps: list[tuple[str, Build]] = [(name, _copy_with(name, copy)) for name, copy in copies.items()]
    steps.append(("eager", lambda x: Way("eager", "eager", lambda: _eager(x))))
    written: dict[str, str] = {}
    steps += [(name, _generated_with(name, options, written)) for name, options in generated.items()]
    if device == "cuda":
        from .softmax_kernel import CONFIGURATIONS

        forms = [(form, of) for form, of in SWEPT.items() if of in generated]
        steps += [(f"{form}, {n} warps", _at_warps(form, of, n, written)) for form, of in forms for n in WARPS]
        steps += [(str(one), _hand_written_with(one)) for one in CONFIGURATIONS]
    return steps


def _eager(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _copy_with(name: str, copy: Callable[[torch.Tensor, torch.Tensor], Any]) -> Build:
    def build(x: torch.Tensor) -> Way:
        out = torch.empty_like(x)
        return Way("copy", name, lambda: copy(out, x))

    return build


def _generated_with(name: str, options: dict[str, Any], written: dict[str, str]) -> Build:
    """Compiled with these options; what Inductor wrote is put into ``written`` under the name."""

    def build(x: torch.Tensor) -> Way:
        # Dynamo keeps what it compiled with the code object, and drops the oldest of too many: each has its own.
        twin = types.FunctionType(_eager.__code__.replace(co_name="softmax"), _eager.__globals__)
        compiled = torch.compile(twin, options=options, dynamic=False)
        before = launched_kernels()
        with compilation() as log:
            compiled(x)
        log.require_compiled()
        written[name] = "".join(event.code for event in log.of(KernelsWritten))
        ran = {row["name"] for row in kernel_times(lambda _: compiled(x), [None] * 3)}
        ours = [one for one in without(launched_kernels(), before) if one["name"] in ran]
        kernel = {key: value for key, value in ours[0].items() if key != "signature"} if ours else None
        return Way("generated", name, lambda: compiled(x), kernel)

    return build


def without(kernels: list[Row], known: list[Row]) -> list[Row]:
    """The kernels that are not among those already known, each counted once."""
    kernels = list(kernels)
    for one in known:
        if one in kernels:
            kernels.remove(one)
    return kernels


_SOURCE = re.compile(r"^(\w+) = async_compile\.triton\('\w+', '''(.*?)'''", re.MULTILINE | re.DOTALL)


def triton_function(written: str) -> tuple[str, Any]:
    """Name and ``@triton.jit`` function of the last Triton kernel in a module that Inductor wrote.

    Raises ValueError if there is none.
    """
    from compile_lab.virtual_gpu.kernels import defined

    found = _SOURCE.findall(written)
    if not found:
        raise ValueError("Inductor wrote no Triton kernel here")
    name, source = found[-1]
    # Its file has a name of its own: Triton keeps what it compiled by a function's source and place.
    return name, defined(source, f"{name}_{abs(hash(source))}.py", {"__name__": "kernel"})[name].fn


def _at_warps(form: str, of: str, warps: int, written: dict[str, str]) -> Build:
    def build(x: torch.Tensor) -> Way:
        name, function = triton_function(written[of])
        rows, columns = x.shape
        blocks = {"XBLOCK": 1, "R0_BLOCK": columns}
        blocks = {block: size for block, size in blocks.items() if block in function.arg_names}

        def launch(out: torch.Tensor) -> Any:
            return function[(rows,)](x, out, rows, columns, **blocks, num_warps=warps, num_stages=1)

        def call() -> torch.Tensor:
            out = torch.empty_like(x)
            launch(out)
            return out

        kernel = {"name": name, **_loaded(launch(torch.empty_like(x)), {**blocks, "num_warps": warps, "num_stages": 1})}
        return Way("at set warps", f"{form}, {warps} warp{'s' * (warps > 1)}", call, kernel)

    return build


def _hand_written_with(configuration: Any) -> Build:
    def build(x: torch.Tensor) -> Way:
        from .softmax_kernel import launch, softmax

        chosen = {"num_warps": configuration.warps, "num_stages": configuration.stages}
        kernel = _loaded(launch(torch.empty_like(x), x, configuration), chosen)
        return Way("hand-written", str(configuration), lambda: softmax(x, configuration), kernel)

    return build


def _loaded(kernel: Any, configuration: dict[str, Any]) -> Row:
    """What the driver says of a kernel that Triton launched."""
    used = {"registers": kernel.n_regs, "spills": kernel.n_spills, "shared_nbytes": kernel.metadata.shared}
    return {"configuration": configuration, **used}


def _measured(dtype: str, x: torch.Tensor, ways: list[Way]) -> list[Row]:
    exact = x[::ERROR_EVERY].double().softmax(-1)
    rounding = largest_error(exact.to(x.dtype), exact)
    errors = [None if way.kind == "copy" else largest_error(way.call()[::ERROR_EVERY], exact) for way in ways]
    del exact
    moved, rows = 2 * x.numel() * x.element_size(), []
    for way, error, taken_us in zip(ways, errors, _in_turns(ways, x.device), strict=True):
        spread = summary_us(taken_us)
        told = {"max_error": error, "rounding_error": None if error is None else rounding, "kernel": way.kernel}
        rows.append({"dtype": dtype, "kind": way.kind, "name": way.name, **spread})
        rows[-1] |= {"gb_per_s": round(moved / spread["median_us"] / 1e3, 1), **told}
    return rows


def _in_turns(ways: list[Way], device: torch.device) -> list[list[float]]:
    """Microseconds of each way's calls, on a device that has been at work for 0.3 s before the first round."""
    sustained_ms(ways[0].call, device)
    drawn = random.Random(0)
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for at in drawn.sample(range(len(ways)), len(ways)):
            taken[at] += [ms * 1e3 for ms in durations_ms(ways[at].call, device, REPEATS)]
    return taken


def _with_limit(rows: list[Row]) -> list[Row]:
    def limit_us(dtype: str) -> float:
        return min(row["median_us"] for row in rows if (row["dtype"], row["kind"]) == (dtype, "copy"))

    return [{**row, "of_copy": round(limit_us(row["dtype"]) / row["median_us"], 4)} for row in rows]
