"""Exercises of chapter 18, where to put torch.compile."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..exercises.judging import exercise


class _Gated(nn.Module):
    """A linear layer and a gate; some of it, named, is cut off from the gradient."""

    def __init__(self, cut: str = "") -> None:
        super().__init__()
        self.up, self.gate, self.unused, self.cut = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), cut

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach() if self.cut == "input" else x
        gate = self.gate(x)
        return self.up(x) * (gate.detach() if self.cut == "gate" else gate)


@exercise("18.3", takes=Callable)
def lost_gradients(answer: Callable[..., set[str]]) -> str | None:
    """lost(model, compiled, x): the names of those that have a gradient in eager mode and none compiled."""
    cases = {"": set(), "gate": {"gate.weight", "gate.bias"}, "input": {"input"}}
    for cut, right in cases.items():
        torch.manual_seed(0)
        model = _Gated()
        got = answer(model, _sharing(_Gated(cut), model), torch.randn(3, 4))
        if set(got) != right:
            what = f"the {cut}'s gradient is lost" if cut else "nothing is lost"
            return f"where {what}, it says {', '.join(sorted(got)) or 'nothing'}."
    return None


def _sharing(module: nn.Module, model: nn.Module) -> nn.Module:
    """The module with the model's parameters, as a compiled module has them."""
    for name, child in model.named_children():
        setattr(module, name, child)
    return module
