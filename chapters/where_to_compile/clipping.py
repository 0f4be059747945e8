"""Clipping gradients that lie on several meshes, or on none."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def clip_by_mesh(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """``clip_grad_norm_`` for plain parameters and DTensors of any meshes: one norm a mesh, then the norm of those.

    Returns the norm before clipping, a plain tensor, the same on every rank.
    """
    groups: dict[object, list[Tensor]] = {}
    for each in parameters:
        if each.grad is not None:
            groups.setdefault(getattr(each, "device_mesh", None), []).append(each)
    norms = [get_total_norm([each.grad for each in group]) for group in groups.values()]
    total = torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm()
    for group in groups.values():
        clip_grads_with_norm_(group, max_norm, total)
    return total
