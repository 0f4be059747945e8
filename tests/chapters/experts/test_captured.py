"""One graph from the start. Chapter 16 shows what torch.compile makes of each way to dispatch."""

from chapters.experts.captured import captured


def test_dynamic_from_the_start_is_one_graph():
    assert captured("grouped", dynamic=True).new == (1, 0, 0, 0)
