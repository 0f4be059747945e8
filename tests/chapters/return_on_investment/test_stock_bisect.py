"""torch's bisector blames the missing roundings of a bf16 chain, and the decomposition of dropout."""

import pytest
import torch
import torch.nn.functional as F

from chapters.return_on_investment.chains import pointwise
from chapters.return_on_investment.stock_bisect import guilty_part


def test_what_is_as_in_eager_has_no_guilty_part():
    assert guilty_part(torch.relu, torch.randn(8)) is None


@pytest.mark.slow
def test_missing_roundings_and_another_mask_are_told_apart():
    chain = guilty_part(pointwise, *torch.randn(2, 512, generator=torch.Generator().manual_seed(0)).bfloat16())
    assert chain.backend == "inductor" and "emulate_precision_casts" in chain.part and chain.said
    dropped = guilty_part(lambda x: F.dropout(x, 0.5), torch.ones(1000))
    assert dropped.part == "decomposition" and "dropout" in str(dropped)
