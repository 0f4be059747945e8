"""The exercises on Inductor's code say what is wrong. The notebook's own solutions are checked by nbval."""

import pytest
import torch
import torch.nn.functional as F
from answers import judged_as

from chapters.inductor_codegen.in_page import GRAPHS, KERNELS, matrices_moved, plain_ops
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


def neighbours(ops):
    """What comes next joins the last group, unless a library or a whole reduction ends it."""
    groups, kinds = [], {op.name: op.kind for op in ops}
    for op in ops:
        joins = groups and not {"library", "whole"} & {op.kind, *(kinds[name] for name in groups[-1])}
        groups = [*groups[:-1], [*groups[-1], op.name]] if joins else [*groups, [op.name]]
    return groups


def merged(ops, barriers=("library", "whole")):
    """Groups joined two at a time, what saves most first, wherever the order of launching allows it."""
    groups = one_by_one(ops)
    while True:
        tries = [
            each
            for at, one in enumerate(groups)
            for other in groups[at + 1 :]
            if (each := ordered(ops, [*(g for g in groups if g not in (one, other)), one + other], barriers))
        ]
        best = min(tries, key=lambda each: total(ops, each), default=groups)
        if total(ops, best) >= total(ops, groups):
            return groups
        groups = best


def total(ops, groups):
    return sum(matrices_moved(ops, group) for group in groups)


def ordered(ops, groups, barriers):
    """The groups in an order in which they can be launched; None if there is no such order."""
    results, done, found = {op.name for op in ops}, set(), []
    while len(found) < len(groups):
        for group in groups:
            own = [op for op in ops if op.name in group]
            ready = done | {op.name for op in own if op.kind not in barriers}
            alone = len(own) == 1 or "library" not in {op.kind for op in own} & set(barriers)
            if group not in found and alone and {name for op in own for name in op.reads} & results <= ready:
                found.append(group)
                done |= set(group)
                break
        else:
            return None
    return found


test_a_scheduler_that_is_nearly_right_is_told_for_which_graph_it_is_wrong = judged_as(
    (one_by_one, "it makes {a} {b} {c}, which moves 6 matrices, and fewer will do"),
    (neighbours, "it makes {a} {p} {b, c}, which moves 7 matrices, and fewer will do"),
    (lambda ops: merged(ops, barriers=("whole",)), "p is a library's kernel, and nothing joins it"),
    (lambda ops: merged(ops)[::-1], "c reads m, which is not there yet"),
    (lambda ops: merged(ops)[:1], "not every operation is in exactly one group"),
    (lambda ops: "abc", "a list of groups"),
    name="04.4",
)


def test_matrices_are_counted_as_one_counts_them_by_hand():
    counted = [total(plain_ops(text), merged(plain_ops(text))) for text in GRAPHS]
    assert counted == [2, 4, 2, 3, 7, 7, 7, 5, 9]
    (ops,) = [plain_ops(text) for text in GRAPHS if "p=library(h)" in text]
    assert [matrices_moved(ops, group) for group in (["h"], ["p"], ["g"], ["r"], ["g", "r"])] == [2, 2, 2, 3, 3]
