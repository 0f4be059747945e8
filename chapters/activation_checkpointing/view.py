"""Checkpoint strategies as a reader sees them: what each costs, the decisions, one panel a choice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_lab.checkpointing.cost import Cost
from compile_lab.checkpointing.plan import BudgetPlan, Decision
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import number, signed, with_unit, without_namespace


def costs(costs: Iterable[Cost], caption: str = "") -> Table:
    """One row a strategy: bytes held and at the peak, what runs twice, arithmetic and time against the first."""
    costs = list(costs)
    columns = ["strategy", "held", "peak", "operations run twice", "FLOPs", "time, ms"]
    rows: list[list[Cell]] = [
        [
            each.strategy.name,
            with_unit(each.held_nbytes),
            with_unit(each.peak_nbytes),
            each.recomputed,
            _share(each.flops, costs[0].flops),
            f"{number(each.time_ms)} ({_share(each.time_ms, costs[0].time_ms)})",
        ]
        for each in costs
    ]
    return Table(columns, rows, caption, "lrrrrr")


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
    figures: list[tuple[Cell, ...]] = [
        ("saved, predicted", *(each.saved_nbytes and with_unit(each.saved_nbytes) for each in (plain, cost))),
        ("held after the forward", *(with_unit(each.held_nbytes) for each in (plain, cost))),
        ("peak", *(with_unit(each.peak_nbytes) for each in (plain, cost))),
        ("operations that run twice", *(each.recomputed for each in (plain, cost))),
        ("time, ms", *(each.time_ms for each in (plain, cost))),
        (
            "largest difference of a gradient from a first plain step's",
            *(each.gradient_error for each in (plain, cost)),
        ),
    ]
    return [f"{sentence} ({provenance})", Table(["", baseline, name], figures, align="lrr")]
