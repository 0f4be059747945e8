"""The allocator's own curve compared with the predicted one."""

from __future__ import annotations

from compile_lab.doors import door
from compile_lab.memory.measured import Peak
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Table
from compile_lab.page.units import unit_of, with_unit
from compile_lab.simulator.lifetimes import LivedStep

LEFT, WIDE, HIGH = 46, 944, 130


@door
def comparison(step: LivedStep, measured: Peak, caption: str = "", provenance: object = None) -> Drawing:
    """The live bytes of a step as computed, and under them what the allocator had given out, on one scale.

    The forward is as wide in both, and so is the backward: the one counts operations, the other what the allocator did.
    Raises ValueError for a measurement without a curve, or without the end of the forward.

    >>> from chapters.memory_lifetimes.comparison_view import comparison
    >>> from compile_lab.memory.measured import Peak
    >>> from compile_lab.simulator import joint_graphs, lifetimes
    >>> comparison(
    ...     lifetimes.lived(joint_graphs.stored_graphs()["MLP by hand"], budget=1),
    ...     Peak("cpu", 9_000_000, 3_000_000, 0, "mm", (), curve=(3_000_000, 9_000_000, 0), forward_events=1),
    ... ).table
    bytes                       computed   measured
    ────────────────────────  ──────────  ─────────
    alive between the passes   5,242,884  3,000,000
    peak                      13,173,000  9,000,000
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
