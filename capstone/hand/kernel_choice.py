"""What a step by hand was asked for, and whether it can be had."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from mini_model.inputs import instance, one_of, whole
from mini_model.model import GPTConfig, MiniGPT

from .matmuls import Matmuls, TunedMatmuls

KERNELS = {"triton": ".kernels", "reference": ".reference"}
DTYPES = (torch.bfloat16, torch.float32, torch.float64)


def config_of(model: MiniGPT, length: int) -> GPTConfig:
    """The model's configuration, if the schedule is for it."""
    config = instance("model", model, MiniGPT).config
    if not config.tied_head:
        raise ValueError("the model's head has its own matrix; this schedule is for GPTConfig(tied_head=True)")
    whole("length", length, most=config.context)
    return config


def betas_of(betas: tuple[float, float]) -> tuple[float, float]:
    """The same numbers, if AdamW can have them."""
    if len(betas) != 2 or not all(0 < each < 1 for each in betas):
        raise ValueError(f"betas are {betas}; they must be two numbers between 0 and 1")
    return betas


def matmuls_of(tuned: bool | None, device: torch.device, dtype: torch.dtype) -> Matmuls:
    """cuBLASLt's fastest, or torch's; None: cuBLASLt's where it can."""
    possible = device.type == "cuda" and dtype == torch.bfloat16
    if tuned is None:
        tuned = possible
    if instance("tuned", tuned, bool) and not possible:
        raise ValueError(
            f"tuned is True, and the step is of {dtype} on {device}; only matmuls of bfloat16 on a GPU are"
        )
    return TunedMatmuls.of(device) if tuned else Matmuls()


def kernels_of(name: str | None, device: torch.device, dtype: torch.dtype) -> Any:
    """The module of that name (None: what the device can run), if it computes in that dtype, there."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype}; it must be one of {', '.join(map(str, DTYPES))}")
    chosen = one_of("kernels", name, KERNELS) if name else "triton" if device.type == "cuda" else "reference"
    if chosen == "triton" and dtype == torch.float64:
        raise ValueError('the Triton kernels compute in float32; a float64 step needs kernels="reference"')
    module = import_module(KERNELS[chosen], __package__)
    if chosen == "triton" and device.type != "cuda" and not module.INTERPRETED:
        raise ValueError(f'the model is on {device}, and Triton needs a GPU; use kernels="reference"')
    return module
