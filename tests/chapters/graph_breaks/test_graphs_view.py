"""What chapter 01 draws of graphs and calls, where it has no such function: a print at the end, an error, nothing."""

import pytest
import torch

from chapters.graph_breaks import graphs_view
from chapters.graph_breaks.strips import strip
from compile_lab.dynamo import calls_view, replay, trace

pytestmark = pytest.mark.processes


def prints_last(x):
    y = x.sin()
    print("done")
    return y


def lost(x):
    for _ in range(2):
        x = x.sin()
        print("here")
    return x


def grows(x):
    if len(x) == 9:
        raise LookupError
    return x.sin() * x.shape[0]


def test_what_comes_after_the_last_graph_is_pythons():
    assert [piece.graph for piece in strip(prints_last, torch.ones(2)).pieces] == [0, None]


def test_an_error_is_an_outcome_without_its_name():
    (call,) = replay(grows, [(torch.ones(9),)])
    assert calls_view.outcome(call) == "raised"


REFUSED = [
    (lambda: graphs_view.strips({}), "at least one"),
    (lambda: graphs_view.matrix({}, ["loose"]), "at least one"),
    (lambda: graphs_view.matrix({"whole": ["Unsupported"]}, ["loose", "strict"]), "1 traces for 2"),
    (lambda: graphs_view.graphs({"lost": trace(lost, torch.ones(2))}), "none of these functions has a graph"),
    (lambda: calls_view.predicted({}), "at least one"),
    (lambda: calls_view.row_by_row({"automatic": replay(grows, [(torch.ones(4),)] * 2)}, [4], ""), "2 calls for 1"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_cannot_be_drawn_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
