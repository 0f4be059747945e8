"""A pass of one's own: whether it is right, and what is wrong with one that is refused; chapter 22 has the rest."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.attention_and_passes.passes import PassError, PassRun, with_pass
from chapters.attention_and_passes.passes_examples import products_with_one_hot_are_lookups
from chapters.attention_and_passes.passes_graph import pictured
from chapters.attention_and_passes.passes_judged import JudgedTensor

aten = torch.ops.aten


def twice(x):
    return (torch.sin(x) * torch.exp(torch.sin(x))).sum()


def unchanged(x):
    return x


def softened(x):
    return x.softmax(-1).square().sum()


class OneHot(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(64, 16))

    def forward(self, tokens):
        return torch.tanh(F.one_hot(tokens, 64).float() @ self.table).square().sum()


def nothing(graph):
    pass


def raising(graph):
    raise LookupError("no such node")


def fewer_results(graph):
    output = graph.output_node()
    output.args = (tuple(output.args[0])[:1],)


def other_shape(graph):
    node = graph.find_nodes(op="call_function", target=aten.sum.default)[0]
    with graph.inserting_after(node):
        wider = graph.call_function(aten.unsqueeze.default, (node, 0))
    graph.output_node().replace_input_with(node, wider)


def impossible(graph):
    node = graph.find_nodes(op="call_function", target=aten.sin.default)[0]
    with graph.inserting_after(node):
        wrong = graph.call_function(aten.mm.default, (node, node))
    node.replace_all_uses_with(wrong)
    wrong.args = (node, node)


def without_maximum(graph):
    for node in graph.find_nodes(op="call_function", target=aten.sub.Tensor):
        if node.args[1].target is aten.amax.default:
            node.replace_all_uses_with(node.args[0])
    graph.eliminate_dead_code()


def inputs(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.slow
def test_a_modules_parameters_are_judged_by_float64_though_the_code_casts_to_float():
    tokens = torch.randint(64, (128,), generator=torch.Generator().manual_seed(0))
    found = with_pass(products_with_one_hot_are_lookups, OneHot(), tokens, stage="pre_grad")
    assert found.verdict in ("same bits", "other bits")
    by_name = {each.name: each for each in found.judged}
    assert by_name["result 0"].same_bits, "a product with one 1 in each row picks a row"
    assert by_name["gradient of table"].without is not None


@pytest.mark.slow
@pytest.mark.parametrize(("times", "verdict"), [(1, "other bits"), (100, "wrong")])
def test_a_pass_that_is_right_on_one_input_is_wrong_on_others(times, verdict):
    found = with_pass(without_maximum, softened, (inputs(8, 8).detach() * times).requires_grad_(), stage="joint_pre")
    assert found.verdict == verdict and not found.did_nothing


REFUSED = [
    (raising, "raising raised LookupError: no such node.* the joint graph"),
    (fewer_results, "fewer_results breaks the graph: .* 2 results and now returns 1"),
    (other_shape, r"other_shape breaks the graph: .*float32\[\] and is now float32\[1\]"),
    (impossible, "impossible breaks the graph: a node of it cannot be computed"),
]


@pytest.mark.parametrize(("own", "said"), REFUSED, ids=[row[0].__name__ for row in REFUSED])
def test_a_pass_with_a_fault_is_refused_by_name_and_says_what_it_was_given(own, said):
    with pytest.raises(PassError, match=said):
        with_pass(own, twice, inputs(8, 4), stage="joint_pre")


def test_a_pass_that_never_ran_is_told():
    with pytest.raises(PassError, match="nothing never ran"):
        with_pass(nothing, unchanged, torch.ones(2))
    with pytest.raises(ValueError, match="late"):
        with_pass(nothing, twice, torch.ones(2), stage="late")


def tensor(**changed):
    given = {"name": "result 0", "same_bits": False, "apart": 1e-6, "epsilon": 1e-7}
    return JudgedTensor(**{**given, "without": 1e-7, "with_pass": 1e-7, **changed})


def test_a_tensor_is_wrong_by_float64_or_where_there_is_none_by_more_than_roundings():
    assert not tensor().is_wrong and not tensor(with_pass=4e-7).is_wrong
    assert tensor(with_pass=5e-7).is_wrong and tensor(with_pass=float("nan")).is_wrong
    assert not tensor(same_bits=True, with_pass=1.0).is_wrong
    assert not tensor(without=None, with_pass=None).is_wrong
    assert tensor(without=None, with_pass=None, apart=2e-6).is_wrong


def test_what_only_stands_in_another_order_has_moved_and_is_no_change():
    graph = torch.fx.symbolic_trace(lambda x, y: torch.add(torch.sin(x), torch.cos(y))).graph
    before = pictured(graph)
    sin, cos = (node for node in graph.nodes if node.name in ("sin", "cos"))
    sin.prepend(cos)
    run = PassRun("joint", before, pictured(graph))
    assert run.moved and not run.changes
