"""What does each sharding pattern cost on real devices? Step time and peak memory a rank, and the plan's."""

import functools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch

from compile_lab.devices import ranks
from compile_lab.devices.overlap import on_the_wire
from compile_lab.devices.steps import profiled, step_times_us
from compile_lab.measure.allocator import peak
from compile_lab.measure.timing import summary_us
from compile_lab.simulator.host import HostRates
from compile_lab.simulator.meshes import PATTERNS
from compile_lab.simulator.overlap import Overlap
from compile_lab.simulator.patterns import Plan, plan
from compile_lab.simulator.recommendation import Network, compute_s, estimate, traffic_s, update_s

from ...experiment import OUT_OF_TIME
from ...registry import Progress
from .. import subjects
from .collectives import sizes_of_groups

SEQUENCES = {
    "cuda": [("1.6 B, wide", 2), ("1.3 B", 4), ("GPT-2 124M", 4), ("1.3 B", 16)],
    "cpu": [("small", 2), ("small", 4)],
}
"""Models, with the sequences of a step for each device. With few layers and few sequences what is sent weighs most: as
many bytes for less work, and little for the program to issue."""
COMPILED = {"cuda": [("1.6 B, wide", 2), ("1.3 B", 4), ("GPT-2 124M", 4)], "cpu": [("small", 2)]}
WIDE = {"cuda": [("1.6 B, wide", 2)], "cpu": [("small", 2)]}
ISSUED, SENT, WORKED = [("1.6 B, wide", 2), ("1.3 B", 4), ("GPT-2 124M", 4)], ("1.6 B, wide", 2), ("1.3 B", 16)
"""The cases of a recording from which rates are taken, where each weighs most: of the program, of traffic that hides
behind the computation, and of what tensor parallel does on every device."""
RATES = {
    None: Network(),
    "default": Network(
        host=HostRates(layer_s=2.2e-3, bucket_s=0.38e-3, gathered_s=0.94e-3, tp_layer_s=2e-3, tp_sp_layer_s=5e-3)
    ),
}
"""By what rates a recording is predicted, eager or compiled: what an earlier one on two H200 had shown of both."""
BUDGET_S = 540
"""No case is begun after this."""
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


Cases = Mapping[str, Sequence[tuple[str, int]]]


def record(
    device: str, progress: Progress = iter, *, mode: str | None = None, cases: Cases = SEQUENCES
) -> dict[str, Any]:
    """Each pattern on each model and number of devices, as plain JSON values. Two minutes on two large GPUs.

    The models have 1.3 billion parameters in 24 layers and 1.6 billion in 6 (on a CPU, a small one), in bf16 with
    AdamW. With a ``mode`` of torch.compile each block is compiled. Of each of ``cases`` one device alone is measured
    first; with its rate, and those of `RATES`, the steps of the patterns are predicted; then they are measured, in a
    random order, each on ranks of its own.

    Returns ``{"rows": [{"model", "sequences", "ranks", "pattern", "mode", "mesh", "gathered_logits", "stopped",
    "predicted_us", "median_us", "low_us", "high_us", "issued_us", "sending_us", "exposed_us", "losses",
    "first_peak_nbytes", "peak_nbytes"}]}``; bytes are a list, of each rank. ``issued_us`` is when the slowest rank's
    program had given all of the step to its GPU: where that is nearly the whole step, the program was the limit, not
    the GPU. ``sending_us`` is how long the collectives of a profiled step took on the wire, ``exposed_us`` what of it
    no computation hid; None where the ranks' collectives do not match. ``losses`` are those of the first step and the
    last. The first peak is that of the steps before those timed. ``stopped`` says why there is nothing of a pattern:
    it does not divide the model, a rank failed, or time had run out. No peak is measured on a CPU.
    """
    rows: list[dict[str, Any]] = []
    alones: list[dict[str, Any]] = []
    until = time.monotonic() + BUDGET_S
    for model, sequences in progress(cases[device]):
        alone = _row(device, PatternCase(model, sequences, 1, "one device", mode), until)
        spread = [
            PatternCase(model, sequences, n, pattern, mode)
            for n in sizes_of_groups(device)
            for pattern, axes in PATTERNS.items()
            if axes and n >= 2 ** len(axes)
        ]
        alones.append(alone)
        predicted = predictions(alones, spread)
        found = {case: _row(device, case, until) for case in random.Random(0).sample(spread, len(spread))}
        rows += [alone, *(found[case] | {"predicted_us": predicted.get(case)} for case in spread)]
    return {"rows": rows}


def predictions(alones: Sequence[Mapping[str, Any]], cases: Iterable[PatternCase]) -> dict[PatternCase, float]:
    """Microseconds that a step of each case will take, said by the steps of one device alone and `RATES`; of a case
    that does not divide the model nothing, nor of any where one device alone was stopped."""
    found: dict[PatternCase, float] = {}
    for case in cases if not alones[-1]["stopped"] else ():
        try:
            *_, row = planned([*alones, asdict(case) | {"stopped": "", "gathered_logits": False}], RATES[case.mode])
        except ValueError:
            continue
        found[case] = row["planned_us"]
    return found


def planned(rows: Iterable[Mapping[str, Any]], network: Network) -> list[dict[str, Any]]:
    """The rows that were measured, each with what its plan says: the fullest rank's bytes, and the time of a step.

    Adds ``{"planned_nbytes", "planned_peak_nbytes", "planned_us", "planned_issue_us"}``: all the plan's bytes, and
    those of its largest moment; a step, and how long its program takes to issue it. The time takes the rate at which
    one device computes from the row of the same case with one rank, and how fast this machine's program is from all
    rows of one rank; the network's other rates as given.
    """
    done = [row for row in rows if not row["stopped"]]
    network = _of_this_host(done, network)
    found = []
    for row in done:
        laid_out = _planned(row)
        step = estimate(laid_out, CARD_NBYTES, _at_the_rate_of_one(row, done, network))
        said = {"planned_nbytes": laid_out.total_nbytes, "planned_peak_nbytes": laid_out.peak_nbytes}
        found.append({**row, **said, "planned_us": 1e3 * step.step_ms, "planned_issue_us": 1e3 * step.issued_ms})
    return found


def calibrated(rows: Iterable[Mapping[str, Any]]) -> Network:
    """The rates of a `Network` that the recorded cases `ISSUED` and `WORKED` show; those of sending as assumed.

    Of the cases with little work come the program's rates: what each pattern takes longer to issue than one device,
    over what it issues more. Of the case with much work come the device's: how much longer a step is than on one
    device. KeyError or ValueError, which names the pattern, if one is missing.
    """
    rows = [row for row in rows if not row["stopped"]]
    return replace(_of_the_device(rows), host=host_rates(rows))


def host_rates(rows: Iterable[Mapping[str, Any]]) -> HostRates:
    """What the program takes for each thing: over all cases `ISSUED`, its time by how many of it there are.

    ValueError, which names the pattern, if no case has a row of it.
    """
    rows = [row for row in rows if not row["stopped"]]
    found = {row["pattern"]: [0.0, 0] for row in rows}
    for case in ISSUED:
        of = {row["pattern"]: row for row in rows if (row["model"], row["sequences"]) == case and row["ranks"] <= 2}
        if "one device" not in of:
            continue
        layers, alone_s = _shape(case[0]).layers, 1e-6 * of["one device"]["issued_us"]
        for name, row in of.items():
            sent = sum(each.count for each in _planned(row).busiest.collectives)
            found[name][0] += alone_s if name == "one device" else 1e-6 * row["issued_us"] - alone_s
            found[name][1] += sent if name in ("ddp", "fsdp") else layers

    def rate_s(pattern: str) -> float:
        seconds, times = found.get(pattern, (0.0, 0))
        if not times:
            raise ValueError(
                f"no row of {pattern!r} in the cases {', '.join(map(str, ISSUED))}: record the patterns whole"
            )
        return seconds / times

    return HostRates(*map(rate_s, ("one device", "ddp", "fsdp", "tp", "tp+sp")))


def _of_the_device(rows: Sequence[Mapping[str, Any]]) -> Network:
    of = {(row["model"], row["sequences"], row["pattern"]): row for row in rows if row["ranks"] <= 2}

    def longer_s(case: tuple[str, int], pattern: str) -> float:
        computing = [
            1e-6 * row["median_us"] - update_s(_planned(row), Network())
            for row in (of[*case, pattern], of[*case, "one device"])
        ]
        return computing[0] - computing[1]

    def sending_s(case: tuple[str, int], pattern: str) -> float:
        return sum(traffic_s(_planned(of[*case, pattern]), Network()).values())

    hidden = statistics.fmean(longer_s(SENT, each) / sending_s(SENT, each) for each in ("ddp", "fsdp"))
    alone = of[*WORKED, "one device"]
    alone_s = 1e-6 * alone["median_us"] - update_s(_planned(alone), Network())
    copies = dict(of[*WORKED, "tp"]["mesh"])["tp"] - 1
    return Network(hidden=hidden, repeated=(longer_s(WORKED, "tp") - sending_s(WORKED, "tp")) / alone_s / copies)


def _of_this_host(rows: Iterable[Mapping[str, Any]], network: Network) -> Network:
    """The network with the program's rates as this machine has them: as much slower as it issues a layer of one device,
    DTensor's work, too. (FSDP's and DDP's did not differ by that between machines.) The least of the cases: with much
    work the program waits for its GPU."""
    alone = [1e-6 * row["issued_us"] / _shape(row["model"]).layers for row in rows if row["pattern"] == "one device"]
    if not (alone and network.host):
        return network
    slower = min(alone) / network.host.layer_s
    names = ("layer_s", "tp_layer_s", "tp_sp_layer_s")
    return replace(network, host=replace(network.host, **{n: slower * getattr(network.host, n) for n in names}))


def _at_the_rate_of_one(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], network: Network) -> Network:
    one_device = replace(_case(row), ranks=1, pattern="one device")
    first = next(each for each in rows if _case(each) == one_device)
    alone = plan_of(_case(first))
    computing_s = 1e-6 * first["median_us"] - update_s(alone, network)
    return replace(network, flop_per_s=compute_s(alone, Network(flop_per_s=1.0)) / computing_s)


def _case(row: Mapping[str, Any]) -> PatternCase:
    return PatternCase(*(row[field.name] for field in fields(PatternCase)))


def plan_of(case: PatternCase, gathered_logits: bool = False) -> Plan:
    """The plan that a case is run by. ValueError for what does not divide."""
    batch = case.sequences * case.ranks
    shape = _shape(case.model)
    microbatches = min(batch, 4 * case.ranks)
    return plan(
        shape,
        case.pattern,
        case.ranks,
        batch=batch,
        microbatches=microbatches,
        precision="bf16",
        gathered_logits=gathered_logits,
        compiled=bool(case.mode),
    )


def _planned(row: Mapping[str, Any]) -> Plan:
    """The plan of what was recorded. Recordings that do not say so gathered the logits under tensor parallel."""
    return plan_of(_case(row), row.get("gathered_logits", True))


@functools.cache
def _shape(model: str) -> Any:
    if model == "GPT-2 124M":
        return subjects.minigpt("gpt2-124m", device="meta").config
    layers, dim, heads, context, vocabulary = {
        "1.3 B": (24, 2048, 16, 1024, 50_304),
        "1.6 B, wide": (6, 4096, 32, 1024, 50_304),
        "small": (2, 64, 2, 32, 600),
    }[model]
    return subjects.deep_gpt(layers, dim, heads, context, device="meta", vocabulary=vocabulary).config


def _row(device: str, case: PatternCase, until: float) -> dict[str, Any]:
    """Measured on ranks of its own: out of memory on one would leave the others waiting, and ends them all."""
    row = {**asdict(case), "mesh": {}, "gathered_logits": False}
    if time.monotonic() > until:
        return row | {"stopped": OUT_OF_TIME}
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
    found = {key: [rank[key] for rank in of_ranks] for key in ("first_peak_nbytes", "peak_nbytes")}
    found["losses"] = [statistics.fmean(each) for each in zip(*(rank["losses"] for rank in of_ranks), strict=True)]
    sent = _sent([rank["overlap"] for rank in of_ranks])
    return {"stopped": "", **summary_us(slowest), "issued_us": summary_us(issued)["median_us"], **sent, **found}


def _sent(overlaps: Sequence[Overlap | None]) -> dict[str, float | None]:
    """Of the rank that exposes most. Waiting for a rank that is late is not sending."""
    try:
        most = max(on_the_wire([each for each in overlaps if each]), key=lambda each: each.exposed_ms)
    except ValueError:
        return {"sending_us": None, "exposed_us": None}
    return {"sending_us": 1e3 * most.communication_ms, "exposed_us": 1e3 * most.exposed_ms}


def _on_rank(device: str, case: PatternCase, plan: Plan) -> dict[str, Any]:
    with peak(device) as first:
        step = _training_step(device, case, plan)
        losses = [_loss(step(), case)]
        step_times_us({case.pattern: step}, device, WARM_UP - 1, warm_up=0)
    with peak(device) as later:
        times = step_times_us({case.pattern: step}, device, STEPS[device], warm_up=0)[case.pattern]
    seen = {"overlap": _profiled(step, device), "losses": [*losses, _loss(step(), case)]}
    peaks = {"first_peak_nbytes": first.peak_nbytes or 0, "peak_nbytes": later.peak_nbytes or 0}
    return {name: list(each) for name, each in zip(_TIMES, zip(*times, strict=True), strict=True)} | peaks | seen


def _profiled(step: Callable[[], torch.Tensor], device: str) -> Overlap | None:
    """None where the trace cannot be read: the step was timed all the same."""
    try:
        return profiled(step, device=device)
    except ValueError:
        return None


def _loss(own: torch.Tensor, case: PatternCase) -> float:
    """This rank's part of the ranks' mean: of a pipeline, its last stage has the whole loss and the others none."""
    return own.item() * (case.ranks if case.pattern == "pp" else 1)


def _training_step(device: str, case: PatternCase, plan: Plan) -> Callable[[], torch.Tensor]:
    model = subjects.of_shape(_shape(case.model), device)
    tokens, targets = subjects.tokens(model, plan.batch)
    forward_backward, groups = subjects.parallel_step(
        model, case.pattern, dict(plan.mesh), microbatches=plan.microbatches, dtype=DTYPE, mode=case.mode
    )
    optimizer = torch.optim.AdamW(groups, fused=True)

    def step() -> torch.Tensor:
        loss = forward_backward(tokens, targets)
        optimizer.step()
        return loss

    return step
