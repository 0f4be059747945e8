"""Rulings on real ranks: right, paid for, refused, wrong in each of three ways, hanging, and excused."""

import sys
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Replicate, Shard

from compile_lab.devices import ranks
from compile_lab.devices.dtensor import DTensorCall, Judge, check_layout, gradients_of, wrong_in

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")]


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


X = numbers(8, 4)


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


def mean_of_squares(a, b):
    return ((a - b) ** 2).mean()


def placed(function, args, layout, gradient=False):
    call = DTensorCall(function, tuple(args), tuple(layout), gradient=gradient, operator=function.__name__)
    check_layout(call, 2)
    return call


EACH = ["S(0)", "S(0)"]
CALLS = {
    "free": placed(torch.relu, [X], ["S(0)"]),
    "a sum that waits": placed(torch.sum, [X], ["S(1)"]),
    "paid": placed(torch.softmax, [X, 0], ["S(0)"]),
    "a number paid for": placed(lambda x: (x.sum() * 2).abs(), [X], ["S(0)"]),
    "refused": placed(torch.bincount, [torch.arange(8)], ["S(0)"]),
    "wrong label": placed(relabelled, [X], ["S(0)"]),
    "wrong value": placed(doubled_on_one_rank, [X], ["S(0)"]),
    "mse": placed(F.mse_loss, [X, X * 0.5], EACH),
    "mse's gradient": placed(F.mse_loss, [X, X * 0.5], EACH, gradient=True),
    "l1's gradient": placed(F.l1_loss, [X, X * 0.5], EACH, gradient=True),
    "the gradient in words of its own": placed(mean_of_squares, [X, X * 0.5], EACH, gradient=True),
    "uneven": placed(torch.mean, [numbers(5, 4)], ["S(0)"]),
    "empty": placed(torch.relu, [numbers(1, 4)], ["S(0)"]),
    "random": placed(torch.rand_like, [X], ["R"]),
    "abs of a partial sum": placed(torch.abs, [X], ["P(sum)"]),
    "twice a partial mean": placed(lambda x: x * 2, [X], ["P(avg)"]),
    "a product": placed(torch.all, [torch.ones(8, dtype=torch.bool)], ["S(0)"]),
    "of a type that gloo has not": placed(lambda x: x.to(torch.complex32), [X], ["S(0)"]),
}


@pytest.fixture(scope="module")
def rulings():
    """Of all calls, each asked on two ranks."""
    with tempfile.TemporaryDirectory() as folder:

        def asked():
            judge = Judge(60.0, folder)
            return {name: judge.ruling(call) for name, call in CALLS.items()}

        first, second = ranks.run(asked, 2, echo=False)
    assert first == second
    return first


def test_right_free_or_paid_for_in_bytes(rulings):
    free = rulings["free"]
    assert (free.kind, free.out, free.sent, free.shards) == ("free", ("S(0)",), (), "even")
    assert rulings["a sum that waits"].out == ("P(sum)",), "a sum waits to be made, and is right as it waits"
    product = rulings["a product"]
    assert (product.kind, product.out) == ("free", ("P(product)",)), "made by torch, and no sum"
    (sent,) = rulings["paid"].sent
    assert (rulings["paid"].kind, rulings["paid"].sent_nbytes) == ("paid", 128)
    assert (sent.kind, sent.count, sent.payload_nbytes) == ("all_gather", 1, 8 * 4 * 8)
    assert rulings["a number paid for"].sent[0].payload_nbytes == 8, "a single number counts, too"
    assert rulings["abs of a partial sum"].kind == "paid" and rulings["twice a partial mean"].kind == "free"
    assert (rulings["uneven"].shards, rulings["empty"].shards) == ("uneven", "empty")


def test_refused_unasked_and_excused(rulings):
    refused, unasked = rulings["refused"], rulings["of a type that gloo has not"]
    assert refused.kind == "refused" and "aten.bincount.default" in refused.detail and "operator" in refused.helps
    assert unasked.kind == "unasked" and unasked.detail.startswith("the results cannot be compared")
    assert (rulings["random"].kind, rulings["random"].rule) == ("unclear", "undefined")
    with pytest.raises(ValueError, match="2 placements for 1 tensors"):
        placed(torch.relu, [X], ["S(0)", "R"])
    with pytest.raises(ValueError, match="its dimensions go to 1"):
        placed(torch.relu, [X], ["S(2)"])


def test_wrong_without_an_error_in_label_value_or_gradient(rulings):
    label, value, gradient = (rulings[each] for each in ("wrong label", "wrong value", "mse's gradient"))
    assert (label.kind, label.what) == ("wrong", "label") and "R of (8, 4), and ranks hold (4, 4)" in label.detail
    assert (value.kind, value.what) == ("wrong", "value") and "off by" in value.detail
    assert (gradient.kind, gradient.what, gradient.detail) == ("wrong", "gradient", "off by 1 of the largest value")
    assert rulings["mse"].kind == "free", "the value of which is right"
    for name in ("l1's gradient", "the gradient in words of its own"):
        assert rulings[name].kind in ("free", "paid")


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
