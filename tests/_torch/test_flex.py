"""What the module of FlexAttention's private names changes in torch, and that it is put back."""

import pytest
import torch
from torch.nn.attention import flex_attention

from compile_lab._torch.flex import flex_as_on_a_gpu


def test_flex_as_on_a_gpu_takes_gradients_of_cpu_tensors_and_asks_for_what_a_backward_needs():
    before = flex_attention._validate_device, flex_attention._apply_kernel_options
    leaf = torch.ones(1, 1, 128, 16, requires_grad=True)
    attend = torch.compile(flex_attention.flex_attention, backend="aot_eager", dynamic=False)
    with pytest.raises(Exception, match="CPU"):
        attend(leaf, leaf, leaf)
    torch._dynamo.reset()
    with flex_as_on_a_gpu():
        attend(leaf, leaf, leaf).sum().backward()
    assert leaf.grad.isfinite().all()
    assert (flex_attention._validate_device, flex_attention._apply_kernel_options) == before
