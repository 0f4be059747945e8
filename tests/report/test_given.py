"""What a reader hands over: what is taken for the loss, and what is refused in words that help."""

import pytest
import torch
from torch import nn

from compile_lab.report.given import UnusableModel, given, loaded


class Answer(nn.Module):
    """A linear layer whose result is put into whatever the test wants."""

    def __init__(self, wrap):
        super().__init__()
        self.linear, self.wrap = nn.Linear(4, 4), wrap

    def forward(self, x):
        return self.wrap(self.linear(x))


class WithLoss:
    def __init__(self, y):
        self.loss = y.square().mean()


@pytest.mark.parametrize(
    ("wrap", "rule"),
    [
        (lambda y: y.sum(), "itself"),
        (WithLoss, "attribute"),
        (lambda y: {"loss": y.sum(), "logits": y}, "key"),
        (lambda y: (torch.zeros(3, dtype=torch.int64), y), "mean"),
    ],
)
def test_the_loss_is_found_and_named(wrap, rule):
    subject = given(Answer(wrap), torch.ones(2, 4))
    assert subject.rule == rule
    loss = subject.loss(*subject.args)
    assert loss.ndim == 0 and loss.requires_grad


@pytest.mark.parametrize(
    ("model", "batch", "said"),
    [
        (torch.relu, torch.ones(2), "no module with parameters"),
        (3, None, "must be a torch.nn.Module or a function"),
        (Answer(torch.sum), torch.ones(2, 5), "refused its batch .*float32 .2, 5"),
        (Answer(torch.sum).to("meta"), None, "on the meta device"),
        (Answer(torch.sum), 3, "without a tensor"),
        (Answer(torch.sum), {1: torch.ones(2, 4)}, "names of arguments"),
        (Answer(lambda y: y.argmax()), None, "needs no gradient"),
        (Answer(lambda y: None), None, "return its loss"),
        (Answer(torch.sum).requires_grad_(False), None, "requires_grad=True"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_the_way_out(model, batch, said):
    with pytest.raises(UnusableModel, match=said):
        given(model, torch.ones(2, 4) if batch is None else batch)


def test_a_file_may_import_what_stands_beside_it(tmp_path, monkeypatch):
    (tmp_path / "beside_it.py").write_text("WIDTH = 4\n")
    (tmp_path / "my_model.py").write_text(
        "import torch, beside_it\n"
        "def make(): return torch.nn.Linear(beside_it.WIDTH, 2), torch.ones(3, beside_it.WIDTH)\n"
    )
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    subject = loaded(f"{tmp_path / 'my_model.py'}:make")
    assert subject.rule == "mean" and subject.name == "Linear of my_model.py"


class Counts(nn.Module):
    """Writes into a buffer and into a frozen weight in its forward, as a batch norm and a moving average do."""

    def __init__(self):
        super().__init__()
        self.norm, self.slow = nn.BatchNorm1d(4), nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x):
        self.slow.weight.mul_(0.5)
        return self.norm(x).square().mean()


def test_a_forward_that_writes_leaves_the_model_as_it_was():
    model = Counts()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    given(model, torch.randn(3, 4))
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
