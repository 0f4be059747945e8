"""Answers that are right, and those that are likely and wrong."""

import pytest

from chapters.exercises import check


def judged(name, answer):
    return str(check(name, answer))


@pytest.mark.parametrize(("answer", "word"), [(384, "right."), (192, "the forward's share"), (48, "for how many")])
def test_forwards(answer, word):
    assert word in judged("18.1", answer)


def ordered(*order, swap=True):
    def answer(steps):
        found = [step for step in order if step in steps]
        if swap and {"TP", "SP"} & steps and {"AC", "compile"} <= steps:
            a, c = found.index("AC"), found.index("compile")
            found[a], found[c] = found[c], found[a]
        return found

    return answer


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (ordered("TP", "SP", "AC", "compile", "FSDP2", "DDP"), "right."),
        (ordered("TP", "SP", "AC", "compile", "FSDP2", "DDP", swap=False), "2.13"),
        (ordered("TP", "SP", "compile", "AC", "FSDP2", "DDP", swap=False), "how often"),
        (ordered("AC", "TP", "SP", "compile", "FSDP2", "DDP"), "what slices"),
        (ordered("TP", "SP", "FSDP2", "DDP", "AC", "compile"), "what wraps"),
        (ordered("AC", "compile", "FSDP2"), "each step once"),
    ],
)
def test_orders(answer, word):
    assert word in judged("18.2", answer)


def with_gradient(called, model, x):
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    called(leaf).sum().backward()
    named = {"input": leaf, **dict(model.named_parameters())}
    return {name for name, tensor in named.items() if tensor.grad is not None}


def without_the_input(model, compiled, x):
    return (with_gradient(model, model, x) - with_gradient(compiled, model, x)) - {"input"}


def without_a_look_at_eager(model, compiled, x):
    return {"input", *dict(model.named_parameters())} - with_gradient(compiled, model, x)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (lambda model, compiled, x: with_gradient(model, model, x) - with_gradient(compiled, model, x), "right."),
        (without_the_input, "the input's gradient is lost"),
        (without_a_look_at_eager, "nothing is lost"),
        (lambda model, compiled, x: set(), "the gate's gradient is lost"),
    ],
)
def test_lost_gradients(answer, word):
    assert word in judged("18.3", answer)


@pytest.mark.parametrize(
    ("answer", "word"), [(1120, "right."), (1280, "the first stage"), (2400, "all backwards"), (0, "which stages")]
)
def test_cost_of_the_cure(answer, word):
    assert word in judged("18.4", answer)
