"""The bill of a long sequence."""

import pytest

from chapters.long_sequences.in_page import Bill


def test_what_is_divided_and_what_is_not():
    one, eight = Bill(65_536), Bill(65_536, 8)
    for name in ("activations", "linear_flops", "attention_flops", "scores"):
        assert getattr(one, name) == pytest.approx(8 * getattr(eight, name))
    assert one.gathered == one.sent == 0 < eight.gathered == Bill(65_536, 64).gathered
    assert eight.sent == pytest.approx(32 * 3 * 7 / 8 * eight.gathered)


def test_twice_the_length_is_twice_the_memory_and_four_times_the_attention():
    short, long = Bill(4096), Bill(8192)
    assert long.activations == 2 * short.activations and long.attention_flops == 4 * short.attention_flops
    even = Bill(short.even)
    assert even.attention_flops == even.linear_flops
