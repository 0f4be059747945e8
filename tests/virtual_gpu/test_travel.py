"""What goes to a child: a module with parametrizations, which torch itself refuses to pickle, is the same there."""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from compile_lab.inductor.generated import generated_code
from compile_lab.pickling import dumps
from compile_lab.report.given import loaded
from compile_lab.virtual_gpu import travel

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("values", [True, False])
def test_a_parametrized_module_travels(values):
    module = nn.Sequential(weight_norm(nn.Conv1d(4, 4, 3)), nn.ReLU())
    again = travel.loads(travel.dumps(module, values=values))
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in module.named_parameters()]
    assert type(again[0]).__name__ == "ParametrizedConv1d" and again[0].weight.shape == (4, 4, 3)
    if values:
        x = torch.randn(2, 4, 8)
        assert torch.equal(again(x), module(x))


def test_marks_of_dynamic_sizes_travel():
    x = torch.ones(4, 8, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    (graph, _) = generated_code(lambda x: x.sin(), x, chip="H200").graphs
    assert "s77 = arg" in graph.wrapper or "s77 = primals" in graph.wrapper


OPERATOR = """
    import torch
    from torch import nn

    @torch.library.custom_op("test_travel::halved", mutates_args=())
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @halved.register_fake
    def _(x):
        return torch.empty_like(x)

    def backward(ctx, gradient):
        return gradient / 2

    halved.register_autograd(backward)

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            ops = torch.ops.test_travel
            return (halved(self.linear(x)) * ops.halved(x + 1) * ops.halved.default(x + 2)).sum()

    def subject():
        return Halves(), torch.ones(4, 8)
"""


def test_an_operator_of_the_readers_own_travels_however_it_is_called(tmp_path):
    file = tmp_path / "halves.py"
    file.write_text(textwrap.dedent(OPERATOR))
    subject = loaded(f"{file}:subject")
    code = generated_code(subject.loss, *subject.args, chip="H200")
    assert not code.trouble and [graph.direction for graph in code.graphs] == ["forward", "backward"]
    assert code.graphs[0].wrapper.count("= torch.ops.test_travel.halved") == 3


aten = torch.ops.aten


class Holds(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.product = aten.mm.default

    def forward(self, x):
        return self.product(x, x)


@pytest.mark.parametrize(
    "thing",
    [torch.ops, aten, aten.mm, aten.mm.default, torch.ops.higher_order.flex_attention, torch._dynamo.config],
    ids=str,
)
def test_what_torch_alone_can_make_is_the_same_thing(thing):
    assert pickle.loads(dumps(thing)) is thing
    assert pickle.loads(dumps(lambda: thing))() is thing


def test_a_module_that_holds_an_operator_travels():
    again = pickle.loads(dumps(Holds()))
    assert torch.equal(again(torch.ones(2, 2)), torch.full((2, 2), 2.0))


ASKS = """
import sys
from compile_lab.virtual_gpu import travel
sys.path.append(sys.argv[1])
travel.imported(open(sys.argv[2], "rb").read())
print(*(name in sys.modules for name in ("networkx.classes.graph", "compile_lab.memory.ledger", "readers_own")))
"""


def test_what_forks_for_each_body_imports_installed_packages_before_and_the_readers_own_file_never(
    tmp_path, monkeypatch
):
    (tmp_path / "readers_own.py").write_text("class Model:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    from networkx import Graph
    from readers_own import Model

    from compile_lab.memory.ledger import Lifetimes

    body = travel.packed((Graph(), Lifetimes, Model()), values=False)
    (tmp_path / "body").write_bytes(body)
    asked = [sys.executable, "-c", ASKS, str(tmp_path), str(tmp_path / "body")]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert said.stdout.split() == ["True", "True", "False"]
    assert isinstance(travel.unpacked(body)[0], Graph)
