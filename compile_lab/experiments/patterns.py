"""What does each sharding pattern cost on real devices? Step time and peak memory a rank, beside the plan's."""

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch

from ..devices import ranks
from ..devices.steps import step_times_us
from ..measure.allocator import peak
from ..measure.timing import spread_us
from ..simulator.host import HostRates
from ..simulator.meshes import PATTERNS
from ..simulator.patterns import Plan, plan
from ..simulator.recommendation import Network, compute_s, estimate, traffic_s
from . import subjects
from .collectives import sizes_of_groups
from .registry import Progress

SEQUENCES = {
    "cuda": [("GPT-2 124M", 4), ("GPT-2 124M", 32), ("1.3 B", 4), ("1.3 B", 16)],
    "cpu": [("small", 2), ("small", 4)],
}
"""Models, each with few sequences of a step for each device and with many."""
COMPILED = {"cuda": [("1.3 B", 4)], "cpu": [("small", 2)]}
ISSUED, WORKED = ("1.3 B", 4), ("1.3 B", 16)
"""The cases from which rates are taken: of the program, and of the device. The others are foretold."""
STEPS = {"cuda": 7, "cpu": 3}
WARM_UP = 3
DTYPE = torch.bfloat16
CARD_NBYTES = 141e9


@dataclass(frozen=True)
class PatternCase:
    """A model trained by a pattern: on so many ranks, with so many sequences each, its blocks compiled or eager."""

    model: str
    sequences: int
    ranks: int
    pattern: str
    mode: str | None


def record(device: str, progress: Progress = iter, *, mode: str | None = None) -> dict[str, Any]:
    """Each pattern on each model and number of devices, as plain JSON values. Two minutes on two large GPUs.

    The models are GPT-2 124M and one of 1.3 billion parameters (on a CPU, a small one), in bf16 with AdamW. With a
    ``mode`` of torch.compile each block is compiled, for the models in `COMPILED`.

    Returns ``{"rows": [{"model", "sequences", "ranks", "pattern", "mode", "mesh", "stopped", "median_us", "low_us",
    "high_us", "issued_us", "first_peak_nbytes", "peak_nbytes"}]}``; bytes are a list, of each rank. ``issued_us`` is
    when the slowest rank's program had given all of the step to its GPU: where that is nearly the whole step, the
    program was the limit, not the GPU. The first peak is that of the steps before those timed. ``stopped`` says why
    there is nothing of a pattern: it does not divide the model, or a rank failed. No peak is measured on a CPU.
    """
    rows: list[dict[str, Any]] = []
    for model, sequences in progress((COMPILED if mode else SEQUENCES)[device]):
        for n in (1, *sizes_of_groups(device)):
            patterns = [pattern for pattern, axes in PATTERNS.items() if (n >= 2 ** len(axes) if axes else n == 1)]
            rows += [_row(device, PatternCase(model, sequences, n, pattern, mode)) for pattern in patterns]
    return {"rows": rows}


def planned(rows: Iterable[Mapping[str, Any]], network: Network) -> list[dict[str, Any]]:
    """The rows that were measured, each with what its plan says: the fullest rank's bytes, and the time of a step.

    Adds ``{"planned_nbytes", "turn_nbytes", "planned_us", "planned_issue_us"}``: all the plan's bytes, and those at the
    turn; a step, and how long its program takes to issue it. The time takes the rate at which one device computes from
    the row of the same case with one rank, and the network's other rates as given.
    """
    done = [row for row in rows if not row["stopped"]]
    found = []
    for row in done:
        laid_out = plan_of(_case(row))
        step = estimate(laid_out, CARD_NBYTES, _at_the_rate_of_one(row, done, network))
        turn = max(share.turn_nbytes for share in laid_out.stages)
        said = {"planned_nbytes": laid_out.total_nbytes, "turn_nbytes": turn}
        found.append({**row, **said, "planned_us": 1e3 * step.step_ms, "planned_issue_us": 1e3 * step.issued_ms})
    return found


def calibrated(rows: Iterable[Mapping[str, Any]]) -> Network:
    """The rates of a `Network` that two of the recorded cases show, `ISSUED` and `WORKED`; those of sending as assumed.

    Of the case with little work come the program's rates: what each pattern takes longer to issue than one device, over
    what it issues more. Of the case with much work come the device's: how much longer a step is than on one device.
    KeyError, which names the pattern, if one is missing.
    """
    rows = [row for row in rows if not row["stopped"]]
    return replace(_of_the_device(rows), host=host_rates(rows))


def host_rates(rows: Iterable[Mapping[str, Any]]) -> HostRates:
    """What the program of the case `ISSUED` takes for each thing. KeyError, which names the pattern, without a row."""
    of = {row["pattern"]: row for row in rows if (row["model"], row["sequences"]) == ISSUED}
    layers = _shape(ISSUED[0]).layers

    def more_s(pattern: str) -> float:
        return 1e-6 * (of[pattern]["issued_us"] - of["one device"]["issued_us"])

    def sent(pattern: str) -> int:
        return sum(each.count for each in plan_of(_case(of[pattern])).busiest.collectives)

    return HostRates(
        layer_s=1e-6 * of["one device"]["issued_us"] / layers,
        bucket_s=more_s("ddp") / sent("ddp"),
        gathered_s=more_s("fsdp") / sent("fsdp"),
        tp_layer_s=more_s("tp") / layers,
        tp_sp_layer_s=more_s("tp+sp") / layers,
    )


def _of_the_device(rows: Sequence[Mapping[str, Any]]) -> Network:
    of = {row["pattern"]: row for row in rows if (row["model"], row["sequences"]) == WORKED}
    alone_s = 1e-6 * of["one device"]["median_us"]

    def longer_s(pattern: str) -> float:
        return 1e-6 * of[pattern]["median_us"] - alone_s

    def sending_s(pattern: str) -> float:
        return sum(traffic_s(plan_of(_case(of[pattern])), Network()).values())

    beside = statistics.fmean(longer_s(each) / sending_s(each) for each in ("ddp", "fsdp"))
    copies = dict(of["tp"]["mesh"])["tp"] - 1
    return Network(beside=beside, repeated=(longer_s("tp") - sending_s("tp")) / alone_s / copies)


def _at_the_rate_of_one(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], network: Network) -> Network:
    first = next(each for each in rows if _case(each) == _of_one_device(row))
    flop = compute_s(plan_of(_case(first)), Network(flop_per_s=1.0))
    return replace(network, flop_per_s=flop / first["median_us"] * 1e6)


def _case(row: Mapping[str, Any]) -> PatternCase:
    return PatternCase(*(row[field.name] for field in fields(PatternCase)))


def _of_one_device(row: Mapping[str, Any]) -> PatternCase:
    return replace(_case(row), ranks=1, pattern="one device")


def plan_of(case: PatternCase) -> Plan:
    """The plan that a case is run by. ValueError for what does not divide."""
    batch = case.sequences * case.ranks
    shape = _shape(case.model)
    microbatches = min(batch, 4 * case.ranks)
    return plan(shape, case.pattern, case.ranks, batch=batch, microbatches=microbatches, precision="bf16")


@functools.cache
def _shape(model: str) -> Any:
    if model == "GPT-2 124M":
        return subjects.minigpt("gpt2-124m", device="meta").config
    *sizes, vocabulary = {"1.3 B": (24, 2048, 16, 1024, 50_304), "small": (2, 64, 2, 32, 600)}[model]
    return subjects.deep_gpt(*sizes, device="meta", vocabulary=vocabulary).config


def _row(device: str, case: PatternCase) -> dict[str, Any]:
    """Measured on ranks of its own: out of memory on one would leave the others waiting, and ends them all."""
    row = {**asdict(case), "mesh": {}}
    backend = "nccl" if device == "cuda" else "gloo"
    try:
        laid_out = plan_of(case)
        row["mesh"] = dict(laid_out.mesh)
        of_ranks = ranks.run(_on_rank, case.ranks, device, case, laid_out, timeout=150, backend=backend)
    except ValueError as refused:
        return row | {"stopped": str(refused)}
    except ranks.RankFailed as failed:
        return row | {"stopped": str(failed).strip().splitlines()[-1]}
    return row | _joined(of_ranks)


_TIMES = ("taken_us", "issued_us")


def _joined(of_ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """One step takes as long as its slowest rank; the ranks start each together."""
    slowest, issued = ([max(step) for step in zip(*(rank[key] for rank in of_ranks), strict=True)] for key in _TIMES)
    peaks = {key: [rank[key] for rank in of_ranks] for key in ("first_peak_nbytes", "peak_nbytes")}
    return {"stopped": "", **spread_us(slowest), "issued_us": spread_us(issued)["median_us"], **peaks}


def _on_rank(device: str, case: PatternCase, plan: Plan) -> dict[str, Any]:
    with peak(device) as first:
        steps = {case.pattern: _training_step(device, case, plan)}
        step_times_us(steps, device, WARM_UP, warm_up=0)
    with peak(device) as later:
        times = step_times_us(steps, device, STEPS[device], warm_up=0)[case.pattern]
    peaks = {"first_peak_nbytes": first.peak_nbytes or 0, "peak_nbytes": later.peak_nbytes or 0}
    return {name: list(each) for name, each in zip(_TIMES, zip(*times, strict=True), strict=True)} | peaks


def _training_step(device: str, case: PatternCase, plan: Plan) -> Callable[[], None]:
    model = subjects.of_shape(plan.shape, device)
    tokens, targets = subjects.tokens(model, plan.batch)
    forward_backward, groups = subjects.spread(
        model, case.pattern, dict(plan.mesh), microbatches=plan.microbatches, dtype=DTYPE, mode=case.mode
    )
    optimizer = torch.optim.AdamW(groups, fused=True)

    def step() -> None:
        forward_backward(tokens, targets)
        optimizer.step()

    return step
