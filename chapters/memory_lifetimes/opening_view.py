"""The picture that opens the chapter on lifetimes: the mountain of live bytes, and what lies in it at its peak."""

from __future__ import annotations

from collections.abc import Sequence

from compile_lab.doors import check_whole, door
from compile_lab.memory.ledger import Lifetimes, Tensor
from compile_lab.memory.view import _peak_phase, at_peak
from compile_lab.page.canvas import Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.units import unit_of, with_unit, without_namespace

WIDE, HIGH, TOP, LEFT = 930, 250, 34, 50
COLOURS = {
    "activation": ("blue", "other activations"),
    "gradient": ("vermillion", "gradients of parameters"),
    "optimizer state": ("green", "optimizer state"),
    "temporary": ("grey", "other temporaries"),
}
LARGEST = ("sky", "orange", "purple")
"""Colours of the largest buffers, each a layer of its own."""


@door
def mountain(
    lifetimes: Lifetimes, caption: str = "", provenance: object = None, most: int = 3, names: Sequence[str] = ()
) -> Drawing:
    """The live bytes of a step as layers: the ``most`` largest buffers alive at the peak, and the others by kind.

    ``names`` says in words what those largest are, the largest and earliest first; without, it is the operation that
    made each. Raises ValueError for a ``most`` that there are no colours for.

    >>> import torch
    >>> from chapters.memory_lifetimes.opening_view import mountain
    >>> from compile_lab.memory import eager_lifetimes
    >>> mountain(eager_lifetimes(lambda: torch.ones(1000, requires_grad=True).exp().sum().backward())).alt
    'Live bytes rise through the forward to 8 kB, jump to a peak of 12 kB in the backward, and fall to 0
    bytes. In the peak lie: mul 4 kB, exp 4 kB, ones 4 kB.'
    """
    check_whole("most", most, 0, len(LARGEST))
    large = lifetimes.alive_at(lifetimes.peak_at)[:most]
    others = [each for each in lifetimes.tensors if not each.is_resident and each not in large]
    layers: dict[str, tuple[str, list[Tensor]]] = {}
    for kind, (colour, name) in COLOURS.items():
        if mine := [each for each in others if each.kind == kind]:
            layers[name] = (colour, mine)
        for at, each in enumerate(large):
            if each.kind == kind:
                layers[names[at] if at < len(names) else without_namespace(each.op)] = (LARGEST[at], [each])
    n, unit_size = len(lifetimes.timeline), unit_of(lifetimes.peak_nbytes)
    ceiling = 1.12 * lifetimes.peak_nbytes
    canvas, ground = Canvas(), TOP + HIGH
    step, floor = WIDE / n, [0.0] * n
    for name, (colour, tensors) in layers.items():
        roof = [low + sum(t.nbytes for t in tensors if t.birth <= at <= t.death) for at, low in enumerate(floor)]
        edge = [(LEFT + (at + end) * step, ground - HIGH * roof[at] / ceiling) for at in range(n) for end in (0, 1)]
        back = [(LEFT + (at + end) * step, ground - HIGH * floor[at] / ceiling) for at in range(n) for end in (0, 1)]
        canvas.area([*edge, *reversed(back)], colour, title=name)
        floor = roof
    _frame(canvas, lifetimes, step, ground, ceiling, unit_size)
    where = LEFT + (lifetimes.peak_at + 0.5) * step
    late = lifetimes.peak_at > n / 2
    canvas.line([(where, TOP - 10), (where, ground)], dashed=True)
    said = f"peak {with_unit(lifetimes.peak_nbytes)}"
    canvas.words(where + (10 if late else -10), TOP + 4, said, bold=True, anchor="start" if late else "end")
    alive = [
        (name, sum(each.nbytes for each in tensors if each.birth <= lifetimes.peak_at <= each.death))
        for name, (_, tensors) in reversed(layers.items())
    ]
    told = [(name, nbytes) for name, nbytes in alive if nbytes > 0.005 * lifetimes.peak_nbytes]
    inside = ", ".join(f"{name} {with_unit(nbytes)}" for name, nbytes in told)
    alt = (
        f"Live bytes rise through the forward to {with_unit(lifetimes.held_nbytes)}, jump to a peak of "
        f"{with_unit(lifetimes.peak_nbytes)} in the {_peak_phase(lifetimes)}, and fall to "
        f"{with_unit(lifetimes.left_nbytes)}. In the peak lie: {inside}."
    )
    legend = key({name: colour for name, (colour, _) in reversed(layers.items())})
    caption = f"{caption} In the peak: {inside}.".strip()
    return Drawing(canvas.svg(), alt, caption, at_peak(lifetimes, 10), provenance, legend)


def _frame(
    canvas: Canvas, lifetimes: Lifetimes, step: float, ground: float, ceiling: float, unit_size: tuple[str, float]
) -> None:
    """Axes: bytes on the left, the phases below."""
    unit, size = unit_size
    canvas.line([(LEFT, TOP - 10), (LEFT, ground), (LEFT + WIDE, ground)])
    for mark in range(1, int(ceiling / size) + 1):
        if mark % max(1, round(ceiling / size / 4)) == 0:
            y = ground - HIGH * mark * size / ceiling
            canvas.line([(LEFT - 7, y), (LEFT, y)])
            canvas.words(LEFT - 12, y + 6, str(mark), anchor="end")
    canvas.words(0, TOP - 14, unit)
    phases = [moment.phase for moment in lifetimes.timeline]
    for phase in dict.fromkeys(phases):
        places = [at for at, each in enumerate(phases) if each == phase]
        left, right = LEFT + places[0] * step, LEFT + (places[-1] + 1) * step
        canvas.line([(left + 4, ground + 12), (right - 4, ground + 12)], thick=1.5)
        canvas.words((left + right) / 2, ground + 36, f"{phase}, {len(places)} operations", anchor="middle")
