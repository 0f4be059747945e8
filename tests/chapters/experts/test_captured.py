"""What torch.compile makes of each way to dispatch."""

import pytest
import torch

from chapters.experts.captured import captured, distance, whole
from chapters.experts.view import graphs, same


@pytest.mark.parametrize("way", ["padded", "grouped"])
def test_known_sizes_are_one_graph_and_later_a_dynamic_one(way):
    found = captured(way)
    assert (found.graphs, found.new, found.breaks) == (2, (1, 1, 0, 0), 0)
    assert found.wrong_by < 1e-6 and found.calls > 30


@pytest.mark.slow
@pytest.mark.parametrize("way", ["loop", "masks"])
def test_a_size_that_depends_on_the_data_breaks_the_graph_or_is_captured(way):
    plain, flagged = captured(way), captured(way, flag=True)
    assert plain.breaks > 0 == flagged.breaks and flagged.graphs == 2 < plain.graphs
    assert plain.calls < flagged.calls and max(plain.wrong_by, flagged.wrong_by) < 1e-6
    assert whole(way) == "" and flagged.name == f"{way}, captured"
    assert len(graphs([plain, flagged]).rows) == 2


def test_dynamic_from_the_start_is_one_graph():
    assert captured("grouped", dynamic=True).new == (1, 0, 0, 0)


def test_a_distance_is_relative_and_said_in_words():
    one, exact = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 4.0])
    assert distance([one], [exact]) == 0.25
    assert (same(0.0), same(3e-3), same(0.25)) == ("to 1e-6", "to 1e-2", "off by 25%")
