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

from .chains import COMPILED, EAGER, EMULATED, ChainError
from .operators import VERDICTS, OperatorError
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
    rounds to itself have no place in it. Raises ValueError where nothing was compared.

    >>> from chapters.is_it_right.rounding.view import operators_picture
    >>> from chapters.is_it_right.rounding.operators import OperatorError
    >>> errors = [OperatorError("softmax", "bf16", 1024, eager=3.1e-3, compiled=1.6e-3, rounding=1.6e-3)]
    >>> operators_picture(errors).alt
    'Operators by their errors against float64, eager to the right, compiled upwards. bf16: 0 bitwise equal,
    0 as close, 1 compiled closer, 0 eager closer.'
    """
    judged = _judged(errors)
    if not judged:
        raise ValueError("no operator was compared: give rows whose errors are numbers")
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
    """Every operator that was compared and is not bitwise equal, by the larger of the two shares; folded.

    >>> from chapters.is_it_right.rounding.view import operators_table
    >>> from chapters.is_it_right.rounding.operators import OperatorError
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

    >>> from chapters.is_it_right.rounding.view import verdicts
    >>> from chapters.is_it_right.rounding.operators import OperatorError
    >>> errors = {"mm": (2e-7, 2e-7, 1e-7, True), "sum": (4e-7, 1e-7, 1e-7)}
    >>> verdicts([OperatorError(name, "fp32", 9, *found) for name, found in errors.items()])
    precision  operators  bitwise equal  as close  compiled closer  eager closer  not compared
    ─────────  ─────────  ─────────────  ────────  ───────────────  ────────────  ────────────
    fp32               2              1         0                1             0             0
    """
    judged = _judged(errors)
    rows = []
    for precision in _precisions(errors):
        of_it = [error for error in judged if error.precision == precision]
        counts = Counter(error.verdict for error in of_it)
        without = sum(error.precision == precision for error in errors) - len(of_it)
        rows.append((precision, len(of_it), *(counts[verdict] for verdict in VERDICTS), without))
    return Table(["precision", "operators", *VERDICTS, "not compared"], rows)


@door
def chain_picture(chains: Sequence[ChainError], precision: str = "bf16", provenance: object = None) -> Drawing:
    """Each chain a row: errors of eager, compiled and compiled with eager's casts, in units of the least there can be.

    Raises ValueError for a precision that no chain was compared in.

    >>> from chapters.is_it_right.rounding.chains import ChainError
    >>> from chapters.is_it_right.rounding.view import chain_picture
    >>> ways = {"eager": 5.0e-3, "compiled": 1.7e-3}
    >>> chain_picture([ChainError("softmax, in steps", "bf16", way, error, 1.6e-3) for way, error in ways.items()]).alt
    'Errors of 1 chains in bf16 against float64. Compiled is closer to it in 1: softmax, in steps.'
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
def bits(chains: Sequence[ChainError], provenance: object = None) -> Table:
    """What each option gives back of eager's bits: one row a precision and way.

    >>> from chapters.is_it_right.rounding.chains import ChainError
    >>> from chapters.is_it_right.rounding.view import bits
    >>> ways = {"eager": (2e-3, 1.0), "compiled": (1e-3, 0.6)}
    >>> bits([ChainError("GELU", "bf16", way, error, 1e-3, equal) for way, (error, equal) in ways.items()])
    precision  option    chains equal to the bit  results equal, median  error, median
    ─────────  ────────  ───────────────────────  ─────────────────────  ─────────────
    bf16       eager                      1 of 1                  100 %        2.0e-03
    bf16       compiled                   0 of 1                   60 %        1.0e-03
    """
    rows = []
    for precision, way in dict.fromkeys((each.precision, each.way) for each in chains):
        of_it = [each for each in chains if (each.precision, each.way) == (precision, way) and each.error is not None]
        if not of_it:
            rows.append((precision, way, "not in this torch", None, None))
            continue
        whole = sum(each.equal == 1 for each in of_it)
        share = statistics.median(each.equal for each in of_it)
        error = statistics.median(each.error for each in of_it)
        rows.append((precision, way, f"{whole} of {len(of_it)}", f"{100 * share:.3g} %", f"{error:.1e}"))
    columns = ["precision", "option", "chains equal to the bit", "results equal, median", "error, median"]
    return Table(columns, rows, f"Held against eager. {provenance}" if provenance else "", align="llrrr")


@door
def distances(runs: Sequence[TrainedRun], provenance: object = None) -> Figure:
    """How far a run's weights are from float64's, by the way travelled, over steps: the median of the seeds.

    >>> from chapters.is_it_right.rounding.view import distances
    >>> from chapters.is_it_right.rounding.runs import TrainedRun
    >>> runs = [TrainedRun("fp32 eager", seed, (), (1, 10), (1e-5, far)) for seed, far in enumerate((2e-3, 4e-3))]
    >>> distances(runs).alt
    'Distance of the weights from the float64 run over training steps. At the end: fp32 eager 3.0e-03.'
    """
    shown = []
    for way in dict.fromkeys(run.name for run in runs if run.name != REFERENCE):
        of_it = [run for run in runs if run.name == way]
        at_steps = list(zip(*(run.distances for run in of_it), strict=True))
        values = [statistics.median(each) for each in at_steps]
        shown.append(Series(way, of_it[0].steps, values, [min(each) for each in at_steps], [*map(max, at_steps)]))
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
