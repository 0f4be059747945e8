"""What does a call of compiled code cost besides its kernels? Guards, the wrapper around them, and ways to skip them.

Two questions, two measurements. ``guard_costs`` takes code whose graph does nothing, so that all that is left is what
surrounds a graph. ``call_costs`` takes real code, and the ways to call it that torch offers.
On a CPU the clock is the thread's own CPU time, which a busy neighbour does not change; on a GPU it is the time from a
call on an idle device until the call returns, whether or not the device is done.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from compile_lab._torch.dynamo import compiled_anew
from compile_lab._torch.packages import packaged, unpacked
from compile_lab.capture import GuardTree, compilation
from compile_lab.doors import check_whole, door
from compile_lab.dynamo.guards import guards_of
from compile_lab.measure.timing import samples_us, summary_us
from compile_lab.recordings import RecordedRow

from ..experiment import OUT_OF_TIME, reason

WIDTH, ROWS = 16, 4
SAMPLES, SAMPLE_S = 15, 0.005
COUNTS = (1, 12, 48, 200)
FILTERS = {
    "inputs guarded only": "keep_tensor_guards_unsafe",
    "torch's own modules unguarded": "skip_guard_on_inbuilt_nn_modules_unsafe",
    "no guards made": "skip_all_guards_unsafe",
}
"""Ways to choose which guards are made: names of torch.compiler's filters; a torch without one leaves the way out."""
CHECKED, SKIPPED, BARE = "all guards", "guards skipped", "no guards made"
GUARD_WAYS = (CHECKED, SKIPPED, *FILTERS)
CALL_WAYS = ("eager", "compiled", SKIPPED, "CUDA graphs", "CUDA graphs, guards skipped", "aot_compile", "AOTInductor")


class LayerChain(nn.Module):
    """So many Linear(16, 16) with relu, a Python number and a Python switch: [rows, 16] -> [rows, 16]."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count))
        self.scale, self.negative = 2.0, False

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x)) * self.scale
        return -x if self.negative else x


def added(*tensors: Tensor) -> Tensor:
    """The sum of tensors of one shape, of the first twice: a function of as many inputs as it is given."""
    total = tensors[0] * 2
    for each in tensors[1:]:
        total = total + each
    return total


@dataclass(frozen=True)
class CallCost(RecordedRow):
    """What one call costs, in microseconds: the median of the samples, and their quartiles.

    ``way`` is how it was called; ``modules`` or ``inputs`` is what was varied (the other is 0 or 1); ``guards`` were
    made for it, None where there is no such thing. What came to no end has no times, and ``stopped`` says why.
    """

    way: str
    modules: int
    inputs: int
    guards: int | None = None
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    stopped: str = ""


@dataclass(frozen=True)
class GuardFit:
    """A straight line through what guards add to a call: ``base_us`` and ``us_per_guard``; ``r2`` is how well it fits.

    ``points``: guards, and microseconds that a call takes more than one for which no guards were made.
    """

    us_per_guard: float
    base_us: float
    r2: float
    points: tuple[tuple[int, float], ...]


@door
def guard_costs(
    modules: Iterable[int] = COUNTS,
    inputs: Iterable[int] = COUNTS,
    samples: int = SAMPLES,
) -> list[CallCost]:
    """CPU time of a call whose graph does nothing, against the number of layers, and against the number of inputs.

    Each of ``GUARD_WAYS`` that this torch offers; most of the time it takes is Dynamo's, for the largest.
    Raises ValueError for counts below 1 and for fewer than 2 samples.
    """
    modules, inputs = list(modules), list(inputs)
    _check(modules + inputs, (), (), samples)
    offered = [way for way in GUARD_WAYS if way not in FILTERS or hasattr(torch.compiler, FILTERS[way])]
    made = [[way for way in (CHECKED, SKIPPED) if way in offered], *[[way] for way in offered if way in FILTERS]]
    steps = [(what, count) for what, counts in (("modules", modules), ("inputs", inputs)) for count in counts]
    return [
        cost
        for what, count, together in [(*step, together) for step in steps for together in made if together]
        for cost in _guard_costs(what == "modules", count, together, samples)
    ]


@door
def call_costs(
    modules: Iterable[int] = (1, 12),
    ways: Iterable[str] = ("eager", "compiled", SKIPPED),
    device: str = "cpu",
    samples: int = SAMPLES,
    until: float = float("inf"),
) -> list[CallCost]:
    """What a call of a `LayerChain` costs the host, in each way of ``CALL_WAYS`` that was asked for.

    A way that fails is told with what stopped it; none is begun after ``until`` (of time.monotonic). Compiling takes
    about three seconds a way and dozen of layers. Raises ValueError for an unknown way or device, counts below 1,
    fewer than 2 samples.
    """
    modules, ways = list(modules), list(ways)
    _check(modules, ways, CALL_WAYS, samples)
    if device not in ("cpu", "cuda"):
        raise ValueError(f'device is {device!r}: it is "cpu" or "cuda"')
    rows = []
    for count, way in [(count, way) for count in modules for way in ways]:
        if way.startswith("CUDA graphs") and device != "cuda":
            continue
        if time.monotonic() > until:
            rows.append(CallCost(way, count, 1, stopped=OUT_OF_TIME))
            continue
        try:
            rows.append(_call_cost(count, way, device, samples))
        except Exception as error:  # a way that this torch or this machine lacks is part of the answer
            rows.append(CallCost(way, count, 1, stopped=reason(error)))
    return rows


@door
def per_guard(costs: Iterable[CallCost]) -> GuardFit:
    """Microseconds that one more guard adds: a straight line through what a call takes beyond one without guards.

    Both were called with the same layers or inputs, so the wrapper and the fetching of parameters are in both, and what
    is left is the guards' own. Raises ValueError where there are fewer than three such pairs.
    """
    found = {(c.way, c.modules, c.inputs): (c.guards, c.median_us) for c in costs if c.median_us is not None}
    points = [
        (guards, median_us - found[BARE, modules, inputs][1])
        for (way, modules, inputs), (guards, median_us) in found.items()
        if way == CHECKED and guards is not None and (BARE, modules, inputs) in found
    ]
    if len({guards for guards, _ in points}) < 3:
        raise ValueError(
            f"{len(points)} pairs of {CHECKED!r} and {BARE!r}: a line needs three different numbers of guards; measure "
            "both ways with guard_costs at three sizes or more"
        )
    guards, times = zip(*points, strict=True)
    slope, base = statistics.linear_regression(guards, times)
    r2 = statistics.correlation(guards, times) ** 2
    return GuardFit(slope, base, r2, tuple(sorted(points)))


def _guard_costs(by_modules: bool, count: int, ways: Sequence[str], samples: int) -> list[CallCost]:
    """One compilation, called in each of the ways: those of a filter stand alone, checked and skipped together."""
    fn = LayerChain(count).eval() if by_modules else added
    args = [torch.ones(ROWS, WIDTH) for _ in range(1 if by_modules else count)]
    chosen = [{"guard_filter_fn": getattr(torch.compiler, FILTERS[way])} for way in ways if way in FILTERS]
    costs = []
    with compiled_anew(), torch.no_grad():
        compiled = torch.compile(fn, backend=_does_nothing, options=chosen[0] if chosen else None)
        guards = _guards(lambda: compiled(*args))
        for way in ways:
            with skipping(way == SKIPPED):
                times = host_us(lambda: compiled(*args), "cpu", samples)
            median_us, low_us, high_us = summary_us(times).values()
            costs.append(CallCost(way, count * by_modules, len(args), guards, median_us, low_us, high_us))
    return costs


def _does_nothing(module: Any, _: Any, **options: Any) -> Callable[..., tuple[Any]]:
    """A backend whose code gives back the last of its inputs."""
    return lambda *given: (given[-1],)


def _call_cost(count: int, way: str, device: str, samples: int) -> CallCost:
    torch.manual_seed(0)
    model = LayerChain(count).to(device).eval()
    x = torch.ones(ROWS, WIDTH, device=device)
    with compiled_anew(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        call = _called(model, x, way, Path(folder) / "chain.pt2")
        guards = None if way in ("eager", "AOTInductor") else _guards(call) if way != "aot_compile" else None
        for _ in range(3 if way.startswith("CUDA graphs") else 1):
            call()
        with skipping(way.endswith(SKIPPED)):
            if not torch.allclose(call(), model(x), atol=1e-5):
                raise RuntimeError(f"{way} gives another answer than eager")
            median_us, low_us, high_us = summary_us(host_us(call, device, samples)).values()
            return CallCost(way, count, 1, guards, median_us, low_us, high_us)


def _called(model: LayerChain, x: Tensor, way: str, file: Path) -> Callable[[], Tensor]:
    """A call of the model in that way, compiled where that is done ahead of time."""
    if way == "eager":
        return lambda: model(x)
    if way == "AOTInductor":
        package = unpacked(packaged(torch.export.export(model, (x,)), file))
        return lambda: package(x)
    if way == "aot_compile":
        module: Any = torch.compile(model, fullgraph=True)  # which torch types as a function
        ahead = module.forward.aot_compile(((x,), {}))
        return lambda: ahead(model, x)
    compiled = torch.compile(model, mode="reduce-overhead" if way.startswith("CUDA graphs") else None)
    return lambda: compiled(x)


def _guards(call: Callable[[], Any]) -> int:
    """How many guards the first call makes; NotCompiledError if nothing compiled ran."""
    with compilation(use_caches=True) as log:
        call()
    log.require_compiled()
    return sum(len(guards_of(tree)) for tree in log.of(GuardTree))


@contextmanager
def skipping(guards: bool) -> Iterator[None]:
    """While the block runs, guards stay unchecked (torch's unsafe stance), if that is wanted."""
    stance = torch.compiler.set_stance("default", skip_guard_eval_unsafe=True) if guards else nullcontext()
    with stance:
        yield


def host_us(call: Callable[[], Any], device: str, samples: int = SAMPLES) -> list[float]:
    """Microseconds of the host's time a call, a figure for each sample: see the module for which clock."""
    if device != "cpu":
        return samples_us(call, device, samples, from_idle=True)

    def in_a_row(repeats: int) -> float:
        start = time.thread_time()
        for _ in range(repeats):
            call()
        return (time.thread_time() - start) / repeats * 1e6

    in_a_row(3)
    repeats = max(1, min(2000, int(SAMPLE_S * 1e6 / max(in_a_row(3), 0.1))))
    return [in_a_row(repeats) for _ in range(samples)]


def _check(counts: Sequence[int], ways: Sequence[str], known: Sequence[str], samples: int) -> None:
    for count in counts:
        check_whole("a number of modules or inputs", count, most=1000)
    check_whole("samples", samples, least=2)
    if unknown := [way for way in ways if way not in known]:
        raise ValueError(f"no way is called {unknown[0]!r}; there is {', '.join(map(repr, known))}")
