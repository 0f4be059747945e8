"""Functions as strips, matrices of traces, and calls as rows of tiles: what each outcome is called."""

import pytest
import torch

from chapters.graph_breaks import graphs_view
from chapters.graph_breaks.strips import strip
from compile_lab.dynamo import calls_view, replay, trace

pytestmark = pytest.mark.processes


def whole(x):
    return x.sin().cos()


def prints_last(x):
    y = x.sin()
    print("done")
    return y


def split(x):
    return prints_last(x).cos()


def lost(x):
    for _ in range(2):
        x = x.sin()
        print("here")
    return x


def test_what_comes_after_the_last_graph_is_pythons():
    assert [piece.graph for piece in strip(prints_last, torch.ones(2)).pieces] == [0, None]


def test_whole_split_lost_and_refused_are_told_apart():
    traces = [trace(fn, torch.ones(2)) for fn in (whole, split, lost)]
    assert [graphs_view.outcome(found) for found in (*traces, "Unsupported")] == list(graphs_view.OUTCOMES)
    drawn = graphs_view.matrix({"whole": traces[:1], "lost": ["Unsupported"]}, ["traced"])
    assert drawn.table.rows == [("whole", 1, None), ("lost", "Unsupported", None)]
    with pytest.raises(ValueError, match="none of these functions has a graph"):
        graphs_view.graphs({"lost": traces[2]})
    with pytest.raises(ValueError, match="1 traces for 2"):
        graphs_view.matrix({"whole": traces[:1]}, ["loose", "strict"])


def test_calls_are_counted_by_what_was_compiled_and_an_error_is_an_outcome_without_its_name():
    def grows(x):
        if len(x) == 9:
            raise LookupError
        return x.sin() * x.shape[0]

    made = replay(grows, [(torch.ones(n),) for n in (4, 5, 6, 4)])
    assert calls_view.counted(made) == {"compiled": 2, "reused": 2}
    with pytest.raises(ValueError, match="4 calls for 1"):
        calls_view.row_by_row({"automatic": made}, [4], "elements")
    (call,) = replay(grows, [(torch.ones(9),)])
    assert calls_view.outcome(call) == "raised"


@pytest.mark.parametrize(
    "call",
    [
        lambda: graphs_view.strips({}),
        lambda: graphs_view.matrix({}, ["loose"]),
        lambda: calls_view.predicted({}),
    ],
)
def test_nothing_to_draw_is_refused(call):
    with pytest.raises(ValueError, match="at least one"):
        call()
