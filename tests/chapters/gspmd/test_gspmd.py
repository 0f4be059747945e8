"""What XLA makes of annotations: claims of chapter 15, each from a run. Without jax they are skipped, but not in CI."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from chapters.gspmd import gspmd
from chapters.gspmd.gspmd import jax_here, partitioned, spec

if not find_spec("jax") and not os.environ.get("REQUIRE_BROWSER"):  # set in CI, where nothing may be missing
    pytest.skip('jax is not installed: pip install "jax==0.10.2"', allow_module_level=True)

from chapters.gspmd.gspmd_block import LAYOUTS, block, fused, gradients, mlp, same
from chapters.gspmd.gspmd_propagation import decided
from chapters.gspmd.gspmd_side_by_side import block_program, jax_example, side_by_side
from chapters.gspmd.gspmd_three_ways import by_hand, refusals, three_ways
from chapters.gspmd.gspmd_view import splits, three_systems
from compile_lab.simulator.collectives import Collective
from mini_model.model import MINI, Block

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]


def mlp_args():
    jnp = jax_here().numpy
    return jnp.ones((64, 128)), jnp.ones((512, 128)), jnp.ones((128, 512))


def summed(rows):
    return {(each.kind, each.count): each.payload_nbytes for each in rows}


@pytest.fixture(scope="module")
def example():
    return jax_example()


@pytest.mark.slow
def test_jax_is_named_in_its_door_alone_and_nothing_else_loads_it():
    guilty = []
    for file in [path for name in ("compile_lab", "chapters", "mini_model") for path in (ROOT / name).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            guilty += [file.name for each in names if each.partition(".")[0] in ("jax", "jaxlib")]
    assert set(guilty) == {"gspmd_propagation.py"}
    loaded = "import sys, compile_lab.devices, chapters.gspmd.gspmd_view; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], cwd=ROOT).returncode == 0


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


@pytest.mark.parametrize("partitioner", gspmd.PARTITIONERS)
@pytest.mark.parametrize("layout", [("R", "S(0)", "free"), ("free", "free", "S(1)")])
def test_one_annotated_weight_decides_on_the_other(partitioner, layout):
    program = partitioned(mlp, mlp_args(), layout, mesh=8, partitioner=partitioner)
    assert list(program.inputs.values()) == ["R", "S(0)", "S(1)"] and program.outputs == {"0": "R"}
    assert program.collectives == (Collective("all_reduce", "x", 8, 1, 64 * 128 * 4),)
    assert (program.run(*mlp_args()) == mlp(*mlp_args())).all()


def test_two_axes_are_told_apart():
    program = partitioned(mlp, mlp_args(), ("S(0) R", "R S(0)", "free"), mesh={"dp": 2, "tp": 4})
    assert program.collectives == (Collective("all_reduce", "tp", 4, 1, 32 * 128 * 4),)
    assert program.outputs == {"0": "S(0) R"}


def test_jax_loops_count_as_often_as_they_run():
    jax = jax_here()

    def thrice(x, up, down):
        return jax.lax.scan(lambda x, _: (mlp(x, up, down), None), x, length=3)[0]

    program = partitioned(thrice, mlp_args(), ("R", "S(0)", "S(1)"))
    assert program.collectives == (Collective("all_reduce", "x", 4, 3, 3 * 64 * 128 * 4),)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["", *LAYOUTS])
def test_the_block_is_mini_gpts_in_every_layout(layout):
    torch.manual_seed(0)
    assert same(Block(MINI), torch.randn(8, 64, 64), layout).worst < 1e-5


@pytest.mark.slow
def test_c46_tensor_parallel_three_programs_and_two_totals(example):
    (row,) = side_by_side(["tp"])
    assert summed(row.xla) == {("all_reduce", 4): 786_432} and summed(row.dtensor) == {("all_reduce", 6): 786_432}
    assert summed(row.formula) == {("all_reduce", 4): 524_288} and row.owed == ()
    q_k_v = max(row.xla_program.sent, key=lambda each: len(each.shapes))
    assert q_k_v.shapes == ("f32[8,64,64]",) * 3, "q, k and v are reduced before they are added"
    hand = by_hand(4, *example)
    assert summed(hand.collectives) == {("all_reduce", 4): 524_288}
    wanted, got = gradients(*example), hand.run(*example)
    assert max(float(abs(wanted[name] - got[name]).max()) for name in wanted) < 1e-5
    drawn = three_systems([row])
    assert [each[3] for each in drawn.table.rows] == ["1,179,648", "1,179,648", "0", "786,432"], "on a ring of four"
    assert {each[-1] for each in drawn.table.rows} == {"786,432", "0", "524,288"}


@pytest.mark.slow
def test_c46_with_q_k_and_v_as_one_matmul_annotations_send_the_hand_written_plan(example):
    weights, x = example
    joined, places = fused(weights), fused(LAYOUTS["tp"].weights)
    program = partitioned(gradients, (joined, x), (places, "R"), mesh=4, out=places)
    assert summed(program.collectives) == summed(by_hand(4, *example).collectives)
    wanted, got = fused(gradients(*example)), program.run(joined, x)
    assert max(float(abs(wanted[name] - got[name]).max()) for name in wanted) < 1e-5


def test_sequence_parallel_gathers_the_stream_if_the_width_is_held_and_else_the_weights(example):
    weights, _ = example
    matrices = {w.size for w in weights.values() if w.ndim == 2}

    def gathered(layout):
        found = [each for each in block_program(layout, *example).sent if each.kind == "all_gather"]
        return [each.numbers for each in found if each.numbers > 256]

    held = LAYOUTS["tp+sp"]
    assert gathered(held) == [8 * 64 * 64] * 4
    assert sum(n in matrices for n in gathered(replace(held, wide="free"))) == 6


@pytest.mark.slow
def test_c46_ddp_and_fsdp():
    ddp, fsdp = side_by_side(["ddp", "fsdp"])
    assert summed(ddp.xla) == {("all_reduce", 1): 199_936} and ddp.dtensor == ()
    assert (
        set(ddp.dtensor_gradients.values()) == {"P(sum)"} and ddp.payload("owed") == ddp.payload("formula") == 199_936
    )
    assert summed(fsdp.xla) == {("all_gather", 17): 200_192, ("all_reduce", 1): 199_936}
    assert summed(fsdp.dtensor) == {("all_gather", 26): 463_104, ("reduce_scatter", 1): 524_288}
    assert fsdp.payload("formula") == 599_808


def test_heads_that_do_not_divide_xla_takes_and_dtensor_refuses():
    (row,) = side_by_side(["tp"], 8)
    assert "Cannot unflatten unevenly sharded tensor" in row.refused and row.payload("dtensor") is None
    assert row.formula is None and row.payload("xla") > 786_432


def test_shardys_steps_end_where_xla_does(example):
    layout = LAYOUTS["tp"].annotated(["q.weight", "up.weight"])
    found = decided(block, example, (layout.weights, "free"))
    assert found.given == {"q.weight": "S(0)", "up.weight": "S(0)"} and found.differs == ()
    assert [each.number for each in found.steps] == list(range(len(found.steps))) and len(found.steps) > 40
    scopes = found.scopes()
    chosen = {name: scopes[name] for name in LAYOUTS["tp"].weights}
    assert chosen == dict(LAYOUTS["tp"].weights), "two annotations give the whole of Megatron's layout"
    reached = [each for each in found.steps if "k.weight" in each.targets]
    assert reached and reached[0].backwards and reached[0].source == "k"
    before = found.after(reached[0].number)
    assert "k.weight" not in before and found.after(len(found.steps))["k.weight"] == "S(0)"
    assert splits(found, 0).title.startswith("After 0 of") and "As decided, 6 of 8 weights" in splits(found).title
    other = decided(block, example, (layout.weights, "free"), partitioner="gspmd")
    assert other.scopes() == scopes and other.steps == ()


def test_the_three_ways_send_and_compute_the_same():
    ways = three_ways()
    assert [each.program.collectives for each in ways] == [ways[0].program.collectives] * 3
    assert all(abs(each.result - ways[0].result).max() < 1e-5 for each in ways)


def test_an_older_jax_has_pcast_under_another_name(example, monkeypatch):
    """Colab's 0.7."""
    lax = jax_here().lax
    cast = getattr(lax, "pcast", None)
    if cast:
        monkeypatch.delattr(lax, "pcast")
        monkeypatch.setattr(lax, "pvary", lambda value, axis: cast(value, axis, to="varying"), raising=False)
    assert summed(by_hand(4, *example).collectives) == {("all_reduce", 4): 524_288}


def test_a_program_that_this_jax_takes_is_told_so_beside_those_that_it_refuses(monkeypatch):
    jax = jax_here()
    monkeypatch.setattr(jax.numpy, "sort", lambda value, axis: value)
    told = {each.name: each.error for each in refusals()}
    assert told["sort along the split"] == f"none: jax {jax.__version__} takes it"
    assert told["rows + columns"] == "ShardingTypeError" and len(told) == 7
