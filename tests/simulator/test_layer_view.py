"""One layer's matrices: every number of them on exactly the devices that hold it, and drawn to scale."""

import pytest

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
