"""What a step launches, moves and keeps: eager by its operators, generated code by its wrapper."""

import pytest
import torch

from compile_lab.inductor.traffic import eager_traffic

ONE = 4096 * 512 * 4


def test_two_parts_of_one_memory_are_two_reads_and_one_part_is_one():
    x = torch.empty(4096, 512, device="meta", requires_grad=True)
    halves = eager_traffic(lambda x: torch.mul(*x.chunk(2)), x)
    assert halves.nbytes("forward") == ONE + ONE / 2, "as q, k and v of one product: all of it is read"
    same = eager_traffic(lambda x: x * x, x)
    assert same.nbytes("forward") == 2 * ONE, "read once, written once"
    with pytest.raises(ValueError, match="not known; it is one of"):
        same.in_role("temporary")
