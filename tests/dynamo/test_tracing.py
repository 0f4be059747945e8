"""trace: breaks, graphs, guards and recompiles of functions that nobody prepared."""

import contextlib
import json
import logging

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from compile_lab.capture import GuardTree
from compile_lab.dynamo.guards import guards_of
from compile_lab.dynamo.tracing import trace

pytestmark = pytest.mark.processes


def helper(x):
    print("in the helper")
    return x.cos()


def branches(x):
    y = torch.sin(x)
    if y.sum() > 0:
        y = y * 2
    return helper(y)


@pytest.fixture(scope="module")
def found():
    return trace(branches, torch.ones(4))


def test_breaks_are_listed_once_with_reason_hint_place_and_source(found):
    assert [stop.source for stop in found.breaks] == ["if y.sum() > 0:", 'print("in the helper")']
    branch = found.breaks[0]
    assert branch.reason == "Data-dependent branching" and branch.hint
    assert branch.file == __file__ and branch.line == branches.__code__.co_firstlineno + 2
    assert branch.place == f"test_tracing.py, line {branch.line}"
    assert found.printed == "in the helper\n"


def item_then_helper(x):
    scale = x.sum().item()
    return helper(x) * scale


def test_a_break_inside_a_helper_is_found_that_explain_misses():
    found = trace(item_then_helper, torch.ones(4))
    assert [stop.source for stop in found.breaks] == ["scale = x.sum().item()", 'print("in the helper")']
    assert found.breaks[1].function == "helper"
    assert [line.text for line in found.breaks[1].via] == ["return helper(x) * scale"]
    told = torch._dynamo.explain(item_then_helper)(torch.ones(4)).break_reasons
    torch.compiler.reset()
    assert [reason.user_stack[-1].line for reason in told] == ["scale = x.sum().item()"]


def test_graphs_on_both_sides_run_and_carry_their_source_lines(found):
    assert [graph.ops for graph in found.graphs] == [3, 1, 1]
    assert all(graph.calls == 1 for graph in found.graphs)
    assert "if y.sum() > 0:" in found.graphs[0].code and "/" not in found.graphs[0].code
    assert found.graphs[1].function.startswith("torch_dynamo_resume_in_branches")
    torch.testing.assert_close(found.result, branches(torch.ones(4)))


def test_the_rewritten_function_runs_graph_python_resume(found):
    first = found.rewritten[0]
    again = "go on in a resume function"
    assert (first.function, first.steps) == ("branches", ("run the graph", "Python: branch", again, again))
    assert "Python: print" in trace(helper, torch.ones(4)).rewritten[0].steps


def test_a_function_that_cannot_be_split_is_said_to_be_skipped():
    @contextlib.contextmanager
    def quiet():
        yield

    def inside_with(x):
        with quiet():
            print("no way to split here")
            return x.cos()

    (stop,) = trace(inside_with, torch.ones(4)).breaks
    assert stop.skipped_for == "Graph break under GenericContextWrappingVariable"
    assert "left to Python" in str(stop) and stop.reason == "Failed to trace builtin operator"


def test_a_break_in_a_loop_leaves_the_whole_function_to_python():
    def looped(x):
        for step in range(3):
            x = x.sin()
            print(step)
        return x

    found = trace(looped, torch.ones(4))
    assert found.breaks[0].skipped_for == "graph break in loop" and not found.graphs


def test_the_users_line_is_named_when_the_break_lies_in_the_standard_library():
    def encodes(x):
        return x * len(json.dumps({"a": 1}))

    (stop,) = trace(encodes, torch.ones(2)).breaks
    assert stop.file == __file__ and "json.dumps" in stop.source


def test_a_guard_in_a_form_that_is_new_keeps_torchs_words():
    tree = GuardTree("0/0", "| +- TENSOR_MATCH: check_tensor(L['x'], 140079593604176)  # y = x + 1  # a.py:1 in f")
    (guard,) = guards_of(tree)
    assert guard.text == "check_tensor(x, …)" and guard.source == "y = x + 1"


def test_recompiles_name_the_guard_that_failed():
    def scaled(x, n):
        return x * n

    found = trace(scaled, torch.ones(4), 2, also=[(torch.ones(4), 3), (torch.ones(4), 3.5), (torch.ones(4, 1), 2)])
    assert [again.failed[0] for again in found.recompiles][:2] == ["n == 2", "n has type int"]
    assert "tensor 'x' rank mismatch. expected 1, actual 2" in found.recompiles[2].failed
    assert len(found.graphs) == 1 + len(found.recompiles)


def test_modules_keywords_and_compiled_callables_are_taken():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert len(trace(model, torch.ones(2, 4)).graphs) == 1
    assert len(trace(torch.compile(model), torch.ones(2, 4)).graphs) == 1
    assert trace(lambda x, scale=1: x * scale, torch.ones(2), scale=3).result.tolist() == [3.0, 3.0]


def test_errors_of_the_function_come_through_and_leave_nothing_behind():
    level = logging.getLogger("torch._dynamo").level

    def fails(x):
        raise ValueError("my own mistake")

    with pytest.raises(ValueError, match="my own mistake"):
        trace(fails, torch.ones(1))
    assert logging.getLogger("torch._dynamo").level == level


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def under_a_dispatch_mode():
    with Watching():
        return trace(lambda x: x.sin(), torch.ones(2))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: trace(branches, torch.ones(4), fullgraph=True), "Data-dependent branching"),
        (lambda: trace(3, torch.ones(1)), "fn is 3"),
        (under_a_dispatch_mode, "No compiled graph ran"),
    ],
)
def test_what_cannot_be_traced_is_refused(call, word):
    with pytest.raises(Exception, match=word):
        call()
