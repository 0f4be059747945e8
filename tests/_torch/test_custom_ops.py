"""An operator of the reader's own, taken apart and made again, and where operators lie."""

import pickle

import torch

from compile_lab._torch.custom_ops import (
    CustomOpDef,
    Parts,
    found_at,
    operator_again,
    parts_of,
    place_of,
    readers_operators,
)


@torch.library.custom_op("test_custom_ops::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def _fake(x):
    return torch.empty_like(x)


def _backward(ctx, gradient):
    return gradient * 3


tripled.register_fake(_fake)
tripled.register_autograd(_backward)


def test_the_readers_operators_are_those_of_a_module():
    assert tripled in readers_operators({__name__}) and not readers_operators({"no_such_module"})


def test_an_operator_is_taken_apart_and_the_one_that_is_there_is_found_again():
    parts: Parts = parts_of(tripled)
    assert parts[:2] == ("test_custom_ops", "tripled") and parts[4]["fake"] is _fake
    assert operator_again(*parts) is tripled


def test_one_that_is_not_there_is_made_with_what_was_registered():
    namespace, _, schema, fn, registered = parts_of(tripled)
    again = operator_again(namespace, "tripled_again", schema.replace("tripled", "tripled_again"), fn, registered)
    assert isinstance(again, CustomOpDef)
    x = torch.ones(2, requires_grad=True)
    torch.compile(lambda x: again(x).sum(), backend="aot_eager", fullgraph=True)(x).backward()
    assert x.grad.tolist() == [3, 3]


def test_each_thing_under_torch_ops_has_its_place():
    packet = torch.ops.test_custom_ops.tripled
    for thing in (torch.ops, torch.ops.test_custom_ops, packet, packet.default):
        place = place_of(thing)
        assert found_at(pickle.loads(pickle.dumps(place))) is thing
    assert place_of(tripled) is None and place_of(torch.ones(1)) is None
