"""Checkpoint strategies as a reader sees them: what each costs, the three curves, the decisions, one panel a choice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_lab.checkpointing.cost import Cost
from compile_lab.checkpointing.plan import BudgetPlan, Decision
from compile_lab.page.figures import PALETTE, Figure, Series, lines
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import DECIMAL, number, signed, unit_of, with_unit, without_namespace

MARKLESS: Mapping[str, float] = {}
_UNITS = {unit: DECIMAL[unit] for unit in ("GB", "MB")}


def costs(costs: Iterable[Cost], caption: str = "", timed: bool = True) -> Table:
    """One row a strategy: bytes held and at the peak, operations that run twice, arithmetic and time against the first.

    ``timed=False`` leaves out the time, and what remains is the same on every run.
    """
    costs = list(costs)
    columns = ["strategy", "held", "peak", "ops twice", "FLOPs"] + ["time, ms"] * timed
    rows = [
        [
            each.strategy.name,
            with_unit(each.held_nbytes),
            with_unit(each.peak_nbytes),
            each.recomputed,
            _share(each.flops, costs[0].flops),
        ]
        + [f"{number(each.time_ms)} ({_share(each.time_ms, costs[0].time_ms)})"] * timed
        for each in costs
    ]
    return Table(columns, rows, caption, "lrrrr" + "r" * timed)


def _share(value: float, of: float) -> str:
    percent = round(100 * (value / of - 1))
    return "as before" if percent == 0 else f"{signed(percent, 'd')} %"


def predictions(costs: Iterable[Cost], caption: str = "") -> Table:
    """Predicted against the allocator's bytes: held after the forward, and at the peak."""
    rows = [
        (each.strategy.name, each.saved_nbytes, each.held_nbytes, each.predicted_peak_nbytes, each.peak_nbytes)
        for each in costs
    ]
    return Table(["strategy", "saved, predicted", "held", "peak, predicted", "peak"], rows, caption)


def curves(costs: Iterable[Cost], caption: str = "", provenance: object | None = None) -> Figure:
    """Saved bytes, held bytes and the peak over the compiler's memory budget. ValueError without a budget."""
    budgeted = sorted((each for each in costs if each.strategy.budget is not None), key=lambda c: c.strategy.budget)
    if not budgeted:
        raise ValueError("none of these strategies has a memory budget, so there is nothing to draw over it")
    unit, size = unit_of(max(each.peak_nbytes for each in budgeted), _UNITS)
    at = [each.strategy.budget for each in budgeted]
    series = [
        Series(name, at, [round(getattr(each, name_of) / size, 4) for each in budgeted])
        for name, name_of in (("peak", "peak_nbytes"), ("held", "held_nbytes"), ("saved, predicted", "saved_nbytes"))
    ]
    lowest = min(budgeted, key=lambda each: each.peak_nbytes)
    alt = (
        f"Saved and held bytes fall together from budget {at[-1]:g} to {at[0]:g}; the peak is least at budget "
        f"{lowest.strategy.budget:g} with {with_unit(lowest.peak_nbytes)}, and {with_unit(budgeted[0].peak_nbytes)} at "
        f"{at[0]:g}."
    )
    return lines(series, x_title="memory budget", y_title=unit, alt=alt, caption=caption, provenance=provenance)


def segments(
    costs: Iterable[Cost], caption: str = "", provenance: object | None = None, marks: Mapping[str, float] = MARKLESS
) -> Figure:
    """Held bytes and the peak over the length of a checkpointed segment, in blocks. ``marks`` are lengths to mark."""
    several = sorted(
        (each for each in costs if each.strategy.every and not each.strategy.keep and not each.strategy.compiled),
        key=lambda each: each.strategy.every,
    )
    unit, size = unit_of(max(each.peak_nbytes for each in several), _UNITS)
    at = [each.strategy.every for each in several]
    series = [
        Series("peak", at, [each.peak_nbytes / size for each in several]),
        Series("held", at, [each.held_nbytes / size for each in several]),
    ]
    lowest = min(several, key=lambda each: each.peak_nbytes)
    alt = f"The longer the segments, the less is held; the peak is least, {with_unit(lowest.peak_nbytes)}, at segments "
    alt += f"of {lowest.strategy.every}, and {with_unit(several[-1].peak_nbytes)} with all blocks in one."
    title = "blocks in a segment"
    drawn = lines(series, x_title=title, y_title=unit, alt=alt, caption=caption, provenance=provenance, log_x=True)
    for (name, place), dash in zip(marks.items(), ("dot", "dash", "longdash"), strict=False):
        line, top = {"color": PALETTE["grey"], "dash": dash}, 1.05 * several[-1].peak_nbytes / size
        drawn.plot.add_scatter(name=name, x=[place, place], y=[0, top], mode="lines", line=line)
    return drawn


def decisions(plan: BudgetPlan, least_nbytes: int = 0) -> Table:
    """One row a kind of operation: bytes to save one, work to compute one again, how many are saved or run again."""
    rows = [_decision(each) for each in plan.decisions() if each.nbytes >= least_nbytes]
    columns = ["operation", "line", "bytes", "FLOPs", "×", "saved", "again"]
    return Table(columns, rows, f"budget {plan.budget:g}", "llrrrrr")


def _decision(each: Decision) -> list[Cell]:
    line = each.source.text if each.source else None
    return [without_namespace(each.op), line, each.nbytes, each.flops or None, each.count, each.saved, each.recomputed]


def limits(results: Iterable[Mapping[str, Any]], caption: str = "") -> Table:
    """One row a strategy of some recordings: does its step run when it may take no more than the limit?"""
    tried = [(Cost.from_json(each), result["limit_nbytes"]) for result in results for each in result["costs"]]
    rows = [
        (cost.strategy.name, with_unit(cost.peak_nbytes), with_unit(limit), cost.fits, cost.loss, cost.loss_under_limit)
        for cost, limit in tried
        if cost.fits is not None
    ]
    columns = ["strategy", "peak without a limit", "limit", "fits", "loss", "loss under the limit"]
    return Table(columns, rows, caption, "lrrcrr")


def panel(
    costs_by_name: Mapping[str, Cost], name: str, baseline: str = "none", provenance: object = ""
) -> Sequence[str | Table]:
    """One strategy: a sentence, and its figures beside those of no strategy."""
    if name not in costs_by_name:
        return [f"**{name}** was not measured here. ({provenance})"]
    cost, plain = costs_by_name[name], costs_by_name[baseline]
    work = _share(cost.flops, plain.flops).replace("as before", "the same")
    sentence = (
        f"**{name}** holds {with_unit(cost.held_nbytes)} after the forward "
        f"({_share(cost.held_nbytes, plain.held_nbytes)}) and peaks at {with_unit(cost.peak_nbytes)} "
        f"({_share(cost.peak_nbytes, plain.peak_nbytes)}), for {work} arithmetic."
    )
    figures = [
        ("saved, predicted", *(each.saved_nbytes and with_unit(each.saved_nbytes) for each in (plain, cost))),
        ("held after the forward", *(with_unit(each.held_nbytes) for each in (plain, cost))),
        ("peak", *(with_unit(each.peak_nbytes) for each in (plain, cost))),
        ("operations that run twice", *(each.recomputed for each in (plain, cost))),
        ("time, ms", *(each.time_ms for each in (plain, cost))),
        ("largest difference of a gradient", *(each.gradient_error for each in (plain, cost))),
    ]
    return [f"{sentence} ({provenance})", Table(["", baseline, name], figures, align="lrr")]
