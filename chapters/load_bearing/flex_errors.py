"""How far is FlexAttention from dense attention in float64? Eager, compiled here, and as written for a GPU.

What a GPU would run is interpreted on the CPU, forward and backward, so that its gradients are judged without one:
on a CPU torch 2.13 itself has no backward of FlexAttention.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from compile_lab._torch.dynamo import reset_dynamo
from compile_lab.doors import door
from compile_lab.measure.judge import largest_relative_error
from compile_lab.virtual_gpu.client import interpret

from .flex import _blocks, attend, dense, inputs

NAMES = ("output", "gradient of q", "gradient of k", "gradient of v")


@dataclass(frozen=True)
class FlexErrors:
    """One way to compute attention: of the output, and of the gradients where it has them, the largest difference from
    dense float64, in parts of the largest element."""

    way: str
    by_result: dict[str, float]

    @property
    def worst(self) -> float:
        return max(self.by_result.values())


@door
def errors(
    mask: Callable[..., Tensor],
    score: Callable[..., Tensor] | None = None,
    *,
    length: int = 256,
    batch: int = 1,
    heads: int = 1,
    width: int = 16,
    chip: str | None = "H200",
    edit: Callable[[str, str], str] | None = None,
) -> tuple[FlexErrors, ...]:
    """Errors in float32 of dense attention, FlexAttention called eagerly, compiled for this CPU, written for ``chip``.

    The gradients are those of the sum of the outputs. Dense attention in float32 says what rounding alone costs.
    Without ``chip`` (None) the last is left out, which takes ten seconds, those of the others meanwhile. ``edit``
    changes the chip's kernels before they run, as that of ``interpret``. Sizes and errors are those of ``written``.
    """
    q, k, v = inputs(batch, heads, length, width)
    blocks = _blocks(mask, batch, length)
    exact = _with_gradients(lambda *qkv: dense(*qkv, score, mask), q.double(), k.double(), v.double())
    with ThreadPoolExecutor(1) as meanwhile:  # another process works; the thread waits for it
        leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
        begun = chip and meanwhile.submit(interpret, attend, *leaves, score, blocks, chip=chip, edit=edit)
        found = {"dense": _with_gradients(lambda *qkv: dense(*qkv, score, mask), q, k, v)}
        with torch.no_grad():
            found["flex, eager"] = {"output": attend(q, k, v, score, blocks)}
            found["flex, compiled here"] = {"output": _compiled(q, k, v, score, blocks)}
    if begun:
        ran = begun.result()
        slopes = {f"gradient of {name}": slope for name, slope in ran.gradients.items()}
        found[f"flex, written for the {chip}"] = {"output": ran.outputs, **slopes}
    return tuple(
        FlexErrors(way, {name: largest_relative_error(one, exact[name]) for name, one in results.items()})
        for way, results in found.items()
    )


def _compiled(*arguments: object) -> Tensor:
    reset_dynamo()
    try:
        return torch.compile(attend, dynamic=False)(*arguments)
    finally:
        reset_dynamo()


def _with_gradients(fn: Callable[..., Tensor], *leaves: Tensor) -> dict[str, Tensor]:
    leaves = tuple(leaf.clone().requires_grad_() for leaf in leaves)
    output = fn(*leaves)
    return dict(zip(NAMES, (output.detach(), *torch.autograd.grad(output.sum(), leaves)), strict=True))
