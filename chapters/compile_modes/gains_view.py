"""What compiling gives, as pictures: how many times faster, and what of a call the GPU works and waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compile_lab.modes.cost import Comparison, ModeCost
from compile_lab.modes.view import gain, gains, told_apart, vocabulary
from compile_lab.page.figures import Figure, Series, bars
from compile_lab.page.tables import Table

SHOWN = ("eager", "default", "reduce-overhead")


def ratio(case: Mapping[str, Any], name: str = "default", of: str = "eager") -> float | None:
    """How many times the speed of one of a recorded case's ways another one has; None if either came to no end."""
    one, other = _pair(case, name, of)
    return one.speedup(other)


def told(case: Mapping[str, Any], name: str = "default", of: str = "eager") -> str:
    """The same in words: ``2.11×``, or that the quartiles of the two times overlap."""
    return gain(*_pair(case, name, of)) or "not measured"


def _pair(case: Mapping[str, Any], *names: str) -> list[ModeCost]:
    return [ModeCost.from_json(case["costs"][name]) for name in names]


def gained(cases: Iterable[Mapping[str, Any]], provenance: object) -> Figure:
    """How many times eager's speed, a group of bars for each size, from a recording of gains; the times as a table.

    A gain whose quartiles of times overlap with eager's has no bar; nor has a case that came to no end.
    """
    cases = list(cases)
    found: dict[str, dict[str, float]] = {}
    unclear = []
    for case in cases:
        costs = {name: ModeCost.from_json(cost) for name, cost in case["costs"].items()}
        eager = costs.pop("eager")
        for name, cost in costs.items():
            times = cost.speedup(eager)
            if times is None:
                continue
            if told_apart(cost, eager):
                found.setdefault(name, {})[case["what"]] = round(times, 2)
            else:
                unclear.append(f"{name} on {case['what']} is not told apart from eager")
    series = [Series(name, list(ratios), list(ratios.values())) for name, ratios in found.items()]
    series = series or [Series("eager", [case["what"] for case in cases], [1.0] * len(cases))]
    name = cases[0]["case"]
    said = "; ".join(
        f"{one.name} {', '.join(f'{v:.2f} on {at}' for at, v in zip(one.at, one.values, strict=True))}"
        for one in series
    )
    figure = bars(
        series,
        value_title="times eager's speed",
        alt=f"Speed of {name} compared with eager: {said}." + "".join(f" {each}." for each in unclear),
        caption="; ".join([f"{name}: 1 is eager's speed", *unclear]),
        provenance=provenance,
    )
    figure.plot.add_vline(1, line_width=1.5, line_dash="dot")
    return replace(figure, table=gains(cases, provenance))


def busy(comparisons: Sequence[Comparison], modes: Sequence[str] = SHOWN) -> Figure:
    """What of a call the GPU works and waits, in per cent of each workload's eager call; the launches as a table."""
    works, waits, places, rows = [], [], [], []
    for one in comparisons:
        for mode in modes:
            cost = one.costs[mode]
            whole = 100 * cost.call.median_ms / one.eager.call.median_ms
            work = min(whole, 100 * cost.launches.gpu_ms / one.eager.call.median_ms)
            places.append(f"{one.name}: {mode}")
            works.append(round(work, 1))
            waits.append(round(whole - work, 1))
            seen = cost.launches
            launched = seen.launches + seen.graphs
            rows.append([one.name, mode, seen.kernels, launched, seen.launch_ms, seen.gpu_ms, cost.call.median_ms])
    said = "; ".join(
        f"{place}: busy {work:.0f}, idle {wait:.0f}" for place, work, wait in zip(places, works, waits, strict=True)
    )
    figure = bars(
        [Series("GPU busy", places, works), Series("GPU idle", places, waits)],
        value_title="% of the workload's eager call",
        alt=f"The GPU's time in a call, in per cent of an eager call. {said}.",
        caption="a call by what the GPU does in it",
        provenance=comparisons[0].provenance,
        stacked=True,
    )
    columns = ["workload", "mode", "kernels", "launches", "launching, ms", "GPU busy, ms", "a call, ms"]
    return replace(figure, table=Table(columns, rows))


def heads(cases: Sequence[Mapping[str, Any]], provenance: object) -> Figure:
    """The time of a matmul and of a step with two sizes of vocabulary, eager and compiled; ratios in the table."""
    ordered = sorted(cases, key=lambda case: (case["part"], case["vocabulary"]))
    places = [f"{case['part']}, {case['vocabulary']:,} words" for case in ordered]
    series = []
    for mode in ("eager", "default"):
        calls = [ModeCost.from_json(case["costs"][mode]).call for case in ordered]
        times = [[getattr(call, name) for call in calls] for name in ("median_ms", "low_ms", "high_ms")]
        series.append(Series(mode, places, *times))
    said = "; ".join(
        f"{place}: {eager:.3g} ms eager, {compiled:.3g} ms compiled"
        for place, eager, compiled in zip(places, series[0].values, series[1].values, strict=True)
    )
    figure = bars(series, value_title="ms a call", alt=f"{said}.", caption="GPT-2 124M", provenance=provenance)
    return replace(figure, table=vocabulary(cases, provenance))
