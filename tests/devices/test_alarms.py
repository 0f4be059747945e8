"""When a difference says nothing: each rule, with a case that it excuses and one that it does not."""

import pytest
import torch

from compile_lab.devices.alarms import difference, differs, excuse, is_kink, is_outside, is_undefined
from compile_lab.devices.dtensor import gradients_of
from compile_lab.devices.placements import parts

X = torch.tensor([[3.0, -1.0], [2.0, 5.0]], dtype=torch.float64)


def seeded_dropout(x):
    torch.manual_seed(42)
    return torch.nn.functional.dropout(x)


def on(function):
    return lambda inputs: function(*inputs)


@pytest.mark.parametrize(("dtype", "inside", "outside"), [(torch.float64, 1e-8, 1e-6), (torch.float32, 5e-5, 5e-3)])
def test_the_tolerance_is_that_of_the_type(dtype, inside, outside):
    want = torch.tensor([1.0, 4.0], dtype=dtype)
    assert difference(want + inside, want) == ""
    assert difference(want + outside, want).startswith("off by ")


def test_what_is_a_difference():
    assert difference(X[0], X) == "shape (2,) for (2, 2)"
    assert difference(X.float(), X) == "torch.float32 for torch.float64"
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3])) == "1 of 2 elements differ"
    nan, inf = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("inf")])
    assert difference(nan, nan) == difference(inf, inf) == ""
    assert difference(nan, torch.ones(2)) == "NaN in 1 of 2 elements, for 0"
    assert difference(-inf, inf).startswith("infinite") and difference(torch.ones(2), inf).startswith("infinite")
    assert difference(2, 2) == difference(float("nan"), float("nan")) == "" and difference(2, 3) == "2 for 3"
    assert differs([X, (X,)], [X, (X + 1,)]) and not differs({"a": X}, {"a": X.clone()})
    assert differs([X], [X, X]) == "1 results for 2"


def test_undefined_is_what_is_random_or_unwritten_and_leaves_torch_as_it_was():
    before = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled()
    assert is_undefined(on(lambda x: torch.rand_like(x)), [X])
    assert is_undefined(on(lambda x: torch.empty_like(x)), [torch.ones(64, 64)])
    assert is_undefined(on(seeded_dropout), [torch.ones(8, 8)]), "it sets the seed itself, as torch's samples do"
    assert not is_undefined(on(lambda x: x.softmax(0)), [X])
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == torch.are_deterministic_algorithms_enabled()
    assert excuse(on(torch.rand_like), [X], X) == "undefined"


def test_positions_of_equal_elements():
    tied = torch.tensor([1.0, 2.0, 2.0])
    wrong = tied.argmax()
    assert excuse(on(torch.argmax), [tied], wrong, "argmax") == "ties"
    assert excuse(on(torch.argmax), [torch.tensor([1.0, 3.0, 2.0])], wrong, "argmax") == ""
    assert excuse(on(torch.amax), [tied], tied.amax(), "amax") == "", "a value is no position"
    assert excuse(on(torch.bitwise_not), [torch.tensor([1, 1])], torch.tensor([1]), "bitwise_not") == ""


def test_a_part_outside_of_where_the_function_is_defined():
    positive = X.abs() + 1
    assert is_outside(on(torch.sqrt), [positive], [parts(positive, "P(max)", 2)])
    assert not is_outside(on(torch.neg), [positive], [parts(positive, "P(max)", 2)])
    assert not is_outside(on(torch.sqrt), [X], [parts(X, "P(max)", 2)]), "it is not defined on the whole either"


def test_a_kink_is_where_the_gradient_jumps():
    assert is_kink(on(gradients_of(torch.relu)), [torch.zeros(2, 2, dtype=torch.float64)])
    assert is_kink(on(gradients_of(torch.amax)), [torch.ones(3, dtype=torch.float64)])
    assert not is_kink(on(gradients_of(torch.relu)), [X])
    assert not is_kink(on(gradients_of(lambda x: (x**3).sum())), [X])
