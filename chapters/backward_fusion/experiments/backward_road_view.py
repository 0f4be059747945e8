"""Eager and compiled backward as boxes to scale: the bytes of each launch, and the time that an H200 took for each."""

from collections.abc import Mapping, Sequence
from typing import Any

from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.traffic import Traffic, eager_traffic, generated_traffic
from compile_lab.page.canvas import WIDTH, Canvas, key
from compile_lab.page.figures import Drawing
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import MB, microseconds

from .backward_fusion_view import name_of, readable
from .fused_chain import Case

COLOURS = {"matmul": "blue", "aten": "sky", "generated": "orange"}
KINDS = {"matmul": "matmul", "aten": "torch's own kernel", "generated": "kernel that Inductor wrote"}
LEFT, ROW, GAP = 120.0, 46.0, 2.0

Boxes = Sequence[tuple[str, str, float]]
"""Name, kind and size of each launch."""


def road_of(examined: Case, chip: str, case: Mapping[str, Any], provenance: object) -> Drawing:
    """Eager against compiled: bytes counted for a case's shapes here, times of the same ``case`` of the recording."""
    fn, args, _ = examined.built("meta")
    traffics = {"eager": eager_traffic(fn, *args), "compiled": generated_traffic(generated_code(fn, *args, chip=chip))}
    return road(traffics, case, provenance)


def road(traffics: Mapping[str, Traffic], case: Mapping[str, Any], provenance: object) -> Drawing:
    """The backward's launches of each way, first as wide as the bytes they move, then as the time they took."""
    moved = {
        way: [(each.name, each.kind, each.nbytes / MB) for each in t.of("backward")] for way, t in traffics.items()
    }
    taken = {way: _taken(case, way) for way in traffics}

    def whole(way: str) -> str:
        return microseconds(case["variants"][way]["backward"])

    canvas = Canvas()
    bottom = _pair(canvas, "What each launch moves, MB", "MB", moved, 0)
    _pair(canvas, "What each kernel takes on the GPU, µs", "µs", taken, bottom + 14)
    return Drawing(
        canvas.svg(),
        f"Backward. Bytes: {_said(moved, 'launch', 'MB')}. Time on the GPU: {_said(taken, 'kernel', 'µs')}.",
        f"The backward of {name_of(case)}. Bytes are counted in the code of the torch that wrote this page. From "
        f"start to end it takes {whole('eager')} µs eager and {whole('compiled')} µs compiled. Times",
        table=_table(moved, taken),
        provenance=provenance,
        legend=key({words: COLOURS[kind] for kind, words in KINDS.items()}),
    )


def _taken(case: Mapping[str, Any], way: str) -> Boxes:
    """A kernel that is launched twice is two boxes."""
    boxes = []
    for kernel in case["variants"][way]["backward"]["kernels"]:
        count = max(1, round(kernel["count"]))
        boxes += [(readable(kernel["name"]), kernel["kind"], kernel["us"] / count)] * count
    return boxes


def _pair(canvas: Canvas, title: str, unit: str, ways: Mapping[str, Boxes], top: float) -> float:
    canvas.words(0, top + 22, title, bold=True)
    most = max(sum(size for *_, size in boxes) for boxes in ways.values())
    longest = max(map(len, ways.values()))
    scale = (WIDTH - LEFT - 130 - GAP * longest) / most
    for at, (way, boxes) in enumerate(ways.items()):
        y = top + 36 + at * (ROW + 8)
        canvas.words(0, y + 22, way)
        canvas.words(0, y + 41, f"{len(boxes)} launches", size=15)
        x = LEFT
        for name, kind, size in boxes:
            width = max(size * scale, 2)
            canvas.box(x, y, width, ROW, COLOURS[kind], title=f"{name}: {size:.3g} {unit}")
            x += width + GAP
        canvas.words(x + 8, y + 29, f"{sum(size for *_, size in boxes):,.0f} {unit}", bold=True)
    return top + 36 + len(ways) * (ROW + 8)


def _said(ways: Mapping[str, Boxes], thing: str, unit: str) -> str:
    parts = []
    for way, boxes in ways.items():
        plural = "" if len(boxes) == 1 else "es" if thing.endswith("ch") else "s"
        parts.append(f"{way} {len(boxes)} {thing}{plural} and {sum(size for *_, size in boxes):,.0f} {unit}")
    return ", ".join(parts)


def _table(moved: Mapping[str, Boxes], taken: Mapping[str, Boxes]) -> Table:
    rows: list[list[Cell]] = []
    for unit, ways in (("MB", moved), ("µs", taken)):
        rows += [
            [way, name, KINDS[kind], f"{size:.3g} {unit}"] for way, boxes in ways.items() for name, kind, size in boxes
        ]
    return Table(["way", "launch", "is a", "moves or takes"], rows)
