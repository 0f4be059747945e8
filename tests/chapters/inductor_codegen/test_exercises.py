"""The exercises on Inductor's code say what is wrong. The notebook's own solutions are checked by nbval."""

import pytest
import torch
import torch.nn.functional as F
from answers import judged_as

from chapters.inductor_codegen.in_page import GRAPHS, KERNELS, _fewest_moved, matrices_moved, plain_ops
from compile_lab.inductor.generated import generated_code

pytestmark = pytest.mark.processes


def test_inductor_launches_as_many_kernels_as_the_judge_of_04_1_says():
    def predict_me(x, weight, bias):
        return F.layer_norm(F.gelu(F.linear(x, weight, bias)), (256,))

    with torch.no_grad():
        code = generated_code(predict_me, torch.randn(512, 64), torch.randn(256, 64), torch.randn(256), chip="H200")
    assert len(code.kernels) == KERNELS


def broken(x):
    x = x.sin()
    print("between")
    return x * 2


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    ("04.2", lambda x: x, "the result is not"),
    ("04.3", lambda x: x.sin(), "the result is not"),
    ("04.3", broken, "the graph breaks at print"),
)


def one_by_one(ops):
    return [[op.name] for op in ops]


def neighbours(ops, barriers=("library", "whole")):
    """What comes next joins the last group, unless one of these ends it: a library or a whole reduction."""
    groups, kinds = [], {op.name: op.kind for op in ops}
    for op in ops:
        joins = groups and not {*barriers} & {op.kind, *(kinds[name] for name in groups[-1])}
        groups = [*groups[:-1], [*groups[-1], op.name]] if joins else [*groups, [op.name]]
    return groups


test_a_scheduler_that_is_nearly_right_is_told_for_which_graph_it_is_wrong = judged_as(
    (one_by_one, "it makes {a} {b} {c}, which moves 6 matrices, and fewer will do"),
    (neighbours, "it makes {a} {p} {b, c}, which moves 7 matrices, and fewer will do"),
    (lambda ops: neighbours(ops, barriers=["whole"]), "p is a library's kernel, and nothing joins it"),
    (lambda ops: one_by_one(ops)[::-1], "c reads b, which is not there yet"),
    (lambda ops: one_by_one(ops)[:1], "not every operation is in exactly one group"),
    (lambda ops: "abc", "a list of groups"),
    name="04.4",
)


def test_matrices_are_counted_as_one_counts_them_by_hand():
    assert [_fewest_moved(plain_ops(text)) for text in GRAPHS] == [2, 4, 2, 3, 7, 7, 7, 5, 9]
    (ops,) = [plain_ops(text) for text in GRAPHS if "p=library(h)" in text]
    assert [matrices_moved(ops, group) for group in (["h"], ["p"], ["g"], ["r"], ["g", "r"])] == [2, 2, 2, 3, 3]
