"""What is predicted is what is trained: the simulator and the model read one table, and choose the same mesh."""

import math
from dataclasses import replace

import pytest

from compile_lab.simulator import meshes
from compile_lab.simulator.sharding import check_divides
from mini_model.model import GPT2_124M, MINI, MINI_MIXTURE
from mini_model.parallel import patterns

pytestmark = pytest.mark.processes
MODELS = {
    "MINI": MINI,
    "GPT-2 124M": GPT2_124M,
    "1.3 B": replace(GPT2_124M, dim=2048, layers=24, heads=16, tied_head=False),
    "odd": replace(MINI, layers=15, heads=6, dim=96),
    "experts": replace(MINI_MIXTURE, experts=96),
}
SPREAD = [*(name for name, axes in meshes.PATTERNS.items() if axes), "ep"]


def or_none(choose, *arguments):
    try:
        return choose(*arguments)
    except ValueError:
        return None


def fits(check, *arguments) -> bool:
    try:
        check(*arguments)
    except ValueError:
        return False
    return True


def practitioners(shape, mesh) -> None:
    """Of several axes: tensor parallel in a machine and of whole heads, a pipeline of whole layers, then the data's."""
    tp, shard, pp = (mesh.get(axis, 1) for axis in ("tp", "shard", "pp"))
    if len(mesh) > 1:
        assert tp <= meshes.MACHINE and shape.heads % tp == 0, f"{mesh}"
    if "replicate" in mesh and len(mesh) > 1:
        assert shard <= meshes.MACHINE, f"{mesh}"
    if "pp" in mesh and "shard" in mesh:
        assert pp <= 8 and shape.layers % pp == 0, f"{mesh}"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pattern", SPREAD)
def test_what_is_predicted_is_what_is_trained(pattern, model):
    shape, chosen = MODELS[model], 0
    for devices in (*range(2, 1_025), *range(1_040, 16_385, 16)):
        planned = or_none(meshes.mesh_of, shape, pattern, devices)
        trained = or_none(patterns.mesh_sizes, shape, pattern, devices)
        assert planned == trained, f"{devices} devices"
        if planned is None:
            continue
        chosen += 1
        assert math.prod(planned.values()) == devices and min(planned.values()) >= 2
        assert list(planned) == [axis for axis in meshes.AXES if axis in planned]
        practitioners(shape, planned)
        micro = 2 * planned.get("pp", 1)
        batch = micro * math.prod(planned.get(axis, 1) for axis in meshes.DATA_AXES)
        sequence = pattern in meshes.SEQUENCE_PARALLEL
        assert fits(check_divides, shape, planned, batch, shape.context, sequence, micro) == (
            fits(patterns.check, shape, pattern, trained, "1F1B", micro)
        ), f"{planned}"
    assert chosen > 300


def test_without_a_model_no_size_is_chosen():
    assert patterns.mesh_sizes(None, "fsdp+tp", 64, tp=2) == {"shard": 32, "tp": 2}
    with pytest.raises(ValueError, match="axis 'tp' has no size"):
        patterns.mesh_sizes(None, "fsdp+tp", 64)
