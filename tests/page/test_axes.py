"""The axes of an explorer: options, and ranges of numbers."""

from compile_lab.page import axes
from compile_lab.page.axes import Range


def test_a_whole_number_arrives_as_an_int_in_every_face():
    """JSON has one kind of number: 2.0 leaves the page as 2, so a kernel hands over an int, too."""
    axis = Range(0.5, 4, start=2.0, step=0.5)
    given = [axes.taken("backward", axis, value) for value in (2.0, 2.5, 3, 1e300)]
    assert given == [2, 2.5, 3, 1e300] and [type(each) for each in given] == [int, float, int, int]
    assert type(axes.first(axis)) is int


def test_an_axis_that_matters_at_one_option_alone_is_asked_there_alone():
    own = Range(1, 8, start=2, where=("model", "my own"))
    assert axes.applies(own, {"model": "my own"}) and not axes.applies(own, {"model": "7 B"})
    assert axes.applies(Range(1, 8, start=2), {}) and axes.applies(("a", "b"), {})
