"""Rulings on real ranks: right, paid for, refused, wrong in each of three ways, hanging, and excused."""

import sys
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Replicate, Shard

from compile_lab.devices import dtensor, ranks
from compile_lab.devices.dtensor import Judge, PlacedCall, check_layout, gradients_of, helps, wrong_in

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")]


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


X = numbers(8, 4)


def ask(function, args, layout, gradient=False):
    """The ruling of a call on two ranks."""
    call = PlacedCall(function, tuple(args), tuple(layout), gradient=gradient, operator=function.__name__)
    check_layout(call, 2)
    with tempfile.TemporaryDirectory() as folder:
        return ranks.run(lambda: Judge(20.0, folder).ruling(call), 2, echo=False)[0]


def relabelled(x):
    """The shards as they are, called replicated: what a wrong rule does."""
    if not isinstance(x, DTensor):
        return x.clone()
    local, mesh = x.to_local(), x.device_mesh
    return DTensor.from_local(local, mesh, [Replicate()], run_check=False, shape=x.shape, stride=x.stride())


def doubled_on_one_rank(x):
    if not isinstance(x, DTensor):
        return x * 1
    return DTensor.from_local(x.to_local() * (1 + dist.get_rank()), x.device_mesh, [Shard(0)], run_check=False)


def test_right_and_free():
    ruling = ask(torch.relu, [X], ["S(0)"])
    assert (ruling.kind, ruling.out, ruling.sent, ruling.shards) == ("free", ("S(0)",), (), "even")
    assert ask(torch.sum, [X], ["S(1)"]).out == ("P(sum)",), "a sum waits to be made, and is right as it waits"


def test_right_and_paid_for_in_bytes():
    ruling = ask(torch.softmax, [X, 0], ["S(0)"])
    (sent,) = ruling.sent
    assert (ruling.kind, sent.kind, sent.count, sent.payload_nbytes) == ("paid", "all_gather", 1, 8 * 4 * 8)
    assert ruling.sent_nbytes == 128
    assert ask(lambda x: (x.sum() * 2).abs(), [X], ["S(0)"]).sent[0].payload_nbytes == 8, "a single number counts, too"


def test_refused_with_what_the_message_names():
    ruling = ask(torch.bincount, [torch.arange(8)], ["S(0)"])
    assert ruling.kind == "refused" and "aten.bincount.default" in ruling.detail and "operator" in ruling.helps
    assert helps("got mixed torch.Tensor and DTensor, please convert all", "add") == ("way out",)
    assert helps("aten.x.default: no rule; write one with register_sharding") == ("operator", "way out")
    assert helps("Operator aten.x.default does not have a sharding strategy registered.") == ("operator",)
    assert helps("expected 4 channels, but got 2 channels instead", "nn.functional.conv2d") == ()
    assert helps("list index out of range", "nn.functional.fold") == ()


@pytest.mark.parametrize(
    ("function", "what", "said"),
    [
        (relabelled, "label", "R of (8, 4), and ranks hold (4, 4)"),
        (doubled_on_one_rank, "value", "off by"),
    ],
)
def test_wrong_without_an_error(function, what, said):
    ruling = ask(function, [X], ["S(0)"])
    assert (ruling.kind, ruling.what) == ("wrong", what) and said in ruling.detail


def test_a_wrong_gradient_of_a_right_value():
    two = [X, X * 0.5]
    assert ask(F.mse_loss, two, ["S(0)", "S(0)"]).kind == "free"
    ruling = ask(F.mse_loss, two, ["S(0)", "S(0)"], gradient=True)
    assert (ruling.kind, ruling.what, ruling.detail) == ("wrong", "gradient", "off by 1 of the largest value")
    assert ask(F.l1_loss, two, ["S(0)", "S(0)"], gradient=True).kind in ("free", "paid")
    assert ask(lambda a, b: ((a - b) ** 2).mean(), two, ["S(0)", "S(0)"], gradient=True).kind in ("free", "paid")


def test_shards_that_are_not_even_are_told():
    assert ask(torch.mean, [numbers(5, 4)], ["S(0)"]).shards == "uneven"
    assert ask(torch.relu, [numbers(1, 4)], ["S(0)"]).shards == "empty"


def test_what_has_no_defined_result_is_excused():
    ruling = ask(torch.rand_like, [X], ["R"])
    assert (ruling.kind, ruling.rule) == ("unclear", "undefined")


def test_a_partial_input_stands_for_what_its_parts_make():
    assert ask(torch.abs, [X], ["P(sum)"]).kind == "paid"
    assert ask(lambda x: x * 2, [X], ["P(avg)"]).kind == "free"


def test_a_product_is_made_by_torch_and_is_no_sum():
    ruling = ask(torch.all, [torch.ones(8, dtype=torch.bool)], ["S(0)"])
    assert (ruling.kind, ruling.out) == ("free", ("P(product)",))


def test_results_that_no_rank_can_tell_another_are_not_asked_about():
    ruling = ask(lambda x: x.to(torch.complex32), [X], ["S(0)"])
    assert ruling.kind == "unasked" and ruling.detail.startswith("the results cannot be compared")


def test_layouts_that_do_not_fit_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match=r"2 placements for 1 tensors among the arguments"):
        ask(torch.relu, [X], ["S(0)", "R"])
    with pytest.raises(ValueError, match=r"its dimensions go to 1"):
        ask(torch.relu, [X], ["S(2)"])


def test_what_the_ranks_hold_is_compared_and_not_what_the_label_makes_of_it():
    want = [torch.arange(4.0)]
    right = [("S(0)", (4,), want[0][:2]), ("S(0)", (4,), want[0][2:])]
    assert wrong_in([right], want) == ("", "")
    assert wrong_in([right[::-1]], want)[0] == "value"
    assert wrong_in([[("S(0)", (4,), want[0])] * 2], want)[0] == "label"
    assert wrong_in([[("S(0)", (2,), want[0][:1])] * 2], want) == ("value", "shape (2,) for (4,)")
    assert wrong_in([[right[0], ("R", (4,), want[0])]], want) == ("label", "ranks disagree: S(0), R")
    assert wrong_in([], want) == ("value", "0 results for 1")


def test_gradients_are_those_of_all_floating_point_inputs():
    two, three = torch.tensor(2.0), torch.tensor(3.0)
    assert gradients_of(torch.mul)(two, three) == [three, two]
    with pytest.raises(ValueError, match="no output has a gradient"):
        gradients_of(torch.argmax)(X)


def test_a_ruling_prints_what_it_is():
    assert (
        str(dtensor.Ruling("wrong", "value", "off by 1", shards="uneven"))
        == "wrong, on uneven shards (value: off by 1)"
    )
