"""Eager and compiled against float64, as a reader sees it: operators, chains, training runs, a search's result."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compile_lab.doors import door
from compile_lab.page.canvas import round_end
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Line, dots, lines, short
from compile_lab.page.tables import Table
from compile_lab.precision.bisect import Divergence

from .chains import COMPILED, EAGER, EMULATED, ChainError
from .operators import VERDICTS, OperatorError
from .runs import REFERENCE, TrainedRun

COLOURS = dict(zip(VERDICTS, ("grey", "sky", "orange", "blue"), strict=True))
RELATIVE = "errors relative to the least possible one, that of the exact result rounded once"


def _judged(errors: Iterable[OperatorError]) -> list[OperatorError]:
    return [error for error in errors if error.verdict in VERDICTS]


def _precisions(errors: Iterable[OperatorError]) -> list[str]:
    return list(dict.fromkeys(error.precision for error in errors))


@door
def operators_picture(errors: Sequence[OperatorError], provenance: object = None) -> Drawing:
    """Each operator a point: eager's error to the right, compiled's upwards, log axes, a panel a precision (two).

    Relative to the least possible error, that of the exact result when it is rounded. Those whose exact result
    rounds to itself have no place in it. Raises ValueError where nothing was compared.

    >>> from chapters.is_it_right.rounding.view import operators_picture
    >>> from chapters.is_it_right.rounding.operators import OperatorError
    >>> errors = [OperatorError("softmax", "bf16", 1024, eager=3.1e-3, compiled=1.6e-3, rounding=1.6e-3)]
    >>> operators_picture(errors).title
    'Closer to float64 in bf16: compiled 1 of 1 operators, eager 0.'
    """
    judged = _judged(errors)
    if not judged:
        raise ValueError("no operator was compared: give rows whose errors are numbers")
    placed = [(each, at) for each in judged if (at := _shares(each))]
    precisions = _precisions(judged)[:2]
    low, until = 0.8, round_end(max(max(at) for each, at in placed if each.precision in precisions))
    equal = Line(VERDICTS[0], [(low, low), (until, until)], dashed=True)
    panels = {precision: [equal] for precision in precisions}
    for precision, drawn in panels.items():
        for verdict in VERDICTS:
            shown = [(each, at) for each, at in placed if (each.precision, each.verdict) == (precision, verdict)]
            names = [f"{each.operator}: eager {each.eager:.2e}, compiled {each.compiled:.2e}" for each, _ in shown]
            drawn += [Line(verdict, [at for _, at in shown], names=names)] * bool(shown)
    counts = {
        precision: Counter(each.verdict for each in judged if each.precision == precision) for precision in panels
    }
    told = "; ".join(
        f"{precision}: compiled {found['compiled closer']} of {found.total()} operators, eager {found['eager closer']}"
        for precision, found in counts.items()
    )
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 1000) if tick <= until]
    ends = Axis(unit="×", log=True, low=low, until=until, ticks=ticks)
    return lines(
        panels,
        replace(ends, title="error of eager"),
        replace(ends, title="error of compiled"),
        title=f"Closer to float64 in {told}.",
        caption=RELATIVE,
        colours=COLOURS,
        provenance=provenance,
        table=operators_table(judged),
    )


def _shares(each: OperatorError) -> tuple[float, float] | None:
    if each.rounding and each.eager and each.compiled:
        return each.eager / each.rounding, each.compiled / each.rounding
    return None


@door
def operators_table(errors: Sequence[OperatorError]) -> Table:
    """Every operator that was compared and is not bitwise equal, by the larger of the two shares; folded.

    >>> from chapters.is_it_right.rounding.view import operators_table
    >>> from chapters.is_it_right.rounding.operators import OperatorError
    >>> operators_table([OperatorError("softmax", "bf16", 1024, eager=3.1e-3, compiled=1.6e-3, rounding=1.6e-3)])
    operator  precision  elements  error, eager  error, compiled  verdict
    ────────  ─────────  ────────  ────────────  ───────────────  ───────────────
    softmax   bf16          1,024  3.10e-03      1.60e-03         compiled closer
    """
    judged = _judged(errors)
    differ = [error for error in judged if not error.equal]
    differ.sort(key=lambda each: abs(math.log((each.compiled or 1e-30) / (each.eager or 1e-30))), reverse=True)
    rows = [
        (each.operator, each.precision, each.elements, f"{each.eager:.2e}", f"{each.compiled:.2e}", each.verdict)
        for each in differ
    ]
    columns = ["operator", "precision", "elements", "error, eager", "error, compiled", "verdict"]
    return Table(columns, rows, folded=f"The {len(differ)} of {len(judged)} whose bits differ, furthest apart first")


@door
def verdicts(errors: Sequence[OperatorError]) -> Table:
    """One row a precision: how many operators are bitwise equal, closer when compiled, closer in eager.

    >>> from chapters.is_it_right.rounding.view import verdicts
    >>> from chapters.is_it_right.rounding.operators import OperatorError
    >>> errors = {"mm": (2e-7, 2e-7, 1e-7, True), "sum": (4e-7, 1e-7, 1e-7)}
    >>> verdicts([OperatorError(name, "fp32", 9, *found) for name, found in errors.items()])
    precision  operators  bitwise equal  as close  compiled closer  eager closer  not compared
    ─────────  ─────────  ─────────────  ────────  ───────────────  ────────────  ────────────
    fp32               2              1         0                1             0             0
    """
    judged = _judged(errors)
    rows: list[tuple[str | int, ...]] = []
    for precision in _precisions(errors):
        of_it = [error for error in judged if error.precision == precision]
        counts = Counter(error.verdict for error in of_it)
        without = sum(error.precision == precision for error in errors) - len(of_it)
        rows.append((precision, len(of_it), *(counts[verdict] for verdict in VERDICTS), without))
    return Table(["precision", "operators", *VERDICTS, "not compared"], rows)


@door
def chain_picture(chains: Sequence[ChainError], precision: str = "bf16", provenance: object = None) -> Drawing:
    """Each chain a row: errors of eager, compiled and compiled with eager's casts, relative to the least possible.

    Raises ValueError for a precision that no chain was compared in.

    >>> from chapters.is_it_right.rounding.chains import ChainError
    >>> from chapters.is_it_right.rounding.view import chain_picture
    >>> ways = {"eager": 5.0e-3, "compiled": 1.7e-3}
    >>> chain_picture([ChainError("softmax, in steps", "bf16", way, error, 1.6e-3) for way, error in ways.items()]).alt
    'Compiled is closer to float64 in 1 of 1 chains in bf16. softmax, in steps: eager 3.1, compiled 1.1×.'
    """
    ways = (EAGER, COMPILED, EMULATED)
    by = {(each.chain, each.way): each for each in chains if each.precision == precision and each.error is not None}
    names = list(dict.fromkeys(chain for chain, _ in by))
    if not names:
        raise ValueError(
            f"no chain was compared in {precision!r}; there is {', '.join({each.precision for each in chains})}"
        )
    series = {
        way: [_share(by.get((name, way))) for name in names] for way in ways if any((name, way) in by for name in names)
    }
    off = {at: each.error for at, each in by.items() if each.error is not None}
    closer = [name for name in names if (name, COMPILED) in off and off[name, COMPILED] * 1.1 < off[name, EAGER]]
    rows = [
        [each.chain, each.way, None if each.error is None else f"{each.error:.2e}", _percent(each.equal), each.stopped]
        for each in chains
        if each.precision == precision
    ]
    columns = ["chain", "way", "error", "elements as in eager", "stopped"]
    kept = len(columns) - (not any(row[-1] for row in rows))
    table = Table(columns[:kept], [row[:kept] for row in rows], align="llrrl"[:kept])
    title = f"Compiled is closer to float64 in {len(closer)} of {len(names)} chains in {precision}."
    return dots(names, series, unit="×", title=title, caption=RELATIVE, provenance=provenance, table=table)


def _share(chain: ChainError | None) -> float | None:
    return chain.error / chain.rounding if chain and chain.error is not None and chain.rounding else None


def _percent(share: float | None) -> str | None:
    if share is None:
        return None
    if share == 1:
        return "100 %: bitwise"
    return f"{100 * share:.4g} %" if share < 0.99995 else "over 99.99 %"


@door
def bits(chains: Sequence[ChainError], provenance: object = None) -> Table:
    """What each option gives back of eager's bits: one row a precision and way.

    >>> from chapters.is_it_right.rounding.chains import ChainError
    >>> from chapters.is_it_right.rounding.view import bits
    >>> ways = {"eager": (2e-3, 1.0), "compiled": (1e-3, 0.6)}
    >>> bits([ChainError("GELU", "bf16", way, error, 1e-3, equal) for way, (error, equal) in ways.items()])
    precision  option    chains equal to the bit  elements equal, median  error, median
    ─────────  ────────  ───────────────────────  ──────────────────────  ─────────────
    bf16       eager                      1 of 1                   100 %        2.0e-03
    bf16       compiled                   0 of 1                    60 %        1.0e-03
    """
    rows: list[tuple[str | None, ...]] = []
    for precision, way in dict.fromkeys((each.precision, each.way) for each in chains):
        of_it = [each for each in chains if (each.precision, each.way) == (precision, way) and each.error is not None]
        if not of_it:
            rows.append((precision, way, "not in this torch", None, None))
            continue
        whole = sum(each.equal == 1 for each in of_it)
        share = statistics.median(each.equal for each in of_it if each.equal is not None)
        error = statistics.median(each.error for each in of_it if each.error is not None)
        rows.append((precision, way, f"{whole} of {len(of_it)}", f"{100 * share:.3g} %", f"{error:.1e}"))
    columns = ["precision", "option", "chains equal to the bit", "elements equal, median", "error, median"]
    return Table(columns, rows, f"Compared with eager. {provenance}" if provenance else "", align="llrrr")


@door
def distances(runs: Sequence[TrainedRun], provenance: object = None) -> Drawing:
    """How far a run's weights are from float64's, by the way travelled, over steps: the median of the seeds.

    >>> from chapters.is_it_right.rounding.view import distances
    >>> from chapters.is_it_right.rounding.runs import TrainedRun
    >>> runs = [TrainedRun("fp32 eager", seed, (), (1, 10), (1e-5, far)) for seed, far in enumerate((2e-3, 4e-3))]
    >>> distances(runs).alt
    'After 10 steps the runs are 0.003 to 0.003 of the way from float64. fp32 eager from 1e−05 at 1 to 0.003 at 10.'
    """
    drawn = []
    for way in dict.fromkeys(run.name for run in runs if run.name != REFERENCE):
        of_it = [run for run in runs if run.name == way]
        at_steps = list(zip(*(run.distances for run in of_it), strict=True))
        points = list(zip(of_it[0].steps, map(statistics.median, at_steps), strict=True))
        spreads = [(min(each), max(each)) for each in at_steps]
        drawn.append(Line(way, points, short(points[-1][1]), dots=True, spreads=spreads))
    least, most = (short(pick(line.points[-1][1] for line in drawn)) for pick in (min, max))
    return lines(
        {"": drawn},
        Axis("step", log=True),
        Axis("distance from the float64 run, of the way travelled", log=True),
        title=f"After {of_it[0].steps[-1]} steps the runs are {least} to {most} of the way from float64.",
        caption=f"Median of {len({run.seed for run in runs})} seeds, and all of them between the ends of the marks.",
        provenance=provenance,
    )


@door
def divergence(found: Divergence) -> Table:
    """Every operation of the graph: errors against float64, and where compiled code was looked at, how far it is.

    >>> from chapters.is_it_right.rounding.view import divergence
    >>> from compile_lab.precision.bisect import Divergence, NodeError
    >>> first = NodeError("exp", "aten.exp.default", None, eager=1e-7, growth=1.5, compiled=3e-7, apart=2.5e-7)
    >>> divergence(Divergence(first, (first,), ("exp",), tolerance=0.0))
       operation         line  error, eager  growth  error, compiled  compiled from eager
    ─  ────────────────  ────  ────────────  ──────  ───────────────  ───────────────────
    →  aten.exp.default  –          1.0e-07     1.5          3.0e-07              2.5e-07
    """
    rows = [
        (
            "→" if found.first and node.node == found.first.node else "",
            node.operator,
            str(node.line) if node.line else None,
            f"{node.eager:.1e}",
            f"{node.growth:.1f}",
            None if node.compiled is None else f"{node.compiled:.1e}",
            None if node.apart is None else ("equal" if node.apart == 0 else f"{node.apart:.1e}"),
        )
        for node in found.nodes
    ]
    columns = ["", "operation", "line", "error, eager", "growth", "error, compiled", "compiled from eager"]
    return Table(columns, rows, align="cllrrrr")
