"""What XLA makes of annotations, where chapter 15 does not show it. Without jax they are skipped, but not in CI."""

import os
from importlib.util import find_spec

import pytest
import torch

from chapters.gspmd import gspmd
from chapters.gspmd.gspmd import jax_here, partitioned, spec

if not find_spec("jax") and not os.environ.get("REQUIRE_BROWSER"):  # set in CI, where nothing may be missing
    pytest.skip('jax is not installed: pip install "jax==0.10.2"', allow_module_level=True)

from chapters.gspmd.gspmd_block import LAYOUTS, mlp, same
from chapters.gspmd.gspmd_side_by_side import jax_example, side_by_side
from chapters.gspmd.gspmd_three_ways import by_hand, refusals
from compile_lab.simulator.collectives import Collective
from mini_model.model import MINI, Block

pytestmark = pytest.mark.processes


def mlp_args():
    jnp = jax_here().numpy
    return jnp.ones((64, 128)), jnp.ones((512, 128)), jnp.ones((128, 512))


def test_too_few_devices_and_no_jax_are_told_with_the_way_out(monkeypatch):
    jax_here()
    with pytest.raises(RuntimeError, match=r"jax was started with 8 in this process.*restart the kernel"):
        jax_here(9)

    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(gspmd.importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "jax==.*stored outputs'):
        jax_here()


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: partitioned(mlp, mlp_args(), ["R"]), "1 entries for 3"),
        (lambda: partitioned(mlp, mlp_args(), ["R"] * 3, partitioner="metis"), "metis"),
        (lambda: partitioned(mlp, mlp_args(), ["S(2)", "R", "R"]), "dimension 2"),
        (lambda: partitioned(lambda x: x * 2, [jax_here().numpy.ones(5)], ["S(0)"]), "divisible|divide"),
        (lambda: spec("S(0)", {"dp": 2, "tp": 4}), "dp, tp"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused_by_name(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_two_axes_are_told_apart():
    program = partitioned(mlp, mlp_args(), ("S(0) R", "R S(0)", "free"), mesh={"dp": 2, "tp": 4})
    assert program.collectives == (Collective("all_reduce", "tp", 4, 1, 32 * 128 * 4),)
    assert program.outputs == {"0": "S(0) R"}


@pytest.mark.slow
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each != "tp"])
def test_the_block_is_mini_gpts_in_every_layout(layout):
    torch.manual_seed(0)
    assert same(Block(MINI), torch.randn(8, 64, 64), layout).worst < 1e-5


def test_heads_that_do_not_divide_xla_takes_and_dtensor_refuses():
    (row,) = side_by_side(["tp"], 8)
    assert "Cannot unflatten unevenly sharded tensor" in row.refused and row.payload("dtensor") is None
    assert row.formula is None and row.payload("xla") > 786_432


def test_an_older_jax_has_pcast_under_another_name(monkeypatch):
    """Colab's 0.7."""
    lax = jax_here().lax
    cast = getattr(lax, "pcast", None)
    if cast:
        monkeypatch.delattr(lax, "pcast")
        monkeypatch.setattr(lax, "pvary", lambda value, axis: cast(value, axis, to="varying"), raising=False)
    (summed,) = by_hand(4, *jax_example()).collectives
    assert (summed.kind, summed.count, summed.payload_nbytes) == ("all_reduce", 4, 524_288)


def test_a_program_that_this_jax_takes_is_told_so_beside_those_that_it_refuses(monkeypatch):
    jax = jax_here()
    monkeypatch.setattr(jax.numpy, "sort", lambda value, axis: value)
    told = {each.name: each.error for each in refusals()}
    assert told["sort along the split"] == f"none: jax {jax.__version__} takes it"
    assert told["rows + columns"] == "ShardingTypeError" and len(told) == 7
