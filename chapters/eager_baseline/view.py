"""How a `DispatchLog` is shown: the calls one inside the other, and grouped by kind, by source line, by module."""

import linecache
import re
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from compile_lab.eager.dispatch import Call, DispatchLog
from compile_lab.eager.operators import KINDS
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.marks import Axis, Row, bars, dots, dotted, segments
from compile_lab.page.tables import Cell, Code, Table
from compile_lab.page.units import percent, rounded

MEANINGS = {
    "python_calls": "calls of torch by Python",
    "dispatches": "calls of the dispatcher",
    "hops": "kernels that these calls pass",
    "below_autograd": "operators below autograd",
    "computing": "operators that write data",
}
"""What each number of `DispatchLog.counts` counts, in a reader's words."""


def nested(log: DispatchLog) -> Code:
    """One line a call, indented under the call whose kernel made it: operator, dispatch keys in order, shape."""
    names = [f"{'  ' * call.depth}{call.name}" for call in log.calls]
    keys = [" → ".join(hop.key for hop in call.hops) for call in log.calls]
    widths = max(map(len, names), default=0), max(map(len, keys), default=0)
    rows = zip(names, keys, log.calls, strict=True)
    return Code(
        "\n".join(f"{name:{widths[0]}}  {way:{widths[1]}}  {call.outputs}".rstrip() for name, way, call in rows),
        language="text",
    )


def hops(log: DispatchLog) -> Table:
    """One row a hop of the calls that Python or autograd made: the operator, the key, what is registered there."""
    rows = [
        (call.name if at == 0 else "", hop.key, hop.registered)
        for call in log.calls
        if call.depth == 0 or log.calls[call.parent or 0].hops[0].composite
        for at, hop in enumerate(call.hops)
    ]
    return Table(["operator", "dispatch key", "what is registered there"], rows)


def counts(logs: dict[str, DispatchLog]) -> Table:
    """One row a meaning of "dispatch", one column a log."""
    found = {name: log.counts() for name, log in logs.items()}
    rows: list[tuple[Cell, ...]] = [(MEANINGS[key], *(each[key] for each in found.values())) for key in MEANINGS]
    return Table(["what is counted", *found], rows)


def counted(logs: dict[str, DispatchLog]) -> Drawing:
    """The same as dots, a row for each meaning."""
    found = {name: log.counts() for name, log in logs.items()}
    most, least = (pick(found, key=lambda name: found[name]["dispatches"]) for pick in (max, min))
    return dots(
        list(MEANINGS.values()),
        {name: [counts[key] for key in MEANINGS] for name, counts in found.items()},
        unit="",
        title=f"From {found[least]['dispatches']:,} dispatches ({least}) to {found[most]['dispatches']:,} ({most}).",
    )


def by_kind(log: DispatchLog) -> Table:
    """Operators below autograd, by kind: how many in the forward and in the backward, and which."""
    return Table(["kind", "forward", "backward", "operators"], _by_kind(log), align="lrrl")


def _by_kind(log: DispatchLog) -> list[tuple[str, int, int, str]]:
    rows = []
    for kind in KINDS:
        here = [call for call in log.calls if call.below_autograd and call.kind == kind]
        if here:
            forward = sum(call.direction == "forward" for call in here)
            names = sorted({call.name for call in here})
            rows.append((kind, forward, len(here) - forward, ", ".join(names)))
    return rows


def kinds(log: DispatchLog) -> Drawing:
    """The same as dots, forward and backward; a bar each where there is no backward."""
    counts = {kind: {"forward": forward, "backward": backward} for kind, forward, backward, _ in _by_kind(log)}
    sums = {way: sum(each[way] for each in counts.values()) for way in ("forward", "backward")}
    most = max(counts, key=lambda kind: sum(counts[kind].values()))
    shares = (f"{counts[most][way]} of {sums[way]} in the {way}" for way in sums if sums[way])
    parts = [Row(kind, {way: each[way] for way in sums if sums[way]}) for kind, each in counts.items()]
    return (dotted if all(sums.values()) else segments)(
        parts,
        Axis("operators below autograd"),
        title=f"The most frequent kind is the {most}: {', '.join(shares)}.",
        colours={"forward": "sky", "backward": "orange"},
    )


def by_line(log: DispatchLog) -> Table:
    """One row a line of the user's source: how often it ran, and the dispatches and operators it led to."""

    def row(calls: list[Call]) -> tuple:
        line = next(call.line for call in calls if call.line)
        text = line.text or linecache.getline(line.file, line.line).strip()
        return (str(line), Code(text), len({call.module for call in calls}), *_both(calls))

    groups: dict[tuple[str, int], list[Call]] = {}
    for call in log.calls:
        if call.line:
            groups.setdefault((call.line.file, call.line.line), []).append(call)
    return Table(["line", "source", "modules", "forward", "backward"], [row(groups[key]) for key in sorted(groups)])


def by_module(log: DispatchLog) -> Table:
    """One row a module, the layers of a stack folded into one: operators below autograd, forward and backward."""
    groups = _grouped((call for call in log.calls if call.module), lambda call: _folded(call.module))
    rows = [(Code(path), len({call.module for call in calls}), *_both(calls)) for path, calls in groups.items()]
    return Table(["module", "how many", "forward", "backward"], rows)


def batches(rows: list[dict[str, Any]], provenance: object | None = None) -> Figure:
    """Time of one call against batch, of one pass of the recording ``dispatch``: whole, its issue, its kernels."""
    at = [row["batch"] for row in rows]
    quartiles = [_ms([row["wall"][key] for row in rows]) for key in ("median_us", "low_us", "high_us")]
    series = [
        Series("one call", at, *quartiles),
        Series("Python issues it", at, _ms([row["issue"]["median_us"] for row in rows])),
    ]
    if all(row["kernels_us"] for row in rows):  # a CPU has none of its own
        kernels = _ms([row["kernels_us"] for row in rows])
        longer = [max(pair) for pair in zip(series[1].values, kernels, strict=True)]
        series += [Series("its kernels alone", at, kernels), Series("model: the longer of these two", at, longer)]
    name = _PASSES.get(rows[0]["pass"], rows[0]["pass"])
    longer_from = overtakes(rows)
    title = f"From batch {longer_from:,} on, the kernels take longer than Python." if longer_from else ""
    return lines(
        series,
        x_title="batch, sequences",
        y_title="ms",
        title=title
        or f"One {name}: {series[0].values[0]:.3g} ms at batch {at[0]}, {series[0].values[-1]:.3g} at {at[-1]:,}.",
        caption=f"{name}, eager: medians, and quartiles of one call",
        provenance=provenance,
        log_x=True,
        log_y=True,
    )


def model_error(rows: Iterable[dict[str, Any]]) -> str:
    """In words: how far the longer of two sums, issuing and kernels, lies from the time of a call in such rows.

    Empty where no row has kernels, as on a CPU.
    """
    errors = [
        abs(max(row["issue"]["median_us"], row["kernels_us"]) / row["wall"]["median_us"] - 1)
        for row in rows
        if row["kernels_us"]
    ]
    if not errors:
        return ""
    return (
        f"For half of the measurements below, this sum is off by less than {percent(median(errors), 1)}, and for none "
        f"by more than {percent(max(errors))}."
    )


def issuing(rows: Iterable[dict[str, Any]]) -> str:
    """In words: between which times Python issues the same calls at these batches."""
    times = [row["issue"]["median_us"] for row in rows]
    return (
        f"Python needs {min(times):,.0f} to {max(times):,.0f} µs to issue a call at these batches: the operators "
        "are the same, so the difference is the host's."
    )


def overtakes(rows: Iterable[dict[str, Any]]) -> int | None:
    """The first batch of such rows at which the kernels take longer than issuing them; None where none does."""
    return next((row["batch"] for row in rows if (row["kernels_us"] or 0) > row["issue"]["median_us"]), None)


_PASSES = {"training": "forward and backward"}
"""What a reader calls a pass of the recording ``dispatch``."""


def _ms(times_us: Iterable[float]) -> list[float]:
    return [rounded(us / 1e3, 3) for us in times_us]


def costs(rows: Iterable[dict[str, Any]], provenance: object | None = None) -> Drawing:
    """What a call costs on one element, a row for each, from the rows of `experiments.dispatch.op_costs`."""
    rows = list(rows)
    series = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        here = [row for row in rows if row["mode"] == mode]
        times = [[row[key] for row in here] for key in ("median_us", "low_us", "high_us")]
        series.append(Series(mode, [row["op"] for row in here], *times))
    dear, cheap = (pick(rows, key=lambda row: row["median_us"]) for pick in (max, min))
    title = f"From {cheap['median_us']:.2g} µs for {cheap['op']} to {dear['median_us']:.2g} µs for {dear['op']}."
    caption = "one element, median and quartiles"
    return bars(series, value_title="a call, µs", title=title, caption=caption, provenance=provenance)


def _both(calls: list[Call]) -> tuple[int, int]:
    forward = sum(call.below_autograd and call.direction == "forward" for call in calls)
    return forward, sum(call.below_autograd for call in calls) - forward


def _grouped(calls: Iterable[Call], key: Callable[[Call], object]) -> dict:
    groups: dict = {}
    for call in calls:
        groups.setdefault(key(call), []).append(call)
    return groups


def _folded(path: str) -> str:
    """``blocks.3.mlp`` as ``blocks.*.mlp``: the same layer, wherever in the stack it is."""
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path)
