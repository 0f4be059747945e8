"""Eager and compiled backward side by side: the bytes of each launch, and the time of each kernel on an H200."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compile_lab.inductor.boxes_view import KINDS, OF_LAUNCH
from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.traffic import Traffic, eager_traffic, generated_traffic
from compile_lab.page.figures import Drawing
from compile_lab.page.marks import Axis, Row, Segment, segments
from compile_lab.page.tables import Cell, Table
from compile_lab.page.units import MB, microseconds

from .backward_fusion_view import name_of, readable
from .fused_chain import Case

Boxes = Sequence[tuple[str, str, float]]
"""Name, kind and size of each launch."""


def traffic_of(examined: Case, chip: str, case: Mapping[str, Any], provenance: object) -> Drawing:
    """Eager against compiled: bytes counted for a case's shapes here, times of the same ``case`` of the recording."""
    fn, args, _ = examined.built("meta")
    traffics = {"eager": eager_traffic(fn, *args), "compiled": generated_traffic(generated_code(fn, *args, chip=chip))}
    return traffic_chart(traffics, case, provenance)


def traffic_chart(traffics: Mapping[str, Traffic], case: Mapping[str, Any], provenance: object) -> Drawing:
    """The backward's launches of each way, as long as the bytes they move and as the time they took, in % of eager's.

    ``traffics`` has "eager" and "compiled".
    """
    moved = {
        way: [(each.name, each.kind, each.nbytes / MB) for each in t.of("backward")] for way, t in traffics.items()
    }
    taken = {way: _taken(case, way) for way in traffics}
    rows: list[Row] = []
    listed: list[list[Cell]] = []
    for group, unit, ways in (("bytes moved", "MB", moved), ("time on the GPU", "µs", taken)):
        for way, boxes in ways.items():
            parts = [
                Segment(OF_LAUNCH[kind], 100 * size / _sum(ways["eager"]), words="", title=f"{name}: {size:.3g} {unit}")
                for name, kind, size in boxes
            ]
            behind = f"{len(boxes)} {'launches' if unit == 'MB' else 'kernels'}, {_sum(boxes):,.0f} {unit}"
            rows.append(Row(way, parts, behind, group))
            listed += [[way, name, OF_LAUNCH[kind], f"{size:.3g} {unit}"] for name, kind, size in boxes]
    (eager, compiled), (slow, fast) = ([f"{_sum(boxes):,.0f}" for boxes in ways.values()] for ways in (moved, taken))
    whole = {way: microseconds(case["variants"][way]["backward"]) for way in traffics}
    release = torch.__version__.partition("+")[0]
    return segments(
        rows,
        Axis("of eager's", "%"),
        title=f"Compiled, the backward moves {compiled} MB instead of {eager} MB, "
        f"and takes {fast} µs on the GPU instead of {slow} µs.",
        caption=f"The backward of {name_of(case)}. From start to end it takes {whole['eager']} µs eager and "
        f"{whole['compiled']} µs compiled. Bytes are counted in code that torch {release} generates; the times were",
        colours=KINDS,
        provenance=provenance,
        table=Table(["way", "launch", "is", "moves or takes"], listed),
    )


def _taken(case: Mapping[str, Any], way: str) -> Boxes:
    """A kernel that is launched twice is two segments."""
    boxes = []
    for kernel in case["variants"][way]["backward"]["kernels"]:
        count = max(1, round(kernel["count"]))
        boxes += [(readable(kernel["name"]), kernel["kind"], kernel["us"] / count)] * count
    return boxes


def _sum(boxes: Boxes) -> float:
    return sum(size for *_, size in boxes)
