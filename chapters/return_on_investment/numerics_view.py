"""Eager and compiled against float64, as a reader sees it: operators, chains, training runs, a search's result."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from compile_lab.doors import door
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.dotplot import dots
from compile_lab.page.figures import Drawing, Figure, Series, lines
from compile_lab.page.tables import Table
from compile_lab.precision.bisect import Divergence

from .chains import COMPILED, EAGER, EMULATED, ChainError, MaskRow, RowAlone
from .operators_judged import VERDICTS, OperatorError
from .runs import REFERENCE, TrainedRun

COLOURS = dict(zip(VERDICTS, ("grey", "sky", "green", "vermillion"), strict=True))
_LEFT, _SIZE, _TOP, _GAP = 70, 400, 46, 95
_BOTTOM = _TOP + _SIZE


def _judged(errors: Iterable[OperatorError]) -> list[OperatorError]:
    return [error for error in errors if error.verdict in VERDICTS]


def _precisions(errors: Iterable[OperatorError]) -> list[str]:
    return list(dict.fromkeys(error.precision for error in errors))


@door
def operators_picture(errors: Sequence[OperatorError], provenance: object = None) -> Drawing:
    """Each operator a square: eager's error to the right, compiled's upwards, log axes, a panel a precision (two).

    In units of the least error there can be, that of the exact result when it is rounded. Those whose exact result
    rounds to itself have no place in it. Raises ValueError where nothing was judged.

    >>> from chapters.return_on_investment.numerics_view import operators_picture
    >>> from chapters.return_on_investment.operators_judged import OperatorError
    >>> errors = [OperatorError("softmax", "bf16", 1024, eager=3.1e-3, compiled=1.6e-3, rounding=1.6e-3)]
    >>> operators_picture(errors).alt
    'Operators by their errors against float64, eager to the right, compiled upwards. bf16: 0 bitwise equal,
    0 as close, 1 compiled closer, 0 eager closer.'
    """
    judged = _judged(errors)
    if not judged:
        raise ValueError("no operator was judged: give rows whose errors are numbers")
    precisions = _precisions(judged)[:2]
    placed = [error for error in judged if error.rounding and error.eager and error.compiled]
    shares = {error: (error.eager / error.rounding, error.compiled / error.rounding) for error in placed}
    reach = max(max(pair) for error, pair in shares.items() if error.precision in precisions)
    decades = max(1, math.ceil(math.log10(reach)))
    canvas = Canvas()
    for panel, precision in enumerate(precisions):
        left = _LEFT + panel * (_SIZE + _GAP)
        scale = _panel(canvas, left, precision, decades)
        shown = [error for error in placed if error.precision == precision]
        for error in sorted(shown, key=lambda each: VERDICTS.index(each.verdict)):
            x, y = map(scale, shares[error])
            title = f"{error.operator}: eager {error.eager:.2e}, compiled {error.compiled:.2e}, {error.verdict}"
            canvas.box(left + x - 5, _BOTTOM - y - 5, 10, 10, COLOURS[error.verdict], title=title)
    told = "; ".join(f"{precision}: {_counted(judged, precision)}" for precision in precisions)
    return Drawing(
        canvas.svg(),
        f"Operators by their errors against float64, eager to the right, compiled upwards. {told}.",
        "Error in units of the least there can be: the exact result, rounded. Below the diagonal compiled is closer.",
        operators_table(judged),
        provenance,
        key(COLOURS),
    )


def _panel(canvas: Canvas, left: float, precision: str, decades: int) -> Callable[[float], float]:
    """Axes of one panel; returns where, from the lower left corner, a share stands."""
    low = -0.3

    def scale(share: float) -> float:
        return (max(low, math.log10(share)) - low) / (decades - low) * _SIZE

    canvas.words(left, _TOP - 16, precision, bold=True)
    canvas.line([(left, _TOP), (left, _BOTTOM), (left + _SIZE, _BOTTOM)])
    canvas.line([(left, _BOTTOM), (left + _SIZE, _TOP)], "grey", thick=1.5, dashed=True)
    for decade in range(decades + 1):
        at = scale(10**decade)
        canvas.line([(left + at, _BOTTOM), (left + at, _BOTTOM + 7)])
        canvas.line([(left - 7, _BOTTOM - at), (left, _BOTTOM - at)])
        canvas.words(left + at, _BOTTOM + 28, f"{10**decade:,}", anchor="middle")
        canvas.words(left - 12, _BOTTOM - at + 6, f"{10**decade:,}", anchor="end")
    canvas.words(left + _SIZE / 2, _BOTTOM + 56, "error of eager", anchor="middle")
    canvas.words(left + 12, _TOP + 12, "error of compiled")
    return scale


def _counted(errors: Iterable[OperatorError], precision: str) -> str:
    counts = Counter(error.verdict for error in errors if error.precision == precision)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)


@door
def operators_table(errors: Sequence[OperatorError]) -> Table:
    """Every operator that was judged and is not bitwise equal, by the larger of the two shares; folded.

    >>> from chapters.return_on_investment.numerics_view import operators_table
    >>> from chapters.return_on_investment.operators_judged import OperatorError
    >>> operators_table([OperatorError("softmax", "bf16", 1024, eager=3.1e-3, compiled=1.6e-3, rounding=1.6e-3)])
    operator  precision  results  error, eager  error, compiled  verdict
    ────────  ─────────  ───────  ────────────  ───────────────  ───────────────
    softmax   bf16         1,024  3.10e-03      1.60e-03         compiled closer
    """
    judged = _judged(errors)
    differ = [error for error in judged if not error.equal]
    differ.sort(key=lambda each: abs(math.log((each.compiled or 1e-30) / (each.eager or 1e-30))), reverse=True)
    rows = [
        (each.operator, each.precision, each.elements, f"{each.eager:.2e}", f"{each.compiled:.2e}", each.verdict)
        for each in differ
    ]
    columns = ["operator", "precision", "results", "error, eager", "error, compiled", "verdict"]
    return Table(columns, rows, folded=f"The {len(differ)} of {len(judged)} whose bits differ, furthest apart first")


@door
def verdicts(errors: Sequence[OperatorError]) -> Table:
    """One row a precision: how many operators are bitwise equal, closer when compiled, closer in eager.

    >>> from chapters.return_on_investment.numerics_view import verdicts
    >>> from chapters.return_on_investment.operators_judged import OperatorError
    >>> errors = {"mm": (2e-7, 2e-7, 1e-7, True), "sum": (4e-7, 1e-7, 1e-7)}
    >>> verdicts([OperatorError(name, "fp32", 9, *found) for name, found in errors.items()])
    precision  operators  bitwise equal  as close  compiled closer  eager closer  not judged
    ─────────  ─────────  ─────────────  ────────  ───────────────  ────────────  ──────────
    fp32               2              1         0                1             0           0
    """
    judged = _judged(errors)
    rows = []
    for precision in _precisions(errors):
        of_it = [error for error in judged if error.precision == precision]
        counts = Counter(error.verdict for error in of_it)
        without = sum(error.precision == precision for error in errors) - len(of_it)
        rows.append((precision, len(of_it), *(counts[verdict] for verdict in VERDICTS), without))
    return Table(["precision", "operators", *VERDICTS, "not judged"], rows)


@door
def chain_picture(chains: Sequence[ChainError], precision: str = "bf16", provenance: object = None) -> Drawing:
    """Each chain a row: errors of eager, compiled and compiled with eager's casts, in units of the least there can be.

    Raises ValueError for a precision that no chain was judged in.

    >>> from chapters.return_on_investment.chains import ChainError
    >>> from chapters.return_on_investment.numerics_view import chain_picture
    >>> ways = {"eager": 5.0e-3, "compiled": 1.7e-3}
    >>> chain_picture([ChainError("softmax, in steps", "bf16", way, error, 1.6e-3) for way, error in ways.items()]).alt
    'Errors of 1 chains in bf16 against float64. Compiled is closer to it in 1: softmax, in steps.'
    """
    ways = (EAGER, COMPILED, EMULATED)
    by = {(each.chain, each.way): each for each in chains if each.precision == precision and each.error is not None}
    names = list(dict.fromkeys(chain for chain, _ in by))
    if not names:
        raise ValueError(
            f"no chain was judged in {precision!r}; there is {', '.join({each.precision for each in chains})}"
        )
    series = {
        way: [_share(by.get((name, way))) for name in names] for way in ways if any((name, way) in by for name in names)
    }
    closer = [
        name for name in names if (name, COMPILED) in by and by[name, COMPILED].error * 1.1 < by[name, EAGER].error
    ]
    alt = (
        f"Errors of {len(names)} chains in {precision} against float64. Compiled is closer to it in {len(closer)}: "
        f"{', '.join(closer) or 'none'}."
    )
    rows = [
        (each.chain, each.way, None if each.error is None else f"{each.error:.2e}", _percent(each.equal), each.stopped)
        for each in chains
        if each.precision == precision
    ]
    table = Table(["chain", "way", "error", "elements as in eager", "stopped"], rows, align="llrrl")
    return dots(names, series, unit="× the least", alt=alt, provenance=provenance, table=table)


def _share(chain: ChainError | None) -> float | None:
    return chain.error / chain.rounding if chain and chain.error is not None and chain.rounding else None


def _percent(share: float | None) -> str | None:
    if share is None:
        return None
    return f"{100 * share:.4g} %" if share < 1 else "100 %: bitwise"


@door
def masks(rows: Sequence[MaskRow]) -> Table:
    """One row a way to compile dropout: the share of its mask and of its values that eager has.

    >>> from chapters.return_on_investment.chains import MaskRow
    >>> from chapters.return_on_investment.numerics_view import masks
    >>> masks([MaskRow("compiled", 0.5, 0.25), MaskRow("fallback_random", 1.0, 1.0)])
    dropout          mask as in eager  values as in eager
    ───────────────  ────────────────  ──────────────────
    compiled                     50 %                25 %
    fallback_random    100 %: bitwise      100 %: bitwise
    """
    return Table(
        ["dropout", "mask as in eager", "values as in eager"],
        [(row.way, _percent(row.same_mask), row.stopped or _percent(row.same_values)) for row in rows],
        align="lrr",
    )


@door
def alone(rows: Sequence[RowAlone]) -> Table:
    """One row a call and way: the first row of its result, among few rows, against the same among 32.

    >>> from chapters.return_on_investment.chains import RowAlone
    >>> from chapters.return_on_investment.numerics_view import alone
    >>> few = {1: (False, 2e-7), 16: (True, 0.0)}
    >>> alone([RowAlone("linear", "fp32", "eager", rows, equal, apart) for rows, (equal, apart) in few.items()])
    call    precision  way    1 row    16 rows
    ──────  ─────────  ─────  ───────  ───────
    linear  fp32       eager  2.0e-07  equal
    """
    few = list(dict.fromkeys(row.rows for row in rows))
    cases = list(dict.fromkeys((row.call, row.precision, row.way) for row in rows))
    by = {((row.call, row.precision, row.way), row.rows): row for row in rows}
    body = [(*case, *(_apart(by.get((case, count))) for count in few)) for case in cases]
    return Table(["call", "precision", "way", *(f"{count} rows" if count > 1 else "1 row" for count in few)], body)


def _apart(row: RowAlone | None) -> str | None:
    if row is None:
        return None
    return "equal" if row.equal else f"{row.apart:.1e}"


@door
def distances(runs: Sequence[TrainedRun], provenance: object = None) -> Figure:
    """How far a run's weights are from float64's, by the way travelled, over steps: the median of the seeds.

    Raises ValueError without a run that was held against float64.

    >>> from chapters.return_on_investment.numerics_view import distances
    >>> from chapters.return_on_investment.runs import TrainedRun
    >>> runs = [TrainedRun("fp32 eager", seed, (), (1, 10), (1e-5, far)) for seed, far in enumerate((2e-3, 4e-3))]
    >>> distances(runs).alt
    'Distance of the weights from the float64 run over training steps. At the end: fp32 eager 3.0e-03.'
    """
    ways = [name for name in dict.fromkeys(run.name for run in runs) if name != REFERENCE]
    series = [_over_seeds(way, [run for run in runs if run.name == way and run.steps]) for way in ways]
    shown = [each for each in series if each is not None]
    if not shown:
        raise ValueError("no run was held against float64: give runs with distances")
    ends = ", ".join(f"{each.name} {each.values[-1]:.1e}" for each in shown)
    return lines(
        shown,
        x_title="step",
        y_title="distance from the float64 run, of the way travelled",
        log_x=True,
        log_y=True,
        alt=f"Distance of the weights from the float64 run over training steps. At the end: {ends}.",
        caption=f"Median of {len({run.seed for run in runs})} seeds, and all of them between the ends of the marks.",
        provenance=provenance,
    )


def _over_seeds(name: str, runs: Sequence[TrainedRun]) -> Series | None:
    if not runs:
        return None
    at = [step for step, first in zip(runs[0].steps, runs[0].distances, strict=True) if first > 0]
    by_step = [[dict(zip(run.steps, run.distances, strict=True))[step] for run in runs] for step in at]
    values = [statistics.median(each) for each in by_step]
    if not all(low > 0 for each in by_step for low in each):
        return None
    return Series(name, at, values, [min(each) for each in by_step], [max(each) for each in by_step])


WINDOW = 20


@door
def loss_band(runs: Sequence[TrainedRun], provenance: object = None, names: Sequence[str] | None = None) -> Figure:
    """What moves a loss more, the way to compute or the seed? Differences of losses, log axis, mean of 20 steps.

    One line is the spread between seeds of the float64 runs; each other that of a way from float64, of the same seed.
    Raises ValueError for fewer than two seeds.

    >>> from chapters.return_on_investment.numerics_view import loss_band
    >>> from chapters.return_on_investment.runs import TrainedRun
    >>> losses = {("fp64 eager", 0): 2.0, ("fp64 eager", 1): 2.5, ("fp32 eager", 0): 2.001}
    >>> loss_band([TrainedRun(name, seed, (loss,) * 20, (), ()) for (name, seed), loss in losses.items()]).alt
    'Differences of training losses, on a log axis. Over the last 20 steps: between seeds 5.0e-01, fp32 eager
    1.0e-03.'
    """
    truth = {run.seed: run.losses for run in runs if run.name == REFERENCE and run.losses}
    if len(truth) < 2:
        raise ValueError(f"{len(truth)} seed(s): a spread needs the float64 runs of two at least")
    count = min(map(len, truth.values()))
    window = min(WINDOW, count)
    at = list(range(window, count + 1, window))
    between = [[losses[step] for losses in truth.values()] for step in range(count)]
    series = [Series("between seeds", at, _means([max(each) - min(each) for each in between], at, window))]
    for name in names or [each for each in dict.fromkeys(run.name for run in runs) if each != REFERENCE]:
        same = [run for run in runs if run.name == name and run.losses and run.seed in truth]
        if not same:
            continue
        apart = [max(abs(run.losses[step] - truth[run.seed][step]) for run in same) for step in range(count)]
        means = _means(apart, at, window)
        if min(means) > 0:
            series.append(Series(name, at, means))
    ends = ", ".join(f"{each.name} {each.values[-1]:.1e}" for each in series)
    return lines(
        series,
        x_title="step",
        y_title="difference of losses, nats",
        log_y=True,
        alt=f"Differences of training losses, on a log axis. Over the last {window} steps: {ends}.",
        caption=f"Mean of {window} steps. Ways: from float64 of the same seed, the largest of {len(truth)} seeds.",
        provenance=provenance,
    )


def _means(values: Sequence[float], at: Sequence[int], window: int) -> list[float]:
    return [statistics.fmean(values[step - window : step]) for step in at]


@door
def divergence(found: Divergence) -> Table:
    """Every operation of the graph: errors against float64, and where compiled code was looked at, how far it is.

    >>> from chapters.return_on_investment.numerics_view import divergence
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
