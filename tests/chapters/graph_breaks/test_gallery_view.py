"""Many functions' traces beside each other, and guards and events as pictures."""

import pytest
import torch

from chapters.graph_breaks import gallery_view
from compile_lab.dynamo import calls_view, trace
from compile_lab.dynamo import view as dynamo_view
from compile_lab.dynamo.guards import counted


def whole(x):
    return x.sin().cos()


def split(x):
    y = x.sin()
    print("here")
    return y.cos()


def lost(x):
    for _ in range(2):
        x = x.sin()
        print("here")
    return x


@pytest.fixture(scope="module")
def traces():
    return {fn.__name__: trace(fn, torch.ones(2)) for fn in (whole, split, lost)}


def test_a_matrix_tells_whole_split_lost_and_refused_apart(traces):
    kinds = [gallery_view.outcome(found) for found in (*traces.values(), "Unsupported")]
    assert kinds == list(gallery_view.KEY)
    drawn = gallery_view.matrix({name: (found, "Unsupported") for name, found in traces.items()}, ["loose", "strict"])
    assert "split: loose 2 graphs, strict Unsupported." in drawn.alt
    assert drawn.table.rows[2] == ("lost", "0", "Unsupported", "graph break in loop")
    assert drawn.svg.count(">error</text>") == 3 and drawn.svg.count(">none</text>") == 1


def test_a_matrix_wants_a_cell_for_each_column(traces):
    with pytest.raises(ValueError, match="1 traces for 2 columns"):
        gallery_view.matrix({"whole": [traces["whole"]]}, ["loose", "strict"])
    with pytest.raises(ValueError, match="at least one"):
        gallery_view.matrix({}, ["loose"])


def test_graphs_are_as_wide_as_their_operations(traces):
    drawn = gallery_view.graphs({name: traces[name] for name in ("whole", "split")})
    assert drawn.alt == "whole: 1 graph with 2 operations, 0 breaks; split: 2 graphs with 1, 1 operations, 1 break."
    with pytest.raises(ValueError, match="none of these functions has a graph"):
        gallery_view.graphs({"lost": traces["lost"]})


def test_bars_of_guards_count_what_they_speak_of(traces):
    guards = traces["whole"].guards
    figure = dynamo_view.by_thing({"whole": guards}, "Guards.")
    assert dict(zip(figure.plot.data[0].y, figure.plot.data[0].x, strict=True)) == counted(guards)
    assert "1 input tensor" in figure.alt


def test_what_was_foretold_stands_beside_what_came():
    events = {"new weights": (False, "reused", True, ""), "a hook": (False, "reused", False, "")}
    drawn = calls_view.foretold({**events, "int32": (True, "compiled", True, "dtype mismatch")})
    assert "a hook: the guards say reuse, torch reused, the result is wrong." in drawn.alt
    assert drawn.svg.count(">wrong</text>") == 1 and drawn.table.rows[-1][-1] == "dtype mismatch"
    with pytest.raises(ValueError, match="at least one event"):
        calls_view.foretold({})
