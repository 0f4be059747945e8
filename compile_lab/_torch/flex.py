"""Private names of FlexAttention."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.nn.attention import flex_attention


@contextmanager
def flex_as_on_a_gpu() -> Iterator[None]:
    """While the block runs, FlexAttention treats CPU tensors as it would a GPU's: their gradients are not refused.

    For an interpreter of its GPU kernels. On a CPU torch 2.13 keeps no log-sum-exp, which a backward needs; its eager
    mathematics has a backward on any device, its C++ kernel has none.
    """
    options_of = flex_attention._apply_kernel_options

    def options(*args: Any, **kwargs: Any) -> Any:
        asked = options_of(*args, **kwargs)
        asked["OUTPUT_LOGSUMEXP"] = asked["OUTPUT_LOGSUMEXP"] or torch.is_grad_enabled()
        return asked

    with (
        mock.patch.object(flex_attention, "_validate_device", lambda query, key, value: None),
        mock.patch.object(flex_attention, "_apply_kernel_options", options),
    ):
        yield
