"""The log against other witnesses, and what the log leaves behind."""

import threading
from collections import Counter

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from chapters.eager_baseline import layers_view
from chapters.shared.subjects import minigpt, tokens
from compile_lab.eager.dispatch import DispatchLog, log
from compile_lab.eager.operators import kind_of

pytestmark = pytest.mark.processes


class Witness(TorchDispatchMode):
    """torch's own view from below autograd."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen[func.name()] += 1
        return func(*args, **(kwargs or {}))


def test_it_agrees_with_a_dispatch_mode_on_the_forward():
    model = minigpt()
    given = tokens(model, 2)
    with torch.no_grad():
        with Witness() as witness:
            model(*given)
        ours = Counter(call.op for call in log(model, *given).calls if call.below_autograd)
    assert ours == witness.seen and ours.total() > 100


def profiled(fn, *given):
    with torch.autograd.profiler.profile(use_kineto=False) as found:
        fn(*given)
    return [event.name.removeprefix("aten::") for event in found.function_events]


def test_it_agrees_with_the_profiler_on_every_dispatch():
    model = minigpt()
    given = tokens(model, 2)
    calls = log(model, *given, backward=True).of("forward").calls
    assert Counter(call.name for call in calls) == Counter(profiled(model, *given))


def test_a_number_costs_a_conversion_as_it_does_outside():
    x = torch.ones(3)
    assert [call.name for call in log(lambda: x * 2).calls] == profiled(lambda: x * 2)


def test_a_function_that_runs_its_own_backward_and_optimizer_is_logged_whole():
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def train():
        layer(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    before = layer.weight.detach().clone()
    found = log(train)
    assert found.of("backward").computing >= 2 and not torch.equal(before, layer.weight)
    assert any("add" in call.name for call in found.of("forward").calls)


def test_gradients_and_threads_are_left_as_they_were():
    layer = nn.Linear(4, 4)
    layer.weight.grad = torch.full((4, 4), 7.0)
    threads = torch.get_num_threads()
    found = log(layer, torch.ones(2, 4), backward=True)
    assert torch.equal(layer.weight.grad, torch.full((4, 4), 7.0)) and layer.bias.grad is None
    assert torch.get_num_threads() == threads
    torch.testing.assert_close(found.result, layer(torch.ones(2, 4)))


def test_afterwards_torch_is_as_before():
    table = torch._C._dispatch_dump_table("aten::addmm")
    with pytest.raises(ZeroDivisionError):
        log(lambda x: x + 1 / 0, torch.ones(2))
    assert torch._C._dispatch_dump_table("aten::addmm") == table
    compiled = torch.compile(lambda x: x.sin() + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).sin() + 1)


def test_a_number_beside_a_tensor_has_no_say_in_the_type():
    numbers = [2, 0.1, True]
    tensors = [torch.ones(3, dtype=dtype) for dtype in (torch.float64, torch.bfloat16, torch.int32)]
    found = log(lambda: [x * number for x in tensors for number in numbers])
    right = [x * number for x in tensors for number in numbers]
    assert [one.dtype for one in found.result] == [one.dtype for one in right]
    assert all(map(torch.equal, found.result, right))


def test_a_kernel_on_many_threads_does_not_wait_for_ever():
    table = nn.Embedding(600, 64)
    found = log(table, torch.randint(600, (64, 64)), backward=True)  # its backward calls operators in parallel
    assert found.of("backward").computing and threading.active_count() < 50


def in_another_mode():
    with Witness():
        log(torch.sin, torch.ones(2))


REFUSED = [
    (lambda: log(torch.compile(nn.Linear(2, 2)), torch.ones(1, 2)), ValueError, "compiled"),
    (lambda: log(torch.compile(lambda x: x), torch.ones(2)), ValueError, "compile"),
    (lambda: log(nn.Sequential(torch.compile(nn.Linear(2, 2))), torch.ones(1, 2)), ValueError, "compiled"),
    (lambda: log("linear"), TypeError, "Callable"),
    (lambda: log(torch.sin, FakeTensorMode().from_tensor(torch.ones(2))), TypeError, "FakeTensor"),
    (lambda: log(torch.add, torch.ones(2, device="meta"), 1), ValueError, "meta: .* on the CPU"),
    (lambda: log(torch.sin, torch.ones(2), backward=True), ValueError, "gradient"),
    (in_another_mode, RuntimeError, "outside of it"),
    (lambda: layers_view.layers(DispatchLog((), None), "nothing"), ValueError, "nothing was called"),
    (lambda: log(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2)).inside("9"), ValueError, "'9'.* in 0"),
    (lambda: log(torch.sin, torch.ones(2)).of("both"), ValueError, "both"),
]


@pytest.mark.parametrize(("call", "error", "word"), REFUSED)
def test_what_cannot_be_logged_is_refused_with_the_way_out(call, error, word):
    with pytest.raises(error, match=word):
        call()


KINDS = {
    "aten::addmm": "matmul",
    "aten::add_.Tensor": "pointwise",
    "aten::view": "view",
    "aten::empty.memory_format": "allocation",
    "aten::convolution_backward": "matmul",
    "aten::sum.dim_IntList": "reduction",
    "aten::stack": "copy",
    "aten::_local_scalar_dense": "reading",
}


def test_the_kind_of_an_operator():
    assert {op: kind_of(op) for op in KINDS} == KINDS
