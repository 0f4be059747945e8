"""Is the whole step as one graph the step that eager makes? ``judged_steps(model, batches)`` trains by both.

To the bit where the same kernels run: the graph run node by node. Inductor's code adds in another order, so there
float64 is asked, which is trained beside them.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from compile_lab.doors import door
from compile_lab.measure.judge import relative_error_together, same_bits

from .whole_step import AdamWRule, GraphToGraph, whole_step


@dataclass(frozen=True)
class StepsJudged:
    """Training by one way for some steps, beside eager: parameters, buffers and losses.

    ``same_bits`` counts the tensors, of ``tensors``, that hold the bits that eager's do. Errors are against float64,
    over all parameters: ‖θ − exact‖ / ‖exact‖.
    """

    way: str
    same_bits: int
    tensors: int
    error: float
    eager_error: float
    losses: tuple[float, ...]

    def __str__(self) -> str:
        return (
            f"{self.way}: {self.same_bits} of {self.tensors} tensors to the bit as eager; error against float64 "
            f"{self.error:.1e}, eager's {self.eager_error:.1e}"
        )


@door
def judged_steps(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, ...]],
    rule: AdamWRule | None = None,
    passes: Sequence[GraphToGraph] = (),
    compiled: bool = True,
) -> tuple[StepsJudged, ...]:
    """Train copies of a model on some batches: eagerly with ``torch.optim.AdamW``, by the graph run node by node, by
    the graph after the passes, and, where ``compiled``, by Inductor's code for it. Each way is judged against the
    first, and by float64.

    ``model`` stays as it is. Raises what ``whole_step`` raises.
    """
    rule = rule or AdamWRule()
    exact, _ = _trained_eagerly(copy.deepcopy(model).double(), batches, rule)
    eager, eager_losses = _trained_eagerly(copy.deepcopy(model), batches, rule)
    ways = {"the graph, node by node": ((), False), "after the passes": (passes, False), "compiled": (passes, True)}
    found = []
    for way, (applied, generates) in ways.items():
        if generates and not compiled:
            continue
        trained = copy.deepcopy(model)
        step = whole_step(trained, *batches[0], rule=rule, passes=applied, compiled=generates)
        torch.manual_seed(0)
        losses = [step(*batch) for batch in batches]
        tensors_ = _held(trained)
        same = sum(same_bits(tensor, eager[name]) for name, tensor in tensors_.items())
        same += sum(map(same_bits, losses, eager_losses))
        own, eagers = (relative_error_together(each, exact) for each in (tensors_, eager))
        found.append(StepsJudged(way, same, len(tensors_) + len(losses), own, eagers, tuple(map(float, losses))))
    return tuple(found)


def _trained_eagerly(
    model: nn.Module, batches: Sequence[tuple[Tensor, ...]], rule: AdamWRule
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """With float64 parameters, floats of the batches are float64 too."""
    wide = next(model.parameters()).dtype == torch.float64
    optimizer = torch.optim.AdamW(model.parameters(), **vars(rule), foreach=False)
    losses = []
    torch.manual_seed(0)
    for batch in batches:
        given = [each.double() if wide and each.is_floating_point() else each for each in batch]
        loss = model(*given)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return _held(model), losses


def _held(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}
