"""Chapter 01's branch, loop and counters: each tempting rewrite is told for which vector it differs."""

import pytest
import torch
from answers import judged_as

from chapters.graph_breaks.in_page import GRAPHS
from compile_lab.dynamo.tracing import trace

pytestmark = pytest.mark.processes


def test_torch_makes_as_many_graphs_as_the_judge_of_01_2_says():
    def inner(x):
        x = x.sin()
        print("here")
        return x.cos()

    def middle(x):
        return inner(x * 2) + 1

    def outer(x):
        return middle(x.exp()).sqrt()

    assert len(trace(outer, torch.rand(4)).graphs) == GRAPHS


def needed(norm):
    mantissa, exponent = torch.frexp(norm)
    return (exponent - (mantissa == 0.5).int()).clamp(min=0)


def tame(x, seen, *, choose=torch.where, halvings=needed):
    """A right answer, and with another way to choose or to count one that is nearly right."""
    finite = x.isfinite().all()
    safe = choose(finite, x, 0.0)
    count = halvings(safe.norm())
    seen["skipped"] += ~finite
    seen["halved"] += count.long()
    return safe * 2.0**-count


def scaled_to_one(x, seen):
    seen["skipped"] += ~x.isfinite().all()
    return torch.where(x.isfinite().all(), x / x.norm().clamp(min=1), 0.0)


def only_the_branch(x, seen):
    finite = x.isfinite().all()
    seen["skipped"] += ~finite
    x = torch.where(finite, x, 0.0)
    while x.norm() > 1:
        x = x / 2
        seen["halved"] += 1
    return x


def no_counters(x, seen):
    return tame(x, {"skipped": torch.tensor(0), "halved": torch.tensor(0)})


def replaced(x, seen):
    own = {name: count.clone() for name, count in seen.items()}
    result = tame(x, own)
    seen |= {"skipped": own["skipped"].double(), "halved": own["halved"].double()}
    return result


def in_place(x, seen):
    x.copy_(tame(x, seen))
    return x


test_a_wrong_answer_is_told_what_is_wrong_with_it = judged_as(
    (only_the_branch, "the graph still breaks: while x.norm() > 1"),
    (scaled_to_one, "for a vector whose norm is 7 the result is not the starter's"),
    (no_counters, "for a vector whose norm is 7 seen['halved'] is 0, too few"),
    (lambda x, seen: tame(x, seen, choose=lambda ok, x, _: x * ok), "for a vector with a NaN the result"),
    (
        lambda x, seen: tame(x, seen, halvings=lambda norm: norm.log2().floor().add(1).clamp(min=0)),
        "for a vector whose norm is exactly 4 the result",
    ),
    (lambda x, seen: tame(x, seen, halvings=lambda norm: norm.log2().ceil()), "whose norm is below 1 the result"),
    (
        lambda x, seen: tame(x, seen, halvings=lambda norm: norm.log2().ceil().clamp(min=0)),
        "for a vector whose norm is just above 1024 the result",
    ),
    (replaced, "call 2, a vector whose norm is 7, is not served by the first graph"),
    (in_place, "it changed its input"),
    name="01.5",
)
