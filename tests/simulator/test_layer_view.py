"""One layer's matrices: every number of them on exactly the devices that hold it, and drawn to scale."""

import re

import pytest

from compile_lab.page.figures import PALETTE
from compile_lab.page.units import with_unit
from compile_lab.simulator import layer_view
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.slices import matrices, part_of, places
from mini_model.model import GPT2_124M


@pytest.mark.parametrize("mesh", [
    {"replicate": 4}, {"shard": 4}, {"tp": 4}, {"replicate": 2, "shard": 2}, {"shard": 2, "tp": 2},
    {"shard": 2, "tp": 4},
])  # fmt: skip
def test_each_number_of_a_matrix_is_held_as_often_as_there_are_copies(mesh):
    copies = mesh.get("replicate", 1)
    for name, matrix in matrices(GPT2_124M).items():
        parts = [part_of(matrix, mesh, place) for place in places(mesh)]
        for row, column in [(0.01, 0.01), (0.3, 0.6), (0.51, 0.26), (0.99, 0.99)]:
            having = [p for p in parts if p.top <= row < p.bottom and p.left <= column < p.right]
            assert len(having) == copies, (name, row, column)
        tp, shard = mesh.get("tp", 1), mesh.get("shard", 1)
        assert parts[0].share == pytest.approx(matrix.numbers(tp, shard) / matrix.numbers())
        gathered = part_of(matrix, mesh, next(places(mesh)), sharded=False)
        assert gathered.share == pytest.approx(matrix.numbers(tp) / matrix.numbers())


def test_places_are_counted_from_the_inside():
    found = [tuple(place.values()) for place in places({"pp": 2, "shard": 2, "tp": 2})]
    assert found[:3] == [(0, 0, 0), (0, 0, 1), (0, 1, 0)] and len(set(found)) == 8


def test_the_matrices_are_drawn_to_the_scale_of_their_shapes():
    for name, matrix in matrices(GPT2_124M).items():
        _, _, wide, high = layer_view.CORNERS[name]
        assert (high * GPT2_124M.dim, wide * GPT2_124M.dim) == matrix.shape


def test_the_opening_says_and_draws_what_the_plans_hold_and_send():
    plans = {name: plan(GPT2_124M, name, 4) for name in ("ddp", "fsdp", "tp", "pp")}
    drawn = layer_view.opening(GPT2_124M, "GPT-2 124M")
    for found, row in zip(plans.values(), drawn.table.rows, strict=True):
        assert row[-2:] == [with_unit(found.total_nbytes), with_unit(found.sent_nbytes)]
        assert f"holds {row[-2]}" in drawn.svg and f"sends {row[-1]}" in drawn.svg
    blue = len(re.findall(f"fill='{PALETTE['blue']}'", drawn.svg))
    assert blue == 4 * 13 + 4, "four matrices on each device but three of the pipeline's, and a bar of each"
    assert drawn.alt.count("GB are sent in a step") == 4
