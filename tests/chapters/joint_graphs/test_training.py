"""The views of a joint graph and of its cut say what the graphs say."""

import pytest
from small_gpt import graphs_of, leaf, small_gpt

from chapters.joint_graphs import cut_view
from compile_lab.aot import view as aot_view
from compile_lab.aot.training import training_graphs


@pytest.fixture(scope="module")
def gpt():
    return small_gpt()


@pytest.fixture(scope="module")
def gpt_graphs(gpt):
    return graphs_of(*gpt)


@pytest.mark.slow
def test_the_views_say_the_same(gpt_graphs):
    graphs = gpt_graphs["min_cut"]
    assert sum(row[2] for row in aot_view.rules(graphs).rows) == graphs.saved_nbytes
    assert sum(row[3] for row in aot_view.saved(graphs, residents=False).rows) == graphs.saved_nbytes
    assert aot_view.comparison(gpt_graphs).rows[0][-1] == graphs.saved_nbytes
    assert "class " not in aot_view.code(graphs.joint).source
    with pytest.raises(ValueError, match="too many to draw"):
        cut_view.operations(graphs)


def test_a_drawing_says_in_words_what_crosses():
    graphs = training_graphs(lambda x, w: (x.sin() @ w).sum(), leaf(4, 4), leaf(4, 4))
    drawn = cut_view.operations(graphs, table=aot_view.saved(graphs))
    assert "saved and crossing over" in drawn.alt.lower() and len(drawn.table.rows) == len(graphs.saved)
    assert ">sin · 64 bytes<" in drawn.svg and "stroke-dasharray" in drawn.svg and ">kept: 64 bytes<" in drawn.svg
