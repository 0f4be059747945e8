"""MiniGPT as plain DTensor code: weights are placed, and every collective is DTensor's own decision."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DeviceMesh, Replicate, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...shared.subjects import deep_gpt, headwise, styled
from ..redistributions import MEGATRON, Redistribution, distribute, redistributions

SEED = 0


def minigpt_gathers(
    plan: Mapping[str, str] | None = MEGATRON, layers: int = 2
) -> tuple[tuple[Redistribution, ...], float, float, dict[str, int]]:
    """What DTensor sends in a step of MiniGPT untold; the loss, one process's loss, and `CommDebugMode`'s count.

    To be called on each rank of `ranks.run`. Without a ``plan`` torch's tensor-parallel styles spread the model, which
    redistribute at the edges of modules, each as it is told. With one, the heads' rows of q, k and v lie together, or
    half of them would be no attention, and attention runs as matmuls and softmax, because the CPU's fused kernel has
    no rule.
    """
    step, loss, alone = minigpt_step(plan, layers)
    found = redistributions(step)
    with warnings.catch_warnings(), CommDebugMode() as counting:
        warnings.simplefilter("ignore")  # it hooks the model's backward, and tokens have no gradient
        step()
    counts = {str(kind).rpartition(".")[2]: count for kind, count in counting.get_comm_counts().items()}
    return found, loss[-1], alone, counts


def minigpt_step(plan: Mapping[str, str] | None = MEGATRON, layers: int = 2) -> tuple[Any, list[float], float]:
    """A step of forward and backward, the list that it adds its loss to, and one process's loss of the same weights."""
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    model = deep_gpt(layers, dim=32, heads=4, context=16, vocabulary=64)
    tokens = torch.randint(0, 64, (4, 16), generator=torch.Generator().manual_seed(SEED))
    alone = model(tokens, tokens).item()
    losses: list[float] = []
    if plan is None:
        return _styled(model, tokens, mesh, losses), losses, alone
    distribute(headwise(model), mesh, plan)
    placed = distribute_tensor(tokens, mesh, [Replicate()], src_data_rank=None)

    def step() -> None:
        with sdpa_kernel(SDPBackend.MATH), implicit_replication():
            loss = model(placed, placed)
            losses.append(loss.full_tensor().item())
            loss.backward()

    return step, losses, alone


def _styled(model: Any, tokens: Tensor, mesh: DeviceMesh, losses: list[float]) -> Callable[[], None]:
    styled(model, mesh)

    def step() -> None:
        loss = model(tokens, tokens)
        losses.append(loss.item())
        loss.backward()

    return step
