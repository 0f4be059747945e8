"""Lifetimes with a name on each bar, and the allocator's own curve beside what was predicted."""

from __future__ import annotations

from ..doors import door
from ..page.canvas import Canvas, key
from ..page.figures import Drawing
from ..page.tables import Table
from ..page.units import unit_of, with_unit, without_namespace
from ..simulator.joint_graphs import JointNode, StoredGraph
from ..simulator.lifetimes import Halves, Life, LivedStep
from ..simulator.lifetimes_view import lives
from .ledger import Lifetimes
from .measured import Peak


@door
def labelled(
    lifetimes: Lifetimes,
    caption: str = "",
    provenance: object = None,
    ceiling_nbytes: float | None = None,
    operations: int | None = None,
) -> Drawing:
    """The bytes alive at each operation by kind, and a bar for each of the largest buffers: operation, line, bytes.

    ``ceiling_nbytes`` and ``operations`` end the axes, so that drawings compare. Raises ValueError for ends that leave
    out a part of the step, and for a step of more than a forward and a backward.
    """
    ends = {"ceiling_nbytes": ceiling_nbytes, "operations": operations}
    return lives(_as_step(lifetimes), caption, provenance=provenance, **ends)


def _as_step(lifetimes: Lifetimes) -> LivedStep:
    phases = [moment.phase for moment in lifetimes.timeline]
    if "optimizer" in phases:
        raise ValueError("this step has an optimizer, and what is drawn is a forward and a backward")
    made = [each for each in lifetimes.tensors if not each.is_resident]
    lines = {str(each.source): each.source.text for each in made if each.source}
    places = list(lines)
    nodes = []
    for each in made:
        line = places.index(str(each.source)) if each.source else -1
        op = without_namespace(each.op)
        nodes.append(
            JointNode(each.name, op, line, (), each.nbytes, None, "", (), (each.nbytes,), (None,), None, False)
        )
    kept = tuple((place.replace(", line ", ":"), 0, text) for place, text in lines.items())
    graph = StoredGraph("", "", tuple(nodes), kept, (), (), ())
    buffers = tuple(Life(at, each.name, each.kind, each.nbytes, each.birth, each.death) for at, each in enumerate(made))
    live = tuple(moment.live_bytes for moment in lifetimes.timeline)
    names = tuple(moment.name for moment in lifetimes.timeline)
    return LivedStep(graph, 1, Halves((), (), ()), buffers, names, live, phases.count("forward"), lifetimes.held_nbytes)


LEFT, WIDE, HIGH = 46, 944, 130


@door
def beside(step: LivedStep, measured: Peak, caption: str = "", provenance: object = None) -> Drawing:
    """The live bytes of a step as computed, and under them what the allocator had given out, on one scale.

    The forward is as wide in both, and so is the backward: the one counts operations, the other what the allocator did.
    Raises ValueError for a measurement without a curve, or without the end of the forward.
    """
    if not measured.curve or not measured.forward_events:
        raise ValueError("this peak has no curve of a forward and a backward: measure it with measure_step")
    canvas, ceiling = Canvas(), 1.15 * max(step.peak_nbytes, measured.peak_nbytes)
    unit, size = unit_of(ceiling)
    both = {
        "computed, operation by operation": (step.live, step.forward, "blue", step.peak_nbytes),
        f"given out by the allocator ({measured.device})": (
            measured.curve, measured.forward_events, "orange", measured.peak_nbytes,
        ),
    }  # fmt: skip
    top = 24
    for name, (curve, forward, colour, peak) in both.items():
        ground = top + HIGH
        canvas.words(LEFT + 8, top, name, bold=True)
        corners = [(LEFT, ground)]
        for at, nbytes in enumerate(curve):
            y = round(ground - HIGH * nbytes / ceiling)
            corners += [(_place(at, forward, len(curve)), y), (_place(at + 1, forward, len(curve)), y)]
        canvas.area([*corners, (LEFT + WIDE, ground)], colour, title=name)
        canvas.line([(LEFT, top), (LEFT, ground), (LEFT + WIDE, ground)])
        canvas.words(0, top + 6, unit)
        canvas.words(
            LEFT - 8,
            ground - HIGH * round(ceiling / size / 2) * size / ceiling + 6,
            f"{round(ceiling / size / 2)}",
            anchor="end",
        )
        canvas.words(LEFT + WIDE, top, f"peak {with_unit(peak)}", bold=True, anchor="end")
        top = ground + 44
    middle = LEFT + WIDE / 3
    canvas.words(LEFT + WIDE / 6, top - 22, "forward", anchor="middle")
    canvas.words(middle + WIDE / 3, top - 22, "backward", anchor="middle")
    off = abs(step.peak_nbytes - measured.peak_nbytes)
    alt = (
        f"Two curves of one shape. Computed, the peak is {with_unit(step.peak_nbytes)}; the allocator gave out "
        f"{with_unit(measured.peak_nbytes)}: {f'they differ by {with_unit(off)}' if off else 'the same, to the byte'}."
    )
    rows = [
        ("alive between the passes", step.held_nbytes, measured.held_nbytes),
        ("peak", step.peak_nbytes, measured.peak_nbytes),
    ]
    table = Table(["bytes", "computed", "measured"], rows, align="lrr")
    return Drawing(canvas.svg(), alt, caption, table, provenance, key({"computed": "blue", "measured": "orange"}))


def _place(at: int, forward: int, count: int) -> int:
    """A third of the width for the forward, the rest for the backward."""
    if at <= forward:
        return round(LEFT + WIDE / 3 * at / max(1, forward))
    return round(LEFT + WIDE / 3 + 2 * WIDE / 3 * (at - forward) / max(1, count - forward))
