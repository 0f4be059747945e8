"""MiniGPT as plain DTensor code: weights are placed, and every collective is DTensor's own decision."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..devices.redistributions import MEGATRON, Redistribution, redistributions, spread

SEED = 0


def minigpt_gathers(
    plan: Mapping[str, str] = MEGATRON, layers: int = 2
) -> tuple[tuple[Redistribution, ...], float, float, dict[str, int]]:
    """What DTensor sends in a step of MiniGPT untold; the loss, one process's loss, and `CommDebugMode`'s count.

    To be called on each rank of `ranks.run`. The heads' rows of q, k and v lie together, or half of them would be no
    attention; attention runs as products and softmax, because the CPU's fused kernel has no rule.
    """
    step, loss, alone = minigpt_step(plan, layers)
    found = redistributions(step)
    with CommDebugMode() as counting:
        step()
    counts = {str(kind).rpartition(".")[2]: count for kind, count in counting.get_comm_counts().items()}
    return found, loss[-1], alone, counts


def minigpt_step(plan: Mapping[str, str] = MEGATRON, layers: int = 2) -> tuple[Any, list[float], float]:
    """A step of forward and backward, the list that it adds its loss to, and one process's loss of the same weights."""
    from mini_model.model import GPTConfig, MiniGPT
    from mini_model.parallel.parts import HeadwiseAttention

    torch.manual_seed(SEED)
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    model = MiniGPT(GPTConfig(vocabulary=64, context=16, dim=32, layers=layers, heads=4))
    tokens = torch.randint(0, 64, (4, 16))
    alone = model(tokens, tokens).item()
    for block in model.blocks:
        block.attention = HeadwiseAttention(block.attention)
    spread(model, mesh, plan)
    placed = distribute_tensor(tokens, mesh, [Replicate()], src_data_rank=None)
    losses: list[float] = []

    def step() -> None:
        with sdpa_kernel(SDPBackend.MATH), implicit_replication():
            loss = model(placed, placed)
            losses.append(loss.full_tensor().item())
            loss.backward()

    return step, losses, alone
