"""What boxes of a capacity keep, drop and pad."""

import pytest

from chapters.experts.boxes import boxed, intensity, room


@pytest.mark.parametrize(
    ("counts", "size", "kept", "padding", "dropped"),
    [([3, 0, 5], 4, 7, 5, 1), ([0, 0], 3, 0, 6, 0), ([4, 4], 4, 8, 0, 0), ([9, 1], 2, 3, 1, 7)],
)
def test_boxes_count_every_assignment_once(counts, size, kept, padding, dropped):
    found = boxed(counts, size)
    assert (found.kept, found.padding, found.dropped) == (kept, padding, dropped)
    assert found.kept + found.dropped == sum(counts) and found.computed == len(counts) * size
    assert found.empty == padding / found.computed


def test_a_capacity_of_one_is_the_even_share():
    assert (room(256, 1.0), room(256, 1.25)) == (64, 80)


def test_more_rows_make_more_of_an_expert():
    found = [intensity(rows, 4096, 14336) for rows in (1, 64, 4096)]
    assert found == sorted(found) and found[0] < 1.001
