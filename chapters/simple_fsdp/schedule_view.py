"""Who schedules a sharded step, and what an order of its collectives is worth on another wire."""

from collections.abc import Mapping

from compile_lab.devices.step_collectives import StepCollectives
from compile_lab.doors import door
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, segments
from compile_lab.page.units import significant

from ..shared.overlap_compiled_view import RankStep

HOOKS, COMPILER, NOBODY = "hooks written by hand", "the compiler", "no weight is gathered"
COLOURS = {HOOKS: "purple", COMPILER: "sky", NOBODY: "grey"}
SCHEDULED_BY = {"FSDP2": HOOKS, "SimpleFSDP": COMPILER}
"""By a case's first word; any other case gathers no weights."""
COMPUTES, WAITS = "matmuls", "waiting for a collective"


@door
def who_schedules(found: Mapping[str, RankStep], caption: str = "", provenance: object | None = None) -> Drawing:
    """A bar for each case's step, with its quartiles, coloured by who decides when weights and gradients are sent.

    ValueError where no step is scheduled by hooks, or none by the compiler: there is nothing to compare.
    """
    by = {case: SCHEDULED_BY.get(case.partition(",")[0], NOBODY) for case in found}
    hooks, compiler = ([found[case].step_ms for case in found if by[case] == who] for who in (HOOKS, COMPILER))
    if not hooks or not compiler:
        raise ValueError(f"of the cases {', '.join(found)} none is scheduled by {'the compiler' if hooks else 'hooks'}")
    return segments(
        [
            Row(case, {by[case]: one.step_ms}, after=f"{one.step_ms:.0f} ms", spreads={by[case]: _quartiles(one)})
            for case, one in found.items()
        ],
        Axis("a step", "ms"),
        title=f"Scheduled by the compiler, a sharded step takes {min(compiler):.0f} ms; by hooks, "
        f"{min(hooks):.0f} to {max(hooks):.0f}.",
        caption=caption,
        colours=COLOURS,
        provenance=provenance,
    )


def _quartiles(one: RankStep) -> tuple[float, float]:
    return one.low_ms, one.high_ms


@door
def on_paper(
    steps: Mapping[str, StepCollectives], larger: float, matmul_ms: float, bytes_per_ms: float, start_ms: float
) -> Drawing:
    """A bar for each order of a step, in parts of the first one's time: what computes, and what waits.

    ``larger`` is how many times as many bytes each collective has. Raises ValueError without an order, and as
    `GraphOrder.on_wire` does.
    """
    if not steps:
        raise ValueError("no order is given: give at least one, with its StepCollectives")
    found = {
        name: [graph.on_wire(matmul_ms, bytes_per_ms / larger, start_ms) for graph in step.graphs]
        for name, step in steps.items()
    }
    took = {name: sum(each.span_ms for each in graphs) for name, graphs in found.items()}
    first, whole = next(iter(took.items()))
    rows = []
    for name, graphs in found.items():
        computes = 100 * sum(each.compute_ms for each in graphs) / whole
        waits = min(100, 100 * took[name] / whole) - computes
        parts = {COMPUTES: round(computes, 3), WAITS: round(max(0.0, waits), 3)}
        rows.append(Row(name, parts, after=f"{significant(took[name])} ms"))
    best = min(took, key=took.__getitem__)
    return segments(
        rows,
        Axis(f"of the time of “{first}”", "%", until=100),
        title=f"The shortest step, {best}, takes {100 * took[best] / whole:.0f} % of the time of “{first}”.",
        colours={COMPUTES: "green", WAITS: "vermillion"},
    )
