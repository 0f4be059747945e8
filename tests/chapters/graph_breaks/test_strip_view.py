"""Functions as strips that are cut where their graph breaks, and calls as rows of tiles."""

import pytest
import torch

from chapters.graph_breaks import strip_view
from chapters.graph_breaks.strips import prints_at_depths, prints_in_places, strip
from compile_lab.dynamo import calls_view, replay

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def places():
    return prints_in_places(torch.ones(3))


def test_a_strip_holds_what_ran_in_its_order_and_in_which_graph(places):
    assert [each.graphs for each in places.values()] == [1, 2, 4, 0]
    assert [piece.ops for piece in places["one print"].pieces] == [("mul", "exp"), ("print",), ("sqrt", "add")]
    assert [piece.graph for piece in places["in a helper"].pieces] == [0, 1, None, 2, 3]
    assert [piece.frame for piece in places["in a helper"].pieces if piece.frame][1:3] == ["helper", "helper"]
    assert places["in a loop"].eager_ops == 5 and places["one print"].eager_ops == 0


def test_a_break_d_calls_deep_makes_two_graphs_for_each_frame():
    assert [each.graphs for each in prints_at_depths(torch.ones(3)).values()] == [2, 4, 8]


def test_what_comes_after_the_last_graph_is_pythons():
    def prints_last(x):
        y = x.sin()
        print("done")
        return y

    assert [piece.graph for piece in strip(prints_last, torch.ones(2)).pieces] == [0, None]


def test_strips_stay_inside_the_picture_and_say_what_they_show(places):
    drawn = strip_view.strips(places)
    assert "in a helper: 1 break, 4 graphs (graph 0: mul; graph 1: exp; print" in drawn.alt
    assert [row[:5] for row in drawn.table.rows][-1] == ("in a loop", 1, 0, 0, 5)
    assert drawn.svg.count(">print<") == 4 and ">4 graphs<" in drawn.svg
    with pytest.raises(ValueError, match="at least one strip"):
        strip_view.strips({})


def test_a_row_of_calls_has_a_tile_for_each_and_counts_what_was_compiled():
    def grows(x):
        return x.sin() * x.shape[0]

    lengths = (4, 5, 6, 4)
    made = replay(grows, [(torch.ones(n),) for n in lengths])
    assert calls_view.counted(made) == {"compiled": 2, "reused": 2}
    drawn = calls_view.row_by_row({"automatic": made}, lengths, "elements")
    assert "automatic: 2 compiled, 2 reused" in drawn.alt and ">2 compiled<" in drawn.svg
    assert drawn.table.rows == [("automatic", 2, 2)] and "plain Python" not in drawn.legend
    with pytest.raises(ValueError, match="4 calls for 1 labels"):
        calls_view.row_by_row({"automatic": made}, [4], "elements")


def test_a_raised_error_is_an_outcome_without_its_name():
    def refuses(x):
        raise LookupError

    (call,) = replay(refuses, [(torch.ones(1),)])
    assert calls_view.outcome(call) == "raised"
