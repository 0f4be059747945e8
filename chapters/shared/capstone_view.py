"""The ladder as pictures: each rung's milliseconds, where they are, and whether the losses stay together."""

import itertools
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.marks import Axis, Row, Segment, dots, segments
from compile_lab.page.tables import Table
from compile_lab.page.units import signed, with_quartiles, with_unit

from .capstone_limits import DATA_SHEET, joules, limits, rate, tokens, utilisation

Result = Mapping[str, Any]
Rung = Mapping[str, Any]

COLOURS = {"eager": "grey", "compiler": "blue", "hand": "orange", "peer": "green"}
PEER_COLOURS = ("purple", "green")
WORDS = {"eager": "torch as it comes", "compiler": "the compiler", "hand": "by hand", "peer": "a peer"}
TICKS = (50, 100, 200, 400, 800)

FAMILIES = {
    "attention": r"sdpa|flash|fmha|compute_dot_do_o|convert_dq|attention",
    "matmuls": r"nvjet|gemm|cutlass|cublas|splitk",
    "loss": r"softmax|logsumexp|nll|cross_entropy",
    "GELU": r"gelu",
    "norms": r"layer_norm|add_norm|norm_backward|GammaBeta",
    "optimizer": r"adamw|lerp|multi_tensor_apply|Adam",
}
"""What a kernel's name says of its work, the first that fits; the rest is "other". A kernel that fuses several is
counted where its largest part is: Inductor names the operations that are in it."""
FAMILY_COLOURS = {
    "matmuls": "blue", "attention": "orange", "loss": "green", "GELU": "vermillion", "norms": "purple",
    "optimizer": "sky", "other": "grey",
}  # fmt: skip
SMOOTHED, DRAWN_EVERY = 20, 5
"""Steps over which a loss is averaged, to be looked at; every so many steps, and the last, have a point."""


def rungs(result: Result) -> dict[str, Rung]:
    """The rungs that were timed, by name, in the order of the ladder; peers are not among them."""
    return {row["name"]: row for row in result["rungs"] if "median_ms" in row and not _is_peer(row)}


def peers(result: Result) -> dict[str, Rung]:
    """The peers that were timed."""
    return {row["name"]: row for row in result["rungs"] if "median_ms" in row and _is_peer(row)}


def _does(row: Rung) -> str:
    """What a rung does; recordings before 2026-11-29 have another word for a matmul."""
    return row["does"].replace("product", "matmul")


def distinct(one: Rung, other: Rung) -> bool:
    """Whether the quartiles of two rungs' times do not overlap."""
    return one["high_ms"] < other["low_ms"] or other["high_ms"] < one["low_ms"]


def ladder(result: Result, provenance: object | None = None) -> Drawing:
    """A bar a rung on one logarithmic scale, with the peers' times as lines; behind it tokens a second and the MFU."""
    climbed, others = rungs(result), peers(result)
    rows = []
    for name, row in climbed.items():
        does = f"{name}: {_does(row)}; {with_quartiles(row['median_ms'], row['low_ms'], row['high_ms'])} ms"
        part = Segment(WORDS[row["by"]], row["median_ms"], words="", title=does)
        rows.append(Row(name, [part], after=f"{row['median_ms']:.1f} ms · {' tokens/s · '.join(speed(result, row))}"))
    first, last = (row["median_ms"] for row in (next(iter(climbed.values())), min(climbed.values(), key=_ms)))
    ends = f"{first:.0f} to {last:.1f} ms" if len(climbed) > 1 else f"{first:.0f} ms"
    return segments(
        rows,
        Axis("a step", "ms", log=True, low=0.8 * TICKS[0], until=max(TICKS[-1], 1.1 * first), ticks=TICKS),
        title=f"A training step, rung by rung: {ends}.",
        caption=f"A logarithmic scale. Behind each rung: speed, and MFU of {DATA_SHEET:.0f} · 10¹² operations a second",
        colours={words: COLOURS[by] for by, words in WORDS.items()},
        references={
            f"{name}, {row['median_ms']:.1f} ms": (row["median_ms"], colour)
            for (name, row), colour in zip(others.items(), PEER_COLOURS, strict=False)
        },
        provenance=provenance,
        table=table(result),
    )


def _ms(row: Rung) -> float:
    return row["median_ms"]


def speed(result: Result, row: Rung) -> tuple[str, str]:
    """Tokens a second, and the model FLOPs utilisation by the data sheet, as they are read."""
    share = utilisation(result, row, DATA_SHEET)
    return f"{1e3 * tokens(result) / row['median_ms']:,.0f}", f"{100 * share:.0f} %"


def table(result: Result, rows: Mapping[str, Rung] | None = None) -> Table:
    """One row a rung, or one for each of these `rows`: time, speed, MFU, share of the sustained rate, memory, the first
    call, the gradients' error, clock and power."""
    tflops, cells = rate(result), []
    for name, row in (rows or rungs(result) | peers(result)).items():
        clock, power = (statistics.median(row[each]) if row[each] else None for each in ("clock_mhz", "power_w"))
        cells.append(
            (
                name,
                with_quartiles(row["median_ms"], row["low_ms"], row["high_ms"]),
                *speed(result, row),
                f"{100 * utilisation(result, row, tflops):.0f} %",
                with_unit(row["peak_nbytes"]) if row["peak_nbytes"] else None,
                f"{row['first_s']:.1f}",
                f"{100 * row['gradient_error']:.2g} %" if "gradient_error" in row else None,
                f"{clock:,.0f}" if clock else None,
                f"{power:.0f}" if power else None,
            )
        )
    head = ["rung", "ms", "tokens/s", "MFU", "of a matmul's rate", "memory", "first call, s", "gradients' error"]
    caption = (
        f"MFU, model FLOPs utilisation, is the share of the data sheet's {DATA_SHEET:.0f} · 10¹² operations a second; "
        "the column next to it, of the rate that a large matmul sustained in the same run"
    )
    return Table([*head, "MHz", "W"], cells, caption, align="lrrrrrrrrr")


def family_of(kernel: str) -> str:
    """What a kernel's name says of its work."""
    fitting = (family for family, pattern in FAMILIES.items() if re.search(pattern, kernel, re.IGNORECASE))
    return next(fitting, "other")


def families(row: Rung) -> dict[str, float]:
    """Milliseconds of a rung's kernels by family, and the "rest" of the timed step: pauses, and a clock that is lower
    in a long run than in the few steps that are profiled."""
    found = dict.fromkeys(FAMILY_COLOURS, 0.0)
    for kernel in row["kernels"]:
        found[family_of(kernel["name"])] += kernel["us"] / 1e3
    return found | {"rest": max(0.0, row["median_ms"] - sum(found.values()))}


def where(result: Result, names: Sequence[str], provenance: object | None = None) -> Drawing:
    """A stack a rung, of its kernels' families; a mark at the step's time. ValueError for a rung without kernels."""
    timed = rungs(result) | peers(result)
    rows, listed = [], {}
    for name in names:
        listed[name] = _kernels_of(name, timed)
        parts = {family: ms for family, ms in listed[name].items() if family != "rest"}
        ms = timed[name]["median_ms"]
        rows.append(Row(name, parts, after=f"{ms:.1f} ms", marks={"the step": ms}))
    most = {name: max(FAMILIES, key=parts.__getitem__) for name, parts in listed.items()}
    ends = dict.fromkeys((names[0], names[-1]))
    cells = [(family, *(f"{parts[family]:.1f}" for parts in listed.values())) for family in listed[names[0]]]
    return segments(
        rows,
        Axis("kernels of a step", "ms"),
        title="Most time: "
        + "; ".join(f"{name} {most[name]}, {listed[name][most[name]]:.1f} ms" for name in ends)
        + ".",
        caption="From the kernels to the mark: pauses, and a lower clock than in the profile",
        colours=FAMILY_COLOURS | {"the step": "ink"},
        provenance=provenance,
        table=Table(["family", *listed], cells, align="l" + "r" * len(listed)),
    )


def against_limits(result: Result, names: Sequence[str], provenance: object | None = None) -> Drawing:
    """Each family's milliseconds in some rungs, and the least that it needs. All rungs have one vocabulary."""
    timed = rungs(result) | peers(result)
    spent = {name: _kernels_of(name, timed) for name in names}
    least = limits(result, timed[names[0]]["vocabulary"])
    series = {name: [parts[family] for family in least] for name, parts in spent.items()}
    series["limit"] = list(least.values())
    last = names[-1]
    far = max(least, key=lambda family: spent[last][family] - least[family])
    return dots(
        list(least),
        series,
        unit="ms",
        title=f"Farthest from its limit in {last}: {far}, {spent[last][far]:.1f} ms where {least[far]:.1f} would do.",
        caption="Limits are from rates measured in the same run",
        provenance=provenance,
    )


def clocks(result: Result, provenance: object | None = None) -> Drawing:
    """The multiprocessors' clock in each rung, with power and energy in the table. ValueError where none was kept."""
    told = {name: row for name, row in (rungs(result) | peers(result)).items() if row["clock_mhz"]}
    if not told:
        raise ValueError("no clock was reported in this recording")
    middle = {name: statistics.median(row["clock_mhz"]) for name, row in told.items()}
    rows = [
        (name, f"{middle[name]:,.0f}", f"{statistics.median(row['power_w']):.0f}", f"{joules(row):.0f}")
        for name, row in told.items()
    ]
    return dots(
        list(told),
        {"clock": list(middle.values())},
        unit="MHz",
        title=f"The GPU runs the rungs at {min(middle.values()):,.0f} to {max(middle.values()):,.0f} MHz.",
        caption="The clock by the GPU's driver",
        provenance=provenance,
        table=Table(["rung", "MHz", "W", "J a step"], rows, align="lrrr"),
    )


def predictions(result: Result, saved_ms: Mapping[str, float]) -> Table:
    """What was predicted of some rungs, and what their kernels and their steps changed, against the rung before."""
    climbed = rungs(result)
    before = dict(zip(list(climbed)[1:], climbed, strict=False))
    busy = {name: sum(kernel["us"] for kernel in row["kernels"]) / 1e3 for name, row in climbed.items()}
    rows = [
        (
            name,
            signed(-saved),
            signed(busy[name] - busy[before[name]]),
            signed(climbed[name]["median_ms"] - climbed[before[name]]["median_ms"]),
            distinct(climbed[name], climbed[before[name]]),
        )
        for name, saved in saved_ms.items()
    ]
    return Table(["rung", "predicted, ms", "kernels, ms", "step, ms", "told apart"], rows, align="lrrrr")


def smoothed(losses: Sequence[float], over: int = SMOOTHED) -> list[float]:
    """Each loss averaged with those of the steps before it, `over` in all."""
    return [statistics.fmean(losses[max(0, at - over + 1) : at + 1]) for at in range(len(losses))]


def last_losses(result: Result) -> dict[str, list[float]]:
    """The mean of the last 50 losses of each rung, one a seed."""
    found: dict[str, list[float]] = {}
    for curve in result["curves"]:
        found.setdefault(curve["name"], []).append(statistics.fmean(curve["losses"][-50:]))
    return found


def curves(result: Result, judge: str, provenance: object | None = None) -> Figure:
    """How far each rung's loss is from the mean of the judge's seeds, whose own distances are drawn, too.

    Averaged over `SMOOTHED` steps. ValueError without at least two seeds of the judge.
    """
    by_name: dict[str, list[list[float]]] = {}
    for curve in result["curves"]:
        by_name.setdefault(curve["name"], []).append(smoothed(curve["losses"]))
    if len(by_name.get(judge, ())) < 2:
        raise ValueError(f"{judge!r} has no two seeds among the curves, which hold {', '.join(by_name)}")
    mean = [statistics.fmean(each) for each in zip(*by_name[judge], strict=True)]
    steps = range(len(mean) - 1, SMOOTHED - 1, -DRAWN_EVERY)[::-1]
    drawn = [
        Series(
            name if len(seeds) == 1 else f"{name}, seed {seed}", list(steps), [losses[at] - mean[at] for at in steps]
        )
        for name, seeds in by_name.items()
        for seed, losses in enumerate(seeds)
    ]
    ends = [one.values[-1] for one in drawn]
    return lines(
        drawn,
        x_title="step",
        y_title="nats",
        title=f"At the end the losses are {signed(min(ends), '.3f')} to {signed(max(ends), '.3f')} nats from the mean.",
        caption=f"Loss less the mean of {len(by_name[judge])} seeds of “{judge}”, averaged over {SMOOTHED} steps",
        provenance=provenance,
    )


def times_faster(result: Result, *names: str) -> list[float]:
    """How many times as fast each of these rungs is as the one named before it. ValueError for two not told apart."""
    timed = rungs(result)
    found = []
    for before, after in itertools.pairwise(timed[name] for name in names):
        if not distinct(before, after):
            raise ValueError(f"{before['name']!r} and {after['name']!r} are not told apart: there is no ratio of them")
        found.append(before["median_ms"] / after["median_ms"])
    return found


def _kernels_of(name: str, timed: Mapping[str, Rung]) -> dict[str, float]:
    if not timed.get(name, {}).get("kernels"):
        raise ValueError(f"no kernels of {name!r} were recorded; there are those of {', '.join(timed)}")
    return families(timed[name])


def _is_peer(row: Rung) -> bool:
    return row["name"].startswith("peer")
