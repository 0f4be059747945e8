"""A trace as a reader sees it."""

import torch

from compile_lab.dynamo import view as dynamo_view
from compile_lab.dynamo.tracing import trace


def prints(x):
    y = x.sin()
    print("here")
    return y.cos()


def test_the_breaking_line_is_marked_in_the_source():
    code = dynamo_view.source(prints, trace(prints, torch.ones(2)))
    assert list(code.mark) == [3] and '▶     print("here")' in repr(code)


def test_tables_say_where_what_and_what_then():
    found = trace(prints, torch.ones(2))
    ((place, line, reason, then),) = dynamo_view.breaks(found).rows
    assert place.startswith("test_view.py") and line.source == 'print("here")'
    assert reason == "Failed to trace builtin operator" and then == "it is split here"
    assert dynamo_view.steps(found).rows[0][1] == "run the graph → Python: print → go on in a resume function"


def test_graph_code_leaves_the_wrapping_class_out():
    code = dynamo_view.graph_code(trace(prints, torch.ones(2))).source
    assert code.startswith("# graph 0\ndef forward(self") and "class " not in code and "# graph 1" in code


def test_the_summary_says_when_nothing_was_compiled():
    def loops(x):
        for _ in range(2):
            print("again")
        return x + 1

    assert dynamo_view.summary(trace(loops, torch.ones(2))).startswith("**Nothing was compiled**")
    assert dynamo_view.summary(trace(torch.sin, torch.ones(2))) == "**One graph**: 1 graph with 1 op, 0 breaks."
